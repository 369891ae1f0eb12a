//! The difference between this machine's clock and the server's.

use std::time::{Duration, SystemTime};

use changelog_core::limits::MAX_CLOCK_SKEW;
use changelog_core::{Health, Timestamp};
use chrono::{DateTime, TimeDelta, Utc};

use super::report::Report;

/// How far the clocks may differ without a warning.
const MAX_UNREPORTED_SKEW: TimeDelta = TimeDelta::seconds(30);

/// Returns how far this machine's clock is ahead of the server's.
pub(super) fn ahead(
    health: &Health,
    date: Option<SystemTime>,
    latency: Duration,
    answered: SystemTime,
) -> Option<TimeDelta> {
    let half = TimeDelta::from_std(latency / 2).unwrap_or_default();
    let here: Timestamp = (DateTime::<Utc>::from(answered) - half).into();
    // The Date header is truncated to seconds.
    let date = date.map(|date| {
        Timestamp::from(DateTime::<Utc>::from(date)).plus(TimeDelta::milliseconds(500))
    });
    let there = health.timestamp.or(date)?;
    let ahead = here.millis().saturating_sub(there.millis());
    Some(TimeDelta::milliseconds(ahead))
}

/// Adds the check of the clock.
pub(super) fn check(ahead: Option<TimeDelta>, report: &mut Report) {
    let Some(ahead) = ahead else {
        let advice = "a proxy strips the Date header";
        return report.warn("clock", "the server does not report its time", advice);
    };
    let found = difference(ahead);
    let advice = "set this machine's clock, for example with NTP";
    if ahead > MAX_CLOCK_SKEW {
        let found = format!("{found}; changes are recorded with the server's time");
        report.warn("clock", found, advice);
    } else if ahead.abs() > MAX_UNREPORTED_SKEW {
        report.warn("clock", found, advice);
    } else {
        report.ok("clock", found);
    }
}

/// Formats the difference of the clocks.
fn difference(ahead: TimeDelta) -> String {
    let millis = ahead.num_milliseconds();
    let distance = match millis.unsigned_abs() {
        millis @ 0..1_000 => return format!("{millis} ms from the server's clock"),
        millis @ 1_000..120_000 => format!("{} s", millis / 1_000),
        millis => format!("{} min", millis / 60_000),
    };
    let side = if millis > 0 { "ahead of" } else { "behind" };
    format!("{distance} {side} the server's clock")
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    fn judged(ahead: i64) -> (Verdict, String) {
        let answered = SystemTime::UNIX_EPOCH + Duration::from_hours(1000);
        let there = DateTime::<Utc>::from(answered) - TimeDelta::seconds(ahead);
        let health = changelog_core::Health::ok(1, there.into());
        let mut report = Report::default();
        let found = super::ahead(&health, None, Duration::ZERO, answered);
        check(found, &mut report);
        let check = report.checks.remove(0);
        (check.verdict, check.found)
    }

    #[test]
    fn small_differences_are_ok() {
        for (ahead, verdict, words) in [
            (0, Verdict::Ok, "0 ms"),
            (30, Verdict::Ok, "30 s ahead"),
            (31, Verdict::Warning, "31 s ahead"),
            (-31, Verdict::Warning, "31 s behind"),
            (300, Verdict::Warning, "5 min ahead"),
            (301, Verdict::Warning, "5 min ahead"),
            (-3000, Verdict::Warning, "50 min behind"),
        ] {
            let (found, said) = judged(ahead);
            assert_eq!(found, verdict, "{ahead}: {said}");
            assert!(said.contains(words), "{ahead}: {said}");
        }
    }
}
