//! Formats values for pages.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates pass references"
)]

use changelog_core::{MadeBy, Timestamp};

use chrono::TimeDelta;

/// Pages with a list of changes need not import it.
pub(crate) use super::row;
pub(crate) use crate::format::{counted, duration, label, number};

/// The parameter of a list that leaves out what has not happened.
pub(crate) const HAPPENED_QUERY: &str = "not_status=planned";

/// The maximum length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 160;

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

/// Returns what made changes, in words for people.
pub(crate) fn maker(word: &str) -> String {
    if word == MadeBy::Unattended.as_str() {
        return "agent without a person".to_owned();
    }
    label(word)
}

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
