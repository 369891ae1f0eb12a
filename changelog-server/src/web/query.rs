//! Reading the query string.

use changelog_core::query::Query;
use changelog_core::{Invalid, ProblemCode};

use super::{ApiError, Request};

impl Request {
    /// Refuses a query string on a path without parameters, so that a misplaced
    /// filter is not ignored silently.
    pub(crate) fn no_parameters(&self) -> Result<(), ApiError> {
        self.filter(|raw| Query::new(raw).finish(()))
    }

    /// Reads the query string as a filter; the error lists every malformed
    /// parameter.
    pub(crate) fn filter<T>(&self, read: fn(&str) -> Result<T, Invalid>) -> Result<T, ApiError> {
        read(&self.query).map_err(|invalid| ApiError::invalid(ProblemCode::MalformedQuery, invalid))
    }
}
