//! The envelopes around records.

use serde::{Deserialize, Serialize};

/// The envelope of one record, or of a whole list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Data<T> {
    /// The record or the records.
    pub data: T,
}

/// One page of a longer list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The records of this page, newest first.
    pub data: Vec<T>,
    /// The exact number of records on all pages.
    pub count: u64,
    /// The number of this page, from 1.
    pub page: u64,
    /// The most records on a page.
    pub per_page: u64,
    /// The number of pages; 0 when nothing matches.
    pub total_pages: u64,
}

impl<T> Page<T> {
    /// Returns the envelope for the records of a page.
    pub fn new(data: Vec<T>, count: u64, page: u64, per_page: u64) -> Self {
        let total_pages = count.div_ceil(per_page.max(1));
        Self {
            data,
            count,
            page,
            per_page,
            total_pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted() {
        for (count, per_page, pages) in [
            (0, 25, 0),
            (1, 25, 1),
            (24, 25, 1),
            (25, 25, 1),
            (26, 25, 2),
            (101, 100, 2),
            (u64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(
                Page::<()>::new(vec![], count, 1, per_page).total_pages,
                pages
            );
        }
    }
}
