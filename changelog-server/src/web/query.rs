//! Reading the query string.

use changelog_core::query::Query;
use changelog_core::{Invalid, ProblemCode};

use super::{ApiError, Request};

impl Request {
    /// Refuses parameters where there are none: what was meant as a filter must
    /// not be passed over in silence.
    pub(crate) fn no_parameters(&self) -> Result<(), ApiError> {
        self.filter(|raw| Query::new(raw).finish(()))
    }

    /// Reads the query string as a filter; every malformed parameter is named.
    pub(crate) fn filter<T>(&self, read: fn(&str) -> Result<T, Invalid>) -> Result<T, ApiError> {
        read(&self.query).map_err(|invalid| ApiError::invalid(ProblemCode::MalformedQuery, invalid))
    }
}
