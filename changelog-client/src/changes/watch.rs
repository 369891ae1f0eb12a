//! Receives changes as they are created and updated.

use std::fmt;

use changelog_core::{Change, ChangeEvent, ChangeUpdate, Differences, Timestamp};
use futures_util::{Stream, TryStreamExt};

use super::events::Event;
use super::query::ChangeQuery;
use super::watcher::{WatchStart, Watcher, read};
use crate::error::Error;
use crate::mode::{Async, Mode, Sender};

/// A change that was created or updated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedChange {
    /// The change, as it was when the service sent it.
    pub change: Change,
    /// What the update changed; `None` when the change was created.
    pub update: Option<Differences>,
    /// The position after this change, for [`WatchChanges::after`].
    pub cursor: String,
}

/// A subscription to changes; nothing is sent until the [`WatchChanges::stream`]
/// is polled.
#[must_use = "nothing is sent until `stream`"]
pub struct WatchChanges<M = Async> {
    sender: Sender<M>,
    query: ChangeQuery,
    updates: bool,
    start: WatchStart,
}

impl<M: Mode> WatchChanges<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            query: ChangeQuery::new(),
            updates: false,
            start: WatchStart::default(),
        }
    }

    /// Sets which changes to receive; all by default. [`ChangeQuery::since`] and
    /// [`ChangeQuery::until`] are ignored.
    pub fn matching(mut self, query: ChangeQuery) -> Self {
        self.query = query;
        self
    }

    /// Sets whether to receive updates of changes, too; new changes only by default.
    /// Each update is received once, with the change in its present state, if that
    /// matches.
    pub fn updates(mut self, updates: bool) -> Self {
        self.updates = updates;
        self
    }

    /// Continues after an earlier change, with what was recorded since then; with what
    /// is new only by default. What was recorded in the minute before the cursor may be
    /// repeated. A cursor is valid for 7 days.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.start.after = Some(cursor.into());
        self
    }

    /// Begins with what was recorded since a time, at most 7 days ago; with what is new
    /// only by default.
    pub fn since(mut self, at: Timestamp) -> Self {
        self.start.set_since(at);
        self
    }

    /// Sets a function to call with the cause when the connection is lost or
    /// cannot be opened. It is called once until events arrive again.
    pub fn on_disconnect(mut self, call: impl FnMut(&Error) + Send + 'static) -> Self {
        self.start.on_disconnect = Some(Box::new(call));
        self
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn mode(&self) -> &M {
        &self.sender.mode
    }

    pub(crate) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<WatchedChange, Error>> + Send + Unpin + 'static {
        let updated = self.updates.then_some(ChangeEvent::Updated);
        let events = [ChangeEvent::Created].into_iter().chain(updated);
        let query = self.query.watch_query(events);
        let watcher = Watcher::new(self.sender, query, self.start, read_change);
        watcher
            .into_stream()
            .map_ok(|((change, update), cursor)| WatchedChange {
                change,
                update,
                cursor,
            })
    }
}

/// Reads a change, and what an update changed.
fn read_change(event: &Event) -> Result<Option<(Change, Option<Differences>)>, Error> {
    Ok(if event.name == ChangeEvent::Created.event_name() {
        Some((read(&event.data)?, None))
    } else if event.name == ChangeEvent::Updated.event_name() {
        let ChangeUpdate { change, changes } = read(&event.data)?;
        Some((change, Some(changes)))
    } else {
        None
    })
}

impl WatchChanges {
    /// Returns a stream of changes in the order in which they, and their updates, are
    /// recorded. It has no end, but ends after an error.
    ///
    /// If the connection is lost, or nothing arrives for 45 s, the stream
    /// connects again and continues where it was: it misses nothing, and drops
    /// what is repeated. The first connection is retried like any request,
    /// later ones without a limit. An error that is not
    /// [transient](Error::is_transient) is returned.
    pub fn stream(
        self,
    ) -> impl Stream<Item = Result<WatchedChange, Error>> + Send + Unpin + 'static {
        self.into_stream()
    }
}

impl<M: Mode> fmt::Debug for WatchChanges<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchChanges")
            .field("sender", &self.sender)
            .field("query", &self.query)
            .field("updates", &self.updates)
            .field("after", &self.start.after)
            .finish_non_exhaustive()
    }
}
