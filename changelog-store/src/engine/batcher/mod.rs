//! Requests that wait at the same moment are run together, as one batch.
//!
//! What a request needs from the database is small; getting there is not: on
//! SQLite two switches of thread, on PostgreSQL a round trip. With 32 connections
//! that read by id, one statement for all that wait serves three times as many
//! requests as one statement each (see `tests/benches`). No request waits for
//! others to join it: one that comes while a batch runs joins the next batch.
//!
//! Requests wait in lanes, one for each organization, which share the database by
//! start-time fair queuing (Goyal, Vin and Cheng, 1996): the lane with the lowest start tag
//! is served next, and its tag grows by the weight of what was served. Over time all busy
//! lanes get the same weight, and a light request waits for the batch that is running, but
//! not for heavy requests that are queued before it.
//!
//! Equal reads that wait are one: when a change is recorded, all pages that follow the
//! log ask for the same list. Nothing is kept from one batch to the next, so that a
//! result is never older than its request.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::StoreError;
use super::fair_share::PERMIT_TIMEOUT;

/// How long a caller waits for what it reads; it has five seconds in all.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// A read is compared with the newest that wait, at most so many.
const MAX_COMPARED: usize = 32;

/// How much runs at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    /// The most batches.
    pub(crate) batches: usize,
    /// The most batches with requests of one lane.
    pub(crate) batches_per_lane: usize,
    /// The most that the requests of a batch weigh together; a request that weighs
    /// more is a batch by itself.
    pub(crate) weight: usize,
    /// Whether requests of several lanes share a batch.
    pub(crate) mixes_lanes: bool,
}

/// The bounds of the sizes of batches.
const BATCH_BOUNDS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Returns what counts the sizes of batches.
pub(crate) fn batch_histogram() -> Histogram {
    Histogram::new(BATCH_BOUNDS)
}

/// The results of the requests of a batch, in their order; an error of the whole
/// batch is the result of each.
pub(crate) type Results<T> = Result<Vec<Result<T, StoreError>>, StoreError>;

type Run<R, T> = dyn Fn(Vec<R>) -> Pin<Box<dyn Future<Output = Results<T>> + Send>> + Send + Sync;

/// Runs requests `R` of lanes `K` in batches, with results `T`; cheap to clone.
pub(crate) struct Batcher<K, R, T>(Arc<Shared<K, R, T>>);

impl<K, R, T> Clone for Batcher<K, R, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, R, T> std::fmt::Debug for Batcher<K, R, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batcher")
    }
}

struct Shared<K, R, T> {
    limits: BatchLimits,
    /// Returns what a request weighs, at least 1.
    weigh: fn(&R) -> usize,
    run: Box<Run<R, T>>,
    lanes: Mutex<Lanes<K, R, T>>,
    /// How many requests were run together.
    batch_sizes: Histogram,
}

/// The lanes that have requests, waiting or running.
struct Lanes<K, R, T> {
    by_key: HashMap<K, Lane<R, T>>,
    /// The lanes with waiting requests, the next to be served first.
    queue: BTreeMap<StartTag, K>,
    /// The highest start tag that was served; a lane that was idle starts here.
    virtual_time: u64,
    /// The number of start tags so far.
    tag_count: u64,
    running_batches: usize,
    waiting_requests: usize,
    /// How many were refused since the start, because they had waited too long.
    refused_requests: u64,
}

/// The virtual time at which a lane is served next, and a number that orders equal ones by
/// arrival.
type StartTag = (u64, u64);

struct Lane<R, T> {
    waiting: VecDeque<Waiting<R, T>>,
    /// Its last start tag and the weight of what was served then.
    finish_tag: u64,
    running_batches: usize,
    /// Why the last batch with its requests failed as a whole, if it did.
    failure: Option<StoreError>,
}

struct Waiting<R, T> {
    request: R,
    /// One for each caller.
    replies: Vec<Reply<T>>,
    since: Instant,
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

struct Batch<K, R, T> {
    lanes: Vec<K>,
    requests: Vec<Waiting<R, T>>,
}

impl<K, R, T> Batcher<K, R, T>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
    R: Send + 'static,
    T: Clone + Send + 'static,
{
    /// Makes a batcher that runs its batches by `run`, and weighs requests by
    /// `weigh`: each at least 1.
    pub(crate) fn new<F, W>(limits: BatchLimits, weigh: fn(&R) -> usize, run: W) -> Self
    where
        W: Fn(Vec<R>) -> F + Send + Sync + 'static,
        F: Future<Output = Results<T>> + Send + 'static,
    {
        Self(Arc::new(Shared {
            limits,
            weigh,
            run: Box::new(move |requests| Box::pin(run(requests))),
            batch_sizes: batch_histogram(),
            lanes: Mutex::new(Lanes {
                by_key: HashMap::new(),
                queue: BTreeMap::new(),
                virtual_time: 0,
                tag_count: 0,
                running_batches: 0,
                waiting_requests: 0,
                refused_requests: 0,
            }),
        }))
    }

    /// Returns how many requests wait, and how many were refused.
    pub(crate) fn usage(&self) -> (usize, u64) {
        let lanes = self.0.lock();
        (lanes.waiting_requests, lanes.refused_requests)
    }

    /// Returns how many requests are run together.
    pub(crate) fn batch_sizes(&self) -> Histogram {
        self.0.batch_sizes.clone()
    }

    /// Submits a request that reads, and waits for its result for a limited time:
    /// when a database stops to answer, a request waits until the running batch
    /// fails, and then for its own. If an equal one waits, both get the same result.
    pub(crate) async fn read(&self, lane: K, request: R) -> Result<T, StoreError>
    where
        R: PartialEq,
    {
        let result = self.enter(|lanes, reply| lanes.push_or_join(lane, request, reply));
        tokio::time::timeout(READ_TIMEOUT, result)
            .await
            .unwrap_or_else(|_| {
                Err(StoreError::Unavailable(
                    "the database did not answer in time".into(),
                ))
            })
    }

    /// Submits a request and waits for its result. A request whose caller leaves
    /// before its batch begins is not run.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] when the lane has too many requests for this one
    /// to be run soon.
    pub(crate) async fn submit(&self, lane: K, request: R) -> Result<T, StoreError> {
        self.enter(|lanes, reply| lanes.push(lane, request, reply))
            .await
    }

    /// Adds a request to those that wait, begins a batch if one may begin, and waits for the
    /// result.
    async fn enter(
        &self,
        add: impl FnOnce(&mut Lanes<K, R, T>, Reply<T>),
    ) -> Result<T, StoreError> {
        let (reply, result) = oneshot::channel();
        let batch = {
            let mut lanes = self.0.lock();
            add(&mut lanes, reply);
            lanes.next_batch(&self.0.limits, self.0.weigh)
        };
        if let Some(batch) = batch {
            tokio::spawn(Shared::run(Arc::clone(&self.0), batch));
        }
        let closing = || StoreError::Unavailable("the store is closing".into());
        result.await.map_err(|_| closing())?
    }
}

impl<K, R, T> Lanes<K, R, T>
where
    K: Copy + Eq + Hash,
{
    fn push(&mut self, key: K, request: R, reply: Reply<T>) {
        let waiting = Waiting {
            request,
            replies: vec![reply],
            since: Instant::now(),
        };
        let lane = self.by_key.entry(key).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            finish_tag: 0,
            running_batches: 0,
            failure: None,
        });
        let was_empty = lane.waiting.is_empty();
        lane.waiting.push_back(waiting);
        let start = lane.finish_tag.max(self.virtual_time);
        if was_empty {
            self.enqueue(start, key);
        }
        self.waiting_requests += 1;
    }

    fn enqueue(&mut self, start: u64, key: K) {
        self.tag_count += 1;
        self.queue.insert((start, self.tag_count), key);
    }

    /// Adds a request, or its caller to an equal one.
    fn push_or_join(&mut self, key: K, request: R, reply: Reply<T>)
    where
        R: PartialEq,
    {
        let waiting = self.by_key.get_mut(&key).into_iter();
        let mut newest = waiting.flat_map(|lane| lane.waiting.iter_mut().rev().take(MAX_COMPARED));
        match newest.find(|waiting| waiting.request == request) {
            Some(equal) => equal.replies.push(reply),
            None => self.push(key, request, reply),
        }
    }

    /// Removes the requests of the next batch, if one may begin.
    fn next_batch(
        &mut self,
        limits: &BatchLimits,
        weigh: fn(&R) -> usize,
    ) -> Option<Batch<K, R, T>> {
        if self.running_batches >= limits.batches {
            return None;
        }
        let mut batch = Batch {
            lanes: Vec::new(),
            requests: Vec::new(),
        };
        // All batches that may run share the waiting requests.
        let share = self.waiting_requests.div_ceil(limits.batches);
        let mut room = share.clamp(1, limits.weight);
        let mut after = Bound::Unbounded;
        while room > 0
            && let Some((&tag, &key)) = self.queue.range((after, Bound::Unbounded)).next()
        {
            after = Bound::Excluded(tag);
            let Some(lane) = self.by_key.get_mut(&key) else {
                self.queue.remove(&tag);
                continue;
            };
            let is_member = batch.lanes.contains(&key);
            if !is_member && lane.running_batches >= limits.batches_per_lane {
                continue;
            }
            let before = (lane.waiting.len(), batch.requests.len());
            if !limits.mixes_lanes {
                let share = before.0.div_ceil(limits.batches_per_lane);
                room = share.clamp(1, limits.weight);
            }
            // Of several lanes each adds one request at a time.
            let most = if limits.mixes_lanes { 1 } else { usize::MAX };
            self.refused_requests += lane.add_to(&mut batch.requests, most, &mut room, weigh);
            self.waiting_requests -= before.0 - lane.waiting.len();
            let added = batch.requests.get(before.1..).unwrap_or_default();
            let weight: usize = added.iter().map(|waiting| weigh(&waiting.request)).sum();
            if weight > 0 {
                lane.finish_tag = tag.0 + weight as u64;
                self.virtual_time = self.virtual_time.max(tag.0);
                if !is_member {
                    lane.running_batches += 1;
                    batch.lanes.push(key);
                }
            }
            if lane.waiting.is_empty() {
                self.queue.remove(&tag);
                if lane.running_batches == 0 {
                    self.by_key.remove(&key);
                }
            } else if weight > 0 {
                let start = lane.finish_tag;
                self.queue.remove(&tag);
                self.enqueue(start, key);
            }
            if weight > 0 && !limits.mixes_lanes {
                break;
            }
        }
        if batch.requests.is_empty() {
            return None;
        }
        self.running_batches += 1;
        Some(batch)
    }

    /// Notes that a batch has ended.
    fn end_batch(&mut self, batch: &[K], failure: Option<&StoreError>) {
        self.running_batches -= 1;
        for key in batch {
            if let Some(lane) = self.by_key.get_mut(key) {
                lane.running_batches -= 1;
                lane.failure = failure.cloned();
                if lane.running_batches == 0 && lane.waiting.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
    }
}

impl<R, T> Lane<R, T> {
    /// Adds at most `most` requests to a batch, as far as there is room; the first
    /// of a batch always has room. A request whose caller has left is dropped; one
    /// that has waited too long is refused. Returns how many were.
    fn add_to(
        &mut self,
        batch: &mut Vec<Waiting<R, T>>,
        most: usize,
        room: &mut usize,
        weigh: fn(&R) -> usize,
    ) -> u64 {
        let (mut added, mut refused) = (0, 0);
        while added < most
            && let Some(next) = self.waiting.pop_front()
        {
            if next.replies.iter().all(Reply::is_closed) {
                continue;
            }
            if next.since.elapsed() > PERMIT_TIMEOUT {
                refused += next.replies.len() as u64;
                for reply in next.replies {
                    let _ = reply.send(Err(self.refusal()));
                }
                continue;
            }
            let weight = weigh(&next.request);
            if weight > *room && !batch.is_empty() {
                self.waiting.push_front(next);
                return refused;
            }
            *room = room.saturating_sub(weight);
            batch.push(next);
            added += 1;
            if *room == 0 {
                return refused;
            }
        }
        refused
    }

    /// Returns why a request is refused: the batch that it waited for has failed,
    /// or there are too many others.
    fn refusal(&self) -> StoreError {
        match &self.failure {
            Some(failure @ (StoreError::Blocked(_) | StoreError::Unavailable(_))) => {
                failure.clone()
            }
            Some(failure) => StoreError::Unavailable(failure.to_string()),
            None => StoreError::Overloaded,
        }
    }
}

impl<K, R, T> Shared<K, R, T>
where
    K: Copy + Eq + Hash,
{
    fn lock(&self) -> MutexGuard<'_, Lanes<K, R, T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch, then the next, until no request waits.
    async fn run(self: Arc<Self>, first: Batch<K, R, T>)
    where
        T: Clone,
    {
        let mut next = Some(first);
        while let Some(Batch { lanes, requests }) = next {
            let mut running = Running {
                shared: &self,
                lanes,
                failure: Some(StoreError::Unavailable("the batch did not end".into())),
            };
            let (requests, replies): (Vec<R>, Vec<_>) = requests
                .into_iter()
                .map(|waiting| (waiting.request, waiting.replies))
                .unzip();
            let size: usize = replies.iter().map(Vec::len).sum();
            self.batch_sizes
                .observe(u32::try_from(size).unwrap_or(u32::MAX).into());
            let results = (self.run)(requests).await;
            running.failure = results.as_ref().err().cloned();
            match results {
                Ok(results) => {
                    for (replies, result) in replies.into_iter().zip(results) {
                        answer(replies, result);
                    }
                }
                Err(error) => {
                    for replies in replies {
                        answer(replies, Err(error.clone()));
                    }
                }
            }
            drop(running);
            next = self.lock().next_batch(&self.limits, self.weigh);
        }
    }
}

/// Sends a result to its callers. One that has left needs none.
fn answer<T: Clone>(mut replies: Vec<Reply<T>>, result: Result<T, StoreError>) {
    let last = replies.pop();
    for reply in replies {
        let _ = reply.send(result.clone());
    }
    if let Some(reply) = last {
        let _ = reply.send(result);
    }
}

/// A batch that runs; it ends when this is dropped, even by a panic.
struct Running<'s, K: Eq + Hash + Copy, R, T> {
    shared: &'s Shared<K, R, T>,
    lanes: Vec<K>,
    failure: Option<StoreError>,
}

impl<K: Eq + Hash + Copy, R, T> Drop for Running<'_, K, R, T> {
    fn drop(&mut self) {
        let mut lanes = self.shared.lock();
        lanes.end_batch(&self.lanes, self.failure.as_ref());
    }
}
