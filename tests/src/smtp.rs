//! A mail server that records what it is sent, and fails in the ways that mail servers
//! fail.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How the server treats mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpMode {
    /// It accepts them.
    Accept,
    /// It refuses their recipients with this code.
    RefuseRecipient(u16),
    /// It refuses every sign-in with this code.
    RefuseSignIn(u16),
    /// It closes the connection in the middle of each mail.
    HangUpInData,
    /// It closes every connection at once.
    HangUp,
}

/// A mail that the server has accepted.
#[derive(Clone, Debug)]
pub struct SmtpMail {
    /// The addresses of the envelope.
    pub recipients: Vec<String>,
    /// What the client has sent to sign in, as base64.
    pub sign_in: Option<String>,
    /// The mail with its headers.
    pub data: Vec<u8>,
}

/// A mail server; it runs until the process ends.
pub struct SmtpServer {
    /// Its address, such as `127.0.0.1:40001`.
    pub address: String,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: SmtpMode,
    mails: Vec<SmtpMail>,
    /// How many mails or connections were refused or cut off.
    failures: usize,
}

impl SmtpServer {
    /// Starts a server.
    pub fn start(mode: SmtpMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State {
            mode,
            mails: Vec::new(),
            failures: 0,
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    let _ = serve(&connection, &state);
                });
            }
        });
        Self { address, state }
    }

    /// Returns the flags of `serve` that send mails here.
    pub fn flags(&self) -> Vec<String> {
        let url = format!("smtp://mailer:a%20secret@{}", self.address);
        let from = "Change log <changes@example.com>";
        ["--smtp-url", &url, "--mail-from", from]
            .map(str::to_owned)
            .into()
    }

    /// Treats mails in another way from now on.
    pub fn set_mode(&self, mode: SmtpMode) {
        self.lock().mode = mode;
    }

    /// Returns the mails that were accepted so far.
    pub fn mails(&self) -> Vec<SmtpMail> {
        self.lock().mails.clone()
    }

    /// Waits until this many mails were accepted, and returns them.
    pub async fn wait_for(&self, count: usize) -> Vec<SmtpMail> {
        self.wait(|state| state.mails.len() >= count).await;
        self.mails()
    }

    /// Waits until this many mails or connections were refused or cut off.
    pub async fn wait_for_failures(&self, count: usize) {
        self.wait(|state| state.failures >= count).await;
    }

    async fn wait(&self, is_met: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_met(&self.lock()) {
            assert!(
                Instant::now() < deadline,
                "{} mails and {} failures so far",
                self.mails().len(),
                self.lock().failures
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("an unpoisoned lock")
    }
}

fn serve(connection: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let lock = || state.lock().expect("an unpoisoned lock");
    let mode = || lock().mode;
    let fail = || lock().failures += 1;
    if mode() == SmtpMode::HangUp {
        fail();
        return Ok(());
    }
    let mut lines = BufReader::new(connection);
    let mut writer = connection;
    let mut reply = |text: &str| writer.write_all(format!("{text}\r\n").as_bytes());
    reply("220 mail.test ESMTP")?;
    let (mut recipients, mut sign_in) = (Vec::new(), None);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end();
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => reply("250-mail.test\r\n250-8BITMIME\r\n250 AUTH PLAIN")?,
            "AUTH" => {
                if let SmtpMode::RefuseSignIn(code) = mode() {
                    fail();
                    reply(&format!("{code} sign-in refused"))?;
                } else {
                    sign_in = Some(rest.trim_start_matches("PLAIN ").to_owned());
                    reply("235 welcome")?;
                }
            }
            "RCPT" => {
                if let SmtpMode::RefuseRecipient(code) = mode() {
                    fail();
                    reply(&format!("{code} no such mailbox here"))?;
                } else {
                    let address = rest.split(['<', '>']).nth(1).unwrap_or_default();
                    recipients.push(address.to_owned());
                    reply("250 OK")?;
                }
            }
            "DATA" => {
                reply("354 go on")?;
                if mode() == SmtpMode::HangUpInData {
                    let mut first = String::new();
                    lines.read_line(&mut first)?;
                    fail();
                    return Ok(());
                }
                let data = read_data(&mut lines)?;
                lock().mails.push(SmtpMail {
                    recipients: std::mem::take(&mut recipients),
                    sign_in: sign_in.clone(),
                    data,
                });
                reply("250 accepted")?;
            }
            "MAIL" | "RSET" | "NOOP" => reply("250 OK")?,
            "QUIT" => return reply("221 bye"),
            _ => reply("502 unknown command")?,
        }
    }
}

/// Reads a mail until the line with a dot.
fn read_data(lines: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == b".\r\n" {
            return Ok(data);
        }
        let is_stuffed = line.starts_with(b"..");
        data.extend_from_slice(if is_stuffed { &line[1..] } else { &line });
    }
}
