//! Learns how often a source or an API key is heard, and when it should be heard again.
//!
//! Silence is counted in *busy* hours: those hours of the week in which, or next to which,
//! something was heard in the last eight weeks. So nights and weekends in which nothing is
//! ever heard do not count. A silence is too long if it is longer than twice the longest one
//! of these weeks. The longest twentieth is left out, so that a holiday or an outage does not
//! make the rhythm slow.

use changelog_core::Timestamp;

/// The hours of a week.
const WEEK: i64 = 7 * 24;
/// The hours that are remembered.
const HOURS: i64 = 8 * WEEK;
const BYTES: usize = 8 * 7 * 24 / 8;
/// The hours that must have been heard, and the time between the first and the last of
/// them, before there is a rhythm.
const MIN_HEARD: usize = 5;
const MIN_KNOWN: i64 = WEEK;
/// The silence that is always allowed, in busy hours.
const MIN_ALLOWED: usize = 2;
/// How many times the longest silence is allowed.
const ALLOWANCE: usize = 2;
/// The share of the longest silences that are left out.
const OUTLIERS: usize = 20;

const MILLIS: i64 = 3_600_000;

/// The hours in which something was heard. Hours are counted since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rhythm {
    first: i64,
    last: i64,
    /// A bit for each hour, at the hour modulo [`HOURS`].
    heard: [u8; BYTES],
}

impl Rhythm {
    /// Returns what is known after something was heard for the first time.
    pub(crate) fn new(at: Timestamp) -> Self {
        let hour = hour_of(at);
        let mut rhythm = Self {
            first: hour,
            last: hour,
            heard: [0; BYTES],
        };
        rhythm.set(hour, true);
        rhythm
    }

    /// Records that something was heard. Times may come in any order. Returns whether it
    /// changes what is known.
    pub(crate) fn hear(&mut self, at: Timestamp) -> bool {
        let hour = hour_of(at);
        let is_known = hour <= self.last && self.is_heard(hour);
        if hour <= self.last - HOURS || is_known {
            return false;
        }
        for forgotten in (self.last + 1..=hour).rev().take(BYTES * 8) {
            self.set(forgotten, false);
        }
        self.set(hour, true);
        self.first = self.first.min(hour);
        self.last = self.last.max(hour);
        true
    }

    /// Returns when something is to be heard again at the latest, or `None` without a rhythm:
    /// little is known yet.
    pub(crate) fn expected_by(&self) -> Option<Timestamp> {
        let start = self.first.max(self.last - HOURS + 1);
        let known = start..=self.last;
        let mut busy = [false; 7 * 24];
        for hour in known.clone().filter(|hour| self.is_heard(*hour)) {
            for near in hour - 1..=hour + 1 {
                busy[index(near, WEEK)] = true;
            }
        }
        let is_busy = |hour: &i64| busy[index(*hour, WEEK)];
        let mut silences = Vec::new();
        let mut silence = 0;
        for hour in known {
            if self.is_heard(hour) {
                silences.push(silence);
                silence = 0;
            } else if is_busy(&hour) {
                silence += 1;
            }
        }
        if silences.len() < MIN_HEARD || self.last - start < MIN_KNOWN {
            return None;
        }
        silences.sort_unstable();
        let outliers = silences.len() / OUTLIERS;
        let longest = silences.iter().rev().nth(outliers).copied()?;
        let allowed = MIN_ALLOWED.max(longest * ALLOWANCE);
        let mut ahead = (self.last + 1..=self.last + HOURS).filter(is_busy);
        let hour = ahead.nth(allowed - 1)? + 1;
        Some(Timestamp::from_millis(hour * MILLIS))
    }

    /// Returns it as it is stored: the first and the last hour, and the bits.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let hours = [self.first.to_be_bytes(), self.last.to_be_bytes()];
        [hours.as_flattened(), &self.heard].concat()
    }

    /// Reads what [`Self::to_bytes`] returns.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk()?;
        let (last, heard) = rest.split_first_chunk()?;
        Some(Self {
            first: i64::from_be_bytes(*first),
            last: i64::from_be_bytes(*last),
            heard: heard.try_into().ok()?,
        })
    }

    fn is_heard(&self, hour: i64) -> bool {
        let (byte, bit) = place(hour);
        self.heard[byte] & bit != 0
    }

    fn set(&mut self, hour: i64, is_heard: bool) {
        let (byte, bit) = place(hour);
        if is_heard {
            self.heard[byte] |= bit;
        } else {
            self.heard[byte] &= !bit;
        }
    }
}

fn hour_of(at: Timestamp) -> i64 {
    at.millis().div_euclid(MILLIS)
}

/// Returns the byte of an hour and the bit in it.
fn place(hour: i64) -> (usize, u8) {
    let index = index(hour, HOURS);
    (index / 8, 1 << (index % 8))
}

/// Returns the place of an hour in a period.
fn index(hour: i64, period: i64) -> usize {
    usize::try_from(hour.rem_euclid(period)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday, 00:00 UTC.
    const MONDAY: i64 = 20_052 * 24;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_millis(hour * MILLIS + 20 * 60_000)
    }

    /// Hears at these hours after [`MONDAY`].
    fn heard(hours: impl IntoIterator<Item = i64>) -> Rhythm {
        let mut hours = hours.into_iter().map(|hour| at(MONDAY + hour));
        let mut rhythm = Rhythm::new(hours.next().expect("an hour"));
        hours.for_each(|at| {
            rhythm.hear(at);
        });
        Rhythm::from_bytes(&rhythm.to_bytes()).expect("the same")
    }

    /// Returns the hour after [`MONDAY`] by which something is expected.
    fn expected(rhythm: &Rhythm) -> Option<i64> {
        rhythm.expected_by().map(|at| at.millis() / MILLIS - MONDAY)
    }

    /// Every hour from 9 to 17 on the working days of these weeks.
    fn office_hours(weeks: i64) -> impl Iterator<Item = i64> {
        let days = (0..weeks * 7).filter(|day| day % 7 < 5);
        days.flat_map(|day| (9..17).map(move |hour| day * 24 + hour))
    }

    #[test]
    fn mondays_are_mondays() {
        let at = at(MONDAY).to_datetime();
        assert_eq!(at.format("%a %H").to_string(), "Mon 00");
    }

    #[test]
    fn what_is_heard_all_the_time_is_missed_after_two_hours() {
        assert_eq!(expected(&heard(0..=7 * 24)), Some(7 * 24 + 3));
        assert_eq!(expected(&heard(0..10_000)), Some(10_002));
    }

    #[test]
    fn a_rhythm_takes_a_week_and_five_hours() {
        assert_eq!(expected(&heard(0..7 * 24)), None);
        assert_eq!(expected(&heard([0, 1, 2, 200])), None);
        assert!(expected(&heard([0, 1, 2, 3, 200])).is_some());
    }

    #[test]
    fn a_quiet_weekend_is_no_gap_on_monday_morning() {
        for weeks in [2, 8, 20] {
            let friday = (weeks - 1) * 7 * 24 + 4 * 24 + 16;
            let rhythm = heard(office_hours(weeks));
            assert_eq!(rhythm.last, MONDAY + friday);
            // Between two days, the hours 8 and 17 count; so twice the longest silence is four:
            // of Friday 17, and of Monday 8 to 10.
            let monday = weeks * 7 * 24;
            assert_eq!(expected(&rhythm), Some(monday + 11), "{weeks}");
        }
    }

    #[test]
    fn a_silent_working_day_is_a_gap_on_the_same_day() {
        let tuesday = 4 * 7 * 24 + 24;
        let rhythm = heard(office_hours(5).take_while(|hour| *hour < tuesday + 12));
        assert_eq!(expected(&rhythm), Some(tuesday + 16));
    }

    #[test]
    fn a_daily_job_is_missed_two_hours_after_its_time() {
        assert_eq!(
            expected(&heard((0..10).map(|day| day * 24 + 3))),
            Some(10 * 24 + 5)
        );
    }

    #[test]
    fn a_weekly_job_is_missed_after_its_day() {
        let weekly = heard((0..6).map(|week| week * WEEK + 50));
        assert_eq!(expected(&weekly), Some(6 * WEEK + 52));
    }

    #[test]
    fn an_outage_does_not_slow_the_rhythm() {
        let days = (0..50).filter(|day| !(20..25).contains(day));
        let rhythm = heard(days.flat_map(|day| (0..24).map(move |hour| day * 24 + hour)));
        assert_eq!(expected(&rhythm), Some(50 * 24 + 2));
    }

    #[test]
    fn the_order_does_not_matter_and_old_hours_are_forgotten() {
        let hours: Vec<i64> = office_hours(3).collect();
        assert_eq!(heard(hours.iter().rev().copied()), heard(hours.clone()));
        let mut rhythm = heard(hours);
        rhythm.hear(at(MONDAY + 3 * HOURS));
        assert_eq!(expected(&rhythm), None);
        rhythm.hear(at(MONDAY));
        assert_eq!(rhythm.first, MONDAY + 9);
        assert!(!rhythm.is_heard(MONDAY + 9));
        assert_eq!(Rhythm::from_bytes(&[1; 20]), None);
    }
}
