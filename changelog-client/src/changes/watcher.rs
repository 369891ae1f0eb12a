//! Receives events of the stream of changes, and continues after the connection was lost.

use std::collections::{HashSet, VecDeque};

use backon::ExponentialBackoff;
use changelog_core::{ActivityId, Timestamp};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::events::{Event, EventParser};
use crate::error::{Error, TransportError, TransportErrorKind, UnexpectedResponse, excerpt};
use crate::mode::{Mode, Sender};
use crate::request::ApiRequest;
use crate::transport::{ByteStream, Transport};

/// How many of the last events are remembered, to drop repetitions.
const MAX_REMEMBERED: usize = 20_000;

pub(crate) type OnDisconnect = Box<dyn FnMut(&Error) + Send>;

/// Where a watch begins, and what is called when the connection is lost.
#[derive(Default)]
pub(crate) struct WatchStart {
    pub(crate) after: Option<String>,
    /// Nothing that was recorded earlier is received, in milliseconds since 1970.
    millis: Option<u64>,
    pub(crate) on_disconnect: Option<OnDisconnect>,
}

impl WatchStart {
    /// Begins with what was recorded since a time.
    pub(crate) fn set_since(&mut self, at: Timestamp) {
        let millis = u64::try_from(at.millis()).unwrap_or_default();
        let position = uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid();
        self.after = Some(position.to_string());
        self.millis = Some(millis);
    }
}

/// Reads the data of an event; `None` if the watch does not want it.
pub(crate) type ReadEvent<T> = fn(&Event) -> Result<Option<T>, Error>;

/// The state of a watch for `T`.
pub(crate) struct Watcher<T> {
    read: ReadEvent<T>,
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

impl<T: Send + 'static> Watcher<T> {
    /// Prepares to watch the events that a query selects.
    pub(crate) fn new<M: Mode>(
        sender: Sender<M>,
        query: String,
        start: WatchStart,
        read: ReadEvent<T>,
    ) -> Self {
        Self {
            read,
            delays: sender.transport.settings().retry.delays(),
            transport: sender.transport,
            query,
            is_from_now: start.after.is_none(),
            start: start.millis,
            cursor: start.after,
            connection: None,
            recent: RecentIds::default(),
            is_disconnected: false,
            on_disconnect: start.on_disconnect,
        }
    }

    /// Returns what is received, each with the position after it.
    pub(crate) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<(T, String), Error>> + Send + Unpin + 'static {
        Box::pin(try_unfold(self, |mut watcher| async move {
            let received = watcher.next().await?;
            Ok(Some((received, watcher)))
        }))
    }

    async fn next(&mut self) -> Result<(T, String), Error> {
        loop {
            let event = match &mut self.connection {
                Some(connection) => connection.next_event().await,
                None => self.connect().await.map(|()| None),
            };
            match event {
                Ok(Some(event)) => {
                    if let Some(received) = self.receive(&event)? {
                        return Ok(received);
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

    /// Takes note of an event, and returns what it has if that is new.
    fn receive(&mut self, event: &Event) -> Result<Option<(T, String)>, Error> {
        self.is_disconnected = false;
        self.delays = self.transport.settings().retry.reconnect_delays();
        if !event.id.is_empty() {
            if self.is_from_now && self.start.is_none() {
                self.start = event.id.parse().ok().and_then(millis);
            }
            self.cursor = Some(event.id.clone());
        }
        let Some(received) = (self.read)(event)? else {
            return Ok(None);
        };
        let cursor = self.cursor.clone().unwrap_or_default();
        let id: ActivityId = cursor
            .parse()
            .map_err(|_| unexpected_event("the id is not that of an event".to_owned(), &cursor))?;
        if self.start.is_some() && millis(id) < self.start {
            return Ok(None);
        }
        Ok(self.recent.insert(id).then_some((received, cursor)))
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
pub(crate) fn read<T: DeserializeOwned>(data: &str) -> Result<T, Error> {
    serde_json::from_str(data).map_err(|error| unexpected_event(error.to_string(), data))
}

fn unexpected_event(message: String, data: &str) -> Error {
    UnexpectedResponse {
        status: 200,
        request_id: None,
        message,
        is_too_large: false,
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
