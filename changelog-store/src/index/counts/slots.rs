//! Which row of a stored count a transaction adds to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Tenant;

/// The number of rows that a count may be spread over on PostgreSQL.
const MAX_SLOTS: usize = 4;

/// The slots that transactions of this process are using; cheap to clone.
///
/// A transaction takes the first slot that no other one of its organizations uses: they need not
/// wait for each other, and an organization with one writer at a time has one row for each
/// count, which is what reading costs.
#[derive(Clone, Debug)]
pub(crate) struct CountSlots {
    /// How many transactions use each slot.
    used: Arc<Mutex<HashMap<Tenant, [usize; MAX_SLOTS]>>>,
    /// The one that is taken first, by chance, so that several processes have different ones.
    first: usize,
    count: usize,
}

/// The slot of a transaction; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct CountSlot {
    slots: CountSlots,
    tenants: Vec<Tenant>,
    number: usize,
}

impl CountSlots {
    /// Creates the slots of a database with one writer.
    pub(crate) fn of_one_writer() -> Self {
        Self {
            used: Arc::default(),
            first: 0,
            count: 1,
        }
    }

    /// Creates the slots of a database with several writers.
    pub(crate) fn of_several_writers() -> Self {
        Self {
            first: rand::random_range(0..MAX_SLOTS),
            count: MAX_SLOTS,
            ..Self::of_one_writer()
        }
    }

    /// Takes the slot of a transaction of some organizations; of none if it adds to no counts.
    pub(crate) fn take(&self, tenants: impl IntoIterator<Item = Tenant>) -> CountSlot {
        let mut taken = CountSlot {
            slots: self.clone(),
            tenants: Vec::new(),
            number: self.first,
        };
        if self.count > 1 {
            taken.tenants = tenants.into_iter().collect();
            let mut used = self.lock();
            let transactions = |number: &usize| -> usize {
                let of = |tenant| used.get(tenant).map_or(0, |used| used[*number]);
                taken.tenants.iter().map(of).sum()
            };
            let in_turn = (0..self.count).map(|number| (self.first + number) % self.count);
            taken.number = in_turn.min_by_key(transactions).unwrap_or_default();
            for tenant in &taken.tenants {
                used.entry(*tenant).or_default()[taken.number] += 1;
            }
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, [usize; MAX_SLOTS]>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountSlot {
    /// Returns its number, as rows have it.
    pub(crate) fn number(&self) -> i64 {
        i64::try_from(self.number).unwrap_or_default()
    }
}

impl Drop for CountSlot {
    fn drop(&mut self) {
        let mut all = self.slots.lock();
        for tenant in &self.tenants {
            if let Some(used) = all.get_mut(tenant) {
                used[self.number] -= 1;
                if used.iter().all(|count| *count == 0) {
                    all.remove(tenant);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::types::Uuid;

    use super::*;

    #[test]
    fn the_first_free_slot_is_taken() {
        let [one, other] = [1, 2].map(|number| Some(Tenant(Uuid::from_u128(number).into())));
        let slots = CountSlots::of_several_writers();
        let first = slots.take(one);
        let second = slots.take(one);
        assert_ne!(first.number(), second.number());
        assert_eq!(slots.take(other).number(), first.number());
        let number = first.number();
        drop(first);
        let taken: Vec<_> = (0..4).map(|_| slots.take(one)).collect();
        assert_eq!(taken[0].number(), number);
        // All are in use: one is shared.
        assert_eq!(taken[3].number(), number);
        // One that is free in both.
        drop(second);
        let both = slots.take(one.into_iter().chain(other));
        assert_eq!(both.number(), (number + 1) % 4);
        drop((both, taken));
        assert!(slots.lock().is_empty());
        assert_eq!(CountSlots::of_one_writer().take(one).number(), 0);
    }
}
