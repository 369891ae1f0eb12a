//! Who watches the changes of an organization, and what they are told.
//!
//! One task follows each organization that is watched, however many watch it:
//! it reads what was recorded once, and hands it to all. What this process
//! records it is told of at the commit; what others record it finds within a
//! second, by looking at what is young.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::{ActivityId, ProblemCode, Timestamp};
use chrono::TimeDelta;
use http::header;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clock::Clock;
use crate::memory::{AnswerMemory, Holder, Permit};
use crate::store::feed::Entry;
use crate::store::recorded::{Recorded, first_entry_at, overlapping};
use crate::store::{Store, StoreError, Tenant};
use crate::web::ApiError;
use crate::web::client_limit::{ClientLimit, ClientPermit};

/// Streams in all, if that leaves half of the connections to other requests.
const IN_ALL: usize = 1_000;
/// Streams of one organization.
const OF_ONE: usize = 50;
/// Streams of one client; fewer than the requests that it may have under way,
/// so that its streams leave room for its other requests.
const OF_CLIENT: usize = 200;
/// How many seconds who finds no place may come again after.
const AGAIN: u64 = 10;

/// How often is looked for what other processes have recorded.
const POLL: Duration = Duration::from_secs(1);
/// How far back most looks go: a commit seldom takes longer.
const NEAR: TimeDelta = TimeDelta::seconds(3);
/// Each so many looks one goes as far back as an entry may appear late.
const FAR: u32 = 10;
/// How many changes wait at most for a reader that is slow; then it reads them
/// from the database at its own pace.
const WAITING: usize = 512;
/// A larger document, in bytes, is kept for slow readers only while fewer than
/// [`FEW_WAIT`] changes wait for them; then they read it from the database.
const LARGE: usize = 4 * 1024;
const FEW_WAIT: usize = 16;
/// How many changes are read together at most, to be told.
const READ_TOGETHER: usize = 32;
/// How many hints are taken together at most.
const TOGETHER: usize = 256;
/// How long who comes first waits for the first look.
const FIRST_LOOK: Duration = Duration::from_secs(4);

/// Everybody who watches.
#[derive(Debug)]
pub struct Live {
    store: Store,
    clock: Clock,
    memory: AnswerMemory,
    /// How many streams there may be in all.
    most: usize,
    clients: ClientLimit,
    watched: Arc<Mutex<Watched>>,
    ending: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Watched {
    streams: usize,
    organizations: HashMap<Tenant, Followed>,
}

/// An organization that is watched.
#[derive(Debug)]
struct Followed {
    streams: usize,
    told: broadcast::Sender<Told>,
    progress: watch::Receiver<Option<Timestamp>>,
    task: AbortHandle,
}

/// What those who watch are told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// A change that was recorded.
    Change(Arc<Kept>),
    /// The entry of one that is too large to wait in memory.
    Entry(Entry),
}

/// A change that waits for its readers.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) recorded: Recorded,
    /// The memory of a large one.
    _permit: Option<Permit>,
}

/// One who watches; the place is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What is recorded from now on.
    pub(crate) told: broadcast::Receiver<Told>,
    progress: watch::Receiver<Option<Timestamp>>,
    ending: watch::Receiver<bool>,
    _place: Place,
    _share: ClientPermit,
}

#[derive(Debug)]
struct Place {
    watched: Arc<Mutex<Watched>>,
    tenant: Tenant,
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(crate) fn new(store: Store, clock: Clock, memory: AnswerMemory) -> Self {
        Self {
            store,
            clock,
            memory,
            most: IN_ALL.min(crate::serve::max_connections() / 2),
            clients: ClientLimit::new(OF_CLIENT),
            watched: Arc::default(),
            ending: watch::Sender::new(false),
        }
    }

    /// Begins to watch: what is recorded after this has returned is told.
    /// The address is the client's.
    pub(crate) async fn watch(&self, tenant: Tenant, address: IpAddr) -> Result<Watch, ApiError> {
        let mut watch = self.take_place(tenant, address)?;
        let first_look = watch.progress.wait_for(Option::is_some);
        if !matches!(timeout(FIRST_LOOK, first_look).await, Ok(Ok(_))) {
            return Err(ApiError::unavailable(&"the first look took too long"));
        }
        Ok(watch)
    }

    fn take_place(&self, tenant: Tenant, address: IpAddr) -> Result<Watch, ApiError> {
        let share = self.clients.take(address);
        let share =
            share.ok_or_else(|| no_place(&format!("your address has {OF_CLIENT} streams")))?;
        let mut watched = lock(&self.watched);
        if watched.streams >= self.most {
            return Err(no_place(&format!("the service has {} streams", self.most)));
        }
        let followed = watched.organizations.entry(tenant).or_insert_with(|| {
            let (told, _) = broadcast::channel(WAITING);
            let (report, progress) = watch::channel(None);
            let follower = Follower {
                store: self.store.clone(),
                tenant,
                told: told.clone(),
                memory: self.memory.clone(),
                seen: BTreeSet::new(),
            };
            let task = tokio::spawn(follower.follow(self.clock.clone(), report));
            Followed {
                streams: 0,
                told,
                progress,
                task: task.abort_handle(),
            }
        });
        if followed.streams >= OF_ONE {
            let detail = format!("the organization has {OF_ONE} streams");
            return Err(no_place(&detail));
        }
        followed.streams += 1;
        let watch = Watch {
            told: followed.told.subscribe(),
            progress: followed.progress.clone(),
            ending: self.ending.subscribe(),
            _place: Place {
                watched: Arc::clone(&self.watched),
                tenant,
            },
            _share: share,
        };
        watched.streams += 1;
        Ok(watch)
    }

    /// Ends every stream, for good.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }
}

fn no_place(what: &str) -> ApiError {
    let detail = format!("{what} already, which is the most; end one, or try again later");
    ApiError::new(ProblemCode::TooManyRequests, detail)
        .with_header(header::RETRY_AFTER, AGAIN.to_string())
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut watched = lock(&self.watched);
        watched.streams -= 1;
        if let Some(followed) = watched.organizations.get_mut(&self.tenant) {
            followed.streams -= 1;
            if followed.streams == 0 {
                followed.task.abort();
                watched.organizations.remove(&self.tenant);
            }
        }
    }
}

impl Watch {
    /// Tells whether the service is about to end.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits for something to be told, or for the end; `None` at the end.
    pub(crate) async fn recv(&mut self) -> Option<Result<Told, broadcast::error::RecvError>> {
        tokio::select! {
            _ = self.ending.wait_for(|ending| *ending) => None,
            told = self.told.recv() => Some(told),
        }
    }

    /// Returns the position of who was told everything: whatever was recorded
    /// before it, within the overlap, was told.
    pub(crate) fn progress(&self) -> ActivityId {
        let progress = *self.progress.borrow();
        first_entry_at(progress.unwrap_or(Timestamp::EPOCH))
    }
}

/// Follows the entries of one organization.
struct Follower {
    store: Store,
    tenant: Tenant,
    told: broadcast::Sender<Told>,
    memory: AnswerMemory,
    /// The entries that were told, or were there before, as far back as is
    /// looked.
    seen: BTreeSet<ActivityId>,
}

impl Follower {
    async fn follow(mut self, clock: Clock, progress: watch::Sender<Option<Timestamp>>) {
        let mut hints = self.store.follow(self.tenant);
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Until when everything was told; a look that failed is made up for.
        let mut until = loop {
            poll.tick().await;
            let now = clock.now().into();
            match self.look(overlapping(now), false).await {
                Ok(()) => break now,
                Err(error) => failed(&error),
            }
        };
        progress.send_replace(Some(until));
        let mut looks: u32 = 0;
        loop {
            tokio::select! {
                Some(hint) = hints.recv() => {
                    let mut entries = vec![hint];
                    while entries.len() < TOGETHER && let Ok(hint) = hints.try_recv() {
                        entries.push(hint);
                    }
                    if let Err(error) = self.tell(entries).await {
                        failed(&error);
                        looks = 0;
                    }
                }
                _ = poll.tick() => {
                    let now = clock.now().into();
                    let from = if looks.is_multiple_of(FAR) {
                        overlapping(until)
                    } else {
                        first_entry_at(until.plus(-NEAR))
                    };
                    match self.look(from, true).await {
                        Ok(()) => {
                            until = now;
                            looks = looks.wrapping_add(1);
                            progress.send_replace(Some(until));
                            self.seen = self.seen.split_off(&overlapping(until));
                        }
                        Err(error) => {
                            failed(&error);
                            looks = 0;
                        }
                    }
                }
            }
        }
    }

    /// Looks at the entries from an id on, and tells what is new.
    async fn look(&mut self, from: ActivityId, tells: bool) -> Result<(), StoreError> {
        let mut from = Some(from);
        while let Some(first) = from {
            let entries = self.store.entries_from(self.tenant, first).await?;
            from = entries.next;
            if tells {
                self.tell(entries.created).await?;
            } else {
                self.seen.extend(entries.created.iter().map(|one| one.id));
            }
        }
        Ok(())
    }

    /// Tells of those entries that were not told of before.
    async fn tell(&mut self, mut entries: Vec<Entry>) -> Result<(), StoreError> {
        entries.retain(|entry| !self.seen.contains(&entry.id));
        entries.sort_by_key(|entry| entry.id);
        entries.dedup();
        if entries.is_empty() {
            return Ok(());
        }
        for entries in entries.chunks(READ_TOGETHER) {
            for recorded in self.store.recorded(self.tenant, entries).await? {
                // Nobody may be there any more.
                let _ = self.told.send(self.keep(recorded));
            }
            self.seen.extend(entries.iter().map(|entry| entry.id));
        }
        Ok(())
    }

    /// Keeps a change for those who watch, if there is memory for it.
    fn keep(&self, recorded: Recorded) -> Told {
        let size = recorded.json.len();
        let mut permit = None;
        if size > LARGE {
            let holder = Holder::Organization(self.tenant);
            permit = self.memory.keep(holder, size).ok();
            if permit.is_none() || self.told.len() >= FEW_WAIT {
                return Told::Entry(recorded.entry);
            }
        }
        Told::Change(Arc::new(Kept {
            recorded,
            _permit: permit,
        }))
    }
}

fn failed(error: &StoreError) {
    tracing::warn!(%error, "what was recorded could not be read for those who watch");
}
