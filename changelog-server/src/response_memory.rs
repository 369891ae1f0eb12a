//! The memory budget of responses that clients have not read yet.
//!
//! A response of more than [`UNCOUNTED_BYTES`] is counted until it is written to its
//! connection or the connection is closed. Each organization has a share of the
//! budget, so that slow clients of one do not affect the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::store::Tenant;

/// The largest response that is not counted, in bytes; the number of connections
/// bounds how many there are.
pub(crate) const UNCOUNTED_BYTES: usize = 64 * 1024;
/// The default budget, in MiB.
pub(crate) const DEFAULT_MIB: u32 = 256;
/// The largest change as JSON, in bytes: all its fields at their limits, in
/// characters of four bytes.
pub(crate) const MAX_CHANGE_BYTES: usize = 256 * 1024;
/// The share of one holder is the budget divided by this.
const SHARES_PER_BUDGET: usize = 4;
/// How many reservations fit into a share.
const RESERVATIONS_PER_SHARE: usize = 2;
/// How long a refused client waits before it tries again, in seconds.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 1;
pub(crate) const MIB: usize = 1024 * 1024;

/// Whose share a response is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// The organization that the request acts in.
    Organization(Tenant),
    /// A client without a key or a session, see [`crate::client_limit::network_of`].
    Client(IpAddr),
}

/// The memory budget; cheap to clone.
#[derive(Clone, Debug)]
pub struct ResponseMemory(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    max_bytes: usize,
    held: Mutex<Held>,
    released: Notify,
}

/// Bytes in use.
#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_holder: HashMap<Holder, usize>,
}

/// Why a response is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The holder's share, of this size in bytes, is used up.
    Share(usize),
    /// The whole budget is used up.
    Budget,
}

impl ResponseMemory {
    /// Creates a budget in MiB.
    pub fn new(mebibytes: u32) -> Self {
        let mebibytes = usize::try_from(mebibytes).unwrap_or(usize::MAX);
        Self(Arc::new(Budget {
            max_bytes: mebibytes.saturating_mul(MIB).max(1),
            held: Mutex::default(),
            released: Notify::new(),
        }))
    }

    /// Takes bytes from the budget. A holder without bytes may exceed its share, and
    /// an unused budget grants any number, so that any response can be sent.
    pub(crate) fn take(&self, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        self.take_within(self.0.share(), holder, bytes)
    }

    /// Takes bytes from the budget for data that responses are made from later. It
    /// may use half of the share: the responses need the other half.
    pub(crate) fn take_for_later(&self, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        self.take_within(self.0.share() / 2, holder, bytes)
    }

    fn take_within(&self, share: usize, holder: Holder, bytes: usize) -> Result<Permit, Refused> {
        let mut held = self.0.lock();
        let held_by_one = held.by_holder.get(&holder).copied().unwrap_or_default();
        if held_by_one > 0 && held_by_one.saturating_add(bytes) > share {
            return Err(Refused::Share(share));
        }
        if held.total > 0 && held.total.saturating_add(bytes) > self.0.max_bytes {
            return Err(Refused::Budget);
        }
        held.total += bytes;
        *held.by_holder.entry(holder).or_default() += bytes;
        drop(held);
        Ok(Permit {
            budget: Arc::clone(&self.0),
            holder,
            bytes,
        })
    }

    /// Waits until the holder's share has `bytes` and `left` more, and takes `bytes`.
    /// `left` stays free for responses that cannot wait.
    pub(crate) async fn reserve(&self, holder: Holder, bytes: usize, left: usize) -> Permit {
        let share = self.0.share().saturating_sub(left);
        loop {
            let mut released = std::pin::pin!(self.0.released.notified());
            // From here on, a release wakes this task.
            released.as_mut().enable();
            if let Ok(permit) = self.take_within(share, holder, bytes) {
                return permit;
            }
            released.await;
        }
    }

    /// Returns how many items of `size` bytes to reserve at once, at least 1.
    pub(crate) fn items_per_reservation(&self, size: usize) -> usize {
        (self.0.share() / RESERVATIONS_PER_SHARE / size.max(1)).max(1)
    }
}

impl Budget {
    fn share(&self) -> usize {
        self.max_bytes / SHARES_PER_BUDGET
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, holder: Holder, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut held = self.lock();
        held.total -= bytes;
        if let Some(held_by_one) = held.by_holder.get_mut(&holder) {
            *held_by_one -= bytes;
            if *held_by_one == 0 {
                held.by_holder.remove(&holder);
            }
        }
        drop(held);
        self.released.notify_waiters();
    }
}

/// Bytes of the budget, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    holder: Holder,
    bytes: usize,
}

impl Permit {
    /// Releases all but `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.release(self.holder, surplus);
    }

    /// Returns bytes that keep the permit until their last copy is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(CountedBytes {
            bytes,
            _permit: Arc::clone(self),
        })
    }

    /// Releases the surplus of a reservation and returns the part of a response that
    /// was made under it; a small part is not counted.
    pub(crate) fn fit(mut self, part: Vec<u8>) -> Bytes {
        if part.len() <= UNCOUNTED_BYTES {
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

struct CountedBytes {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for CountedBytes {
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
    fn a_share_limits_its_holder_and_the_budget_limits_all() {
        let memory = ResponseMemory::new(8);
        let first = memory.take(holder(1), 2 * MIB).unwrap();
        let share = memory.take(holder(1), 1).unwrap_err();
        assert_eq!(share, Refused::Share(2 * MIB));
        let others: Vec<_> = (2..=4)
            .map(|number| memory.take(holder(number), 2 * MIB).unwrap())
            .collect();
        assert_eq!(memory.take(holder(5), 1).unwrap_err(), Refused::Budget);
        drop(first);
        // A holder without bytes may exceed its share, but not the budget.
        assert_eq!(
            memory.take(holder(1), 3 * MIB).unwrap_err(),
            Refused::Budget
        );
        drop(others);
        memory.take(holder(1), 100 * MIB).unwrap();
        assert!(memory.0.lock().by_holder.is_empty());
    }

    #[tokio::test]
    async fn a_permit_lasts_as_long_as_the_bytes() {
        let memory = ResponseMemory::new(4);
        let permit = memory.reserve(holder(1), MIB, 0).await;
        let part = permit.fit(vec![b'x'; 3 * UNCOUNTED_BYTES]);
        assert_eq!(memory.0.lock().total, 3 * UNCOUNTED_BYTES);
        let rest = part.slice(1..);
        drop(part);
        let mut waiting = std::pin::pin!(memory.reserve(holder(1), MIB, 0));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(rest);
        let permit = waiting.await;
        assert_eq!(
            permit.fit(vec![b'x'; UNCOUNTED_BYTES]).len(),
            UNCOUNTED_BYTES
        );
        assert_eq!(memory.0.lock().total, 0);
    }
}
