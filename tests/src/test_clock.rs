//! The clock of the services in a test process: the system's, and as far ahead of it as a
//! test has moved it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use changelog_server::clock::Clock;
use chrono::{TimeDelta, Utc};

/// A clock that a test moves on; clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock {
    started: Instant,
    ahead_ms: Arc<AtomicI64>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            ahead_ms: Arc::default(),
        }
    }
}

impl TestClock {
    /// Moves the clock on. Services do not take it for a jump of the system's clock.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a time in this millennium");
        self.ahead_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// Returns how far it is ahead of the system's clock.
    pub fn ahead(&self) -> Duration {
        let millis = self.ahead_ms.load(Ordering::Relaxed);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    /// Returns the clock for a service.
    pub(crate) fn clock(&self) -> Clock {
        let (wall, monotonic) = (self.clone(), self.clone());
        Clock::new(
            move || {
                let ahead = TimeDelta::from_std(wall.ahead()).unwrap_or_default();
                Utc::now() + ahead
            },
            move || monotonic.started.elapsed() + monotonic.ahead(),
        )
    }
}
