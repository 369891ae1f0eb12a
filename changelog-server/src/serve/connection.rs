//! A connection with deadlines: for the first byte, for the head of a request
//! once its first byte has come, for the silence between two requests, and for
//! a client that does not take its answer, or takes it slowly.
//!
//! hyper has one deadline for head and silence together, and it drops
//! `Content-Length` beside `Transfer-Encoding` before anybody can see that both
//! were sent; hence the bytes of a head are kept here until its request begins.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection_limit::ConnectionSlot;

/// How long the head of a request may take, from its first byte; and how long a
/// new connection may take to send its first byte.
pub(super) const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may be silent between two requests.
pub(super) const IDLE: Duration = Duration::from_mins(1);
/// How long a client may take none of its answer.
const STALLED: Duration = Duration::from_mins(1);
/// How many bytes a second a client must take of an answer that waits for it,
/// after the first [`STALLED`].
const LEAST_RATE: u64 = 16 * 1024;
/// How long, and how many bytes, are read on and thrown away after an answer to
/// a request that was not read to its end. A client that is still sending would
/// otherwise lose the answer: closing a socket with unread bytes resets it.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 * 1024 * 1024;
/// How much of a head is kept.
const KEPT: usize = 16 * 1024;

/// What a connection is in the middle of.
#[derive(Debug)]
enum Phase {
    /// Nothing was sent yet, since then.
    New { since: Instant },
    /// Nothing, since then.
    Idle { since: Instant },
    /// The head of a request, whose first byte came then.
    Head { since: Instant },
    /// A request; its deadlines are the handler's.
    Request,
    /// It is closed to make room; no request begins any more.
    Closing,
}

/// What the stream, the service and the places know of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    state: Mutex<State>,
    /// The place that it holds.
    pub(super) place: ConnectionSlot,
    task: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The head of the next request, as far as it has come.
    head: Vec<u8>,
    /// Whether a part of an answer waits to be taken.
    is_writing: bool,
    /// Whether the last request was answered before it was read to its end.
    is_unread: bool,
}

impl Connection {
    pub(super) fn new(place: ConnectionSlot) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::New {
                    since: Instant::now(),
                },
                head: Vec::new(),
                is_writing: false,
                is_unread: false,
            }),
            place,
            task: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which task serves it.
    pub(super) fn served_by(&self, task: AbortHandle) {
        // There is one task a connection.
        let _ = self.task.set(task);
    }

    /// Notes that the head is complete; tells whether it declared the length of
    /// its body in two contradictory ways. `None` when the connection is being
    /// closed, so that the request must not be handled.
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

    /// Notes that a request is dealt with before its body was read to its end.
    pub(super) fn leaves_unread(&self) {
        self.lock().is_unread = true;
    }

    /// Notes that the request was answered.
    pub(super) fn request_ends(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Request) {
            state.phase = Phase::Idle {
                since: Instant::now(),
            };
        }
        state.head.clear();
    }

    fn received(&self, bytes: &[u8]) -> io::Result<()> {
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
        let room = KEPT.saturating_sub(state.head.len());
        let kept = &bytes[..bytes.len().min(room)];
        state.head.extend_from_slice(kept);
        Ok(())
    }

    /// Until when the client must have sent something; `None` within a request
    /// and while the client is to take an answer.
    fn deadline(&self) -> Option<Instant> {
        let state = self.lock();
        if state.is_writing {
            return None;
        }
        match state.phase {
            Phase::New { since } | Phase::Head { since } => Some(since + HEAD),
            Phase::Idle { since } => Some(since + IDLE),
            Phase::Request | Phase::Closing => None,
        }
    }

    /// Notes that an answer waits for the client to take it.
    fn write_waits(&self) {
        self.lock().is_writing = true;
    }

    /// Notes that the client took what waited.
    fn was_written(&self) {
        let mut state = self.lock();
        state.is_writing = false;
        if let Phase::Idle { since } = &mut state.phase {
            *since = Instant::now();
        }
    }

    /// Tells whether the client may still be sending something that nobody will
    /// read.
    fn lingers(&self) -> bool {
        let state = self.lock();
        state.is_unread || matches!(state.phase, Phase::Head { .. })
    }

    /// Returns since when it waits for a request; `None` when it does not.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.lock().waits_since()
    }

    /// Closes it if it still waits for a request since then.
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
    /// Returns since when the connection waits for a request.
    fn waits_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::New { since } | Phase::Idle { since } | Phase::Head { since } => {
                (!self.is_writing).then_some(since)
            }
            Phase::Request | Phase::Closing => None,
        }
    }
}

/// Reads the kept bytes of a head: `true` only when they are the whole of it and
/// have no `Content-Length`. They are the whole when they have as many headers
/// as the request, which has none of that name any more. A head that began
/// within the packet of the request before it was not kept from its first byte,
/// and counts as contradictory.
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

/// A stream that ends when its client keeps it waiting.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    connection: Arc<Connection>,
    reading: Pin<Box<Sleep>>,
    /// There while a write waits for the client.
    writing: Option<Writing>,
    /// There while what the client still sends is thrown away.
    lingering: Option<Lingering>,
}

/// A write that waits for the client.
#[derive(Debug)]
struct Writing {
    since: Instant,
    /// How many bytes the client took since then.
    taken: u64,
    deadline: Pin<Box<Sleep>>,
}

#[derive(Debug)]
struct Lingering {
    /// How many bytes are read at most.
    left: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        let reading = Box::pin(sleep_until(Instant::now() + HEAD));
        Self {
            stream,
            connection,
            reading,
            writing: None,
            lingering: None,
        }
    }

    /// Lets a write wait for the client: at most [`STALLED`] for the next byte,
    /// and no longer in all than the least rate allows.
    fn bound_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match (&mut self.writing, &written) {
            (None, Poll::Ready(_)) | (Some(_), Poll::Ready(Err(_))) => return written,
            (Some(writing), Poll::Ready(Ok(count))) => {
                writing.taken += u64::try_from(*count).unwrap_or(u64::MAX);
                let deadline = written_by(writing.since, writing.taken, Instant::now());
                writing.deadline.as_mut().reset(deadline);
                return written;
            }
            (_, Poll::Pending) => {}
        }
        let connection = &self.connection;
        let writing = self.writing.get_or_insert_with(|| {
            connection.write_waits();
            let since = Instant::now();
            Writing {
                since,
                taken: 0,
                deadline: Box::pin(sleep_until(since + STALLED)),
            }
        });
        ready!(writing.deadline.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client takes its answer too slowly")))
    }
}

/// Returns until when the client must take more, having taken this many bytes
/// since it keeps the service waiting.
fn written_by(since: Instant, taken: u64, now: Instant) -> Instant {
    let at_least_rate = Duration::from_secs(taken / LEAST_RATE);
    (now + STALLED).min(since + STALLED + at_least_rate)
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what.to_owned())
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            let received = &buffer.filled()[before..];
            if !received.is_empty() {
                self.connection.received(received)?;
            }
            return Poll::Ready(read);
        }
        // Within a request hyper still reads, to notice a client that leaves.
        let Some(deadline) = self.connection.deadline() else {
            return Poll::Pending;
        };
        if self.reading.deadline() != deadline {
            self.reading.as_mut().reset(deadline);
        }
        ready!(self.reading.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client sent nothing for too long")))
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bound_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has written everything that it has.
        if self.writing.take().is_some() {
            self.connection.was_written();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.lingering = this.connection.lingers().then(|| Lingering {
                left: LINGER_BYTES,
                deadline: Box::pin(sleep_until(Instant::now() + LINGER)),
            });
        }
        let Some(lingering) = &mut this.lingering else {
            return Poll::Ready(Ok(()));
        };
        let mut thrown_away = [0; 8 * 1024];
        while lingering.left > 0 && lingering.deadline.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            // Whether the client closes or fails, it sends no more.
            if ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer)).is_err() {
                break;
            }
            match buffer.filled().len() {
                0 => break,
                count => lingering.left = lingering.left.saturating_sub(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many seconds a client is given up that takes some bytes
    /// every so many seconds.
    fn given_up_after(bytes: u64, every: u64) -> u64 {
        let since = Instant::now();
        let seconds = |count| Duration::from_secs(count);
        let mut deadline = since + STALLED;
        for turn in 1..200 {
            let now = since + seconds(turn * every);
            if now >= deadline {
                return (deadline - since).as_secs();
            }
            deadline = written_by(since, turn * bytes, now);
        }
        u64::MAX
    }

    #[test]
    fn a_client_that_takes_its_answer_in_drops_is_given_up() {
        assert_eq!(given_up_after(1, 59), 60);
        assert_eq!(given_up_after(LEAST_RATE / 2, 1), 118);
        assert_eq!(given_up_after(LEAST_RATE * 20, 61), 60);
        assert_eq!(given_up_after(LEAST_RATE * 20, 20), u64::MAX);
    }
}
