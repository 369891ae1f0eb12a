//! Pages of the lists of hosts and services.

use changelog_core::ViolationCode;
use changelog_core::limits::MAX_ITEMS_PER_PAGE;
use changelog_core::query::Query;

use crate::web::{ApiError, Request};

/// A page of a list, in the order of the names.
#[derive(Debug)]
pub(super) struct ListFilter {
    /// The name before the first item.
    pub(super) after: String,
    /// The maximum number of items.
    pub(super) limit: u64,
}

impl ListFilter {
    /// Reads `limit` and `after`; `None` without either, for the whole list.
    pub(super) fn from_request(request: &Request) -> Result<Option<Self>, ApiError> {
        let (limit, after) = request.filter(|raw| {
            let mut query = Query::new(raw);
            let read = (query.number("limit", 1), query.one("after"));
            // No name contains NUL, and PostgreSQL rejects it.
            if read.1.as_ref().is_some_and(|after| after.contains('\0')) {
                query.add(
                    "after",
                    ViolationCode::InvalidFormat,
                    "must not contain NUL",
                );
            }
            query.finish(read)
        })?;
        if limit.is_none() && after.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            after: after.unwrap_or_default(),
            limit: limit.unwrap_or(MAX_ITEMS_PER_PAGE).min(MAX_ITEMS_PER_PAGE),
        }))
    }
}
