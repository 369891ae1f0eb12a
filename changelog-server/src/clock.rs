//! The time, as the service sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use changelog_core::Timestamp;
use chrono::{DateTime, Utc};

/// Tells the time; cheap to clone.
#[derive(Clone)]
pub struct Clock {
    source: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    /// The latest moment ever told, in milliseconds since 1970.
    latest: Arc<AtomicI64>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(Utc::now)
    }

    /// A clock of the caller's own, for tests.
    pub fn new(source: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self {
            source: Arc::new(source),
            latest: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }

    /// Returns the time now, for what is being recorded.
    pub fn now(&self) -> DateTime<Utc> {
        (self.source)()
    }

    /// Returns the time now, for deciding whether something has expired: it
    /// never goes back, so that a clock that is set back revives nothing.
    pub fn for_expiry(&self) -> Timestamp {
        let now = self.now().timestamp_millis();
        let latest = self.latest.fetch_max(now, Ordering::Relaxed);
        Timestamp::from_millis(latest.max(now))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_clock_set_back_revives_nothing() {
        let millis = Arc::new(AtomicI64::new(1_000_000_000_000));
        let read = Arc::clone(&millis);
        let clock = Clock::new(move || {
            DateTime::from_timestamp_millis(read.load(Ordering::Relaxed)).unwrap()
        });
        let before = clock.for_expiry();
        millis.fetch_sub(TimeDelta::hours(1).num_milliseconds(), Ordering::Relaxed);
        assert_eq!(clock.for_expiry(), before);
        assert_eq!(
            clock.now().timestamp_millis(),
            1_000_000_000_000 - 3_600_000
        );
        millis.fetch_add(TimeDelta::hours(2).num_milliseconds(), Ordering::Relaxed);
        assert_eq!(clock.for_expiry().millis(), before.millis() + 3_600_000);
    }
}
