//! Turns that organizations share fairly: an organization holds at most its
//! share of them at once, and those that wait are served in rotation, one
//! organization after the other. Without this, one organization whose requests
//! are slow takes every connection to the database from all others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::store::{StoreError, Tenant};

/// How long a request waits for a turn. With the time limit of a statement it
/// stays below the five seconds after which a caller must have an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// For whom a turn is taken: an organization, or the service itself (`None`),
/// which looks up keys and sessions before it knows the organization.
pub(crate) type Party = Option<Tenant>;

/// A number of turns, and how many of them one party may hold at once.
#[derive(Debug)]
pub(crate) struct FairShare {
    share: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    parties: HashMap<Party, Queue>,
    /// The parties that have waiters, the next to be served first.
    rotation: VecDeque<Party>,
}

/// What one party holds, and who waits for it.
#[derive(Debug, Default)]
struct Queue {
    held: usize,
    waiters: VecDeque<oneshot::Sender<Turn>>,
}

/// A turn; it goes to the next waiter when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    shares: Arc<FairShare>,
    party: Party,
}

impl FairShare {
    /// Makes so many turns, of which one party holds at most `share` at once.
    pub(crate) fn new(turns: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            share,
            state: Mutex::new(State {
                free: turns,
                parties: HashMap::new(),
                rotation: VecDeque::new(),
            }),
        })
    }

    /// Returns how many turns one party holds at most.
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// After [`PATIENCE`], [`StoreError::Overloaded`] when an organization holds
    /// its whole share, else [`StoreError::Unavailable`].
    pub(crate) async fn turn(self: &Arc<Self>, party: Party) -> Result<Turn, StoreError> {
        let waiting = {
            let mut state = self.lock();
            let State {
                free,
                parties,
                rotation,
            } = &mut *state;
            let queue = parties.entry(party).or_default();
            if *free > 0 && queue.held < self.share && queue.waiters.is_empty() {
                *free -= 1;
                queue.held += 1;
                return Ok(self.made_out_to(party));
            }
            let (waiter, waiting) = oneshot::channel();
            if queue.waiters.is_empty() {
                rotation.push_back(party);
            }
            queue.waiters.push_back(waiter);
            waiting
        };
        if let Ok(Ok(turn)) = tokio::time::timeout(PATIENCE, waiting).await {
            return Ok(turn);
        }
        let held = self
            .lock()
            .parties
            .get(&party)
            .map_or(0, |queue| queue.held);
        if party.is_some() && held >= self.share {
            return Err(StoreError::Overloaded);
        }
        Err(StoreError::Unavailable(
            "every connection for this work is in use".into(),
        ))
    }

    fn made_out_to(self: &Arc<Self>, party: Party) -> Turn {
        Turn {
            shares: Arc::clone(self),
            party,
        }
    }
}

impl State {
    /// Takes the next waiter that may have a turn, with its party.
    fn next(&mut self, share: usize) -> Option<(Party, oneshot::Sender<Turn>)> {
        if self.free == 0 {
            return None;
        }
        for _ in 0..self.rotation.len() {
            let party = self.rotation.pop_front()?;
            let Some(queue) = self.parties.get_mut(&party) else {
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
                    self.rotation.push_back(party);
                }
                return Some((party, waiter));
            }
            if !queue.waiters.is_empty() {
                self.rotation.push_back(party);
            } else if queue.held == 0 {
                self.parties.remove(&party);
            }
        }
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.shares.lock();
        state.free += 1;
        if let Some(queue) = state.parties.get_mut(&self.party) {
            queue.held -= 1;
            if queue.held == 0 && queue.waiters.is_empty() {
                state.parties.remove(&self.party);
            }
        }
        let next = state.next(self.shares.share);
        drop(state);
        if let Some((party, waiter)) = next {
            // A waiter that gave up at this moment drops the turn, which passes
            // it on.
            let _ = waiter.send(self.shares.made_out_to(party));
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

    fn parties<const N: usize>() -> [Party; N] {
        std::array::from_fn(|number| {
            let random = [u8::try_from(number).unwrap(); 10];
            Some(Tenant(uuid_v7(Timestamp::EPOCH, None, random).into()))
        })
    }

    #[tokio::test]
    async fn a_party_holds_at_most_its_share_and_leaves_the_rest_to_others() {
        let shares = FairShare::new(3, 2);
        let [a, b] = parties();
        let first = shares.turn(a).await.unwrap();
        let _second = shares.turn(a).await.unwrap();
        let mut third = Box::pin(shares.turn(a));
        assert!(third.as_mut().now_or_never().is_none(), "its share is two");
        let _other = shares.turn(b).now_or_never().expect("one is left").unwrap();
        drop(first);
        assert!(third.now_or_never().expect("its turn is free").is_ok());
    }

    #[tokio::test]
    async fn waiters_are_served_one_party_after_the_other() {
        let shares = FairShare::new(1, 1);
        let [a, b, c] = parties();
        let mut held = shares.turn(c).await.unwrap();
        let mut waiting = Vec::new();
        // Three of the first wait before one of the second comes.
        for party in [a, a, a, b] {
            let mut turn = Box::pin(shares.turn(party).fuse());
            assert!(turn.as_mut().now_or_never().is_none());
            waiting.push(turn);
        }
        let mut order = Vec::new();
        while order.len() < 4 {
            drop(held);
            held = waiting
                .iter_mut()
                .filter(|turn| !turn.is_terminated())
                .find_map(|turn| turn.as_mut().now_or_never())
                .expect("one of them has it")
                .unwrap();
            order.push(held.party);
        }
        assert_eq!(order, [a, b, a, a]);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_who_is_to_blame() {
        let shares = FairShare::new(2, 2);
        let [a, b] = parties();
        let _held = (shares.turn(a).await.unwrap(), shares.turn(a).await.unwrap());
        let (own, other) = tokio::join!(shares.turn(a), shares.turn(b));
        assert!(matches!(own, Err(StoreError::Overloaded)), "{own:?}");
        assert!(
            matches!(other, Err(StoreError::Unavailable(_))),
            "{other:?}"
        );
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind() {
        let shares = FairShare::new(1, 1);
        let [a, b] = parties();
        let held = shares.turn(a).await.unwrap();
        for _ in 0..100 {
            assert!(shares.turn(b).now_or_never().is_none());
        }
        drop(held);
        drop(shares.turn(a).now_or_never().expect("it is free"));
        let state = shares.lock();
        assert_eq!(state.free, 1);
        assert!(
            state.parties.is_empty() && state.rotation.is_empty(),
            "{state:?}"
        );
    }
}
