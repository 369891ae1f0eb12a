//! The response body that hyper sends: its memory is counted, and it keeps a
//! streaming request open until its end.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected};
use hyper::body::{Body as _, Frame, SizeHint};
use warp::reply::Response;

use super::connection::Connection;
use crate::client_limit::ClientPermit;
use crate::response_memory::{self, Holder, Permit, Refused, ResponseMemory};
use crate::web::reply::BodyPieces;

pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Ends a request when it is dropped: once its response is complete, or at the
/// end of a streamed body.
pub(super) struct RequestEnd {
    pub(super) connection: Arc<Connection>,
    /// The request's part of what its client may have under way.
    pub(super) _permit: Option<ClientPermit>,
}

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.connection.request_ends();
    }
}

/// Takes the memory that a response needs until the client has read it. A small
/// response needs none; a streamed one takes its own.
pub(super) fn take_memory(
    response: &Response,
    memory: &ResponseMemory,
    holder: impl FnOnce() -> Holder,
) -> Result<Option<Permit>, Refused> {
    let size = if let Some(BodyPieces(pieces)) = response.extensions().get() {
        pieces.iter().map(Bytes::len).sum()
    } else {
        let size = response.body().size_hint().exact();
        usize::try_from(size.unwrap_or_default()).unwrap_or(usize::MAX)
    };
    if size <= response_memory::UNCOUNTED_BYTES {
        return Ok(None);
    }
    memory.take(holder(), size).map(Some)
}

/// Converts a response for hyper. The memory is released when the body has been
/// written.
pub(super) fn convert(
    mut response: Response,
    permit: Option<Permit>,
    end: RequestEnd,
) -> http::Response<Body> {
    if let Some(BodyPieces(pieces)) = response.extensions_mut().remove() {
        return response.map(|_| Pieces::new(pieces, permit).boxed());
    }
    let is_streamed = response.body().size_hint().exact().is_none();
    if is_streamed {
        return response.map(|body| {
            let body = body.map_frame(move |frame| {
                // Held until the body ends or is dropped.
                let _held = &end;
                frame
            });
            body.map_err(Into::into).boxed_unsync()
        });
    }
    let Some(permit) = permit else {
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    };
    response.map(|body| {
        // A body that is not streamed is complete at once.
        let whole = body.collect().now_or_never().and_then(Result::ok);
        let whole = whole.map(Collected::to_bytes).unwrap_or_default();
        Pieces::new(vec![whole], Some(permit)).boxed()
    })
}

/// A complete body in pieces.
struct Pieces {
    pieces: vec::IntoIter<Bytes>,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>, permit: Option<Permit>) -> Self {
        let permit = permit.map(Arc::new);
        let counted = pieces.into_iter().map(|piece| match &permit {
            Some(permit) => permit.hold(piece),
            None => piece,
        });
        let counted: Vec<Bytes> = counted.collect();
        Self {
            pieces: counted.into_iter(),
        }
    }

    fn boxed(self) -> Body {
        self.map_err(|never| match never {}).boxed_unsync()
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.find(|piece| !piece.is_empty());
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.as_slice().iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let left: usize = self.pieces.as_slice().iter().map(Bytes::len).sum();
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
