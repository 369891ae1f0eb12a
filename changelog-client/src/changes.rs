//! The endpoints for changes.

mod around;
mod create;
pub(crate) mod events;
mod list;
mod query;
mod update;
mod watch;
pub(crate) mod watcher;

use changelog_core::{Change, ChangeHistory, ChangeId, ChangePatch, NewChange, UpcomingFilter};

pub use self::around::AroundChanges;
pub use self::create::{CreateChange, CreateChanges};
pub use self::list::ListChanges;
pub use self::query::ChangeQuery;
pub use self::update::UpdateChange;
pub use self::watch::{WatchChanges, WatchedChange};
use crate::mode::{Async, Mode, Sender};
use crate::request::ApiRequest;

/// The endpoints for changes; see [`Client::changes`](crate::Client::changes).
#[derive(Clone, Debug)]
pub struct Changes<M = Async> {
    sender: Sender<M>,
}

impl<M: Mode> Changes<M> {
    pub(crate) fn new(sender: Sender<M>) -> Self {
        Self { sender }
    }

    /// Prepares to create a change with a title of
    /// [`MIN_TITLE_CHARS`](crate::limits::MIN_TITLE_CHARS) to
    /// [`MAX_TITLE_CHARS`](crate::limits::MAX_TITLE_CHARS) characters.
    pub fn create(&self, title: impl Into<String>) -> CreateChange<M> {
        self.create_from(NewChange {
            title: title.into(),
            ..NewChange::default()
        })
    }

    /// Prepares to create a change from its fields.
    pub fn create_from(&self, change: NewChange) -> CreateChange<M> {
        CreateChange::new(self.sender.clone(), change)
    }

    /// Prepares to create several changes in one request: 1 to
    /// [`MAX_BULK_CHANGES`](crate::limits::MAX_BULK_CHANGES), at most 256 KiB as JSON.
    pub fn create_many(&self, changes: impl IntoIterator<Item = NewChange>) -> CreateChanges<M> {
        CreateChanges::new(self.sender.clone(), changes.into_iter().collect())
    }

    /// Prepares to list changes, newest first: all of them, or those that match
    /// a [`ChangeQuery`].
    pub fn list(&self) -> ListChanges<M> {
        ListChanges::new(self.sender.clone())
    }

    /// Prepares to receive changes as they are recorded, and
    /// [updated](WatchChanges::updates): all of them, or those that match a
    /// [`ChangeQuery`].
    pub fn watch(&self) -> WatchChanges<M> {
        WatchChanges::new(self.sender.clone())
    }

    /// Prepares to rank the changes before a moment by how likely they are the
    /// cause of an incident at that moment.
    pub fn around(&self) -> AroundChanges<M> {
        AroundChanges::new(self.sender.clone())
    }

    /// Lists the planned changes that have a scheduled time, the earliest first, so that
    /// overdue ones come first; at most `limit`, which is 1 to 100.
    pub fn upcoming(&self, limit: u64) -> M::Response<Vec<Change>> {
        let query = UpcomingFilter { limit }.to_query();
        self.sender
            .data(Ok(ApiRequest::get(&["changes", "upcoming"]).query(query)))
    }

    /// Gets a change.
    pub fn get(&self, id: ChangeId) -> M::Response<Change> {
        self.sender
            .data(Ok(ApiRequest::get(&["changes", &id.to_string()])))
    }

    /// Gets what was done to a change, when and by whom.
    pub fn history(&self, id: ChangeId) -> M::Response<ChangeHistory> {
        self.sender.data(Ok(ApiRequest::get(&[
            "changes",
            &id.to_string(),
            "history",
        ])))
    }

    /// Prepares to update a change.
    pub fn update(&self, id: ChangeId) -> UpdateChange<M> {
        self.update_with(id, ChangePatch::default())
    }

    /// Prepares to update a change with a patch.
    pub fn update_with(&self, id: ChangeId, patch: ChangePatch) -> UpdateChange<M> {
        UpdateChange::new(self.sender.clone(), id, patch)
    }
}
