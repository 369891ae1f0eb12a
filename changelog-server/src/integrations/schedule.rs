//! When a message is sent again: the schedule of Standard Webhooks.

use std::time::Duration;

use changelog_core::Timestamp;
use chrono::TimeDelta;

/// The times from each attempt to the next: ten attempts within about three days.
const DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];
/// The share of a delay by which it is longer at most, so that what failed at once is not
/// sent again at once.
const JITTER: f64 = 0.1;

/// The share of a delay that a message waits at least if its receiver takes others.
const EARLIEST_SHARE: u32 = 10;

/// How long a connection may fail until it is disabled.
pub(crate) const MAX_FAILING: TimeDelta = TimeDelta::days(5);

/// The bounds of the time that a receiver may ask to wait.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));

/// The bounds of the time between attempts of a connection that fails, whatever is queued.
const PROBE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The share of the time that a connection has failed for.
const PROBE_SHARE: u32 = 10;

/// Returns how long after an attempt, counted from 1, the next one is due; `None` after
/// the last one. `random` is from 0 to 1.
pub(crate) fn delay_after(attempt: i64, random: f64) -> Option<Duration> {
    let index = usize::try_from(attempt).ok()?.checked_sub(1)?;
    let delay = DELAYS.get(index)?;
    Some(delay.mul_f64(1.0 + JITTER * random.clamp(0.0, 1.0)))
}

/// Returns how much of a delay passes at least, although the receiver takes other messages: it
/// may never accept this one, which then still has hours.
pub(crate) fn earliest_share(delay: Duration) -> Duration {
    delay / EARLIEST_SHARE
}

/// Returns since when a connection fails that fails now, if it had failed since a time and
/// tried nothing after the end of its last hold. If it has tried nothing for longer than any
/// message waits, its last failures are of messages that were given up, and do not count.
pub(crate) fn failing_since(
    known: Option<Timestamp>,
    hold_until: Option<Timestamp>,
    now: Timestamp,
) -> Timestamp {
    let longest = DELAYS[DELAYS.len() - 1].mul_f64(1.0 + JITTER);
    let is_recent = hold_until.is_some_and(|until| after(until, longest) >= now);
    known.filter(|_| is_recent).unwrap_or(now)
}

/// Returns for how long nothing is sent to a receiver that has asked for a pause.
pub(crate) fn pause(asked: Duration) -> Duration {
    asked.clamp(PAUSE.0, PAUSE.1)
}

/// Returns for how long nothing is sent to a receiver that has failed since a time.
pub(crate) fn probe_pause(failing_since: Timestamp, now: Timestamp) -> Duration {
    let failing = now.to_datetime() - failing_since.to_datetime();
    let failing = failing.to_std().unwrap_or_default();
    (failing / PROBE_SHARE).clamp(PROBE.0, PROBE.1)
}

/// Returns a time after another one.
pub(crate) fn after(now: Timestamp, duration: Duration) -> Timestamp {
    now.plus(TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_attempts_take_three_days() {
        let delays: Vec<Duration> = (1..).map_while(|one| delay_after(one, 0.0)).collect();
        assert_eq!(delays.len() + 1, 10);
        let total: Duration = delays.iter().sum();
        assert_eq!(total.as_secs(), 5 + 300 + 1_800 + 75 * 3_600);
        let latest: Duration = (1..).map_while(|one| delay_after(one, 1.0)).sum();
        assert!(latest > total && latest <= total.mul_f64(1.11));
        assert!(latest < MAX_FAILING.to_std().expect("positive"));
        assert_eq!((delay_after(0, 0.5), delay_after(-1, 0.5)), (None, None));
    }

    #[test]
    fn failures_of_messages_that_were_given_up_do_not_count() {
        let (since, now) = (Timestamp::EPOCH, after(Timestamp::EPOCH, 5 * DELAYS[8]));
        let since_of = |hold: Duration| failing_since(Some(since), Some(after(since, hold)), now);
        assert_eq!(since_of(4 * DELAYS[8]), since);
        assert_eq!(since_of(3 * DELAYS[8]), now);
        assert_eq!(failing_since(None, Some(now), now), now);
        assert_eq!(failing_since(Some(since), None, now), now);
    }

    #[test]
    fn pauses_are_shorter_than_the_schedule() {
        let start = Timestamp::EPOCH;
        let mut now = start;
        for attempt in 1..=9 {
            let delay = delay_after(attempt, 0.0).expect("another attempt");
            assert!(probe_pause(start, now) < delay, "{attempt}");
            now = after(now, delay);
        }
        assert_eq!(pause(Duration::from_hours(9)), Duration::from_hours(1));
        assert_eq!(pause(Duration::ZERO), Duration::from_secs(1));
    }
}
