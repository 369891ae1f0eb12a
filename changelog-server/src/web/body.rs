//! Reading a request body: its type, size, deadline and content.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use changelog_core::input::from_json;
use changelog_core::{Input, InputError, ProblemCode, Timestamp};
use futures_util::StreamExt;
use http::header;

pub(crate) use changelog_core::limits::MAX_BODY_BYTES;

use super::{ApiError, Request};
use crate::blocking_pool;

/// The content encoding of a body without any encoding.
const IDENTITY: &str = "identity";
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);

impl Request {
    /// Reads a whole body that is declared as JSON; does not parse it.
    pub(crate) async fn json_body(&self) -> Result<Bytes, ApiError> {
        self.body_of_type("application/json", MAX_BODY_BYTES).await
    }

    /// Reads a whole body that must be declared as `expected`, a media type, of at most so many
    /// bytes.
    pub(crate) async fn body_of_type(
        &self,
        expected: &str,
        limit: usize,
    ) -> Result<Bytes, ApiError> {
        if !self.is_of_type(expected) {
            let declared = self.header(header::CONTENT_TYPE.as_str());
            let given = declared.map_or("none".to_owned(), |declared| format!("{declared:?}"));
            let detail = format!("the header content-type must be {expected}, got {given}");
            return Err(ApiError::new(ProblemCode::UnsupportedMediaType, detail));
        }
        self.raw_body(limit).await
    }

    /// Returns whether the body is declared as a media type.
    pub(crate) fn is_of_type(&self, expected: &str) -> bool {
        let declared = self.header(header::CONTENT_TYPE.as_str());
        declared.is_some_and(|declared| is_media_type(declared, expected))
    }

    /// Reads a whole body of any type, of at most so many bytes.
    pub(crate) async fn raw_body(&self, limit: usize) -> Result<Bytes, ApiError> {
        if let Some(received) = self.received.get() {
            return Ok(received.clone());
        }
        self.refuse_encoded()?;
        let declared_length = self
            .header(header::CONTENT_LENGTH.as_str())
            .and_then(|length| length.parse::<usize>().ok());
        if declared_length.is_some_and(|length| length > limit) {
            return Err(too_large(limit));
        }
        let read = self.read(declared_length.unwrap_or_default(), limit);
        tokio::time::timeout(BODY_TIMEOUT, read)
            .await
            .unwrap_or_else(|_| {
                let seconds = BODY_TIMEOUT.as_secs();
                let detail = format!("the body did not arrive within {seconds} s");
                Err(ApiError::new(ProblemCode::RequestTimeout, detail)
                    .with_header(header::CONNECTION, "close"))
            })
    }

    /// Refuses a body with a content encoding, such as a compressed one.
    fn refuse_encoded(&self) -> Result<(), ApiError> {
        let mut encodings = self.headers.get_all(header::CONTENT_ENCODING).iter();
        let Some(encoding) = encodings.find(|encoding| {
            let encoding = encoding.as_bytes().trim_ascii();
            !encoding.is_empty() && !encoding.eq_ignore_ascii_case(IDENTITY.as_bytes())
        }) else {
            return Ok(());
        };
        let detail = format!(
            "the header content-encoding must be {IDENTITY} or absent, got {encoding:?}; send the \
             body as it is"
        );
        Err(ApiError::new(ProblemCode::UnsupportedMediaType, detail)
            .with_header(header::ACCEPT_ENCODING, IDENTITY))
    }

    async fn read(&self, expected: usize, limit: usize) -> Result<Bytes, ApiError> {
        let unread = self
            .body
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut stream) = unread else {
            return Ok(Bytes::new());
        };
        let mut body = BytesMut::with_capacity(expected);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| {
                let detail = format!("the body is incomplete or malformed: {error}");
                ApiError::new(ProblemCode::MalformedBody, detail)
            })?;
            if body.len() + chunk.len() > limit {
                return Err(too_large(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

/// Parses and validates a JSON body; the error lists every violation. A large body
/// is parsed on the blocking pool.
pub(crate) async fn parse<T: Input + Send + 'static>(
    body: &Bytes,
    now: Timestamp,
) -> Result<T, ApiError> {
    let bytes = body.clone();
    let read = blocking_pool::run_sized(body.len(), move || from_json(&bytes, now)).await;
    read.map_err(|error| match error {
        InputError::Malformed(detail) => ApiError::new(ProblemCode::MalformedBody, detail),
        InputError::Invalid(invalid) => ApiError::invalid(ProblemCode::ValidationFailed, invalid),
    })
}

fn too_large(limit: usize) -> ApiError {
    let detail = format!(
        "the body must have at most {limit} bytes ({} KiB)",
        limit / 1024
    );
    ApiError::new(ProblemCode::PayloadTooLarge, detail).with_header(header::CONNECTION, "close")
}

/// Returns whether a content type is `expected`, with no charset but UTF-8.
fn is_media_type(declared: &str, expected: &str) -> bool {
    let mut parts = declared.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case(expected)
        && parts.filter(|part| !part.is_empty()).all(|part| {
            part.split_once('=').is_none_or(|(name, value)| {
                !name.trim().eq_ignore_ascii_case("charset")
                    || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
        })
}

#[cfg(test)]
mod tests {
    use super::is_media_type;

    #[test]
    fn only_json_in_utf_8_is_json() {
        for (declared, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json;charset=\"utf-8\"", true),
            ("application/json; charset=latin1", false),
            ("application/problem+json", false),
            ("text/plain", false),
            ("application/jsonx", false),
            ("", false),
        ] {
            assert_eq!(
                is_media_type(declared, "application/json"),
                expected,
                "{declared}"
            );
        }
    }
}
