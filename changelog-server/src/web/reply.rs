//! Responses of several media types.

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use sync_wrapper::SyncStream;
use warp::Reply as _;
use warp::reply::Response;

use crate::store::StoreError;

/// Returns a response whose body is produced while it is sent. A body that fails
/// breaks the connection, so that the client notices that it is incomplete.
pub(crate) fn streamed(
    media_type: &'static str,
    chunks: impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static,
) -> Response {
    // warp requires a `Sync` body, although a body is polled by one task only.
    let response = warp::reply::stream(SyncStream::new(chunks)).into_response();
    with_media_type(response, media_type)
}

/// The media type of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Returns a response of server-sent events.
pub(crate) fn event_stream(
    chunks: impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static,
) -> Response {
    let mut response = streamed(EVENT_STREAM, chunks);
    // nginx must not buffer the response.
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

const JSON: &str = "application/json";
/// The largest body whose pieces are copied into one: cheaper than to send several. JSON of
/// this size is not compressed: it fits into few packets.
const MAX_COPIED_BYTES: usize = 4 * 1024;

/// Returns a response with a JSON body, without secrets: a large one may be compressed.
pub(crate) fn json<T: Serialize>(status: u16, body: &T) -> Response {
    match serde_json::to_string(body) {
        Ok(body) if body.len() <= MAX_COPIED_BYTES => text(status, JSON, body),
        Ok(body) => in_pieces(status, vec![body.into()]),
        Err(error) => {
            // Our own types serialize; only a map with keys that are not strings
            // would fail.
            tracing::error!(%error, "a response could not be serialized");
            text(500, JSON, String::new())
        }
    }
}

/// Returns a response of JSON text between a prefix and a suffix; a large text is
/// not copied.
pub(crate) fn raw_json(prefix: &'static str, json: String, suffix: String) -> Response {
    joined_json(vec![prefix.into(), json.into(), suffix.into()])
}

/// Returns a response of JSON text in pieces, without secrets; large pieces are not copied
/// unless they are compressed.
pub(crate) fn joined_json(pieces: Vec<Bytes>) -> Response {
    if pieces.iter().map(Bytes::len).sum::<usize>() > MAX_COPIED_BYTES {
        return in_pieces(200, pieces);
    }
    let mut response = text(200, JSON, String::new());
    *response.body_mut() = pieces.concat().into();
    response
}

fn in_pieces(status: u16, pieces: Vec<Bytes>) -> Response {
    let mut response = text(status, JSON, String::new());
    response.extensions_mut().insert(BodyPieces(pieces));
    varying(response)
}

/// Says that caches must not answer a client with what another one accepts.
pub(super) fn varying(mut response: Response) -> Response {
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// A complete body in pieces, as an extension of the response: a body of warp is
/// either one piece or a stream, whose length would be unknown.
#[derive(Clone, Debug)]
pub(crate) struct BodyPieces(pub(crate) Vec<Bytes>);

/// Returns a response with a text of a media type.
pub(crate) fn text(status: u16, media_type: &'static str, body: String) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_media_type(response, media_type)
}

/// Sets the media type of a response.
pub(crate) fn with_media_type(mut response: Response, media_type: &'static str) -> Response {
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
