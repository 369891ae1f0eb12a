//! Receives changes as they are created and updated.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use backon::ExponentialBackoff;
use changelog_core::{ActivityId, Change, ChangeEvent, ChangeUpdate, Differences, Timestamp};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::events::{Event, EventParser};
use super::query::ChangeQuery;
use crate::error::{Error, TransportError, TransportErrorKind, UnexpectedResponse, excerpt};
use crate::mode::{Async, Mode, Sender};
use crate::request::ApiRequest;
use crate::transport::{ByteStream, Transport};

/// How many of the last events are remembered, to drop repetitions.
const MAX_REMEMBERED: usize = 20_000;

type OnDisconnect = Box<dyn FnMut(&Error) + Send>;

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
    after: Option<String>,
    /// Nothing that was recorded earlier is received, in milliseconds since 1970.
    start: Option<u64>,
    on_disconnect: Option<OnDisconnect>,
}

impl<M: Mode> WatchChanges<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            query: ChangeQuery::new(),
            updates: false,
            after: None,
            start: None,
            on_disconnect: None,
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
        self.after = Some(cursor.into());
        self
    }

    /// Begins with what was recorded since a time, at most 7 days ago; with what is new
    /// only by default.
    pub fn since(mut self, at: Timestamp) -> Self {
        let millis = u64::try_from(at.millis()).unwrap_or_default();
        let position = uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid();
        self.after = Some(position.to_string());
        self.start = Some(millis);
        self
    }

    /// Sets a function to call with the cause when the connection is lost or
    /// cannot be opened. It is called once until events arrive again.
    pub fn on_disconnect(mut self, call: impl FnMut(&Error) + Send + 'static) -> Self {
        self.on_disconnect = Some(Box::new(call));
        self
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn mode(&self) -> &M {
        &self.sender.mode
    }

    pub(crate) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<WatchedChange, Error>> + Send + Unpin + 'static {
        let watcher = Watcher {
            delays: self.sender.transport.settings().retry.delays(),
            transport: self.sender.transport,
            query: self.query.into_watch(self.updates).to_query(),
            is_from_now: self.after.is_none(),
            start: self.start,
            cursor: self.after,
            connection: None,
            recent: RecentIds::default(),
            is_disconnected: false,
            on_disconnect: self.on_disconnect,
        };
        Box::pin(try_unfold(watcher, |mut watcher| async move {
            let change = watcher.next().await?;
            Ok(Some((change, watcher)))
        }))
    }
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
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// The state of a stream of changes.
struct Watcher {
    transport: Transport,
    query: String,
    /// Whether only what is new is wanted.
    is_from_now: bool,
    /// The time of the first position, in milliseconds since 1970. A later connection may
    /// repeat what was recorded in the minute before its position, and so before the watch
    /// began.
    start: Option<u64>,
    /// The id of the last event.
    cursor: Option<String>,
    connection: Option<Connection>,
    recent: RecentIds,
    /// The delays before the next attempts to connect.
    delays: ExponentialBackoff,
    is_disconnected: bool,
    on_disconnect: Option<OnDisconnect>,
}

struct Connection {
    body: ByteStream,
    parser: EventParser,
}

impl Watcher {
    async fn next(&mut self) -> Result<WatchedChange, Error> {
        loop {
            let event = match &mut self.connection {
                Some(connection) => connection.next_event().await,
                None => self.connect().await.map(|()| None),
            };
            match event {
                Ok(Some(event)) => {
                    if let Some(change) = self.receive(event)? {
                        return Ok(change);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.connection = None;
                    self.wait(error).await?;
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let request = ApiRequest::get(&["changes", "stream"])
            .query(self.query.clone())
            .last_event_id(self.cursor.clone());
        self.connection = Some(Connection {
            body: self.transport.open_stream(&request).await?,
            parser: EventParser::default(),
        });
        Ok(())
    }

    /// Takes note of an event, and returns its change if it is a new one.
    fn receive(&mut self, event: Event) -> Result<Option<WatchedChange>, Error> {
        self.is_disconnected = false;
        self.delays = self.transport.settings().retry.reconnect_delays();
        if !event.id.is_empty() {
            if self.is_from_now && self.start.is_none() {
                self.start = event.id.parse().ok().and_then(millis);
            }
            self.cursor = Some(event.id);
        }
        let (change, update) = if event.name == ChangeEvent::Created.event_name() {
            (read::<Change>(&event.data)?, None)
        } else if event.name == ChangeEvent::Updated.event_name() {
            let ChangeUpdate { change, changes } = read(&event.data)?;
            (change, Some(changes))
        } else {
            return Ok(None);
        };
        let cursor = self.cursor.clone().unwrap_or_default();
        let id: ActivityId = cursor
            .parse()
            .map_err(|_| unexpected_event("the id is not that of an event".to_owned(), &cursor))?;
        if self.start.is_some() && millis(id) < self.start {
            return Ok(None);
        }
        Ok(self.recent.insert(id).then_some(WatchedChange {
            change,
            update,
            cursor,
        }))
    }

    /// Waits before the next attempt to connect. Returns the error if that would
    /// not help.
    async fn wait(&mut self, error: Error) -> Result<(), Error> {
        let delay = error.is_transient().then(|| self.delays.next()).flatten();
        let Some(delay) = delay else {
            return Err(error);
        };
        if !self.is_disconnected
            && let Some(call) = &mut self.on_disconnect
        {
            call(&error);
        }
        self.is_disconnected = true;
        sleep(delay.max(error.retry_after().unwrap_or_default())).await;
        Ok(())
    }
}

impl Connection {
    /// Returns the next event, or `None` if none is complete yet.
    async fn next_event(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.parser.pop() {
            return Ok(Some(event));
        }
        let Some(bytes) = self.body.next_chunk().await? else {
            let message = "the service closed the stream".to_owned();
            return Err(TransportError::new(TransportErrorKind::Disconnected, message).into());
        };
        self.parser
            .push(&bytes)
            .map_err(|error| unexpected_event(error.to_string(), ""))?;
        Ok(self.parser.pop())
    }
}

/// Returns the time in an id, in milliseconds since 1970.
fn millis(id: ActivityId) -> Option<u64> {
    let (seconds, nanoseconds) = id.0.get_timestamp()?.to_unix();
    Some(seconds * 1000 + u64::from(nanoseconds / 1_000_000))
}

/// Reads the data of an event.
fn read<T: DeserializeOwned>(data: &str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|error| unexpected_event(error.to_string(), data))
}

fn unexpected_event(message: String, data: &str) -> Error {
    UnexpectedResponse {
        status: 200,
        request_id: None,
        message,
        excerpt: excerpt(data.as_bytes()),
    }
    .into()
}

/// The ids of the events that were received last.
#[derive(Default)]
struct RecentIds {
    ids: HashSet<ActivityId>,
    oldest_first: VecDeque<ActivityId>,
}

impl RecentIds {
    /// Adds an id, and returns whether it is new.
    fn insert(&mut self, id: ActivityId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.oldest_first.push_back(id);
        if self.oldest_first.len() > MAX_REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}
