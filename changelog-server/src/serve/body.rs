//! From an answer to the body that hyper sends.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use warp::reply::Response;

use super::connection::Phases;
use crate::web::reply::Streamed;

pub(super) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Ends a request when it is dropped: with its answer, or with the body that is
/// made while it is sent.
struct Ending(Arc<Phases>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

/// Makes the body of an answer.
pub(super) fn of(mut response: Response, phases: Arc<Phases>) -> http::Response<Body> {
    let ending = Ending(phases);
    let streamed = response.extensions_mut().remove::<Streamed>();
    let Some(chunks) = streamed.and_then(|streamed| streamed.take()) else {
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    };
    let frames = chunks.map(move |chunk| {
        // Held for as long as there are chunks to be made.
        let _held = &ending;
        chunk.map(Frame::data).map_err(Into::into)
    });
    response.map(|_| BodyExt::boxed_unsync(StreamBody::new(frames)))
}
