//! The body of a request, while it is received.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connection::Connection;
use crate::web::body::MAX_BODY_BYTES;

/// How long the rest of a body may take to arrive that no handler reads.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// A request body that leaves its rest to its connection when it is dropped before its
/// end: the client may still be sending.
pub(super) struct RequestBody {
    /// `None` once the body has ended.
    rest: Option<(Incoming, Arc<Connection>)>,
    /// Whether the client sends the body only if the service asks for it.
    is_awaited: bool,
}

impl RequestBody {
    /// Replaces the body of a request.
    pub(super) fn of(
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Request<RequestBody> {
        let ends = request.body().is_end_stream();
        let is_awaited = !ends && request.headers().contains_key(header::EXPECT);
        request.map(|body| RequestBody {
            rest: (!ends).then(|| (body, Arc::clone(connection))),
            is_awaited,
        })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some((body, _)) = &mut self.rest else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if frame.is_none() {
            self.rest = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let rest = self.rest.as_ref();
        rest.is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref();
        rest.map_or(SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some((body, connection)) = self.rest.take()
            && !body.is_end_stream()
        {
            // To read it would ask for it.
            connection.leaves_unread((!self.is_awaited).then_some(body));
        }
    }
}

/// Reads and discards what the handler has left of a body, so that the connection can serve
/// the next request. Returns whether it can: not if the rest is larger than a body may be
/// or takes longer than [`REST_TIMEOUT`].
pub(super) async fn discard_rest(connection: &Connection) -> bool {
    if !connection.is_unread() {
        return true;
    }
    let Some(mut rest) = connection.take_unread() else {
        return false;
    };
    let mut room = MAX_BODY_BYTES;
    let read = async {
        while usize::try_from(rest.size_hint().lower()).is_ok_and(|size| size <= room) {
            match rest.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    let size = frame.data_ref().map_or(0, Bytes::len);
                    let Some(left) = room.checked_sub(size) else {
                        return false;
                    };
                    room = left;
                }
            }
        }
        false
    };
    let is_read = tokio::time::timeout(REST_TIMEOUT, read).await == Ok(true);
    if is_read {
        connection.was_read();
    }
    is_read
}
