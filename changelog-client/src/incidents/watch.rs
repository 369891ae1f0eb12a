//! Receives incidents as they are opened, changed and resolved.

use std::fmt;

use changelog_core::{ChangeEvent, Incident, Timestamp};
use futures_util::{Stream, TryStreamExt};

use crate::changes::ChangeQuery;
use crate::changes::events::Event;
use crate::changes::watcher::{WatchStart, Watcher, read};
use crate::error::Error;
use crate::mode::{Async, Mode, Sender};

/// An incident that was opened or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedIncident {
    /// The incident as it was when the service sent it, with its first three suspects.
    pub incident: Incident,
    /// The position after this event, for [`WatchIncidents::after`].
    pub cursor: String,
}

/// A subscription to incidents; nothing is sent until the [`WatchIncidents::stream`] is
/// polled.
#[must_use = "nothing is sent until `stream`"]
pub struct WatchIncidents<M = Async> {
    sender: Sender<M>,
    query: ChangeQuery,
    start: WatchStart,
}

impl<M: Mode> WatchIncidents<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            query: ChangeQuery::new(),
            start: WatchStart::default(),
        }
    }

    /// Sets which incidents to receive; all by default. Only [`ChangeQuery::service`] and
    /// [`ChangeQuery::environment`] select incidents.
    pub fn matching(mut self, query: ChangeQuery) -> Self {
        self.query = query;
        self
    }

    /// Continues after an earlier event. What was recorded in the minute before the cursor may
    /// be repeated. A cursor is valid for 7 days.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.start.after = Some(cursor.into());
        self
    }

    /// Begins with what was recorded since a time, at most 7 days ago; with what is new only
    /// by default.
    pub fn since(mut self, at: Timestamp) -> Self {
        self.start.set_since(at);
        self
    }

    /// Sets a function to call with the cause when the connection is lost or cannot be opened.
    /// It is called once until events arrive again.
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
    ) -> impl Stream<Item = Result<WatchedIncident, Error>> + Send + Unpin + 'static {
        let query = self.query.watch_query([ChangeEvent::Incident]);
        let watcher = Watcher::new(self.sender, query, self.start, read_incident);
        watcher
            .into_stream()
            .map_ok(|(incident, cursor)| WatchedIncident { incident, cursor })
    }
}

impl WatchIncidents {
    /// Returns a stream of incidents, one item each time one is opened, changed or resolved,
    /// or its suspects are ranked. It reconnects and ends like that of
    /// [`WatchChanges::stream`](crate::WatchChanges::stream).
    pub fn stream(
        self,
    ) -> impl Stream<Item = Result<WatchedIncident, Error>> + Send + Unpin + 'static {
        self.into_stream()
    }
}

impl<M: Mode> fmt::Debug for WatchIncidents<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchIncidents")
            .field("sender", &self.sender)
            .field("query", &self.query)
            .field("after", &self.start.after)
            .finish_non_exhaustive()
    }
}

fn read_incident(event: &Event) -> Result<Option<Incident>, Error> {
    if event.name == ChangeEvent::Incident.event_name() {
        return read(&event.data).map(Some);
    }
    Ok(None)
}
