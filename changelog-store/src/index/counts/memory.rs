//! What a process remembers of counts that pages show again and again.

use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changelog_core::ServiceId;
use quick_cache::sync::Cache;

use super::kinds::{ChartScope, KindCounts};
use crate::Tenant;

/// The limits on parts of days that are remembered (about 250 bytes each, 370 a chart), on
/// charts (about 27 KB each), and on lists of busiest services.
const MAX_PARTS: usize = 100_000;
const MAX_CHARTS: usize = 500;
const MAX_BUSIEST: usize = 10_000;
/// How long the past is remembered at least and at most: an update may have moved a change
/// within it, which its sums do not show. The parts of a chart do not expire at the same
/// moment, so that no page has to count all of them again.
const PAST_FOR: Range<Duration> = Duration::from_mins(5)..Duration::from_mins(15);
/// How long the busiest services are remembered.
const BUSIEST_FOR: Duration = Duration::from_mins(1);

/// The organization, the scope, and the end of the part in milliseconds since 1970.
pub(super) type PartKey = (Tenant, ChartScope, i64);
/// The organization, the scope, and the days since 1970.
pub(super) type DaysKey = (Tenant, ChartScope, Range<i64>);
/// The organization, the days since 1970, and the limit on services.
pub(super) type BusiestKey = (Tenant, Range<i64>, u64);
/// Services with their numbers of changes.
pub(super) type Busiest = Arc<[(ServiceId, u64)]>;

/// The remembered counts; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CountMemory {
    parts: Arc<Cache<PartKey, Expiring<CountedPart>>>,
    days: Arc<Cache<DaysKey, Expiring<Arc<OldDays>>>>,
    busiest: Arc<Cache<BusiestKey, Expiring<Busiest>>>,
    random: RandomState,
}

#[derive(Clone, Debug)]
struct Expiring<T> {
    value: T,
    at: Instant,
}

/// The changes of a day in UTC before some time of it.
#[derive(Clone, Copy, Debug)]
struct CountedPart {
    /// The kept counts of the day then; if the day has others now, the part may have others.
    day: KindCounts,
    part: KindCounts,
}

/// The kept counts of days that are over.
#[derive(Debug)]
pub(super) struct OldDays {
    pub(super) days: Vec<KindCounts>,
    /// The counts of all time without those of newer days; if they are others now, these
    /// days may have others.
    pub(super) sum: KindCounts,
}

impl Default for CountMemory {
    fn default() -> Self {
        Self {
            parts: Arc::new(Cache::new(MAX_PARTS)),
            days: Arc::new(Cache::new(MAX_CHARTS)),
            busiest: Arc::new(Cache::new(MAX_BUSIEST)),
            random: RandomState::new(),
        }
    }
}

impl CountMemory {
    /// Returns a part of a day that has these counts now.
    pub(super) fn part(&self, key: &PartKey, day: KindCounts) -> Option<KindCounts> {
        let found = self.parts.get(key)?.unexpired()?;
        (found.day == day).then_some(found.part)
    }

    pub(super) fn remember_part(&self, key: PartKey, day: KindCounts, part: KindCounts) {
        let expiring = self.past(&key, CountedPart { day, part });
        self.parts.insert(key, expiring);
    }

    pub(super) fn old_days(&self, key: &DaysKey) -> Option<Arc<OldDays>> {
        self.days.get(key)?.unexpired()
    }

    pub(super) fn remember_old_days(&self, key: DaysKey, days: Arc<OldDays>) {
        let expiring = self.past(&key, days);
        self.days.insert(key, expiring);
    }

    pub(super) fn busiest(&self, key: &BusiestKey) -> Option<Busiest> {
        self.busiest.get(key)?.unexpired()
    }

    pub(super) fn remember_busiest(&self, key: BusiestKey, value: Busiest) {
        let at = Instant::now() + BUSIEST_FOR;
        self.busiest.insert(key, Expiring { value, at });
    }

    fn past<T>(&self, key: &impl Hash, value: T) -> Expiring<T> {
        let spread = PAST_FOR.end.as_secs() - PAST_FOR.start.as_secs();
        let later = Duration::from_secs(self.random.hash_one(key) % spread);
        let at = Instant::now() + PAST_FOR.start + later;
        Expiring { value, at }
    }
}

impl<T> Expiring<T> {
    fn unexpired(self) -> Option<T> {
        (Instant::now() < self.at).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::ids::uuid_v7;
    use changelog_core::{RiskLevel, Status, Timestamp};

    use super::*;

    #[test]
    fn a_part_is_valid_while_its_day_is_unchanged() {
        let memory = CountMemory::default();
        let tenant = Tenant(uuid_v7(Timestamp::EPOCH, None, [0; 10]).into());
        let key = (tenant, ChartScope::Organization, 7);
        let (mut day, mut part) = (KindCounts::default(), KindCounts::default());
        day.add(&RiskLevel::High, &Status::Completed, 3);
        part.add(&RiskLevel::High, &Status::Completed, 1);
        memory.remember_part(key, day, part);
        assert_eq!(memory.part(&key, day), Some(part));
        assert_eq!(memory.part(&(key.0, key.1, 8), day), None);
        day.add(&RiskLevel::Low, &Status::RolledBack, 1);
        assert_eq!(memory.part(&key, day), None);
    }
}
