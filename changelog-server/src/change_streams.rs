//! The open streams of changes.
//!
//! One task per watched organization reads each change that is created or updated and each
//! incident once and passes it to all streams of that organization; updates and incidents only
//! while a stream sends them. The store notifies the task of the commits of
//! this process; the task finds the commits of other processes within a second, by
//! reading the latest entries of the activity log again.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::{ActivityId, ChangeEvent, Timestamp};
use chrono::TimeDelta;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::client_limit::{ClientLimit, ClientPermit};
use crate::clock::Clock;
use crate::response_memory::{Holder, Permit, ResponseMemory};
use crate::store::change_notifier::StreamEntry;
use crate::store::recorded_changes::{Recorded, first_id_at, overlap_start};
use crate::store::{Store, StoreError, Tenant};

/// The limit on streams of this process; less if that is more than half of the
/// connections.
const MAX_STREAMS: usize = 1_000;
/// The limit on streams of one organization.
const MAX_STREAMS_PER_ORGANIZATION: usize = 50;
/// How many streams an organization may have for another page of the dashboard to get one,
/// so that pages leave room for the streams of API clients.
const MAX_STREAMS_FOR_PAGES: usize = MAX_STREAMS_PER_ORGANIZATION / 2;
/// The limit on streams of one client; lower than the limit on its concurrent
/// requests, so that its streams leave room for its other requests.
const MAX_STREAMS_PER_CLIENT: usize = 200;

/// How often the task reads what other processes have recorded.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How far back most reads go; commits rarely take longer.
const POLL_OVERLAP: TimeDelta = TimeDelta::seconds(3);
/// One in this many reads goes back by the full overlap, see
/// [`crate::store::recorded_changes`].
const FULL_OVERLAP_EVERY: u32 = 10;
/// How many changes are buffered for a slow stream. A stream that falls further
/// behind reads from the database at its own pace.
const STREAM_BUFFER: usize = 512;
/// A document of more bytes is buffered only while fewer than [`LARGE_BUFFER`] changes
/// are buffered; otherwise the streams read it from the database.
const LARGE_DOCUMENT: usize = 4 * 1024;
const LARGE_BUFFER: usize = 16;
/// The number of changes that one statement reads.
const READ_BATCH: usize = 32;
/// The number of notifications of the store that are handled together.
const NOTIFICATION_BATCH: usize = 256;
/// How long a stream waits for the first read of its organization.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(4);

/// The open streams of this process.
#[derive(Debug)]
pub struct ChangeStreams {
    store: Store,
    clock: Clock,
    memory: ResponseMemory,
    max_streams: usize,
    clients: ClientLimit,
    streams: Arc<Mutex<Streams>>,
    shutdown: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Streams {
    count: usize,
    organizations: HashMap<Tenant, WatchedOrganization>,
}

#[derive(Debug)]
struct WatchedOrganization {
    streams: usize,
    demand: Arc<Demand>,
    events: broadcast::Sender<StreamEvent>,
    progress: watch::Receiver<Option<Timestamp>>,
    task: AbortHandle,
}

/// How many streams of an organization send the events that not all streams send.
#[derive(Debug, Default)]
struct Demand {
    updates: AtomicUsize,
    incidents: AtomicUsize,
}

impl Demand {
    /// Returns the count of an event; `None` if all streams send it.
    fn of(&self, event: ChangeEvent) -> Option<&AtomicUsize> {
        match event {
            ChangeEvent::Created => None,
            ChangeEvent::Updated => Some(&self.updates),
            ChangeEvent::Incident => Some(&self.incidents),
        }
    }

    fn has(&self, event: ChangeEvent) -> bool {
        self.of(event)
            .is_none_or(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// What a stream receives.
#[derive(Clone, Debug)]
pub(crate) enum StreamEvent {
    /// A change or an incident that was created or updated.
    Recorded(Arc<Buffered>),
    /// One that is too large for the buffer; each stream reads it from the database.
    Unbuffered(StreamEntry),
}

/// A change or an incident that is buffered until all streams have sent it.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) recorded: Recorded,
    /// The memory of a large document.
    _permit: Option<Permit>,
}

/// Why a stream cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    /// A limit on open streams is reached.
    #[error("{holder} {limit} open streams, which is the limit")]
    TooMany {
        /// The subject of the message with its verb, such as "the service has".
        holder: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The database did not answer in time.
    #[error("the first read of recorded changes took too long")]
    NotReady,
}

/// An open stream; it no longer counts towards the limits when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// What is recorded from now on.
    pub(crate) events: broadcast::Receiver<StreamEvent>,
    progress: watch::Receiver<Option<Timestamp>>,
    shutdown: watch::Receiver<bool>,
    _slot: Slot,
    _client: ClientPermit,
}

#[derive(Debug)]
struct Slot {
    streams: Arc<Mutex<Streams>>,
    tenant: Tenant,
    events: BTreeSet<ChangeEvent>,
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChangeStreams {
    /// Returns how many streams are open.
    pub(crate) fn count(&self) -> usize {
        lock(&self.streams).count
    }

    /// Creates the streams of a process that serves at most `max_connections` at once.
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        memory: ResponseMemory,
        max_connections: usize,
    ) -> Self {
        Self {
            store,
            clock,
            memory,
            max_streams: MAX_STREAMS.min(max_connections / 2),
            clients: ClientLimit::new(MAX_STREAMS_PER_CLIENT),
            streams: Arc::default(),
            shutdown: watch::Sender::new(false),
        }
    }

    /// Opens a stream for a client. It receives what is recorded after this returns:
    /// the changes that are created, and at least the other events that it sends.
    pub(crate) async fn subscribe(
        &self,
        tenant: Tenant,
        address: IpAddr,
        events: BTreeSet<ChangeEvent>,
    ) -> Result<Subscription, SubscribeError> {
        let limit = MAX_STREAMS_PER_ORGANIZATION;
        self.open(tenant, address, events, limit).await
    }

    /// Opens a stream for a page of the dashboard. It receives all that is recorded after
    /// this returns.
    pub(crate) async fn subscribe_page(
        &self,
        tenant: Tenant,
        address: IpAddr,
    ) -> Result<Subscription, SubscribeError> {
        let events = [ChangeEvent::Updated, ChangeEvent::Incident].into();
        self.open(tenant, address, events, MAX_STREAMS_FOR_PAGES)
            .await
    }

    async fn open(
        &self,
        tenant: Tenant,
        address: IpAddr,
        events: BTreeSet<ChangeEvent>,
        limit: usize,
    ) -> Result<Subscription, SubscribeError> {
        let mut subscription = self.add_stream(tenant, address, events, limit)?;
        let first_read = subscription.progress.wait_for(Option::is_some);
        if !matches!(timeout(FIRST_READ_TIMEOUT, first_read).await, Ok(Ok(_))) {
            return Err(SubscribeError::NotReady);
        }
        Ok(subscription)
    }

    fn add_stream(
        &self,
        tenant: Tenant,
        address: IpAddr,
        events: BTreeSet<ChangeEvent>,
        limit: usize,
    ) -> Result<Subscription, SubscribeError> {
        let too_many = |holder, limit| SubscribeError::TooMany { holder, limit };
        let client = self.clients.take(address);
        let client = client.ok_or_else(|| too_many("your address has", MAX_STREAMS_PER_CLIENT))?;
        let mut streams = lock(&self.streams);
        if streams.count >= self.max_streams {
            return Err(too_many("the service has", self.max_streams));
        }
        let organization = streams
            .organizations
            .entry(tenant)
            .or_insert_with(|| self.watch_organization(tenant));
        if organization.streams >= limit {
            return Err(too_many("the organization has", limit));
        }
        organization.streams += 1;
        for count in events.iter().filter_map(|one| organization.demand.of(*one)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let subscription = Subscription {
            events: organization.events.subscribe(),
            progress: organization.progress.clone(),
            shutdown: self.shutdown.subscribe(),
            _slot: Slot {
                streams: Arc::clone(&self.streams),
                tenant,
                events,
            },
            _client: client,
        };
        streams.count += 1;
        Ok(subscription)
    }

    fn watch_organization(&self, tenant: Tenant) -> WatchedOrganization {
        let (events, _) = broadcast::channel(STREAM_BUFFER);
        let (report, progress) = watch::channel(None);
        let demand = Arc::default();
        let reader = OrganizationReader {
            store: self.store.clone(),
            tenant,
            demand: Arc::clone(&demand),
            events: events.clone(),
            memory: self.memory.clone(),
            seen: BTreeSet::new(),
        };
        let task = tokio::spawn(reader.follow(self.clock.clone(), report));
        WatchedOrganization {
            streams: 0,
            demand,
            events,
            progress,
            task: task.abort_handle(),
        }
    }

    /// Ends every stream, because the service shuts down.
    pub(crate) fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams);
        streams.count -= 1;
        if let Some(organization) = streams.organizations.get_mut(&self.tenant) {
            organization.streams -= 1;
            for count in (self.events.iter()).filter_map(|one| organization.demand.of(*one)) {
                count.fetch_sub(1, Ordering::Relaxed);
            }
            if organization.streams == 0 {
                organization.task.abort();
                streams.organizations.remove(&self.tenant);
            }
        }
    }
}

impl Subscription {
    /// Returns whether the service is shutting down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// Waits for the next event; `None` when the service shuts down.
    pub(crate) async fn recv(
        &mut self,
    ) -> Option<Result<StreamEvent, broadcast::error::RecvError>> {
        tokio::select! {
            _ = self.shutdown.wait_for(|is_shutting_down| *is_shutting_down) => None,
            event = self.events.recv() => Some(event),
        }
    }

    /// Drops the events that have arrived.
    pub(crate) fn skip(&mut self) {
        self.events = self.events.resubscribe();
    }

    /// Returns the position of a stream that has received every event so far.
    /// Everything recorded before it was sent, except for late entries within the
    /// overlap.
    pub(crate) fn progress(&self) -> ActivityId {
        let progress = *self.progress.borrow();
        first_id_at(progress.unwrap_or(Timestamp::EPOCH))
    }
}

/// Follows the entries of one organization.
struct OrganizationReader {
    store: Store,
    tenant: Tenant,
    demand: Arc<Demand>,
    events: broadcast::Sender<StreamEvent>,
    memory: ResponseMemory,
    /// The entries within the full overlap that were sent, that no stream sends, or
    /// that were there before the task started.
    seen: BTreeSet<ActivityId>,
}

impl OrganizationReader {
    async fn follow(mut self, clock: Clock, progress: watch::Sender<Option<Timestamp>>) {
        let mut notifications = self.store.subscribe_to_changes(self.tenant);
        let mut poll = interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Everything before `read_until` was read. After a failed read, the next one
        // starts at the same place.
        let mut read_until = loop {
            poll.tick().await;
            let now = clock.now().into();
            match self.mark_seen(overlap_start(now)).await {
                Ok(()) => break now,
                Err(error) => log_failure(&error),
            }
        };
        progress.send_replace(Some(read_until));
        let mut reads: u32 = 0;
        loop {
            tokio::select! {
                Some(notification) = notifications.recv() => {
                    let mut entries = vec![notification];
                    while entries.len() < NOTIFICATION_BATCH
                        && let Ok(notification) = notifications.try_recv()
                    {
                        entries.push(notification);
                    }
                    if let Err(error) = self.send(entries).await {
                        log_failure(&error);
                        reads = 0;
                    }
                }
                _ = poll.tick() => {
                    let now = clock.now().into();
                    let from = if reads.is_multiple_of(FULL_OVERLAP_EVERY) {
                        overlap_start(read_until)
                    } else {
                        first_id_at(read_until.plus(-POLL_OVERLAP))
                    };
                    match self.send_from(from).await {
                        Ok(()) => {
                            read_until = now;
                            reads = reads.wrapping_add(1);
                            progress.send_replace(Some(read_until));
                            self.seen = self.seen.split_off(&overlap_start(read_until));
                        }
                        Err(error) => {
                            log_failure(&error);
                            reads = 0;
                        }
                    }
                }
            }
        }
    }

    /// Marks the entries from an id onwards as seen, without sending them.
    async fn mark_seen(&mut self, from: ActivityId) -> Result<(), StoreError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let batch = self.store.stream_entries_from(self.tenant, from).await?;
            next = batch.next;
            self.seen.extend(batch.entries.iter().map(|entry| entry.id));
        }
        Ok(())
    }

    /// Sends the entries from an id onwards that were not sent yet.
    async fn send_from(&mut self, from: ActivityId) -> Result<(), StoreError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let batch = self.store.stream_entries_from(self.tenant, from).await?;
            next = batch.next;
            self.send(batch.entries).await?;
        }
        Ok(())
    }

    /// Sends those of the given entries that were not sent yet.
    async fn send(&mut self, mut entries: Vec<StreamEntry>) -> Result<(), StoreError> {
        entries.retain(|entry| {
            let is_sent = self.demand.has(entry.event);
            // A stream that is opened later does not get earlier events.
            let is_new = is_sent && !self.seen.contains(&entry.id);
            if !is_sent {
                self.seen.insert(entry.id);
            }
            is_new
        });
        entries.sort_by_key(|entry| entry.id);
        entries.dedup();
        for entries in entries.chunks(READ_BATCH) {
            for recorded in self.store.recorded(self.tenant, entries).await? {
                // Fails when no stream is left, which is not an error.
                let _ = self.events.send(self.buffer(recorded));
            }
            self.seen.extend(entries.iter().map(|entry| entry.id));
        }
        Ok(())
    }

    /// Returns the event for what was recorded. A large change is buffered only if its
    /// organization has response memory for it.
    fn buffer(&self, recorded: Recorded) -> StreamEvent {
        let size = recorded.size();
        let mut permit = None;
        if size > LARGE_DOCUMENT {
            let holder = Holder::Organization(self.tenant);
            permit = self.memory.take_for_later(holder, size).ok();
            if permit.is_none() || self.events.len() >= LARGE_BUFFER {
                return StreamEvent::Unbuffered(recorded.entry());
            }
        }
        StreamEvent::Recorded(Arc::new(Buffered {
            recorded,
            _permit: permit,
        }))
    }
}

fn log_failure(error: &StoreError) {
    tracing::warn!(%error, "recorded changes could not be read for the streams");
}
