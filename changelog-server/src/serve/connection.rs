//! The state of one connection, which its stream, its service and the list of
//! connections share.
//!
//! hyper drops `Content-Length` next to `Transfer-Encoding` before a service can
//! see that both were sent, which allows request smuggling behind some proxies.
//! Hence the bytes of each head are kept here until its request begins.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::{HeaderMap, header};
use hyper::body::Incoming;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connection_limit::Slot;

/// How long the head of a request may take, from its first byte; and how long a
/// new connection may take to send its first byte.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent between two requests.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// The maximum number of bytes of a head that are kept.
const MAX_KEPT_HEAD_BYTES: usize = 16 * 1024;

/// What a connection is doing.
#[derive(Debug)]
enum Phase {
    /// It was opened at `since` and has received nothing.
    New { since: Instant },
    /// It waits for a request.
    Idle { since: Instant },
    /// It receives the head of a request, whose first byte came at `since`.
    Head { since: Instant },
    /// It handles a request, which has its own deadlines.
    Request,
    /// It is being closed to free its slot; no further request begins.
    Closing,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    state: Mutex<State>,
    pub(super) slot: Slot,
    task: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The head of the next request, as far as it was received.
    head: Vec<u8>,
    /// Whether a part of a response waits for the client.
    is_writing: bool,
    /// Whether the body of the last request was not read completely.
    is_unread: bool,
    /// The rest of that body, if it may be read.
    unread: Option<Incoming>,
}

impl Connection {
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::New {
                    since: Instant::now(),
                },
                head: Vec::new(),
                is_writing: false,
                is_unread: false,
                unread: None,
            }),
            slot,
            task: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the task that serves the connection.
    pub(super) fn served_by(&self, task: AbortHandle) {
        // A connection has one task.
        let _ = self.task.set(task);
    }

    /// Begins a request whose head is complete. Returns whether the head declares
    /// the length of its body in two contradictory ways; `None` if the connection
    /// is being closed and the request must not be handled.
    pub(super) fn request_begins(&self, headers: &HeaderMap) -> Option<bool> {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Closing) {
            return None;
        }
        state.phase = Phase::Request;
        state.is_unread = false;
        let contradicts = headers.contains_key(header::TRANSFER_ENCODING)
            && (headers.contains_key(header::CONTENT_LENGTH)
                || !declares_no_length(&state.head, headers));
        state.head.clear();
        Some(contradicts)
    }

    /// Records that the body of the request was not read completely, and keeps its rest.
    pub(super) fn leaves_unread(&self, rest: Option<Incoming>) {
        let mut state = self.lock();
        state.is_unread = true;
        state.unread = rest;
    }

    /// Returns whether the body of the request was not read completely.
    pub(super) fn is_unread(&self) -> bool {
        self.lock().is_unread
    }

    /// Takes the rest of the body; hyper does not end the request while it is kept.
    pub(super) fn take_unread(&self) -> Option<Incoming> {
        self.lock().unread.take()
    }

    /// Records that the rest of the body was read.
    pub(super) fn was_read(&self) {
        self.lock().is_unread = false;
    }

    /// Ends the request.
    pub(super) fn request_ends(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Request) {
            state.phase = Phase::Idle {
                since: Instant::now(),
            };
        }
        state.head.clear();
    }

    /// Records bytes that the client sent.
    pub(super) fn received(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        match state.phase {
            Phase::New { .. } | Phase::Idle { .. } => {
                state.phase = Phase::Head {
                    since: Instant::now(),
                };
            }
            Phase::Head { .. } => {}
            Phase::Request => return Ok(()),
            Phase::Closing => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        let room = MAX_KEPT_HEAD_BYTES.saturating_sub(state.head.len());
        let kept = &bytes[..bytes.len().min(room)];
        state.head.extend_from_slice(kept);
        Ok(())
    }

    /// Returns the time until which the client must send something; `None` during
    /// a request and while a response waits for the client.
    pub(super) fn read_deadline(&self) -> Option<Instant> {
        let state = self.lock();
        if state.is_writing {
            return None;
        }
        match state.phase {
            Phase::New { since } | Phase::Head { since } => Some(since + HEAD_TIMEOUT),
            Phase::Idle { since } => Some(since + IDLE_TIMEOUT),
            Phase::Request | Phase::Closing => None,
        }
    }

    /// Records that a response waits for the client.
    pub(super) fn write_waits(&self) {
        self.lock().is_writing = true;
    }

    /// Records that nothing waits for the client any more.
    pub(super) fn was_written(&self) {
        let mut state = self.lock();
        state.is_writing = false;
        if let Phase::Idle { since } = &mut state.phase {
            *since = Instant::now();
        }
    }

    /// Returns whether the client may still be sending data that will not be read.
    pub(super) fn lingers(&self) -> bool {
        let state = self.lock();
        state.is_unread || matches!(state.phase, Phase::Head { .. })
    }

    /// Returns since when the connection waits for a request.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.lock().waits_since()
    }

    /// Closes the connection if it has waited for a request since `since`.
    pub(super) fn close_if_waiting(&self, since: Instant) {
        let mut state = self.lock();
        if state.waits_since() != Some(since) {
            return;
        }
        state.phase = Phase::Closing;
        drop(state);
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl State {
    fn waits_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::New { since } | Phase::Idle { since } | Phase::Head { since } => {
                (!self.is_writing).then_some(since)
            }
            Phase::Request | Phase::Closing => None,
        }
    }
}

/// Returns whether the kept bytes are a complete head without `Content-Length`.
/// They are complete if they have as many headers as the request, from which hyper
/// has removed that header. A head that began in the same packet as the previous
/// request was not kept from its first byte, and counts as contradictory.
fn declares_no_length(head: &[u8], headers: &HeaderMap) -> bool {
    let mut parsed = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut parsed);
    request.parse(head).is_ok_and(|status| status.is_complete())
        && request.headers.len() == headers.len()
        && request
            .headers
            .iter()
            .all(|header| !header.name.eq_ignore_ascii_case("content-length"))
}
