//! Answers.

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use warp::reply::Response;

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

/// An answer with a body that is JSON already.
pub(crate) fn raw_json(body: String) -> Response {
    text(200, "application/json", body)
}

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
