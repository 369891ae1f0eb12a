//! Random numbers, conversions and formatting.

use std::time::Duration;

/// Maps a number to a pseudo-random one, one to one (the last step of `SplitMix64`).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Chooses an element by a number.
pub(crate) fn pick<T>(things: &[T], random: u64) -> &T {
    let count = u64::try_from(things.len()).unwrap_or(u64::MAX);
    &things[usize::try_from(random % count).unwrap_or(0)]
}

/// Converts a count; larger ones do not occur.
pub(crate) fn float(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Formats a count with commas between thousands.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a rate.
pub(crate) fn rate(per_second: f64) -> String {
    // A whole number, so that it can be grouped.
    let whole = format!("{per_second:.0}").parse().unwrap_or(0);
    format!("{}/s", grouped(whole))
}

/// Formats a duration in milliseconds.
pub(crate) fn time(time: Duration) -> String {
    format!("{} ms", rounded(millis(time)))
}

/// Formats a number with about three digits.
pub(crate) fn rounded(number: f64) -> String {
    match number {
        number if number < 10.0 => format!("{number:.2}"),
        number if number < 100.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}
