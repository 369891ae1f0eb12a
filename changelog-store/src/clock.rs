//! The clock of the service.
//!
//! The system clock may jump: after a wrong answer of a time server, in a restored
//! virtual machine, or by a mistyped date. Rows recorded at such a time stay wrong,
//! and keys that expire stay expired. So a jump relative to the monotonic clock is
//! accepted only after it has lasted for three minutes; until then the time
//! continues from its value before the jump.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use changelog_core::Timestamp;
use chrono::{DateTime, Utc};

/// The largest correction of the system clock that is accepted at once, in
/// nanoseconds (two minutes). A larger one is a jump.
const MAX_CORRECTION_NANOS: i64 = 120 * 1_000_000_000;
/// How long a jump must last until it is accepted, in nanoseconds (three minutes).
const CONFIRMATION_NANOS: i64 = 180 * 1_000_000_000;
/// The drift of the system clock at which the offset is updated, in nanoseconds.
const MAX_DRIFT_NANOS: i64 = 1_000_000_000;

/// The clock; cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

/// Wall times are in nanoseconds since 1970, monotonic times in nanoseconds since
/// the machine was started; an offset is wall time minus monotonic time.
struct Inner {
    wall: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    /// The accepted offset.
    offset: AtomicI64,
    /// The monotonic time from which on the offset is confirmed.
    confirmed_from: AtomicI64,
    /// Whether `jump` holds one.
    has_jump: AtomicBool,
    jump: Mutex<Option<Jump>>,
    /// The latest confirmed time ever returned, in milliseconds since 1970.
    latest: AtomicI64,
}

/// A jump of the system clock that is not accepted yet.
#[derive(Clone, Copy)]
struct Jump {
    offset: i64,
    /// The monotonic time at which it was first seen.
    since: i64,
}

/// The result of reading both clocks.
struct Reading {
    now: DateTime<Utc>,
    is_confirmed: bool,
}

impl Clock {
    /// Returns the system clock.
    pub fn system() -> Self {
        Self::new(Utc::now, since_boot)
    }

    /// Returns a clock that reads the given wall and monotonic clocks, for tests.
    pub fn new(
        wall: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        monotonic: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let started = nanos(monotonic());
        let offset = nanos_since_1970(wall()).saturating_sub(started);
        Self(Arc::new(Inner {
            wall: Box::new(wall),
            monotonic: Box::new(monotonic),
            offset: AtomicI64::new(offset),
            confirmed_from: AtomicI64::new(started.saturating_add(CONFIRMATION_NANOS)),
            has_jump: AtomicBool::new(false),
            jump: Mutex::new(None),
            latest: AtomicI64::new(i64::MIN),
        }))
    }

    /// Returns the current time, for recording it.
    pub fn now(&self) -> DateTime<Utc> {
        self.0.read().now
    }

    /// Returns the current time, for checking expiry. It never goes back, so that
    /// setting the clock back makes nothing valid again.
    pub fn for_expiry(&self) -> Timestamp {
        let Reading { now, is_confirmed } = self.0.read();
        let now = now.timestamp_millis();
        let latest = if is_confirmed {
            self.0.latest.fetch_max(now, Ordering::Relaxed)
        } else {
            self.0.latest.load(Ordering::Relaxed)
        };
        Timestamp::from_millis(latest.max(now))
    }

    /// Makes [`Self::for_expiry`] return no time before `earliest`, which an earlier
    /// process recorded. Returns how far `earliest` is ahead of the system clock, if
    /// it is more than two minutes.
    pub fn not_before(&self, earliest: Timestamp) -> Option<Duration> {
        self.0
            .latest
            .fetch_max(earliest.millis(), Ordering::Relaxed);
        let ahead = earliest
            .millis()
            .saturating_sub(self.now().timestamp_millis());
        let ahead = Duration::from_millis(u64::try_from(ahead).ok()?);
        (nanos(ahead) > MAX_CORRECTION_NANOS).then_some(ahead)
    }

    /// Returns the latest time, for the next process to start from; `None` during
    /// the first three minutes and during a jump.
    pub fn latest_confirmed(&self) -> Option<Timestamp> {
        self.0.read().is_confirmed.then(|| self.for_expiry())
    }
}

impl Inner {
    fn read(&self) -> Reading {
        let monotonic = nanos((self.monotonic)());
        let wall = (self.wall)();
        let offset = nanos_since_1970(wall).saturating_sub(monotonic);
        let accepted = self.offset.load(Ordering::Relaxed);
        let distance = offset.saturating_sub(accepted).saturating_abs();
        if distance > MAX_CORRECTION_NANOS || self.has_jump.load(Ordering::Relaxed) {
            return self.read_jumped(wall, offset, monotonic);
        }
        if distance > MAX_DRIFT_NANOS {
            self.offset.store(offset, Ordering::Relaxed);
        }
        Reading {
            now: wall,
            is_confirmed: monotonic >= self.confirmed_from.load(Ordering::Relaxed),
        }
    }

    /// Returns the time during a jump, and accepts or ends the jump.
    fn read_jumped(&self, wall: DateTime<Utc>, offset: i64, monotonic: i64) -> Reading {
        let mut jump = self.jump.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = self.offset.load(Ordering::Relaxed);
        let is_near =
            |other: i64| offset.saturating_sub(other).saturating_abs() <= MAX_CORRECTION_NANOS;
        let confirmed_from = self.confirmed_from.load(Ordering::Relaxed);
        if is_near(accepted) {
            *jump = None;
            self.has_jump.store(false, Ordering::Relaxed);
            self.offset.store(offset, Ordering::Relaxed);
            return Reading {
                now: wall,
                is_confirmed: monotonic >= confirmed_from,
            };
        }
        let seconds = offset.saturating_sub(accepted) / 1_000_000_000;
        match *jump {
            Some(seen) if is_near(seen.offset) => {
                if monotonic.saturating_sub(seen.since) >= CONFIRMATION_NANOS {
                    tracing::warn!(
                        seconds,
                        "the system clock was set; its time is used from now on"
                    );
                    *jump = None;
                    self.has_jump.store(false, Ordering::Relaxed);
                    self.offset.store(offset, Ordering::Relaxed);
                    self.confirmed_from.store(monotonic, Ordering::Relaxed);
                    return Reading {
                        now: wall,
                        is_confirmed: true,
                    };
                }
            }
            _ => {
                tracing::warn!(
                    seconds,
                    "the system clock jumped; its time is used if the jump lasts for three minutes"
                );
                *jump = Some(Jump {
                    offset,
                    since: monotonic,
                });
                self.has_jump.store(true, Ordering::Relaxed);
            }
        }
        Reading {
            now: DateTime::from_timestamp_nanos(accepted.saturating_add(monotonic)),
            is_confirmed: false,
        }
    }
}

/// Returns the time since the machine was started, on Linux including its sleep.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    // Neither is ever negative.
    rustix::time::clock_gettime(clock)
        .try_into()
        .unwrap_or_default()
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns a time in nanoseconds, clamped to the years 1677 to 2262.
fn nanos_since_1970(time: DateTime<Utc>) -> i64 {
    time.timestamp_nanos_opt()
        .unwrap_or(if time.timestamp() < 0 {
            i64::MIN
        } else {
            i64::MAX
        })
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const YEAR: i64 = 365 * 24 * HOUR;
    const START: i64 = 1_763_713_800_000;

    /// Clocks that the test sets, in milliseconds.
    #[derive(Clone)]
    struct Hands {
        wall: Arc<AtomicI64>,
        monotonic: Arc<AtomicI64>,
    }

    impl Hands {
        fn new() -> (Self, Clock) {
            let hands = Self {
                wall: Arc::new(AtomicI64::new(START)),
                monotonic: Arc::new(AtomicI64::new(HOUR)),
            };
            let (wall, monotonic) = (hands.wall.clone(), hands.monotonic.clone());
            let clock = Clock::new(
                move || DateTime::from_timestamp_millis(wall.load(Ordering::Relaxed)).unwrap(),
                move || {
                    let millis = monotonic.load(Ordering::Relaxed);
                    Duration::from_millis(u64::try_from(millis).unwrap())
                },
            );
            (hands, clock)
        }

        /// Lets time pass.
        fn pass(&self, millis: i64) {
            self.jump(millis);
            self.monotonic.fetch_add(millis, Ordering::Relaxed);
        }

        /// Sets the wall clock ahead or back.
        fn jump(&self, millis: i64) {
            self.wall.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// Returns `now` and `for_expiry`, in milliseconds since `START`.
    fn at(clock: &Clock) -> (i64, i64) {
        let now = clock.now().timestamp_millis();
        (now - START, clock.for_expiry().millis() - START)
    }

    #[test]
    fn setting_the_clock_back_makes_nothing_valid_again() {
        let (hands, clock) = Hands::new();
        hands.pass(HOUR);
        assert_eq!(at(&clock), (HOUR, HOUR));
        // A correction is accepted at once, except for expiry.
        hands.jump(-MINUTE);
        assert_eq!(at(&clock), (HOUR - MINUTE, HOUR));
        // A jump that lasts is accepted after three minutes.
        hands.jump(-24 * HOUR);
        assert_eq!(at(&clock), (HOUR - MINUTE, HOUR));
        hands.pass(4 * MINUTE);
        let now = HOUR - MINUTE + 4 * MINUTE - 24 * HOUR;
        assert_eq!(at(&clock), (now, HOUR));
        assert_eq!(clock.latest_confirmed().unwrap().millis(), START + HOUR);
    }

    #[test]
    fn a_jump_that_does_not_last_is_ignored() {
        let (hands, clock) = Hands::new();
        hands.pass(HOUR);
        assert_eq!(at(&clock), (HOUR, HOUR));
        for jump in [10 * YEAR, -10 * YEAR, HOUR, 1_000 * YEAR] {
            let (before, _) = at(&clock);
            hands.jump(jump);
            hands.pass(300);
            assert_eq!(at(&clock), (before + 300, before + 300), "{jump}");
            assert_eq!(clock.latest_confirmed(), None);
            hands.pass(2 * MINUTE);
            let now = before + 300 + 2 * MINUTE;
            assert_eq!(at(&clock), (now, now), "{jump}");
            hands.jump(-jump);
            assert_eq!(at(&clock), (now, now), "{jump}");
            assert!(clock.latest_confirmed().is_some());
        }
    }

    #[test]
    fn a_jump_that_lasts_is_accepted() {
        // As on a machine whose clock is set some seconds after it was started.
        let (hands, clock) = Hands::new();
        hands.pass(10_000);
        assert_eq!(clock.latest_confirmed(), None, "too early to tell");
        hands.jump(50 * YEAR);
        assert_eq!(at(&clock), (10_000, 10_000));
        // Another jump restarts the three minutes.
        hands.pass(2 * MINUTE);
        hands.jump(HOUR);
        assert_eq!(at(&clock), (10_000 + 2 * MINUTE, 10_000 + 2 * MINUTE));
        hands.pass(3 * MINUTE);
        let now = 10_000 + 50 * YEAR + HOUR + 5 * MINUTE;
        assert_eq!(at(&clock), (now, now));
        assert!(clock.latest_confirmed().is_some());
    }

    #[test]
    fn a_jump_at_the_start_is_not_saved() {
        let (hands, clock) = Hands::new();
        hands.jump(10 * YEAR);
        let (_, clock) = (
            clock,
            Clock::new(
                {
                    let wall = hands.wall.clone();
                    move || DateTime::from_timestamp_millis(wall.load(Ordering::Relaxed)).unwrap()
                },
                {
                    let monotonic = hands.monotonic.clone();
                    move || Duration::from_millis(monotonic.load(Ordering::Relaxed).unsigned_abs())
                },
            ),
        );
        assert_eq!(at(&clock), (10 * YEAR, 10 * YEAR));
        hands.jump(-10 * YEAR);
        assert_eq!(clock.latest_confirmed(), None);
        hands.pass(3 * MINUTE);
        assert_eq!(at(&clock), (3 * MINUTE, 3 * MINUTE));
    }

    #[test]
    fn the_time_of_an_earlier_process_is_respected() {
        let (hands, clock) = Hands::new();
        let seen = Timestamp::from_millis(START + HOUR);
        assert_eq!(clock.not_before(seen), Some(Duration::from_hours(1)));
        assert_eq!(at(&clock), (0, HOUR));
        hands.pass(2 * HOUR);
        assert_eq!(at(&clock), (2 * HOUR, 2 * HOUR));
        assert_eq!(clock.not_before(seen), None);
    }
}
