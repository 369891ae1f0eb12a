//! `/api/changes/stream`: changes as they are created and updated, as server-sent
//! events.
//!
//! A stream sends those events of [`crate::change_streams`] that match its filter. A
//! stream that starts at an earlier position, or that has become too slow, first reads
//! what it has missed from the database at its own pace, so that nothing is
//! buffered for it.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use changelog_core::headers::LAST_EVENT_ID;
use changelog_core::{ActivityId, ProblemCode, StreamFilter, Timestamp};
use chrono::TimeDelta;
use futures_util::stream::try_unfold;
use http::{Method, header};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::caller::{Caller, Credential};
use super::openapi::parameters::{Events, Selection};
use crate::app::App;
use crate::change_streams::{StreamEvent, SubscribeError, Subscription};
use crate::response_memory::{self, Holder};
use crate::store::change_notifier::StreamEntry;
use crate::store::recorded_changes::{Recorded, RecordedChange, overlap_start, time_of};
use crate::store::{ChangeMatcher, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, reply};

/// How old a position may be.
const MAX_POSITION_AGE: TimeDelta = TimeDelta::days(7);
/// How often a stream checks that its API key or token is still valid.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A stream that has sent nothing for this long sends a comment.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The limit on events that are read and sent together.
const MAX_BATCH: usize = 64;
/// The largest event, in bytes: a change, and what an update changed, of which the
/// activity log has excerpts.
const MAX_EVENT_BYTES: usize = response_memory::MAX_CHANGE_BYTES + 64 * 1024;
/// How many sent entries are remembered, so that they are not sent again when the
/// overlap is read.
const MAX_REMEMBERED: usize = 10_000;
/// The `Retry-After` of a client that gets no stream, in seconds.
const RETRY_AFTER: u64 = 10;

/// Streams changes as they are created and updated, in the order of recording.
///
/// Server-sent events with a position as `id`: `event: change` with a new change in
/// full as `data`; `event: updated` with `{"change": …, "changes": {field: {"from": …,
/// "to": …}}}`, the change in its present state and what this update changed;
/// `event: incident` with an incident in its present state, when it was opened, updated or
/// resolved, or its suspects were ranked;
/// `event: position` at the beginning and from time to time, without a change; a
/// comment every 15 s. Reconnecting with the header `Last-Event-ID` loses nothing, but
/// may repeat events of the minute before that position, with the same ids.
#[utoipa::path(get, path = "/api/changes/stream", tag = "changes", operation_id = "watch_changes",
    params(
        Selection,
        Events,
        ("Last-Event-ID" = Option<ActivityId>, Header,
            description = "Continue after this position: the id of the last event received, at most \
                           7 days old; after one in the future, the events of the last minute come again"),
    ),
    responses((status = 200, description = "Events, until either side closes the connection", body = String,
        content_type = "text/event-stream")))]
pub(super) async fn watch(app: App, caller: Caller, request: Request) -> ApiResult {
    let filter = request.filter(StreamFilter::from_query)?;
    let after = last_event_id(&request, app.now().into())?;
    if request.method == Method::HEAD {
        return Ok(reply::text(200, reply::EVENT_STREAM, String::new()));
    }
    let subscription = app
        .change_streams
        .subscribe(
            caller.tenant,
            request.context.address,
            filter.events.clone(),
        )
        .await?;
    let credential = Credential::of(&request);
    let stream = EventStream::new(app, caller.tenant, credential, filter, subscription, after);
    let chunks = try_unfold(stream, |mut stream| async move {
        Ok(stream.next().await?.map(|chunk| (chunk, stream)))
    });
    Ok(reply::event_stream(chunks))
}

impl From<SubscribeError> for ApiError {
    fn from(error: SubscribeError) -> Self {
        match error {
            SubscribeError::TooMany { .. } => {
                let detail = format!("{error}; end one, or try again later");
                Self::new(ProblemCode::TooManyRequests, detail)
                    .with_header(header::RETRY_AFTER, RETRY_AFTER.to_string())
            }
            SubscribeError::NotReady => Self::unavailable(&error),
        }
    }
}

/// Reads the position to continue from; `None` to start now.
fn last_event_id(request: &Request, now: Timestamp) -> Result<Option<ActivityId>, ApiError> {
    let malformed = |detail: &str| {
        let detail = format!("the header {LAST_EVENT_ID} {detail}");
        Err(ApiError::new(ProblemCode::MalformedHeader, detail))
    };
    if !request.headers.contains_key(LAST_EVENT_ID) {
        return Ok(None);
    }
    let Some(text) = request.header(LAST_EVENT_ID) else {
        return malformed("must be given once and hold the id of an event");
    };
    if text.is_empty() {
        return Ok(None);
    }
    let position = text.parse().ok();
    let Some(position) = position.filter(|id: &ActivityId| id.0.get_version_num() == 7) else {
        return malformed("must be the id of an event of this stream");
    };
    if time_of(position) < now.plus(-MAX_POSITION_AGE) {
        return malformed(
            "is more than 7 days old; read what was missed with GET /api/changes, and start again \
             without the header",
        );
    }
    Ok(Some(position))
}

/// One stream.
struct EventStream {
    app: App,
    tenant: Tenant,
    credential: Credential,
    matcher: ChangeMatcher,
    filter: StreamFilter,
    subscription: Subscription,
    /// What was missed and has to be read, if anything.
    missed: Option<Missed>,
    /// Events that wait for memory.
    unsent: Option<String>,
    /// Everything up to this position was sent, except for the overlap.
    position: ActivityId,
    /// The ids of the entries that were sent last.
    sent: BTreeSet<ActivityId>,
    has_begun: bool,
    next_key_check: Instant,
    last_sent: Instant,
}

/// What a stream has missed: some entries, and all entries from `next` onwards.
struct Missed {
    entries: VecDeque<StreamEntry>,
    next: Option<ActivityId>,
}

impl Missed {
    fn from(next: ActivityId) -> Self {
        Self {
            entries: VecDeque::new(),
            next: Some(next),
        }
    }
}

impl EventStream {
    fn new(
        app: App,
        tenant: Tenant,
        credential: Credential,
        filter: StreamFilter,
        subscription: Subscription,
        after: Option<ActivityId>,
    ) -> Self {
        // A position in the future would hide what is recorded until then.
        let now = subscription.progress();
        let position = after.map_or(now, |after| after.min(now));
        Self {
            app,
            tenant,
            credential,
            matcher: ChangeMatcher::new(&filter.changes),
            filter,
            missed: after.map(|_| Missed::from(overlap_start(time_of(position)))),
            unsent: None,
            subscription,
            position,
            sent: BTreeSet::new(),
            has_begun: false,
            next_key_check: Instant::now() + KEY_CHECK_INTERVAL,
            last_sent: Instant::now(),
        }
    }

    /// Waits for the next part of the body; `None` when the stream has ended.
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if !self.has_begun {
            self.has_begun = true;
            // A client that is cut off before the first change continues here.
            return Ok(Some(position_event(self.position).into()));
        }
        loop {
            if self.subscription.is_shutting_down() {
                return Ok(None);
            }
            if self.next_key_check <= Instant::now() {
                if !self
                    .app
                    .is_still_caller(&self.credential, self.tenant)
                    .await?
                {
                    return Ok(None);
                }
                self.next_key_check = Instant::now() + KEY_CHECK_INTERVAL;
                if self.last_sent.elapsed() >= HEARTBEAT_INTERVAL {
                    self.last_sent = Instant::now();
                    return Ok(Some(self.heartbeat().into()));
                }
            }
            let chunk = if let Some(text) = self.unsent.take() {
                self.with_memory(text).await
            } else if let Some(missed) = self.missed.take() {
                self.read_missed(missed).await?
            } else {
                match self.receive().await {
                    Some(text) => self.with_memory(text).await,
                    None => return Ok(None),
                }
            };
            if !chunk.is_empty() {
                self.last_sent = Instant::now();
                return Ok(Some(chunk));
            }
        }
    }

    /// Returns events as a part of the body once there is memory for them; an empty
    /// part if there is none until the next check of the key.
    async fn with_memory(&mut self, text: String) -> Bytes {
        if text.len() <= response_memory::UNCOUNTED_BYTES {
            return text.into();
        }
        let holder = Holder::Organization(self.tenant);
        let permit = self.app.memory.reserve(holder, text.len(), 0);
        if let Ok(permit) = timeout_at(self.next_key_check, permit).await {
            return permit.fit(text.into());
        }
        self.unsent = Some(text);
        Bytes::new()
    }

    /// Reads some of what was missed once there is memory for it; an empty part if
    /// there is none until the next check of the key.
    async fn read_missed(&mut self, mut missed: Missed) -> Result<Bytes, StoreError> {
        if missed.entries.is_empty()
            && let Some(next) = missed.next.take()
        {
            let batch = self
                .app
                .store
                .stream_entries_from(self.tenant, next)
                .await?;
            missed.next = batch.next;
            missed.entries = batch.entries.into();
            missed
                .entries
                .retain(|entry| self.filter.events.contains(&entry.event));
        }
        let memory = &self.app.memory;
        let count = missed
            .entries
            .len()
            .min(MAX_BATCH)
            .min(memory.items_per_reservation(MAX_EVENT_BYTES));
        let holder = Holder::Organization(self.tenant);
        let permit = memory.reserve(holder, count * MAX_EVENT_BYTES, 0);
        let Ok(permit) = timeout_at(self.next_key_check, permit).await else {
            self.missed = Some(missed);
            return Ok(Bytes::new());
        };
        let mut entries: Vec<StreamEntry> = missed.entries.drain(..count).collect();
        entries.retain(|entry| !self.sent.contains(&entry.id));
        let mut text = String::new();
        for recorded in self.app.store.recorded(self.tenant, &entries).await? {
            self.write(&mut text, &recorded);
        }
        if !missed.entries.is_empty() || missed.next.is_some() {
            self.missed = Some(missed);
        }
        Ok(permit.fit(text.into()))
    }

    /// Waits for events until the next check of the key; `None` when the service
    /// shuts down.
    async fn receive(&mut self) -> Option<String> {
        let mut text = String::new();
        let Ok(event) = timeout_at(self.next_key_check, self.subscription.recv()).await else {
            return Some(text);
        };
        match event? {
            Ok(event) => self.write_event(&mut text, event),
            Err(RecvError::Lagged(_)) => {
                self.missed = Some(Missed::from(overlap_start(time_of(self.position))));
                return Some(text);
            }
            Err(RecvError::Closed) => return None,
        }
        for _ in 1..MAX_BATCH {
            let events = &mut self.subscription.events;
            if events.is_empty()
                || self.missed.is_some()
                || text.len() > response_memory::UNCOUNTED_BYTES
            {
                break;
            }
            let Ok(event) = events.try_recv() else {
                self.missed = Some(Missed::from(overlap_start(time_of(self.position))));
                break;
            };
            self.write_event(&mut text, event);
        }
        Some(text)
    }

    /// Writes an event, or notes that what it is about has to be read.
    fn write_event(&mut self, text: &mut String, event: StreamEvent) {
        match event {
            StreamEvent::Recorded(buffered) => self.write(text, &buffered.recorded),
            StreamEvent::Unbuffered(entry) if self.filter.events.contains(&entry.event) => {
                self.missed = Some(Missed {
                    entries: [entry].into(),
                    next: None,
                });
            }
            StreamEvent::Unbuffered(_) => {}
        }
    }

    /// Writes the event of what was recorded, if it matches and was not sent yet.
    fn write(&mut self, text: &mut String, recorded: &Recorded) {
        let StreamEntry { id, event, .. } = recorded.entry();
        self.position = self.position.max(id);
        let is_selected = match recorded {
            Recorded::Change(recorded) => self.matcher.matches(&recorded.change.terms),
            Recorded::Incident(recorded) => recorded.matches(&self.filter.changes),
        };
        if !self.filter.events.contains(&event) || !is_selected || !self.sent.insert(id) {
            return;
        }
        let name = event.event_name();
        // The JSON has no line feeds; writing to a string cannot fail.
        let _ = match recorded {
            Recorded::Change(RecordedChange {
                change,
                differences: Some(differences),
                ..
            }) => write!(
                text,
                "id: {id}\nevent: {name}\n\
                 data: {{\"change\":{},\"changes\":{differences}}}\n\n",
                change.json
            ),
            Recorded::Change(RecordedChange { change, .. }) => {
                write!(text, "id: {id}\nevent: {name}\ndata: {}\n\n", change.json)
            }
            Recorded::Incident(incident) => {
                write!(text, "id: {id}\nevent: {name}\ndata: {}\n\n", incident.json)
            }
        };
        if self.sent.len() > MAX_REMEMBERED {
            self.sent.pop_first();
        }
    }

    /// Writes a comment, and the position when everything up to it was sent.
    fn heartbeat(&mut self) -> String {
        // Read the progress first, so that what arrives in between is after it.
        let progress = self.subscription.progress();
        let is_current = self.missed.is_none() && self.subscription.events.is_empty();
        if is_current && progress > self.position {
            self.position = progress;
            return format!(": still here\n\n{}", position_event(progress));
        }
        ": still here\n\n".to_owned()
    }
}

/// Returns the event of a position without a change.
fn position_event(id: ActivityId) -> String {
    format!("id: {id}\nevent: position\ndata: {{}}\n\n")
}
