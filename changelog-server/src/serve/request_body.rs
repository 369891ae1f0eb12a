//! The body of a request, while it is received.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connection::Connection;

/// A request body that marks its connection when it is dropped before its end: the
/// client may still be sending, so the connection must not be closed at once.
pub(super) struct RequestBody {
    body: Incoming,
    /// `None` once the body has ended.
    connection: Option<Arc<Connection>>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, connection: &Arc<Connection>) -> Self {
        let connection = (!body.is_end_stream()).then(|| Arc::clone(connection));
        Self { body, connection }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.connection = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection
            && !self.body.is_end_stream()
        {
            connection.leaves_unread();
        }
    }
}
