//! Answers.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use warp::reply::Response;

use crate::memory::FREE;
use crate::store::StoreError;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, StoreError>> + Send>>;

/// A body that is made while it is sent. warp's own body cannot be made of one
/// from outside, so it goes beside the answer to the accept loop.
#[derive(Clone)]
pub(crate) struct Streamed(Arc<Mutex<Option<Chunks>>>);

impl Streamed {
    /// Takes the body, once.
    pub(crate) fn take(&self) -> Option<Chunks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streamed")
    }
}

/// An answer whose body is made while it is sent; one that fails in the middle
/// is broken off, so that nobody takes it for whole.
pub(crate) fn streamed(
    media_type: &'static str,
    chunks: impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static,
) -> Response {
    let mut response = text(200, media_type, String::new());
    let body = Streamed(Arc::new(Mutex::new(Some(Box::pin(chunks)))));
    response.extensions_mut().insert(body);
    response
}

/// An answer with a JSON body.
pub(crate) fn json<T: Serialize>(status: u16, body: &T) -> Response {
    match serde_json::to_string(body) {
        Ok(body) => text(status, "application/json", body),
        Err(error) => {
            // Our own types serialize; a map with keys that are no texts would not.
            tracing::error!(%error, "an answer could not be written");
            text(500, "application/json", String::new())
        }
    }
}

/// An answer that is JSON already, between what stands before and behind it; a
/// large one is not copied.
pub(crate) fn raw_json(before: &'static str, json: String, behind: String) -> Response {
    joined_json(vec![before.into(), json.into(), behind.into()])
}

/// An answer that is JSON already, in pieces; a large one is not copied.
pub(crate) fn joined_json(pieces: Vec<Bytes>) -> Response {
    if pieces.iter().map(Bytes::len).sum::<usize>() <= FREE {
        let mut response = text(200, "application/json", String::new());
        *response.body_mut() = pieces.concat().into();
        return response;
    }
    let mut response = text(200, "application/json", String::new());
    response.extensions_mut().insert(Joined(pieces));
    response
}

/// A body in pieces, which takes the same way as [`Streamed`].
#[derive(Clone, Debug)]
pub(crate) struct Joined(pub(crate) Vec<Bytes>);

/// An answer with a body of a media type.
pub(crate) fn text(status: u16, media_type: &'static str, body: String) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
