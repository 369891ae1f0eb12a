//! A complete response, and the errors made from it.

use std::time::SystemTime;

use changelog_core::{Problem, ProblemCode, headers};
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};

use crate::error::{Error, ErrorResponse, UnexpectedResponse, excerpt};
use crate::retry::retry_after;

/// The media type of the service's error bodies.
const PROBLEM_TYPE: &str = "application/problem+json";
/// The longest request id that an error keeps, in characters.
const MAX_REQUEST_ID_CHARS: usize = 200;
/// The longest target of a redirect that an error keeps, in characters.
const MAX_LOCATION_CHARS: usize = 500;

pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl ApiResponse {
    fn request_id(&self) -> Option<String> {
        let id = self.headers.get(headers::REQUEST_ID)?.to_str().ok()?;
        (!id.is_empty()).then(|| id.chars().take(MAX_REQUEST_ID_CHARS).collect())
    }

    /// Returns the service's error body. A body of another media type comes from
    /// something else, such as a proxy or an ingress without a backend.
    fn problem(&self) -> Option<Problem> {
        has_media_type(&self.headers, PROBLEM_TYPE)
            .then(|| serde_json::from_slice(&self.body).ok())
            .flatten()
    }

    fn location(&self) -> Option<String> {
        let location = self.headers.get(LOCATION)?.to_str().ok()?;
        let is_redirect = self.status.is_redirection();
        is_redirect.then(|| location.chars().take(MAX_LOCATION_CHARS).collect())
    }

    /// Returns the error for a status that is not a success.
    pub(crate) fn into_error(self) -> Error {
        let problem = self.problem();
        let id_in_body = problem.as_ref().map(|problem| problem.request_id.clone());
        let status = self.status;
        ErrorResponse {
            status: status.as_u16(),
            request_id: self
                .request_id()
                .or_else(|| id_in_body.filter(|id| !id.is_empty())),
            excerpt: Some(excerpt(&self.body)).filter(|text| problem.is_none() && !text.is_empty()),
            location: self.location(),
            retry_after: retry_after(&self.headers, SystemTime::now()),
            attempts: 1,
            // A gateway may have forwarded the request before it failed, and a service
            // that fails without an error body, or says that it does not know, may have
            // acted on it.
            unconfirmed: matches!(status.as_u16(), 500 | 502 | 504)
                || (status.is_server_error()
                    && problem
                        .as_ref()
                        .is_none_or(|problem| problem.code == ProblemCode::OutcomeUnknown)),
            problem,
        }
        .into()
    }

    /// Returns the error for a success that cannot be read.
    pub(crate) fn unexpected(&self, message: String) -> Error {
        UnexpectedResponse {
            status: self.status.as_u16(),
            request_id: self.request_id(),
            message,
            is_too_large: false,
            excerpt: excerpt(&self.body),
        }
        .into()
    }

    /// Returns the error for a body that is larger than this many bytes.
    pub(crate) fn too_large(&self, limit: usize) -> Error {
        let mut error = self.unexpected(format!("it is larger than {limit} bytes"));
        if let Error::UnexpectedResponse(response) = &mut error {
            response.is_too_large = true;
        }
        error
    }
}

/// Returns whether a response has a media type, with any parameters.
pub(crate) fn has_media_type(headers: &HeaderMap, media_type: &str) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(media_type.as_bytes()))
}
