//! A connection with deadlines: for the head of a request once its first byte
//! has come, for the silence between two requests, and for a client that does
//! not take its answer.
//!
//! hyper has one deadline for head and silence together, and it drops
//! `Content-Length` beside `Transfer-Encoding` before anybody can see that both
//! were sent; hence the bytes of a head are kept here until its request begins.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long the head of a request may take, from its first byte.
pub(super) const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may be silent between two requests.
pub(super) const IDLE: Duration = Duration::from_mins(1);
/// How long a client may take none of its answer.
const STALLED: Duration = Duration::from_mins(1);
/// How much of a head is kept.
const KEPT: usize = 16 * 1024;

/// What a connection is in the middle of.
#[derive(Debug)]
enum Phase {
    /// Nothing, since then.
    Idle { since: Instant },
    /// The head of a request, whose first byte came then.
    Head { since: Instant },
    /// A request; its deadlines are the handler's.
    Request,
}

/// The phase of a connection, known to its stream and to its service.
#[derive(Debug)]
pub(super) struct Phases(Mutex<(Phase, Vec<u8>)>);

impl Default for Phases {
    fn default() -> Self {
        Self(Mutex::new((
            Phase::Idle {
                since: Instant::now(),
            },
            Vec::new(),
        )))
    }
}

impl Phases {
    fn lock(&self) -> MutexGuard<'_, (Phase, Vec<u8>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the head is complete; tells whether it declared the length of
    /// its body in two contradictory ways.
    pub(super) fn request_begins(&self, headers: &HeaderMap) -> bool {
        let mut state = self.lock();
        state.0 = Phase::Request;
        let head = std::mem::take(&mut state.1);
        drop(state);
        headers.contains_key(header::TRANSFER_ENCODING)
            && (headers.contains_key(header::CONTENT_LENGTH) || !declares_no_length(&head))
    }

    /// Notes that the request was answered.
    pub(super) fn request_ends(&self) {
        let mut state = self.lock();
        state.0 = Phase::Idle {
            since: Instant::now(),
        };
        state.1.clear();
    }

    fn received(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if let Phase::Idle { .. } = state.0 {
            state.0 = Phase::Head {
                since: Instant::now(),
            };
        }
        if let Phase::Head { .. } = state.0 {
            let room = KEPT.saturating_sub(state.1.len());
            let kept = &bytes[..bytes.len().min(room)];
            state.1.extend_from_slice(kept);
        }
    }

    /// Until when the client must have sent something; `None` within a request.
    fn deadline(&self) -> Option<Instant> {
        match self.lock().0 {
            Phase::Idle { since } => Some(since + IDLE),
            Phase::Head { since } => Some(since + HEAD),
            Phase::Request => None,
        }
    }
}

/// Reads the kept bytes of a head: `true` only when they are one and have no
/// `Content-Length`. A head that came in one piece with the request before it
/// was not kept, and counts as contradictory.
fn declares_no_length(head: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(head).is_ok_and(|status| status.is_complete())
        && request
            .headers
            .iter()
            .all(|header| !header.name.eq_ignore_ascii_case("content-length"))
}

/// A stream that ends when its client keeps it waiting.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    phases: Arc<Phases>,
    reading: Pin<Box<Sleep>>,
    /// Runs while a write is stuck.
    writing: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, phases: Arc<Phases>) -> Self {
        let reading = Box::pin(sleep_until(Instant::now() + IDLE));
        Self {
            stream,
            phases,
            reading,
            writing: None,
        }
    }

    /// Lets a write be stuck for a while, but not for ever.
    fn bound_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let stalled = self
            .writing
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client took none of its answer")))
    }
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
            self.phases.received(&buffer.filled()[before..]);
            return Poll::Ready(read);
        }
        // Within a request hyper still reads, to notice a client that leaves.
        let Some(deadline) = self.phases.deadline() else {
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
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
