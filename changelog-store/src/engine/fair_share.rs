//! Permits that organizations share fairly: an organization holds at most its
//! share of them at once, and waiters are served in rotation, one organization
//! after the other. Without this, one organization whose requests are slow takes
//! every connection to the database from all others.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use changelog_core::OrganizationId;
use tokio::sync::oneshot;

use super::error::StoreError;

/// How long a request waits for a permit. Together with the time limit of a
/// statement this is less than the five seconds after which a caller must have
/// an answer.
pub(crate) const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Who holds a permit: an organization, or the service itself (`None`), which
/// looks up keys and sessions before it knows the organization.
pub(crate) type Holder = Option<OrganizationId>;

/// A number of permits, and how many of them one holder may have at once.
#[derive(Debug)]
pub(crate) struct FairShare {
    permits: usize,
    share: usize,
    /// How many were refused because their holder held its share.
    refused: AtomicU64,
    /// How many were refused because all permits were in use.
    exhausted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    holders: HashMap<Holder, Queue>,
    /// The holders that have waiters, the next to be served first.
    rotation: VecDeque<Holder>,
}

/// The permits of one holder, and its waiters.
#[derive(Debug, Default)]
struct Queue {
    held: usize,
    waiters: VecDeque<oneshot::Sender<Permit>>,
}

/// How permits are used.
#[derive(Clone, Copy, Debug)]
pub struct ShareUsage {
    /// The number of permits.
    pub permits: usize,
    /// How many of them are held.
    pub in_use: usize,
    /// How many wait for one.
    pub waiting: usize,
    /// How many were refused because their organization held its share.
    pub refused: u64,
    /// How many were refused because all permits were in use.
    pub exhausted: u64,
}

/// A permit; it goes to the next waiter when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    shares: Arc<FairShare>,
    holder: Holder,
}

impl FairShare {
    /// Makes `permits`, of which one holder has at most `share` at once.
    pub(crate) fn new(permits: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            permits,
            share,
            refused: AtomicU64::default(),
            exhausted: AtomicU64::default(),
            state: Mutex::new(State {
                free: permits,
                holders: HashMap::new(),
                rotation: VecDeque::new(),
            }),
        })
    }

    /// Returns how many permits one holder has at most.
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    /// Returns how it is used.
    pub(crate) fn usage(&self) -> ShareUsage {
        let state = self.lock();
        ShareUsage {
            permits: self.permits,
            in_use: self.permits.saturating_sub(state.free),
            waiting: state
                .holders
                .values()
                .map(|queue| queue.waiters.len())
                .sum(),
            refused: self.refused.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// After [`PERMIT_TIMEOUT`], [`StoreError::Overloaded`] when an organization holds
    /// its whole share, else [`StoreError::Unavailable`].
    pub(crate) async fn acquire(self: &Arc<Self>, holder: Holder) -> Result<Permit, StoreError> {
        let waiting = {
            let mut state = self.lock();
            let State {
                free,
                holders,
                rotation,
            } = &mut *state;
            let queue = holders.entry(holder).or_default();
            if *free > 0 && queue.held < self.share && queue.waiters.is_empty() {
                *free -= 1;
                queue.held += 1;
                return Ok(self.permit_for(holder));
            }
            let (waiter, waiting) = oneshot::channel();
            if queue.waiters.is_empty() {
                rotation.push_back(holder);
            }
            queue.waiters.push_back(waiter);
            waiting
        };
        if let Ok(Ok(permit)) = tokio::time::timeout(PERMIT_TIMEOUT, waiting).await {
            return Ok(permit);
        }
        let held = self
            .lock()
            .holders
            .get(&holder)
            .map_or(0, |queue| queue.held);
        if holder.is_some() && held >= self.share {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(StoreError::Overloaded);
        }
        self.exhausted.fetch_add(1, Ordering::Relaxed);
        Err(StoreError::Unavailable(
            "every connection for this work is in use".into(),
        ))
    }

    fn permit_for(self: &Arc<Self>, holder: Holder) -> Permit {
        Permit {
            shares: Arc::clone(self),
            holder,
        }
    }
}

impl State {
    /// Removes the next waiter that may have a permit, with its holder.
    fn next(&mut self, share: usize) -> Option<(Holder, oneshot::Sender<Permit>)> {
        if self.free == 0 {
            return None;
        }
        for _ in 0..self.rotation.len() {
            let holder = self.rotation.pop_front()?;
            let Some(queue) = self.holders.get_mut(&holder) else {
                continue;
            };
            // Waiters that have given up do not count.
            while queue
                .waiters
                .front()
                .is_some_and(oneshot::Sender::is_closed)
            {
                queue.waiters.pop_front();
            }
            if queue.held < share
                && let Some(waiter) = queue.waiters.pop_front()
            {
                queue.held += 1;
                self.free -= 1;
                if !queue.waiters.is_empty() {
                    self.rotation.push_back(holder);
                }
                return Some((holder, waiter));
            }
            if !queue.waiters.is_empty() {
                self.rotation.push_back(holder);
            } else if queue.held == 0 {
                self.holders.remove(&holder);
            }
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shares.lock();
        state.free += 1;
        if let Some(queue) = state.holders.get_mut(&self.holder) {
            queue.held -= 1;
            if queue.held == 0 && queue.waiters.is_empty() {
                state.holders.remove(&self.holder);
            }
        }
        let next = state.next(self.shares.share);
        drop(state);
        if let Some((holder, waiter)) = next {
            // A waiter that gives up at this moment drops the permit, which passes
            // it on.
            let _ = waiter.send(self.shares.permit_for(holder));
        }
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::Timestamp;
    use changelog_core::ids::uuid_v7;
    use futures_util::FutureExt;
    use futures_util::future::FusedFuture;

    use super::*;

    fn holders<const N: usize>() -> [Holder; N] {
        std::array::from_fn(|number| {
            let random = [u8::try_from(number).unwrap(); 10];
            Some(uuid_v7(Timestamp::EPOCH, None, random).into())
        })
    }

    #[tokio::test]
    async fn a_holder_holds_at_most_its_share_and_leaves_the_rest_to_others() {
        let shares = FairShare::new(3, 2);
        let [a, b] = holders();
        let first = shares.acquire(a).await.unwrap();
        let _second = shares.acquire(a).await.unwrap();
        let mut third = Box::pin(shares.acquire(a));
        assert!(third.as_mut().now_or_never().is_none(), "its share is two");
        let _other = shares
            .acquire(b)
            .now_or_never()
            .expect("one is left")
            .unwrap();
        drop(first);
        assert!(third.now_or_never().expect("its permit is free").is_ok());
    }

    #[tokio::test]
    async fn waiters_are_served_one_holder_after_the_other() {
        let shares = FairShare::new(1, 1);
        let [a, b, c] = holders();
        let mut held = shares.acquire(c).await.unwrap();
        let mut waiting = Vec::new();
        // Three of the first wait before one of the second comes.
        for holder in [a, a, a, b] {
            let mut permit = Box::pin(shares.acquire(holder).fuse());
            assert!(permit.as_mut().now_or_never().is_none());
            waiting.push(permit);
        }
        let mut order = Vec::new();
        while order.len() < 4 {
            drop(held);
            held = waiting
                .iter_mut()
                .filter(|permit| !permit.is_terminated())
                .find_map(|permit| permit.as_mut().now_or_never())
                .expect("one of them has it")
                .unwrap();
            order.push(held.holder);
        }
        assert_eq!(order, [a, b, a, a]);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_reason() {
        let shares = FairShare::new(2, 2);
        let [a, b] = holders();
        let _held = (
            shares.acquire(a).await.unwrap(),
            shares.acquire(a).await.unwrap(),
        );
        let (own, other) = tokio::join!(shares.acquire(a), shares.acquire(b));
        assert!(matches!(own, Err(StoreError::Overloaded)), "{own:?}");
        assert!(
            matches!(other, Err(StoreError::Unavailable(_))),
            "{other:?}"
        );
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let shares = FairShare::new(1, 1);
        let [a, b] = holders();
        let held = shares.acquire(a).await.unwrap();
        for _ in 0..100 {
            assert!(shares.acquire(b).now_or_never().is_none());
        }
        drop(held);
        drop(shares.acquire(a).now_or_never().expect("it is free"));
        let state = shares.lock();
        assert_eq!(state.free, 1);
        assert!(
            state.holders.is_empty() && state.rotation.is_empty(),
            "{state:?}"
        );
    }
}
