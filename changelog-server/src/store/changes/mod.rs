//! Changes.
//!
//! A change is stored as the JSON that responses contain, so that reading it needs no
//! decoding or encoding; the other columns are there to find it. Services, the host and
//! the person that recorded it are inserted on reading ([`document`]), because their names
//! may change.
//!
//! A change is found by its id through the [sort key](super::index::sort_key) that the
//! id determines. The few changes that were started at another time than they were
//! recorded for have another sort key; a second statement finds them by `moved_id`.

mod by_id;
pub(super) mod candidates;
pub(super) mod create;
mod delete;
mod document;
mod draft;
pub(super) mod list;
mod lock;
mod named;
mod replace_taken_ids;
mod row;
mod schedule;
mod update;

use changelog_core::Change;

use super::StoreError;

pub(super) use by_id::batcher;
pub use candidates::{CandidateSource, NewestOf};
pub use create::{Created, Creation};
pub use draft::Draft;
pub use list::{ChangeList, ChangesJson};

/// A change as JSON, in its detail shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeJson(pub String);

impl ChangeJson {
    /// Parses the change.
    pub fn parse(&self) -> Result<Change, StoreError> {
        serde_json::from_str(&self.0).map_err(|error| broken(&error))
    }
}

/// Returns the error for a stored change that cannot be parsed.
pub(super) fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Database(std::sync::Arc::new(sqlx::Error::Decode(
        format!("a stored change cannot be parsed: {error}").into(),
    )))
}
