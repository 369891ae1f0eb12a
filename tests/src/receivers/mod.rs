//! HTTP servers that connections send to. They record what they are sent, check it, and
//! misbehave on request.
//!
//! ```ignore
//! let receiver = Receiver::start().await;
//! receiver.answer_next(Answer::status(500));
//! // … the service sends to `receiver.url()` …
//! let requests = receiver.wait_for(2).await;
//! ```

mod answer;
mod connection;
pub mod grafana;
pub mod pagerduty;
pub mod slack;
pub mod teams;
pub mod webhook;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use answer::Answer;

/// How long [`Receiver::wait_for`] waits.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that a receiver was sent.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method, in capitals.
    pub method: String,
    /// The path with its query string.
    pub path: String,
    /// The headers, with lower-case names.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// When the whole request had arrived.
    pub at: Instant,
}

impl Received {
    /// Returns the value of a header; the empty string without it.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

type Behavior = Arc<dyn Fn(&Received) -> Answer + Send + Sync>;

struct State {
    requests: Vec<Received>,
    connections: usize,
    next: VecDeque<Answer>,
    behavior: Behavior,
}

/// A server on 127.0.0.1 that records every request. It is stopped when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Starts a server that answers `ok`.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    /// Starts a server at an address such as `[::1]:0`.
    pub async fn start_at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            requests: Vec::new(),
            connections: 0,
            next: VecDeque::new(),
            behavior: Arc::new(|_| Answer::ok()),
        }));
        let task = tokio::spawn(connection::accept(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            task,
        }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns an address to send to, over plain http.
    pub fn url(&self) -> String {
        format!("http://{}/receive", self.address)
    }

    /// Returns the address without a path, for receivers with an API.
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request until now.
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.state).requests.clone()
    }

    /// Returns the number of requests until now.
    pub fn count(&self) -> usize {
        lock(&self.state).requests.len()
    }

    /// Returns the number of connections until now, with or without a request.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections
    }

    /// Answers all later requests in this way.
    pub fn answer_with(&self, answer: Answer) {
        self.answer_by(move |_| answer.clone());
    }

    /// Answers the next request in this way; several calls make a queue.
    pub fn answer_next(&self, answer: Answer) {
        lock(&self.state).next.push_back(answer);
    }

    /// Answers each later request as the function decides.
    pub fn answer_by(&self, behavior: impl Fn(&Received) -> Answer + Send + Sync + 'static) {
        lock(&self.state).behavior = Arc::new(behavior);
    }

    /// Waits until the body of a request has this text.
    pub async fn wait_for_text(&self, text: &str) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let has_it = |request: &Received| String::from_utf8_lossy(&request.body).contains(text);
        let mut seen = 0;
        loop {
            {
                let state = lock(&self.state);
                if state.requests[seen..].iter().any(has_it) {
                    return;
                }
                seen = state.requests.len();
            }
            assert!(
                Instant::now() < deadline,
                "{text} in none of {seen} requests"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until there are this many requests, and returns all of them.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let received = self.count();
            if received >= count {
                return self.requests();
            }
            assert!(Instant::now() < deadline, "{received} of {count} requests");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
