//! The clock of the services in a test process: the system's, and as far ahead of it as a
//! test has moved it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use changelog_server::clock::Clock;
use chrono::{DateTime, TimeDelta, Utc};

/// A clock that a test moves on or stops; clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock {
    started: Instant,
    started_at: DateTime<Utc>,
    ahead_ms: Arc<AtomicI64>,
    stopped_after: Arc<OnceLock<Duration>>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            started_at: Utc::now(),
            ahead_ms: Arc::default(),
            stopped_after: Arc::default(),
        }
    }
}

impl TestClock {
    /// Moves the clock on. Services do not take it for a jump of the system's clock.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a time in this millennium");
        self.ahead_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// Stops the clock: from now on only [`Self::advance`] moves it. For tests of what happens
    /// within a time that a slow machine exceeds.
    pub fn stop(&self) {
        self.stopped_after.get_or_init(|| self.started.elapsed());
    }

    /// Returns how far it is ahead of the system's clock, until it is stopped.
    pub fn ahead(&self) -> Duration {
        let millis = self.ahead_ms.load(Ordering::Relaxed);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    /// Returns the time of the services.
    pub fn now(&self) -> DateTime<Utc> {
        self.started_at + TimeDelta::from_std(self.elapsed()).unwrap_or_default()
    }

    /// Returns the clock for a service.
    pub(crate) fn clock(&self) -> Clock {
        let (wall, monotonic) = (self.clone(), self.clone());
        Clock::new(move || wall.now(), move || monotonic.elapsed())
    }

    fn elapsed(&self) -> Duration {
        let stopped = self.stopped_after.get().copied();
        stopped.unwrap_or_else(|| self.started.elapsed()) + self.ahead()
    }
}
