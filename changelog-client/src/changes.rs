//! The endpoints for changes.

mod around;
mod create;
mod events;
mod list;
mod query;
mod update;
mod watch;

use changelog_core::{Change, ChangeHistory, ChangeId, ChangePatch, NewChange, UpcomingFilter};

pub use self::around::AroundChanges;
pub use self::create::{CreateChange, CreateChanges};
pub use self::list::ListChanges;
pub use self::query::ChangeQuery;
pub use self::update::UpdateChange;
pub use self::watch::{WatchChanges, WatchedChange};
use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for changes; see [`Client::changes`](crate::Client::changes).
#[derive(Clone, Debug)]
pub struct Changes {
    transport: Transport,
}

impl Changes {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Prepares to create a change with a title of
    /// [`MIN_TITLE_CHARS`](crate::limits::MIN_TITLE_CHARS) to
    /// [`MAX_TITLE_CHARS`](crate::limits::MAX_TITLE_CHARS) characters.
    pub fn create(&self, title: impl Into<String>) -> CreateChange {
        self.create_from(NewChange {
            title: title.into(),
            ..NewChange::default()
        })
    }

    /// Prepares to create a change from its fields.
    pub fn create_from(&self, change: NewChange) -> CreateChange {
        CreateChange::new(self.transport.clone(), change)
    }

    /// Prepares to create several changes in one request: 1 to
    /// [`MAX_BULK_CHANGES`](crate::limits::MAX_BULK_CHANGES), at most 256 KiB as JSON.
    pub fn create_many(&self, changes: impl IntoIterator<Item = NewChange>) -> CreateChanges {
        CreateChanges::new(self.transport.clone(), changes.into_iter().collect())
    }

    /// Prepares to list changes, newest first: all of them, or those that match
    /// a [`ChangeQuery`].
    pub fn list(&self) -> ListChanges {
        ListChanges::new(self.transport.clone())
    }

    /// Prepares to receive changes as they are recorded, and
    /// [updated](WatchChanges::updates): all of them, or those that match a
    /// [`ChangeQuery`].
    pub fn watch(&self) -> WatchChanges {
        WatchChanges::new(self.transport.clone())
    }

    /// Prepares to rank the changes before a moment by how likely they are the
    /// cause of an incident at that moment.
    pub fn around(&self) -> AroundChanges {
        AroundChanges::new(self.transport.clone())
    }

    /// Lists the planned changes that have a scheduled time, the earliest first, so that
    /// overdue ones come first; at most `limit`, which is 1 to 100.
    pub fn upcoming(
        &self,
        limit: u64,
    ) -> impl Future<Output = Result<Vec<Change>, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            let query = UpcomingFilter { limit }.to_query();
            let request = ApiRequest::get(&["changes", "upcoming"]).query(query);
            transport.send_for_data(&request).await
        }
    }

    /// Gets a change.
    pub fn get(&self, id: ChangeId) -> impl Future<Output = Result<Change, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            let request = ApiRequest::get(&["changes", &id.to_string()]);
            transport.send_for_data(&request).await
        }
    }

    /// Gets what was done to a change, when and by whom.
    pub fn history(
        &self,
        id: ChangeId,
    ) -> impl Future<Output = Result<ChangeHistory, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            let request = ApiRequest::get(&["changes", &id.to_string(), "history"]);
            transport.send_for_data(&request).await
        }
    }

    /// Prepares to update a change.
    pub fn update(&self, id: ChangeId) -> UpdateChange {
        self.update_with(id, ChangePatch::default())
    }

    /// Prepares to update a change with a patch.
    pub fn update_with(&self, id: ChangeId, patch: ChangePatch) -> UpdateChange {
        UpdateChange::new(self.transport.clone(), id, patch)
    }
}
