//! A proxy between a client and the service that fails in the ways that proxies fail.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// How the proxy treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    /// Connections are forwarded to the service.
    Forward,
    /// Connections are accepted, and no response is ever sent.
    Hanging,
    /// Every response is a 500 with an HTML page.
    InternalError,
    /// Every response is a 429 without `Retry-After`.
    TooManyRequests,
    /// Every response is a 200 with an HTML page.
    HtmlPage,
    /// Every response is a 404 with an HTML page, as from an ingress.
    NotFound,
    /// Every response is a 301 to another address.
    Redirect,
    /// Every response is a 403 with JSON that is not the service's.
    Forbidden,
    /// Every response is bytes that are not HTTP.
    NotHttp,
    /// Connections are closed at once.
    Closing,
    /// Requests are forwarded, and their responses are dropped.
    DropResponses,
}

/// A proxy whose address stays the same when the service behind it changes.
pub struct FaultyProxy {
    /// The address of the proxy.
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: ProxyMode,
    service: String,
    /// The connections that are open.
    connections: Vec<TcpStream>,
}

impl FaultyProxy {
    /// Starts a proxy in front of a service.
    pub fn in_front_of(service: &str, mode: ProxyMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            mode,
            service: service.to_owned(),
            connections: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().expect("an unpoisoned lock");
                let (mode, service) = (state.mode, state.service.clone());
                state.connections.extend(client.try_clone());
                drop(state);
                thread::spawn(move || serve(client, mode, &service));
            }
        });
        Self { url, state }
    }

    /// Sets how later connections are treated, and closes the open ones.
    pub fn set_mode(&self, mode: ProxyMode) {
        let mut state = self.state.lock().expect("an unpoisoned lock");
        state.mode = mode;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Sets the address of the service.
    pub fn set_service(&self, service: &str) {
        let mut state = self.state.lock().expect("an unpoisoned lock");
        service.clone_into(&mut state.service);
    }
}

fn serve(mut client: TcpStream, mode: ProxyMode, service: &str) {
    let page = "<html>We will be back soon</html>";
    let with = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{page}",
            page.len()
        )
    };
    let answer = match mode {
        ProxyMode::Closing => return,
        ProxyMode::Hanging => {
            // Until the client gives up.
            let _ = io::copy(&mut client, &mut io::sink());
            return;
        }
        ProxyMode::Forward => return join(client, service, true),
        ProxyMode::DropResponses => return join(client, service, false),
        ProxyMode::InternalError => with("500 Internal Server Error"),
        ProxyMode::TooManyRequests => with("429 Too Many Requests"),
        ProxyMode::HtmlPage => with("200 OK"),
        ProxyMode::NotFound => with("404 Not Found"),
        ProxyMode::Redirect => {
            with("301 Moved Permanently\r\nlocation: https://changes.example.com/")
        }
        ProxyMode::Forbidden => {
            let body = "{\"message\": \"no route\", \"status\": 403}";
            format!(
                "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        ProxyMode::NotHttp => "\u{1}\u{2}\u{3} hello\r\n\r\n".to_owned(),
    };
    let _ = client.read(&mut [0; 16384]);
    let _ = client.write_all(answer.as_bytes());
    let _ = client.shutdown(Shutdown::Write);
    let _ = io::copy(&mut client, &mut io::sink());
}

/// Forwards bytes in both directions; the responses of the service only if
/// `forwards_responses`.
fn join(client: TcpStream, service: &str, forwards_responses: bool) {
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
    if forwards_responses {
        let _ = io::copy(&mut from_server, &mut to_client);
    } else {
        let _ = from_server.read(&mut [0; 1]);
    }
    let _ = to_client.shutdown(Shutdown::Both);
}
