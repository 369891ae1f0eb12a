//! What may stand between a client and the service, and goes wrong as such
//! things do.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is handed on to the service.
    Open,
    /// It is taken, and nothing ever comes.
    Hanging,
    /// Every request is answered with 500 and a page.
    Failing,
    /// Every request is answered with 429 and no word when to come back.
    Crowded,
    /// Every request is answered with 200 and a page that is no JSON.
    Elsewhere,
    /// Every request is answered with 404 and an ingress's page.
    Backendless,
    /// Every request is answered with 301 to another address.
    Moved,
    /// Every request is answered with 403 and JSON that is not the service's.
    Denied,
    /// Every request is answered with bytes that are no HTTP.
    Garbage,
    /// It is closed at once.
    Closing,
    /// The request is handed on, and its answer is lost.
    Deaf,
}

/// An address that stays, in front of a service that need not.
pub struct FaultyProxy {
    /// The address of the proxy.
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: Mode,
    service: String,
    /// The connections that are handed on.
    joined: Vec<TcpStream>,
}

impl FaultyProxy {
    /// Listens in front of a service.
    pub fn before(service: &str, mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            mode,
            service: service.to_owned(),
            joined: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().expect("nobody panics with it");
                let (mode, service) = (state.mode, state.service.clone());
                state.joined.extend(client.try_clone());
                drop(state);
                thread::spawn(move || pass(client, mode, &service));
            }
        });
        Self { url, state }
    }

    /// Changes what becomes of connections from now on, and ends those that
    /// there are.
    pub fn set(&self, mode: Mode) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.mode = mode;
        for connection in state.joined.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Puts another service behind it.
    pub fn lead_to(&self, service: &str) {
        let mut state = self.state.lock().expect("nobody panics with it");
        service.clone_into(&mut state.service);
    }
}

fn pass(mut client: TcpStream, mode: Mode, service: &str) {
    let page = "<html>We will be back soon</html>";
    let with = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{page}",
            page.len()
        )
    };
    let answer = match mode {
        Mode::Closing => return,
        Mode::Hanging => {
            // Until the client has had enough.
            let _ = io::copy(&mut client, &mut io::sink());
            return;
        }
        Mode::Open => return join(client, service, true),
        Mode::Deaf => return join(client, service, false),
        Mode::Failing => with("500 Internal Server Error"),
        Mode::Crowded => with("429 Too Many Requests"),
        Mode::Elsewhere => with("200 OK"),
        Mode::Backendless => with("404 Not Found"),
        Mode::Moved => with("301 Moved Permanently\r\nlocation: https://changes.example.com/"),
        Mode::Denied => {
            let body = "{\"message\": \"no route\", \"status\": 403}";
            format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        Mode::Garbage => "\u{1}\u{2}\u{3} hello\r\n\r\n".to_owned(),
    };
    let _ = client.read(&mut [0; 16384]);
    let _ = client.write_all(answer.as_bytes());
    let _ = client.shutdown(Shutdown::Write);
    let _ = io::copy(&mut client, &mut io::sink());
}

/// Hands on what either side says; the service's answers only if they are let
/// through.
fn join(client: TcpStream, service: &str, answers: bool) {
    let Ok(server) = TcpStream::connect(service) else {
        return;
    };
    let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    if answers {
        let _ = io::copy(&mut from_server, &mut to_client);
    } else {
        let _ = from_server.read(&mut [0; 1]);
    }
    let _ = to_client.shutdown(Shutdown::Both);
}
