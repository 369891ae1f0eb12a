//! Formats values for people, on pages and in messages.

use std::fmt::Display;

use changelog_core::text::printable;
use chrono::TimeDelta;

/// Formats a value of an enum for people.
pub(crate) fn label(value: &str) -> String {
    value.replace('_', " ")
}

/// Formats how long something took, in its two largest units.
pub(crate) fn duration(took: &TimeDelta) -> String {
    let units = [
        (took.num_days(), "d"),
        (took.num_hours() % 24, "h"),
        (took.num_minutes() % 60, "min"),
        (took.num_seconds() % 60, "s"),
    ];
    let Some(largest) = units.iter().position(|(number, _)| *number > 0) else {
        return "less than 1 s".to_owned();
    };
    let shown = units[largest..].iter().take(2);
    let words = shown.filter(|(number, _)| *number > 0);
    let words: Vec<String> = words
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    words.join(" ")
}

/// Formats a whole number with separators of thousands: `20,009`.
pub(crate) fn number(number: impl Display) -> String {
    let digits = number.to_string();
    let mut formatted = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            formatted.push(',');
        }
        formatted.push(digit);
    }
    formatted
}

/// Formats a count with its noun: `1 change`, `20,009 changes`.
pub(crate) fn counted(count: impl Display, one: &str, many: &str) -> String {
    let count = number(count);
    let noun = if count == "1" { one } else { many };
    format!("{count} {noun}")
}

/// Returns text of users as one line without invisible characters.
pub(crate) fn line(text: &str) -> String {
    printable(&text.replace(['\n', '\t', '\r'], " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [
            (0, "less than 1 s"),
            (59, "59 s"),
            (60, "1 min"),
            (7_384, "2 h 3 min"),
            (3_604, "1 h"),
            (200_000, "2 d 7 h"),
        ] {
            let took = TimeDelta::seconds(seconds);
            assert_eq!(duration(&took), expected, "{seconds}");
        }
        assert_eq!(duration(&TimeDelta::milliseconds(999)), "less than 1 s");
    }

    #[test]
    fn numbers_have_separators() {
        let numbers = [0, 12, 999, 1_000, 20_009, 1_234_567];
        let texts = numbers.map(number).join(" ");
        assert_eq!(texts, "0 12 999 1,000 20,009 1,234,567");
    }

    #[test]
    fn counts_have_a_noun() {
        assert_eq!(counted(1, "change", "changes"), "1 change");
        assert_eq!(counted(1_771, "change", "changes"), "1,771 changes");
    }
}
