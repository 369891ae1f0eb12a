//! From an answer to the body that hyper sends.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::body::{Frame, SizeHint};
use warp::reply::Response;

use super::connection::Connection;
use crate::memory::{self, AnswerMemory, Holder, Permit, Refused};
use crate::web::client_limit::ClientPermit;
use crate::web::reply::{Joined, Streamed};

pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Ends a request when it is dropped: with its answer, or with the body that is
/// made while it is sent.
pub(super) struct Ending {
    pub(super) connection: Arc<Connection>,
    /// Its part of what the client may have under way.
    pub(super) _share: Option<ClientPermit>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.connection.request_ends();
    }
}

/// Takes the memory that an answer needs while it waits to be read; none for a
/// small one, and for one that is made while it is sent, which takes its own.
pub(super) fn take_memory(
    response: &Response,
    memory: &AnswerMemory,
    holder: impl FnOnce() -> Holder,
) -> Result<Option<Permit>, Refused> {
    let size = if let Some(Joined(pieces)) = response.extensions().get() {
        pieces.iter().map(Bytes::len).sum()
    } else {
        let size = hyper::body::Body::size_hint(response.body()).exact();
        usize::try_from(size.unwrap_or_default()).unwrap_or(usize::MAX)
    };
    if size <= memory::FREE {
        return Ok(None);
    }
    memory.take(holder(), size).map(Some)
}

/// Makes the body of an answer; the memory is given back when it was written.
pub(super) fn of(
    mut response: Response,
    permit: Option<Permit>,
    ending: Ending,
) -> http::Response<Body> {
    let extensions = response.extensions_mut();
    if let Some(chunks) = extensions
        .remove::<Streamed>()
        .and_then(|streamed| streamed.take())
    {
        let frames = chunks.map(move |chunk| {
            // Held for as long as there are chunks to be made.
            let _held = &ending;
            chunk.map(Frame::data).map_err(Into::into)
        });
        return response.map(|_| BodyExt::boxed_unsync(StreamBody::new(frames)));
    }
    if let Some(Joined(pieces)) = extensions.remove() {
        return response.map(|_| Pieces::new(pieces, permit).boxed());
    }
    let Some(permit) = permit else {
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    };
    response.map(|body| {
        // warp's bodies are there at once.
        let whole = body.collect().now_or_never().and_then(Result::ok);
        let whole = whole.map(Collected::to_bytes).unwrap_or_default();
        Pieces::new(vec![whole], Some(permit)).boxed()
    })
}

/// A body that is there in pieces, whose length is known.
struct Pieces {
    pieces: vec::IntoIter<Bytes>,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>, permit: Option<Permit>) -> Self {
        let permit = permit.map(Arc::new);
        let held = pieces.into_iter().map(|piece| match &permit {
            Some(permit) => permit.hold(piece),
            None => piece,
        });
        let held: Vec<Bytes> = held.collect();
        Self {
            pieces: held.into_iter(),
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
