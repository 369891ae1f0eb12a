//! How much memory answers hold while they wait to be read.
//!
//! An answer of more than [`FREE`] bytes is counted from when it is made until
//! it was written to its connection, or the connection is gone. All answers
//! together have a budget, and each organization has a share of it, so that
//! one organization whose clients do not read takes nothing from the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::store::Tenant;

/// The largest answer that is not counted, in bytes; how many of these there are
/// is bounded by the number of connections.
pub(crate) const FREE: usize = 64 * 1024;
/// The budget unless the operator sets another, in MiB.
pub(crate) const DEFAULT_MIB: u32 = 256;
/// The largest document of a change, in bytes: its texts, links and tags at their
/// limits, in characters of four bytes.
pub(crate) const LARGEST_CHANGE: usize = 256 * 1024;
/// How many shares the budget has.
const SHARES: usize = 4;
/// How many reservations of one organization fit into its share.
const RESERVATIONS: usize = 2;
/// After how many seconds a refused client may try again.
pub(crate) const RETRY_AFTER: u64 = 1;
pub(crate) const MIB: usize = 1024 * 1024;

/// Whose share an answer is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// The organization that the request acts in.
    Organization(Tenant),
    /// A client without a key or a session, see [`crate::client_limit::network_of`].
    Client(IpAddr),
}

/// The budget; cheap to clone.
#[derive(Clone, Debug)]
pub struct AnswerMemory(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    /// In bytes.
    most: usize,
    held: Mutex<Held>,
    released: Notify,
}

/// In bytes.
#[derive(Debug, Default)]
struct Held {
    in_all: usize,
    of_each: HashMap<Holder, usize>,
}

/// Why an answer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The share of the organization is used up; its size in bytes.
    Share(usize),
    /// The whole budget is used up.
    Budget,
}

impl AnswerMemory {
    /// Makes a budget of so many MiB.
    pub fn new(mebibytes: u32) -> Self {
        let mebibytes = usize::try_from(mebibytes).unwrap_or(usize::MAX);
        Self(Arc::new(Budget {
            most: mebibytes.saturating_mul(MIB).max(1),
            held: Mutex::default(),
            released: Notify::new(),
        }))
    }

    /// Takes bytes of the budget. A holder of nothing may take more than its
    /// share, and an empty budget gives any number: no answer is too large to
    /// be sent at all.
    pub(crate) fn take(&self, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        self.take_within(self.0.share(), holder, bytes)
    }

    /// Takes bytes of the budget for what is kept until answers are made of it:
    /// of at most half of the share, because those answers need memory too, and
    /// what is kept goes only when they are made.
    pub(crate) fn keep(&self, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        self.take_within(self.0.share() / 2, holder, bytes)
    }

    fn take_within(&self, share: usize, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        let mut held = self.0.lock();
        let of_one = held.of_each.get(&holder).copied().unwrap_or_default();
        if of_one > 0 && of_one.saturating_add(bytes) > share {
            return Err(Refused::Share(share));
        }
        if held.in_all > 0 && held.in_all.saturating_add(bytes) > self.0.most {
            return Err(Refused::Budget);
        }
        held.in_all += bytes;
        *held.of_each.entry(holder).or_default() += bytes;
        drop(held);
        Ok(Permit {
            budget: Arc::clone(&self.0),
            holder,
            bytes,
        })
    }

    /// Takes bytes of the budget as soon as there are so many and `left` more in
    /// the share of the holder: what can wait leaves room to what is refused when
    /// there is none.
    pub(crate) async fn reserve(&self, holder: Holder, bytes: usize, left: usize) -> Permit {
        let share = self.0.share().saturating_sub(left);
        loop {
            let mut released = std::pin::pin!(self.0.released.notified());
            // From here on a release is noticed.
            released.as_mut().enable();
            if let Ok(permit) = self.take_within(share, holder, bytes) {
                return permit;
            }
            released.await;
        }
    }

    /// Returns how many things of a size, in bytes, one reservation should be
    /// made for, at least 1.
    pub(crate) fn reservable(&self, size: usize) -> usize {
        (self.0.share() / RESERVATIONS / size.max(1)).max(1)
    }
}

impl Budget {
    fn share(&self) -> usize {
        self.most / SHARES
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, holder: Holder, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut held = self.lock();
        held.in_all -= bytes;
        if let Some(of_one) = held.of_each.get_mut(&holder) {
            *of_one -= bytes;
            if *of_one == 0 {
                held.of_each.remove(&holder);
            }
        }
        drop(held);
        self.released.notify_waiters();
    }
}

/// Bytes of the budget, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: usize,
}

impl Permit {
    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.release(self.holder, surplus);
    }

    /// Returns bytes that hold the permit until the last copy of them is gone.
    pub(crate) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Counted {
            bytes,
            _permit: Arc::clone(self),
        })
    }

    /// Returns a part of an answer that was made under a reservation; a small
    /// one is not counted.
    pub(crate) fn fitted(mut self, part: Vec<u8>) -> Bytes {
        if part.len() <= FREE {
            return part.into();
        }
        self.shrink(part.capacity());
        Arc::new(self).hold(part.into())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.release(self.holder, self.bytes);
    }
}

struct Counted {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn holder(number: u8) -> Holder {
        Holder::Client(Ipv4Addr::new(192, 0, 2, number).into())
    }

    #[test]
    fn a_share_refuses_its_holder_and_the_budget_everybody() {
        let memory = AnswerMemory::new(8);
        let first = memory.take(holder(1), 2 * MIB).unwrap();
        let share = memory.take(holder(1), 1).unwrap_err();
        assert_eq!(share, Refused::Share(2 * MIB));
        let others: Vec<_> = (2..=4)
            .map(|number| memory.take(holder(number), 2 * MIB).unwrap())
            .collect();
        assert_eq!(memory.take(holder(5), 1).unwrap_err(), Refused::Budget);
        drop(first);
        // Who holds nothing may exceed a share, but not the budget.
        assert_eq!(
            memory.take(holder(1), 3 * MIB).unwrap_err(),
            Refused::Budget
        );
        drop(others);
        memory.take(holder(1), 100 * MIB).unwrap();
        assert!(memory.0.lock().of_each.is_empty());
    }

    #[tokio::test]
    async fn a_permit_lasts_as_long_as_the_bytes() {
        let memory = AnswerMemory::new(4);
        let permit = memory.reserve(holder(1), MIB, 0).await;
        let part = permit.fitted(vec![b'x'; 3 * FREE]);
        assert_eq!(memory.0.lock().in_all, 3 * FREE);
        let rest = part.slice(1..);
        drop(part);
        let mut waiting = std::pin::pin!(memory.reserve(holder(1), MIB, 0));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(rest);
        let permit = waiting.await;
        assert_eq!(permit.fitted(vec![b'x'; FREE]).len(), FREE);
        assert_eq!(memory.0.lock().in_all, 0);
    }
}
