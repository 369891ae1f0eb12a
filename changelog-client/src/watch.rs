//! Changes as they are recorded, for as long as somebody listens.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;

use backon::ExponentialBackoff;
use bytes::Bytes;
use futures_util::stream::try_unfold;
use futures_util::{Stream, StreamExt};
use sseer::EventStream;
use sseer::errors::EventStreamError;
use tokio::time::sleep;

use changelog_core::{Change, ChangeFilter, ChangeId, HostId, RiskLevel, ServiceId, Status};

use crate::client::Client;
use crate::error::{Error, TransportError, TransportErrorKind, UnexpectedResponse, excerpt};
use crate::send::Call;

/// How many changes are remembered, so that one that comes again is dropped.
const REMEMBERED: usize = 20_000;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;
type OnInterruption = Box<dyn FnMut(&Error) + Send>;

/// A change that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watched {
    /// The change, as it was when it was told of.
    pub change: Change,
    /// Where to continue after it, for [`WatchChanges::after`].
    pub cursor: String,
}

/// Changes that are to be watched; [`WatchChanges::stream`] does it.
#[must_use = "nothing is sent until `stream`"]
pub struct WatchChanges {
    client: Client,
    filter: ChangeFilter,
    after: Option<String>,
    on_interruption: Option<OnInterruption>,
}

impl fmt::Debug for WatchChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchChanges")
            .field("client", &self.client)
            .field("filter", &self.filter)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl WatchChanges {
    pub(crate) fn new(client: Client, filter: ChangeFilter) -> Self {
        Self {
            client,
            filter,
            after: None,
            on_interruption: None,
        }
    }

    /// Only those whose title has, for every word of this, a word that begins so.
    pub fn q(mut self, words: impl Into<String>) -> Self {
        self.filter.q = Some(words.into());
        self
    }

    /// Only of this service.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.filter.service_id = Some(id);
        self
    }

    /// Only on this host.
    pub fn host(mut self, id: HostId) -> Self {
        self.filter.host_id = Some(id);
        self
    }

    /// Only of this risk.
    pub fn risk_level(mut self, risk: RiskLevel) -> Self {
        self.filter.risk_level = Some(risk);
        self
    }

    /// Only of this status.
    pub fn status(mut self, status: Status) -> Self {
        self.filter.status = Some(status);
        self
    }

    /// Only with this tag; set more than once, only with all of them.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.filter.tags.push(tag.into());
        self
    }

    /// Continues after a change that came before: what was recorded since then
    /// comes too, and what was recorded in the minute before it may come again.
    /// A cursor is good for 7 days.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.after = Some(cursor.into());
        self
    }

    /// Calls this with the cause whenever the connection is lost, once until it
    /// is there again.
    pub fn on_interruption(mut self, call: impl FnMut(&Error) + Send + 'static) -> Self {
        self.on_interruption = Some(Box::new(call));
        self
    }

    /// Reads changes in the order in which they are recorded, without an end.
    ///
    /// A connection that breaks, or is silent for 45 s, is made again, and goes
    /// on where it was, so that nothing is missed; what comes twice is dropped.
    /// The first connection is tried as often as any request. After an error
    /// that waiting does not mend the stream has ended.
    pub fn stream(self) -> impl Stream<Item = Result<Watched, Error>> + Send + Unpin {
        let delays = self.client.inner.retry.delays();
        let follow = Follow {
            client: self.client,
            query: self.filter.to_stream_query(),
            cursor: self.after,
            events: None,
            known: Known::default(),
            delays,
            is_interrupted: false,
            on_interruption: self.on_interruption,
        };
        Box::pin(try_unfold(follow, |mut follow| async move {
            let watched = follow.next().await?;
            Ok(Some((watched, follow)))
        }))
    }
}

/// How far a stream has come.
struct Follow {
    client: Client,
    query: String,
    cursor: Option<String>,
    events: Option<EventStream<Chunks>>,
    known: Known,
    /// The waits until the next connection: few until there was one, then
    /// without an end.
    delays: ExponentialBackoff,
    is_interrupted: bool,
    on_interruption: Option<OnInterruption>,
}

impl Follow {
    async fn next(&mut self) -> Result<Watched, Error> {
        loop {
            let Some(events) = &mut self.events else {
                self.connect().await?;
                continue;
            };
            let error = match events.next().await {
                Some(Ok(event)) => {
                    self.is_interrupted = false;
                    self.delays = self.client.inner.retry.endless_delays();
                    if !event.id.is_empty() {
                        self.cursor = Some(event.id.to_string());
                    }
                    if &*event.event != "change" {
                        continue;
                    }
                    let change: Change = serde_json::from_str(&event.data)
                        .map_err(|error| unexpected(&error, &event.data))?;
                    if self.known.is_new(change.id) {
                        let cursor = self.cursor.clone().unwrap_or_default();
                        return Ok(Watched { change, cursor });
                    }
                    continue;
                }
                Some(Err(EventStreamError::Transport(error))) => error,
                Some(Err(error)) => return Err(unexpected(&error, "")),
                None => {
                    let message = "the service ended the stream".to_owned();
                    TransportError::new(TransportErrorKind::Disconnected, message).into()
                }
            };
            self.events = None;
            self.wait(error).await?;
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let call = Call::get(&["changes", "stream"])
            .query(self.query.clone())
            .after(self.cursor.clone());
        match self.client.open(&call).await {
            Ok(chunks) => {
                let chunks: Chunks = Box::pin(chunks);
                self.events = Some(EventStream::new(chunks));
                Ok(())
            }
            Err(error) => self.wait(error).await,
        }
    }

    /// Waits after a failure, if waiting may mend it.
    async fn wait(&mut self, error: Error) -> Result<(), Error> {
        let delay = error.is_transient().then(|| self.delays.next()).flatten();
        let Some(delay) = delay else {
            return Err(error);
        };
        if !self.is_interrupted
            && let Some(call) = &mut self.on_interruption
        {
            call(&error);
        }
        self.is_interrupted = true;
        sleep(delay.max(error.retry_after().unwrap_or_default())).await;
        Ok(())
    }
}

fn unexpected(error: &dyn fmt::Display, data: &str) -> Error {
    UnexpectedResponse {
        status: 200,
        request_id: None,
        message: error.to_string(),
        excerpt: excerpt(data.as_bytes()),
    }
    .into()
}

/// The changes that came last.
#[derive(Default)]
struct Known {
    ids: HashSet<ChangeId>,
    order: VecDeque<ChangeId>,
}

impl Known {
    /// Tells whether a change has not come before, as far as is remembered.
    fn is_new(&mut self, id: ChangeId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}
