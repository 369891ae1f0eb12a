//! Formats values for pages.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates pass references"
)]

use changelog_core::Timestamp;
use std::fmt::Display;

use chrono::TimeDelta;

/// Pages with a list of changes need not import it.
pub(crate) use super::row;

/// The parameter of a list that leaves out what has not happened.
pub(crate) const HAPPENED_QUERY: &str = "not_status=planned";

/// The maximum length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 160;

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

/// Formats how long before or after a moment a time is, in its two largest units down
/// to the minute: `4 min before`.
pub(crate) fn offset(at: Timestamp, moment: Timestamp) -> String {
    let distance = TimeDelta::milliseconds(at.millis() - moment.millis());
    let minutes = TimeDelta::minutes(distance.num_minutes().abs());
    let length = if minutes.is_zero() {
        "less than 1 min".to_owned()
    } else {
        duration(&minutes)
    };
    let side = if distance <= TimeDelta::zero() {
        "before"
    } else {
        "after"
    };
    format!("{length} {side}")
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

/// Returns the singular or the plural of a noun for a count.
pub(crate) fn plural<'n>(count: &u64, one: &'n str, many: &'n str) -> &'n str {
    if *count == 1 { one } else { many }
}

/// Returns a query string with one parameter.
pub(crate) fn query(name: &str, value: impl std::fmt::Display) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair(name, &value.to_string())
        .finish()
}

/// Tokens in `User-Agent` and the names of the browsers. Most browsers also send
/// the tokens of others, so the more specific tokens come first.
const BROWSERS: [(&str, &str); 11] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
/// Tokens in `User-Agent` and the names of the systems. Versions are left out:
/// Windows, macOS and others no longer report theirs.
const SYSTEMS: [(&str, &str); 8] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("FreeBSD", "FreeBSD"),
    ("Linux", "Linux"),
];

/// Returns the browser and its system as in `Firefox on Linux`, or an excerpt of an
/// unknown `User-Agent`.
pub(crate) fn browser(agent: &str) -> String {
    let find = |tokens: &[(&str, &'static str)]| {
        let found = tokens.iter().find(|(token, _)| agent.contains(token));
        found.map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) if agent.starts_with("Mozilla/") => {
            format!("{browser} on {system}")
        }
        _ => excerpt(agent),
    }
}

/// Escapes the invisible characters of a string that a user wrote.
pub(crate) fn visible(text: &str) -> String {
    changelog_core::text::printable(text).into_owned()
}

/// Returns whether a browser may open an address that a client recorded.
pub(crate) fn is_web_address(address: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
}

/// Shortens a string to 160 characters.
pub(crate) fn excerpt(text: &str) -> String {
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(EXCERPT_CHARS).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
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
    fn offsets_have_a_side() {
        let moment = Timestamp::from_millis(1_000_000_000_000);
        for (seconds, expected) in [
            (-59, "less than 1 min before"),
            (0, "less than 1 min before"),
            (-299, "4 min before"),
            (3_900, "1 h 5 min after"),
            (-180_000, "2 d 2 h before"),
        ] {
            let at = moment.plus(TimeDelta::seconds(seconds));
            assert_eq!(offset(at, moment), expected, "{seconds}");
        }
    }

    #[test]
    fn counts_have_a_noun() {
        assert_eq!(counted(1, "change", "changes"), "1 change");
        assert_eq!(counted(1_771, "change", "changes"), "1,771 changes");
    }

    #[test]
    fn browsers_are_named() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
        assert_eq!(browser(firefox), "Firefox on Linux");
        let edge = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like \
            Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0";
        assert_eq!(browser(edge), "Edge on Windows");
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 \
            (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1";
        assert_eq!(browser(phone), "Safari on iOS");
        assert_eq!(browser("something of mine/1"), "something of mine/1");
        assert_eq!(browser(""), "");
    }
}
