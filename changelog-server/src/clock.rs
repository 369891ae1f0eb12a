//! The time, as the service sees it.
//!
//! The system's clock may leap: a wrong answer of a time server, a virtual
//! machine that was restored, a person who mistypes a date. What is recorded
//! under such a time stays wrong, and what expires under it stays expired. So a
//! leap against the monotonic clock is believed only when it has stayed for some
//! minutes; until then the time goes on from where it was.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use changelog_core::Timestamp;
use chrono::{DateTime, Utc};

/// How far the system's clock may be set, against the monotonic clock, and be
/// believed at once, in nanoseconds: two minutes.
const STEP: i64 = 120 * 1_000_000_000;
/// How long a clock must agree with itself until a larger leap is believed, in
/// nanoseconds: three minutes.
const CONFIRMATION: i64 = 180 * 1_000_000_000;
/// How far the clock may drift until that is noted, in nanoseconds.
const DRIFT: i64 = 1_000_000_000;

/// Tells the time; cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

/// Moments are nanoseconds since 1970, or since the machine was started for the
/// monotonic clock; an offset is the difference of the two.
struct Inner {
    wall: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    /// The offset that is believed.
    offset: AtomicI64,
    /// From which monotonic moment on the offset is confirmed.
    confirmed_from: AtomicI64,
    /// Whether there is a leap to be confirmed.
    is_in_doubt: AtomicBool,
    leap: Mutex<Option<Leap>>,
    /// The latest confirmed moment ever told, in milliseconds since 1970.
    latest: AtomicI64,
}

/// A leap that is not believed yet.
#[derive(Clone, Copy)]
struct Leap {
    offset: i64,
    /// The monotonic moment at which it was seen.
    since: i64,
}

/// A look at both clocks.
struct Reading {
    now: DateTime<Utc>,
    is_confirmed: bool,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(Utc::now, since_boot)
    }

    /// A clock of the caller's own, for tests: the wall's, and a monotonic one.
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
            confirmed_from: AtomicI64::new(started.saturating_add(CONFIRMATION)),
            is_in_doubt: AtomicBool::new(false),
            leap: Mutex::new(None),
            latest: AtomicI64::new(i64::MIN),
        }))
    }

    /// Returns the time now, for what is being recorded.
    pub fn now(&self) -> DateTime<Utc> {
        self.0.read().now
    }

    /// Returns the time now, for deciding whether something has expired: it
    /// never goes back, so that a clock that is set back revives nothing.
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

    /// Lets [`Self::for_expiry`] not return anything earlier than a moment that
    /// was seen before this process began. Returns how far it is ahead of the
    /// system's clock, if that is more than a correction would be.
    pub fn not_before(&self, moment: Timestamp) -> Option<Duration> {
        self.0.latest.fetch_max(moment.millis(), Ordering::Relaxed);
        let ahead = moment
            .millis()
            .saturating_sub(self.now().timestamp_millis());
        let ahead = Duration::from_millis(u64::try_from(ahead).ok()?);
        (nanos(ahead) > STEP).then_some(ahead)
    }

    /// Returns the latest moment for the next process to begin with; `None`
    /// until the clock has agreed with itself for some minutes.
    pub fn latest_confirmed(&self) -> Option<Timestamp> {
        self.0.read().is_confirmed.then(|| self.for_expiry())
    }
}

impl Inner {
    fn read(&self) -> Reading {
        let monotonic = nanos((self.monotonic)());
        let wall = (self.wall)();
        let offset = nanos_since_1970(wall).saturating_sub(monotonic);
        let believed = self.offset.load(Ordering::Relaxed);
        let distance = offset.saturating_sub(believed).saturating_abs();
        if distance > STEP || self.is_in_doubt.load(Ordering::Relaxed) {
            return self.judge(wall, offset, monotonic);
        }
        if distance > DRIFT {
            self.offset.store(offset, Ordering::Relaxed);
        }
        Reading {
            now: wall,
            is_confirmed: monotonic >= self.confirmed_from.load(Ordering::Relaxed),
        }
    }

    /// Decides whether to believe the wall's clock, during a leap and at its end.
    fn judge(&self, wall: DateTime<Utc>, offset: i64, monotonic: i64) -> Reading {
        let mut leap = self.leap.lock().unwrap_or_else(PoisonError::into_inner);
        let believed = self.offset.load(Ordering::Relaxed);
        let is_near = |other: i64| offset.saturating_sub(other).saturating_abs() <= STEP;
        let confirmed_from = self.confirmed_from.load(Ordering::Relaxed);
        if is_near(believed) {
            *leap = None;
            self.is_in_doubt.store(false, Ordering::Relaxed);
            self.offset.store(offset, Ordering::Relaxed);
            return Reading {
                now: wall,
                is_confirmed: monotonic >= confirmed_from,
            };
        }
        let seconds = offset.saturating_sub(believed) / 1_000_000_000;
        match *leap {
            Some(seen) if is_near(seen.offset) => {
                if monotonic.saturating_sub(seen.since) >= CONFIRMATION {
                    tracing::warn!(seconds, "the system's clock was set; its time is used now");
                    *leap = None;
                    self.is_in_doubt.store(false, Ordering::Relaxed);
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
                    "the system's clock leapt; its time is used when it stays so for some minutes"
                );
                *leap = Some(Leap {
                    offset,
                    since: monotonic,
                });
                self.is_in_doubt.store(true, Ordering::Relaxed);
            }
        }
        Reading {
            now: DateTime::from_timestamp_nanos(believed.saturating_add(monotonic)),
            is_confirmed: false,
        }
    }
}

/// Returns how long ago the machine was started, its sleep included where the
/// system counts that.
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

/// Returns a moment as nanoseconds, as near as they reach: from 1677 to 2262.
fn nanos_since_1970(moment: DateTime<Utc>) -> i64 {
    moment
        .timestamp_nanos_opt()
        .unwrap_or(if moment.timestamp() < 0 {
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

    /// Two clocks that go as the test says, in milliseconds.
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
            self.leap(millis);
            self.monotonic.fetch_add(millis, Ordering::Relaxed);
        }

        /// Sets the wall's clock, ahead or back.
        fn leap(&self, millis: i64) {
            self.wall.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// How long after its start a clock says that it is.
    fn at(clock: &Clock) -> (i64, i64) {
        let now = clock.now().timestamp_millis();
        (now - START, clock.for_expiry().millis() - START)
    }

    #[test]
    fn a_clock_set_back_revives_nothing() {
        let (hands, clock) = Hands::new();
        hands.pass(HOUR);
        assert_eq!(at(&clock), (HOUR, HOUR));
        // A correction is taken at once, but not for what has expired.
        hands.leap(-MINUTE);
        assert_eq!(at(&clock), (HOUR - MINUTE, HOUR));
        // So is a leap that stays, after some minutes.
        hands.leap(-24 * HOUR);
        assert_eq!(at(&clock), (HOUR - MINUTE, HOUR));
        hands.pass(4 * MINUTE);
        let now = HOUR - MINUTE + 4 * MINUTE - 24 * HOUR;
        assert_eq!(at(&clock), (now, HOUR));
        assert_eq!(clock.latest_confirmed().unwrap().millis(), START + HOUR);
    }

    #[test]
    fn a_leap_that_does_not_stay_is_ignored() {
        let (hands, clock) = Hands::new();
        hands.pass(HOUR);
        assert_eq!(at(&clock), (HOUR, HOUR));
        for leap in [10 * YEAR, -10 * YEAR, HOUR, 1_000 * YEAR] {
            let (before, _) = at(&clock);
            hands.leap(leap);
            hands.pass(300);
            assert_eq!(at(&clock), (before + 300, before + 300), "{leap}");
            assert_eq!(clock.latest_confirmed(), None);
            hands.pass(2 * MINUTE);
            let now = before + 300 + 2 * MINUTE;
            assert_eq!(at(&clock), (now, now), "{leap}");
            hands.leap(-leap);
            assert_eq!(at(&clock), (now, now), "{leap}");
            assert!(clock.latest_confirmed().is_some());
        }
    }

    #[test]
    fn a_leap_is_believed_when_it_stays() {
        // As on a machine whose clock is set some seconds after it was started.
        let (hands, clock) = Hands::new();
        hands.pass(10_000);
        assert_eq!(clock.latest_confirmed(), None, "too early to tell");
        hands.leap(50 * YEAR);
        assert_eq!(at(&clock), (10_000, 10_000));
        // Another leap in between begins anew.
        hands.pass(2 * MINUTE);
        hands.leap(HOUR);
        assert_eq!(at(&clock), (10_000 + 2 * MINUTE, 10_000 + 2 * MINUTE));
        hands.pass(3 * MINUTE);
        let now = 10_000 + 50 * YEAR + HOUR + 5 * MINUTE;
        assert_eq!(at(&clock), (now, now));
        assert!(clock.latest_confirmed().is_some());
    }

    #[test]
    fn a_leap_at_the_start_is_not_remembered() {
        let (hands, clock) = Hands::new();
        hands.leap(10 * YEAR);
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
        hands.leap(-10 * YEAR);
        assert_eq!(clock.latest_confirmed(), None);
        hands.pass(3 * MINUTE);
        assert_eq!(at(&clock), (3 * MINUTE, 3 * MINUTE));
    }

    #[test]
    fn a_moment_of_another_process_counts() {
        let (hands, clock) = Hands::new();
        let seen = Timestamp::from_millis(START + HOUR);
        assert_eq!(clock.not_before(seen), Some(Duration::from_hours(1)));
        assert_eq!(at(&clock), (0, HOUR));
        hands.pass(2 * HOUR);
        assert_eq!(at(&clock), (2 * HOUR, 2 * HOUR));
        assert_eq!(clock.not_before(seen), None);
    }
}
