//! The clock axis of a timeline.

use changelog_core::Timestamp;
use chrono::{NaiveTime, TimeDelta};

use super::Range;
use crate::dashboard::parts::zone::Zone;

/// The most ticks; their labels fit a phone.
const MAX_TICKS: i64 = 8;
/// The distances of ticks, in minutes.
const STEPS: [i64; 15] = [
    1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1_440, 2_880, 10_080,
];

/// The most steps from the midnight before a range to its end: the shortest are minutes.
const MAX_STEPS: i32 = 26 * 60;

/// A time on the axis.
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
    /// Whether a day begins here.
    pub(super) is_day: bool,
}

/// Returns the ticks of a range at round local times.
pub(super) fn ticks(range: Range, zone: Zone) -> Vec<Tick> {
    let length = range.length().num_minutes();
    let fits = |step: &&i64| length / **step < MAX_TICKS;
    let step = STEPS.iter().find(fits).unwrap_or(&STEPS[14]);
    // Clocks are changed by multiples of half an hour: shorter steps stay round. Longer ones
    // are steps of the clock, so that they are round after a change, too.
    let is_elapsed = *step <= 30;
    let step = TimeDelta::minutes(*step);
    let midnight = zone.date(range.from).and_time(NaiveTime::MIN);
    let start = Timestamp::from(zone.at(midnight));
    let place = |number: i32| {
        let after = step * number;
        if is_elapsed {
            Some(start.plus(after))
        } else {
            Some(zone.at(midnight.checked_add_signed(after)?).into())
        }
    };
    let places = (0..=MAX_STEPS).map_while(place);
    let places = places.take_while(|at| *at <= range.to);
    let mut places: Vec<Timestamp> = places.collect();
    // What clocks skipped is one place for two steps, and the end of time is one for many.
    places.dedup();
    let mut ticks = Vec::new();
    for at in places {
        let x = range.position(at);
        if (1.5..=98.5).contains(&x) {
            let midnight = zone.start_of_day(zone.date(at));
            let is_day = at == midnight;
            let label = if is_day {
                zone.date(at).format("%-d %b").to_string()
            } else {
                zone.clock(&at)
            };
            ticks.push(Tick { x, label, is_day });
        }
    }
    ticks
}

/// Returns the range in words, such as `13:20 to 15:20`.
pub(super) fn words(range: Range, zone: Zone) -> String {
    let day = |at: Timestamp| zone.date(at).format("%-d %b").to_string();
    let (from, to) = (zone.clock(&range.from), zone.clock(&range.to));
    if zone.date(range.from) == zone.date(range.to) {
        return format!("{}, {from} to {to}", day(range.from));
    }
    format!("{} {from} to {} {to}", day(range.from), day(range.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: &str, to: &str, zone: &str) -> Vec<String> {
        let range = Range::new(from.parse().unwrap(), to.parse().unwrap());
        let zone = Zone::named(zone, range.to);
        let ticks = ticks(range, zone).into_iter();
        ticks.map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_in_the_zone() {
        for (from, to, zone, expected) in [
            (
                "2026-11-22T13:20:00Z",
                "2026-11-22T15:20:00Z",
                "Europe/Berlin",
                "14:30 15:00 15:30 16:00",
            ),
            (
                "2026-11-22T13:21:00Z",
                "2026-11-22T13:51:00Z",
                "Asia/Kathmandu",
                "19:10 19:15 19:20 19:25 19:30 19:35",
            ),
            (
                "2026-11-21T10:00:00Z",
                "2026-11-22T10:00:00Z",
                "UTC",
                "12:00 16:00 20:00 22 Nov 04:00 08:00",
            ),
            // Clocks go back at 03:00.
            (
                "2026-10-24T20:00:00Z",
                "2026-10-25T20:00:00Z",
                "Europe/Berlin",
                "25 Oct 04:00 08:00 12:00 16:00 20:00",
            ),
            (
                "2026-10-24T12:00:00Z",
                "2026-10-28T12:00:00Z",
                "Europe/Berlin",
                "25 Oct 26 Oct 27 Oct 28 Oct",
            ),
            // Clocks go forward at 02:00.
            (
                "2026-03-29T00:00:00Z",
                "2026-03-29T07:00:00Z",
                "Europe/Berlin",
                "03:00 04:00 05:00 06:00 07:00 08:00",
            ),
            // Clocks go forward at midnight.
            (
                "2026-03-28T16:00:00Z",
                "2026-03-29T10:00:00Z",
                "Asia/Beirut",
                "21:00 29 Mar 03:00 06:00 09:00 12:00",
            ),
        ] {
            let found = labels(from, to, zone).join(" ");
            assert_eq!(found, expected, "{from} in {zone}");
        }
        assert_eq!(
            labels("9999-12-31T23:00:00Z", "9999-12-31T23:59:59.999Z", "UTC").len(),
            5
        );
        // The longest range.
        let week = labels("2026-11-01T00:00:00Z", "2027-11-01T00:00:00Z", "UTC");
        assert_eq!(week.join(" "), "3 Nov 5 Nov 7 Nov");
    }
}
