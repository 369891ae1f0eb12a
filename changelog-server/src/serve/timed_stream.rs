//! A TCP stream with deadlines: for the first byte, for the head of a request, for
//! the silence between two requests, and for a client that reads its response too
//! slowly. hyper has one deadline for head and silence together and none for
//! writing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::{Connection, HEAD_TIMEOUT};

/// How long a client may read nothing of its response.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// The bytes per second that a client must read of a response that waits for it,
/// after the first [`STALL_TIMEOUT`].
const MIN_BYTES_PER_SECOND: u64 = 16 * 1024;
/// How long, and how many bytes, are read and discarded after the response to a
/// request that was not read completely. Closing a socket with unread bytes resets
/// it, and a client that is still sending would lose the response.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// A stream that fails when its client misses a deadline.
#[derive(Debug)]
pub(super) struct TimedStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    reading: Pin<Box<Sleep>>,
    /// Set while a write waits for the client.
    writing: Option<Writing>,
    /// Set while data from the client is discarded.
    lingering: Option<Lingering>,
}

/// A write that waits for the client.
#[derive(Debug)]
struct Writing {
    since: Instant,
    /// The bytes that the client has read since then.
    bytes: u64,
    deadline: Pin<Box<Sleep>>,
}

#[derive(Debug)]
struct Lingering {
    /// How many more bytes may be discarded.
    bytes_left: usize,
    deadline: Pin<Box<Sleep>>,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        let reading = Box::pin(sleep_until(Instant::now() + HEAD_TIMEOUT));
        Self {
            stream,
            connection,
            reading,
            writing: None,
            lingering: None,
        }
    }

    /// Limits how long a write waits for the client: [`STALL_TIMEOUT`] for the next
    /// byte, and in total as long as the minimum rate allows.
    fn bound_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match (&mut self.writing, &written) {
            (None, Poll::Ready(_)) | (Some(_), Poll::Ready(Err(_))) => return written,
            (Some(writing), Poll::Ready(Ok(count))) => {
                writing.bytes += u64::try_from(*count).unwrap_or(u64::MAX);
                let deadline = write_deadline(writing.since, writing.bytes, Instant::now());
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
                bytes: 0,
                deadline: Box::pin(sleep_until(since + STALL_TIMEOUT)),
            }
        });
        ready!(writing.deadline.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client reads its response too slowly")))
    }
}

/// Returns the time until which the client must read more, if it has read `bytes`
/// since `since`.
fn write_deadline(since: Instant, bytes: u64, now: Instant) -> Instant {
    let at_min_rate = Duration::from_secs(bytes / MIN_BYTES_PER_SECOND);
    (now + STALL_TIMEOUT).min(since + STALL_TIMEOUT + at_min_rate)
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what.to_owned())
}

impl AsyncRead for TimedStream {
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
        // During a request hyper reads to notice that the client disconnects.
        let Some(deadline) = self.connection.read_deadline() else {
            return Poll::Pending;
        };
        if self.reading.deadline() != deadline {
            self.reading.as_mut().reset(deadline);
        }
        ready!(self.reading.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client sent nothing for too long")))
    }
}

impl AsyncWrite for TimedStream {
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
        // hyper flushes when it has written everything.
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
                bytes_left: LINGER_BYTES,
                deadline: Box::pin(sleep_until(Instant::now() + LINGER)),
            });
        }
        let Some(lingering) = &mut this.lingering else {
            return Poll::Ready(Ok(()));
        };
        let mut discarded = [0; 8 * 1024];
        while lingering.bytes_left > 0 && lingering.deadline.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut discarded);
            // A client that closes or fails sends no more.
            if ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer)).is_err() {
                break;
            }
            match buffer.filled().len() {
                0 => break,
                count => lingering.bytes_left = lingering.bytes_left.saturating_sub(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many seconds a client times out that reads `bytes` every
    /// `every` seconds.
    fn times_out_after(bytes: u64, every: u64) -> u64 {
        let since = Instant::now();
        let seconds = |count| Duration::from_secs(count);
        let mut deadline = since + STALL_TIMEOUT;
        for read in 1..200 {
            let now = since + seconds(read * every);
            if now >= deadline {
                return (deadline - since).as_secs();
            }
            deadline = write_deadline(since, read * bytes, now);
        }
        u64::MAX
    }

    #[test]
    fn a_client_that_reads_too_slowly_times_out() {
        assert_eq!(times_out_after(1, 59), 60);
        assert_eq!(times_out_after(MIN_BYTES_PER_SECOND / 2, 1), 118);
        assert_eq!(times_out_after(MIN_BYTES_PER_SECOND * 20, 61), 60);
        assert_eq!(times_out_after(MIN_BYTES_PER_SECOND * 20, 20), u64::MAX);
    }
}
