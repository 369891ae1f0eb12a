//! Reading the query string.

use changelog_core::{Invalid, ProblemCode};

use super::{ApiError, Request};

impl Request {
    /// Reads the query string as a filter; every malformed parameter is named.
    pub(crate) fn filter<T>(&self, read: fn(&str) -> Result<T, Invalid>) -> Result<T, ApiError> {
        read(&self.query).map_err(|invalid| ApiError::invalid(ProblemCode::MalformedQuery, invalid))
    }
}
