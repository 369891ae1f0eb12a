//! A proxy in front of PostgreSQL that holds answers back, as a database or a network
//! that hangs does, and that leads to another database after a failover.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A running proxy; its clients are disconnected when this is dropped.
pub struct HoldingProxy {
    /// The address of the database behind the proxy.
    pub database: String,
    state: Arc<watch::Sender<State>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// A connection that sends this text gets no more answers.
    held_text: Option<&'static str>,
    /// The number of connections whose answers are held.
    held: usize,
    /// Where new connections lead to: the host and the port.
    server: String,
    /// Counts up when the connections there are vanish.
    vanished: usize,
}

impl HoldingProxy {
    /// Listens in front of a database.
    pub async fn before(database: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut address: url::Url = database.parse().expect("an address");
        let state = State {
            server: server_of(database),
            ..State::default()
        };
        let port = listener.local_addr().expect("an address").port();
        address.set_port(Some(port)).expect("it has a host");
        let state = Arc::new(watch::Sender::new(state));
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                clients.spawn(serve(client, Arc::clone(&shared)));
            }
        });
        Self {
            database: address.into(),
            state,
            accepting,
        }
    }

    /// From now on, holds the answers to each connection that sends this string.
    pub fn hold(&self, text: &'static str) {
        self.state.send_modify(|state| state.held_text = Some(text));
    }

    /// Returns the number of connections whose answers are held.
    pub fn held(&self) -> usize {
        self.state.borrow().held
    }

    /// Waits until the answers to this many connections are held.
    pub async fn wait_until_held(&self, connections: usize) {
        let mut state = self.state.subscribe();
        let held = state.wait_for(|state| state.held >= connections).await;
        held.expect("the sender is not dropped");
    }

    /// Sends the answers that were held, and holds no more.
    pub fn release(&self) {
        self.state.send_modify(|state| {
            state.held_text = None;
            state.held = 0;
        });
    }

    /// From now on, nothing passes on the open connections, which stay open: the host of the
    /// database has lost its network. New connections lead to another database.
    pub fn vanish(&self, other: &str) {
        self.state.send_modify(|state| {
            state.server = server_of(other);
            state.vanished += 1;
        });
    }
}

impl Drop for HoldingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns the host and the port of a database.
fn server_of(database: &str) -> String {
    let address: url::Url = database.parse().expect("an address");
    format!("127.0.0.1:{}", address.port().expect("a port"))
}

async fn serve(client: TcpStream, state: Arc<watch::Sender<State>>) -> io::Result<()> {
    let (server, vanished) = {
        let state = state.borrow();
        (state.server.clone(), state.vanished)
    };
    let server = TcpStream::connect(server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let is_held = AtomicBool::new(false);
    let mut vanishing = state.subscribe();
    let vanishing = async {
        // The guard that this returns must not be held.
        drop(vanishing.wait_for(|state| state.vanished != vanished).await);
        pending().await
    };
    // Ends with the first direction that ends.
    tokio::select! {
        never = vanishing => never,
        result = forward_requests(from_client, to_server, &state, &is_held) => result,
        result = forward_answers(from_server, to_client, &state, &is_held) => result,
    }
}

async fn forward_requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    state: &watch::Sender<State>,
    is_held: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let sent = &buffer[..length];
        state.send_if_modified(|state| {
            let is_next = state.held_text.is_some_and(|text| contains(sent, text))
                && !is_held.swap(true, Ordering::Relaxed);
            state.held += usize::from(is_next);
            is_next
        });
        server.write_all(sent).await?;
    }
}

async fn forward_answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    state: &watch::Sender<State>,
    is_held: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = server.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        if is_held.load(Ordering::Relaxed) {
            let mut state = state.subscribe();
            let released = state.wait_for(|state| state.held_text.is_none()).await;
            released.map_err(io::Error::other)?;
            is_held.store(false, Ordering::Relaxed);
        }
        client.write_all(&buffer[..length]).await?;
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    let mut parts = bytes.windows(text.len());
    parts.any(|part| part == text.as_bytes())
}
