//! A pooler in front of PostgreSQL that does what pgbouncer 1.21 and later do in
//! transaction mode: many clients, few sessions.
//!
//! A session is of a client from the first message of a transaction until the
//! database is ready for the next one, and then of any other client. Nothing is reset
//! in between. Named prepared statements follow their client from session to session;
//! the unnamed one stays where it is, as do settings and locks of the session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What a pooler does with parameters of a connection that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownParameters {
    /// It refuses the connection, as pgbouncer does by default.
    Refused,
    /// It ignores them, as with pgbouncer's `ignore_startup_parameters`.
    Ignored,
}

/// What a pooler does with named prepared statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedStatements {
    /// It prepares them in each session where their client needs them.
    FollowTheirClient,
    /// Nothing, as pgbouncer before 1.21.
    StayInTheirSession,
}

/// A running pooler; its clients are disconnected when this is dropped.
pub struct TransactionPooler {
    /// The address of the database behind the pooler.
    pub database: String,
    accepting: JoinHandle<()>,
}

/// The code of the message that asks for TLS, where a version would be.
const TLS_REQUEST: u32 = 80_877_103;
/// Version 3.0 of the protocol.
const PROTOCOL: u32 = 196_608;
/// The parameters that pgbouncer knows.
const KNOWN: [&str; 7] = [
    "user",
    "database",
    "application_name",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
];

/// What the clients share.
struct Pool {
    /// Where PostgreSQL listens.
    address: String,
    unknown_parameters: UnknownParameters,
    named_statements: NamedStatements,
    /// A permit for each session.
    permits: Semaphore,
    /// The one that has been idle for longest is taken first, so that a client
    /// seldom gets the same one again.
    idle: Mutex<VecDeque<Session>>,
    clients: AtomicUsize,
}

/// A connection to PostgreSQL.
struct Session {
    stream: BufReader<TcpStream>,
    /// What PostgreSQL has said of itself: its version, its encoding and so on.
    greeting: Vec<u8>,
    /// The names of the statements that are prepared in it.
    prepared: HashSet<String>,
}

/// What PostgreSQL has answered until it was ready again.
struct Answer {
    bytes: Vec<u8>,
    is_error: bool,
    /// Whether the session is outside of a transaction.
    is_idle: bool,
}

struct Message {
    tag: u8,
    body: Vec<u8>,
}

impl TransactionPooler {
    /// Listens in front of a database, with this many sessions.
    pub async fn before(
        database: &str,
        sessions: usize,
        unknown_parameters: UnknownParameters,
        named_statements: NamedStatements,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut address: url::Url = database.parse().expect("an address");
        let pool = Arc::new(Pool {
            address: format!("127.0.0.1:{}", address.port().expect("a port")),
            unknown_parameters,
            named_statements,
            permits: Semaphore::new(sessions),
            idle: Mutex::default(),
            clients: AtomicUsize::new(0),
        });
        let port = listener.local_addr().expect("an address").port();
        address.set_port(Some(port)).expect("it has a host");
        let accepting = tokio::spawn(async move {
            let mut clients = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A client that leaves in the middle of something is none of ours.
                clients.spawn(pool.clone().serve(client));
            }
        });
        Self {
            database: address.into(),
            accepting,
        }
    }
}

impl Drop for TransactionPooler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Pool {
    async fn serve(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut client = BufReader::new(client);
        let parameters = read_parameters(&mut client).await?;
        let unknown = parameters
            .keys()
            .find(|name| !KNOWN.contains(&name.as_str()));
        if let Some(name) = unknown
            && self.unknown_parameters == UnknownParameters::Refused
        {
            let text = format!("unsupported startup parameter: {name}");
            return client.write_all(&refusal(&text)).await;
        }
        let user = parameters.get("user").cloned().unwrap_or_default();
        let database = parameters.get("database").unwrap_or(&user).clone();
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let mut statements = HashMap::new();
        {
            let (session, _permit) = self.session(&user, &database).await?;
            client.write_all(&session.greeting).await?;
            self.release(session);
        }
        let mut held = None;
        while let Some(messages) = read_messages(&mut client).await? {
            let (mut session, permit) = match held.take() {
                Some(held) => held,
                None => self.session(&user, &database).await?,
            };
            let followed = match self.named_statements {
                NamedStatements::StayInTheirSession => Ok(messages),
                NamedStatements::FollowTheirClient => {
                    session.follow(messages, number, &mut statements).await?
                }
            };
            let answer = match followed {
                Ok(messages) => session.exchange(&messages).await?,
                Err(refused) => refused,
            };
            client.write_all(&answer.bytes).await?;
            if answer.is_idle {
                self.release(session);
            } else {
                held = Some((session, permit));
            }
        }
        Ok(())
    }

    /// Waits for a session; it is closed unless it is released.
    async fn session(
        &self,
        user: &str,
        database: &str,
    ) -> io::Result<(Session, tokio::sync::SemaphorePermit<'_>)> {
        let permit = self.permits.acquire().await.map_err(io::Error::other)?;
        let idle = self.idle.lock().expect("nothing panics").pop_front();
        let session = match idle {
            Some(session) => session,
            None => Session::begin(&self.address, user, database).await?,
        };
        Ok((session, permit))
    }

    fn release(&self, session: Session) {
        self.idle.lock().expect("nothing panics").push_back(session);
    }
}

impl Session {
    async fn begin(address: &str, user: &str, database: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        let parameters = [
            ("user", user),
            ("database", database),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
        ];
        for (name, value) in parameters {
            for text in [name, value] {
                body.extend(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        let mut message = length(&body).to_vec();
        message.extend(body);
        stream.write_all(&message).await?;
        let mut session = Self {
            stream,
            greeting: Vec::new(),
            prepared: HashSet::new(),
        };
        session.greeting = session.answer().await?.bytes;
        Ok(session)
    }

    /// Sends messages and reads the answer.
    async fn exchange(&mut self, messages: &[Message]) -> io::Result<Answer> {
        let mut all = Vec::new();
        for message in messages {
            message.write(&mut all);
        }
        self.stream.write_all(&all).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let (mut bytes, mut is_error) = (Vec::new(), false);
        loop {
            let message = Message::read(&mut self.stream).await?;
            message.write(&mut bytes);
            is_error |= message.tag == b'E';
            if message.tag == b'Z' {
                return Ok(Answer {
                    bytes,
                    is_error,
                    is_idle: message.body == b"I",
                });
            }
        }
    }

    /// Gives the statements of a client names of their own, and prepares in this
    /// session those that the client has prepared in another; returns the answer if
    /// that fails.
    async fn follow(
        &mut self,
        messages: Vec<Message>,
        client: usize,
        statements: &mut HashMap<String, Vec<u8>>,
    ) -> io::Result<Result<Vec<Message>, Answer>> {
        let mut renamed = Vec::new();
        for message in messages {
            let Some((before, name, after)) = message.statement() else {
                renamed.push(message);
                continue;
            };
            let name = format!("pooler_{client}_{name}");
            match message.tag {
                b'P' => {
                    statements.insert(name.clone(), after.to_vec());
                    self.prepared.insert(name.clone());
                }
                b'C' => {
                    statements.remove(&name);
                    self.prepared.remove(&name);
                }
                _ => {
                    if let Some(statement) = statements.get(&name)
                        && !self.prepared.contains(&name)
                    {
                        let answer = self.prepare(&name, statement).await?;
                        if answer.is_error {
                            return Ok(Err(answer));
                        }
                        self.prepared.insert(name.clone());
                    }
                }
            }
            let body = [before, name.as_bytes(), b"\0", after].concat();
            renamed.push(Message {
                tag: message.tag,
                body,
            });
        }
        Ok(Ok(renamed))
    }

    async fn prepare(&mut self, name: &str, statement: &[u8]) -> io::Result<Answer> {
        let body = [name.as_bytes(), b"\0", statement].concat();
        let parse = Message { tag: b'P', body };
        let (tag, body) = (b'S', Vec::new());
        self.exchange(&[parse, Message { tag, body }]).await
    }
}

impl Message {
    async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let tag = stream.read_u8().await?;
        let length = stream.read_u32().await?;
        let mut body = vec![0; usize::try_from(length).unwrap_or(0).saturating_sub(4)];
        stream.read_exact(&mut body).await?;
        Ok(Self { tag, body })
    }

    fn write(&self, all: &mut Vec<u8>) {
        all.push(self.tag);
        all.extend(length(&self.body));
        all.extend(&self.body);
    }

    /// Returns the name of the prepared statement that a client's message is about,
    /// if it has a name, and what is before and after it.
    fn statement(&self) -> Option<(&[u8], &str, &[u8])> {
        let from = match self.tag {
            // Parse begins with it, Bind has the name of a portal first.
            b'P' => 0,
            b'B' => self.body.iter().position(|byte| *byte == 0)? + 1,
            // Describe and Close: of a statement, not of a portal.
            b'D' | b'C' if self.body.first() == Some(&b'S') => 1,
            _ => return None,
        };
        let (before, rest) = self.body.split_at(from);
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&rest[..end]).ok()?;
        (!name.is_empty()).then_some((before, name, &rest[end + 1..]))
    }
}

/// Returns the length of a message with this body, as the protocol counts it.
fn length(body: &[u8]) -> [u8; 4] {
    u32::try_from(body.len() + 4)
        .expect("a message is smaller")
        .to_be_bytes()
}

/// Reads what a client sends until it waits for an answer; `None` when it leaves.
async fn read_messages(client: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<Message>>> {
    let mut messages = Vec::new();
    loop {
        let message = Message::read(client).await?;
        match message.tag {
            b'X' => return Ok(None),
            b'Q' | b'S' => {
                messages.push(message);
                return Ok(Some(messages));
            }
            _ => messages.push(message),
        }
    }
}

/// Reads the parameters that a client connects with.
async fn read_parameters(client: &mut BufReader<TcpStream>) -> io::Result<HashMap<String, String>> {
    loop {
        let length = usize::try_from(client.read_u32().await?).unwrap_or(0);
        let code = client.read_u32().await?;
        let mut body = vec![0; length.saturating_sub(8)];
        client.read_exact(&mut body).await?;
        match code {
            TLS_REQUEST => client.write_all(b"N").await?,
            PROTOCOL => {
                let mut texts = body
                    .split(|byte| *byte == 0)
                    .map(|text| String::from_utf8_lossy(text).into_owned());
                let pairs = std::iter::from_fn(|| texts.next().zip(texts.next()));
                return Ok(pairs.take_while(|(name, _)| !name.is_empty()).collect());
            }
            // A request to cancel a statement, which is not for this pooler.
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Returns the message that refuses a connection.
fn refusal(text: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C08P01\0M{text}\0\0");
    let (tag, body) = (b'E', fields.into_bytes());
    let mut all = Vec::new();
    Message { tag, body }.write(&mut all);
    all
}
