//! `/api/changes/stream`: changes as they are recorded, as server-sent events.
//!
//! A stream tells what [`crate::live`] tells, as far as its filter asks for it.
//! Who comes with a position, or has become too slow, first reads what it has
//! missed from the database, at its own pace; so nothing is kept for it here.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use changelog_core::{
    ActivityId, ChangeFilter, HostId, ProblemCode, RiskLevel, ServiceId, Status, Timestamp,
};
use chrono::TimeDelta;
use futures_util::stream::try_unfold;
use http::{HeaderName, HeaderValue, Method};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::caller::API_KEY_HEADER;
use crate::app::App;
use crate::live::{Told, Watch};
use crate::memory::{self, Holder};
use crate::store::feed::Entry;
use crate::store::recorded::{Recorded, moment, overlapping};
use crate::store::{StoreError, Tenant, Wanted};
use crate::web::{ApiError, ApiResult, Request, reply};

const EVENT_STREAM: &str = "text/event-stream";
/// Where who was cut off continues.
pub(super) const LAST_EVENT_ID: &str = "last-event-id";

/// How long a position is good for.
const MOST_BEHIND: TimeDelta = TimeDelta::days(7);
/// How often a stream makes sure that its key is still good.
const CHECK: Duration = Duration::from_secs(1);
/// After how much silence a stream says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many changes are read and sent together at most.
const TOGETHER: usize = 64;
/// How many of those that were sent are remembered, so as not to send them again
/// when what was recorded is looked at a second time.
const REMEMBERED: usize = 10_000;

/// Tells of changes as they are recorded, in the order of recording.
///
/// Server-sent events: `event: change` with the change in full as `data` and a
/// position as `id`; `event: position` at the beginning and from time to time,
/// without a change; a comment every 15 s. Whoever comes again with the header
/// `Last-Event-ID` misses nothing, and may be told again of what was recorded
/// in the minute before that position.
#[utoipa::path(get, path = "/api/changes/stream", tag = "changes", operation_id = "watch_changes",
    params(
        ("q" = Option<String>, Query,
            description = "Words; each must be the beginning of some word of the title, without regard \
                           to case and diacritics", example = "deploy api"),
        ("service_id" = Option<ServiceId>, Query, description = "Only of this service"),
        ("host_id" = Option<HostId>, Query, description = "Only on this host"),
        ("risk_level" = Option<RiskLevel>, Query, description = "Only of this risk"),
        ("status" = Option<Status>, Query, description = "Only of this status"),
        ("tag" = Option<Vec<String>>, Query, explode = true, max_items = 20,
            description = "Only with this tag; repeat it for several, all of which must be there"),
        ("Last-Event-ID" = Option<ActivityId>, Header,
            description = "Continue after this position: the id of the last event that came, at most \
                           7 days old; one from the future is as if it were now"),
    ),
    responses((status = 200, description = "Events, until either side ends", body = String,
        content_type = "text/event-stream")))]
pub(super) async fn watch(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let filter = request.filter(ChangeFilter::from_stream_query)?;
    let after = last_event_id(&request, app.now().into())?;
    let mut response = if request.method == Method::HEAD {
        reply::text(200, EVENT_STREAM, String::new())
    } else {
        let watch = app
            .live
            .watch(caller.tenant, request.context.address)
            .await?;
        let key = request.header(API_KEY_HEADER).unwrap_or_default();
        let teller = Teller::new(app, caller.tenant, key, &filter, watch, after);
        let chunks = try_unfold(teller, |mut teller| async move {
            Ok(teller.next().await?.map(|chunk| (chunk, teller)))
        });
        reply::streamed(EVENT_STREAM, chunks)
    };
    // Proxies that collect an answer before they pass it on would keep it.
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Reads from where to continue; `None` for from now on.
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
    if moment(position) < now.plus(-MOST_BEHIND) {
        return malformed(
            "is more than 7 days old; read what was missed with GET /api/changes, and begin anew \
             without it",
        );
    }
    Ok(Some(position))
}

/// One stream.
struct Teller {
    app: App,
    tenant: Tenant,
    key: String,
    wanted: Wanted,
    watch: Watch,
    /// What was missed and is being read, if anything.
    missed: Option<Missed>,
    /// What is written and waits for memory.
    unsent: Option<String>,
    /// Up to where everything was told, but for the overlap.
    position: ActivityId,
    /// The entries that were sent last.
    sent: BTreeSet<ActivityId>,
    begun: bool,
    /// When the key is looked at next.
    check: Instant,
    /// When something was sent last.
    spoke: Instant,
}

/// What is read of what was missed.
struct Missed {
    entries: VecDeque<Entry>,
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

impl Teller {
    fn new(
        app: App,
        tenant: Tenant,
        key: &str,
        filter: &ChangeFilter,
        watch: Watch,
        after: Option<ActivityId>,
    ) -> Self {
        // What lies ahead of the clock would hide what is recorded until then.
        let now = watch.progress();
        let position = after.map_or(now, |after| after.min(now));
        Self {
            app,
            tenant,
            key: key.to_owned(),
            wanted: Wanted::of(filter),
            missed: after.map(|_| Missed::from(overlapping(moment(position)))),
            unsent: None,
            watch,
            position,
            sent: BTreeSet::new(),
            begun: false,
            check: Instant::now() + CHECK,
            spoke: Instant::now(),
        }
    }

    /// Waits for something to be sent; `None` when the stream has ended.
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if !self.begun {
            self.begun = true;
            // Who is cut off before the first change continues here.
            return Ok(Some(position(self.position).into()));
        }
        loop {
            if self.watch.is_ending() {
                return Ok(None);
            }
            if self.check <= Instant::now() {
                if !self.app.is_still_caller(&self.key, self.tenant).await? {
                    return Ok(None);
                }
                self.check = Instant::now() + CHECK;
                if self.spoke.elapsed() >= HEARTBEAT {
                    self.spoke = Instant::now();
                    return Ok(Some(self.heartbeat().into()));
                }
            }
            let chunk = if let Some(text) = self.unsent.take() {
                self.part(text).await
            } else if let Some(missed) = self.missed.take() {
                self.read(missed).await?
            } else {
                match self.hear().await {
                    Some(text) => self.part(text).await,
                    None => return Ok(None),
                }
            };
            if !chunk.is_empty() {
                self.spoke = Instant::now();
                return Ok(Some(chunk));
            }
        }
    }

    /// Makes a part of the answer, as soon as there is memory for it; nothing if
    /// there is none until the key is to be looked at.
    async fn part(&mut self, text: String) -> Bytes {
        if text.len() <= memory::FREE {
            return text.into();
        }
        let holder = Holder::Organization(self.tenant);
        let permit = self.app.memory.reserve(holder, text.len(), 0);
        if let Ok(permit) = timeout_at(self.check, permit).await {
            return permit.fitted(text.into());
        }
        self.unsent = Some(text);
        Bytes::new()
    }

    /// Reads some of what was missed, as soon as there is memory for it; nothing
    /// if there is none until the key is to be looked at.
    async fn read(&mut self, mut missed: Missed) -> Result<Bytes, StoreError> {
        if missed.entries.is_empty()
            && let Some(next) = missed.next.take()
        {
            let entries = self.app.store.entries_from(self.tenant, next).await?;
            missed.next = entries.next;
            missed.entries = entries.created.into();
        }
        let memory = &self.app.memory;
        let count = missed
            .entries
            .len()
            .min(TOGETHER)
            .min(memory.reservable(memory::LARGEST_CHANGE));
        let holder = Holder::Organization(self.tenant);
        let permit = memory.reserve(holder, count * memory::LARGEST_CHANGE, 0);
        let Ok(permit) = timeout_at(self.check, permit).await else {
            self.missed = Some(missed);
            return Ok(Bytes::new());
        };
        let mut entries: Vec<Entry> = missed.entries.drain(..count).collect();
        entries.retain(|entry| !self.sent.contains(&entry.id));
        let mut text = String::new();
        for recorded in self.app.store.recorded(self.tenant, &entries).await? {
            self.tell(&mut text, &recorded);
        }
        if !missed.entries.is_empty() || missed.next.is_some() {
            self.missed = Some(missed);
        }
        Ok(permit.fitted(text.into()))
    }

    /// Waits for what is recorded, until the key is to be looked at; `None` when
    /// there will be no more.
    async fn hear(&mut self) -> Option<String> {
        let mut text = String::new();
        let Ok(told) = timeout_at(self.check, self.watch.recv()).await else {
            return Some(text);
        };
        match told? {
            Ok(told) => self.take(&mut text, told),
            Err(RecvError::Lagged(_)) => {
                self.missed = Some(Missed::from(overlapping(moment(self.position))));
                return Some(text);
            }
            Err(RecvError::Closed) => return None,
        }
        // What else is there; a gap is met by the next turn.
        for _ in 1..TOGETHER {
            if self.watch.told.is_empty() || self.missed.is_some() || text.len() > memory::FREE {
                break;
            }
            let Ok(told) = self.watch.told.try_recv() else {
                self.missed = Some(Missed::from(overlapping(moment(self.position))));
                break;
            };
            self.take(&mut text, told);
        }
        Some(text)
    }

    /// Writes the event of what was told, or notes that it is to be read.
    fn take(&mut self, text: &mut String, told: Told) {
        match told {
            Told::Change(kept) => self.tell(text, &kept.recorded),
            Told::Entry(entry) => {
                self.missed = Some(Missed {
                    entries: [entry].into(),
                    next: None,
                });
            }
        }
    }

    /// Writes the event of a change, if it is asked for and was not sent yet.
    fn tell(&mut self, text: &mut String, recorded: &Recorded) {
        let id = recorded.entry.id;
        self.position = self.position.max(id);
        if self.wanted.is_met_by(&recorded.terms) && self.sent.insert(id) {
            // JSON has no line feeds of its own; writing to a text cannot fail.
            let _ = write!(text, "id: {id}\nevent: change\ndata: {}\n\n", recorded.json);
            if self.sent.len() > REMEMBERED {
                self.sent.pop_first();
            }
        }
    }

    /// Says that the stream is still there, and how far it has come.
    fn heartbeat(&mut self) -> String {
        // First how far, then whether all of that was heard.
        let progress = self.watch.progress();
        if self.missed.is_none() && self.watch.told.is_empty() && progress > self.position {
            self.position = progress;
            return format!(": still here\n\n{}", position(progress));
        }
        ": still here\n\n".to_owned()
    }
}

/// Writes the event that tells a position and nothing else.
fn position(id: ActivityId) -> String {
    format!("id: {id}\nevent: position\ndata: {{}}\n\n")
}
