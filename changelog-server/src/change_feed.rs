//! The changes of an organization as they are recorded, for those who watch them.
//!
//! One task follows each watched organization, however many streams watch it: it
//! reads what was recorded once and passes it to all. The store notifies it of
//! what this process commits; what other processes commit it finds within a
//! second, by reading the latest entries again.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::{ActivityId, Timestamp};
use chrono::TimeDelta;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::client_limit::{ClientLimit, ClientPermit};
use crate::clock::Clock;
use crate::memory::{Holder, Permit, ResponseMemory};
use crate::store::feed::CreationEntry;
use crate::store::recorded::{RecordedChange, first_entry_at, overlapping};
use crate::store::{Store, StoreError, Tenant};

/// Streams in all, if that leaves half of the connections to other requests.
const MAX_STREAMS: usize = 1_000;
/// Streams of one organization.
const MAX_STREAMS_PER_ORGANIZATION: usize = 50;
/// Streams of one client; fewer than the requests that it may have under way, so
/// that its streams leave room for its other requests.
const MAX_STREAMS_PER_CLIENT: usize = 200;

/// How often the task reads what other processes have recorded.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How far back most reads go: a commit seldom takes longer.
const POLL_OVERLAP: TimeDelta = TimeDelta::seconds(3);
/// One read in so many goes back as far as an entry may appear late.
const FULL_OVERLAP_EVERY: u32 = 10;
/// How many changes are buffered for a slow stream; it reads later ones from the
/// database at its own pace.
const STREAM_BUFFER: usize = 512;
/// A larger document, in bytes, is buffered only while fewer than
/// [`LARGE_BUFFER`] changes are; else streams read it from the database.
const LARGE_DOCUMENT: usize = 4 * 1024;
const LARGE_BUFFER: usize = 16;
/// How many changes one statement reads.
const READ_BATCH: usize = 32;
/// How many notifications of the store are handled together.
const NOTIFICATION_BATCH: usize = 256;
/// How long the first stream of an organization waits for the first read.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(4);

/// The streams of this process.
#[derive(Debug)]
pub struct ChangeFeed {
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
    events: broadcast::Sender<FeedEvent>,
    progress: watch::Receiver<Option<Timestamp>>,
    task: AbortHandle,
}

/// What a stream receives.
#[derive(Clone, Debug)]
pub(crate) enum FeedEvent {
    /// A change that was recorded.
    Change(Arc<BufferedChange>),
    /// A change that is too large to be buffered; the stream reads it itself.
    Unbuffered(CreationEntry),
}

/// A change that is buffered until all streams have sent it.
#[derive(Debug)]
pub(crate) struct BufferedChange {
    pub(crate) recorded: RecordedChange,
    /// The memory of a large document.
    _permit: Option<Permit>,
}

/// Why a stream cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    /// There are as many streams as there may be.
    #[error("{holder} {limit} streams already, which is the most")]
    TooMany {
        /// Who has them, with the verb.
        holder: &'static str,
        /// How many streams there may be.
        limit: usize,
    },
    /// The database did not answer in time.
    #[error("the first read of the change feed took too long")]
    NotReady,
}

/// A stream; it no longer counts when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// What is recorded from now on.
    pub(crate) events: broadcast::Receiver<FeedEvent>,
    progress: watch::Receiver<Option<Timestamp>>,
    shutdown: watch::Receiver<bool>,
    _slot: Slot,
    _client: ClientPermit,
}

#[derive(Debug)]
struct Slot {
    streams: Arc<Mutex<Streams>>,
    tenant: Tenant,
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChangeFeed {
    /// Makes a feed for a process that serves so many connections at once.
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

    /// Begins a stream of a client. It receives what is recorded after this
    /// returns.
    pub(crate) async fn subscribe(
        &self,
        tenant: Tenant,
        address: IpAddr,
    ) -> Result<Subscription, SubscribeError> {
        let mut subscription = self.add_stream(tenant, address)?;
        let first_read = subscription.progress.wait_for(Option::is_some);
        if !matches!(timeout(FIRST_READ_TIMEOUT, first_read).await, Ok(Ok(_))) {
            return Err(SubscribeError::NotReady);
        }
        Ok(subscription)
    }

    fn add_stream(&self, tenant: Tenant, address: IpAddr) -> Result<Subscription, SubscribeError> {
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
        if organization.streams >= MAX_STREAMS_PER_ORGANIZATION {
            return Err(too_many(
                "the organization has",
                MAX_STREAMS_PER_ORGANIZATION,
            ));
        }
        organization.streams += 1;
        let subscription = Subscription {
            events: organization.events.subscribe(),
            progress: organization.progress.clone(),
            shutdown: self.shutdown.subscribe(),
            _slot: Slot {
                streams: Arc::clone(&self.streams),
                tenant,
            },
            _client: client,
        };
        streams.count += 1;
        Ok(subscription)
    }

    fn watch_organization(&self, tenant: Tenant) -> WatchedOrganization {
        let (events, _) = broadcast::channel(STREAM_BUFFER);
        let (report, progress) = watch::channel(None);
        let follower = Follower {
            store: self.store.clone(),
            tenant,
            events: events.clone(),
            memory: self.memory.clone(),
            seen: BTreeSet::new(),
        };
        let task = tokio::spawn(follower.follow(self.clock.clone(), report));
        WatchedOrganization {
            streams: 0,
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
    pub(crate) async fn recv(&mut self) -> Option<Result<FeedEvent, broadcast::error::RecvError>> {
        tokio::select! {
            _ = self.shutdown.wait_for(|is_shutting_down| *is_shutting_down) => None,
            event = self.events.recv() => Some(event),
        }
    }

    /// Returns the position of a stream that has received every event: all that
    /// was recorded before it, but for the overlap.
    pub(crate) fn progress(&self) -> ActivityId {
        let progress = *self.progress.borrow();
        first_entry_at(progress.unwrap_or(Timestamp::EPOCH))
    }
}

/// Follows the entries of one organization.
struct Follower {
    store: Store,
    tenant: Tenant,
    events: broadcast::Sender<FeedEvent>,
    memory: ResponseMemory,
    /// The entries that were sent or are older than the task, as far back as reads
    /// go.
    seen: BTreeSet<ActivityId>,
}

impl Follower {
    async fn follow(mut self, clock: Clock, progress: watch::Sender<Option<Timestamp>>) {
        let mut notifications = self.store.follow(self.tenant);
        let mut poll = interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Everything before this was read; the next read makes up for one that failed.
        let mut read_until = loop {
            poll.tick().await;
            let now = clock.now().into();
            match self.mark_seen(overlapping(now)).await {
                Ok(()) => break now,
                Err(error) => log_failure(&error),
            }
        };
        progress.send_replace(Some(read_until));
        let mut reads: u32 = 0;
        loop {
            tokio::select! {
                Some(notification) = notifications.recv() => {
                    let mut created = vec![notification];
                    while created.len() < NOTIFICATION_BATCH
                        && let Ok(notification) = notifications.try_recv()
                    {
                        created.push(notification);
                    }
                    if let Err(error) = self.send(created).await {
                        log_failure(&error);
                        reads = 0;
                    }
                }
                _ = poll.tick() => {
                    let now = clock.now().into();
                    let from = if reads.is_multiple_of(FULL_OVERLAP_EVERY) {
                        overlapping(read_until)
                    } else {
                        first_entry_at(read_until.plus(-POLL_OVERLAP))
                    };
                    match self.send_from(from).await {
                        Ok(()) => {
                            read_until = now;
                            reads = reads.wrapping_add(1);
                            progress.send_replace(Some(read_until));
                            self.seen = self.seen.split_off(&overlapping(read_until));
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

    /// Marks the entries from an id on as seen, without sending them.
    async fn mark_seen(&mut self, from: ActivityId) -> Result<(), StoreError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let entries = self.store.entries_from(self.tenant, from).await?;
            next = entries.next;
            self.seen.extend(entries.created.iter().map(|one| one.id));
        }
        Ok(())
    }

    /// Sends the changes of the entries from an id on that were not sent before.
    async fn send_from(&mut self, from: ActivityId) -> Result<(), StoreError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let entries = self.store.entries_from(self.tenant, from).await?;
            next = entries.next;
            self.send(entries.created).await?;
        }
        Ok(())
    }

    /// Sends the changes of those entries that were not sent before.
    async fn send(&mut self, mut created: Vec<CreationEntry>) -> Result<(), StoreError> {
        created.retain(|entry| !self.seen.contains(&entry.id));
        created.sort_by_key(|entry| entry.id);
        created.dedup();
        for created in created.chunks(READ_BATCH) {
            for recorded in self.store.recorded(self.tenant, created).await? {
                // Fails when no stream is left, which is no error.
                let _ = self.events.send(self.buffer(recorded));
            }
            self.seen.extend(created.iter().map(|entry| entry.id));
        }
        Ok(())
    }

    /// Makes the event of a change; a large change needs memory to be buffered.
    fn buffer(&self, recorded: RecordedChange) -> FeedEvent {
        let size = recorded.json.len();
        let mut permit = None;
        if size > LARGE_DOCUMENT {
            let holder = Holder::Organization(self.tenant);
            permit = self.memory.take_for_later(holder, size).ok();
            if permit.is_none() || self.events.len() >= LARGE_BUFFER {
                return FeedEvent::Unbuffered(recorded.creation);
            }
        }
        FeedEvent::Change(Arc::new(BufferedChange {
            recorded,
            _permit: permit,
        }))
    }
}

fn log_failure(error: &StoreError) {
    tracing::warn!(%error, "recorded changes could not be read for the change feed");
}
