//! How values look on a page.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates pass references"
)]

use changelog_core::Timestamp;
use chrono::{DateTime, TimeDelta, Utc};

/// A moment in full.
pub(crate) fn exact(at: &Timestamp) -> String {
    at.to_datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A moment to the minute.
pub(crate) fn short(at: &Timestamp) -> String {
    at.to_datetime().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// A moment as a field of a form takes it, in UTC.
pub(crate) fn field(at: &Timestamp) -> String {
    at.to_datetime().format("%Y-%m-%dT%H:%M:%S").to_string()
}

/// A day, counted from 1970 in UTC.
pub(crate) fn day(day: i64) -> String {
    start_of_day(day).format("%A, %-d %B %Y").to_string()
}

/// The moment that a day begins with, in UTC.
pub(crate) fn start_of_day(day: i64) -> DateTime<Utc> {
    // Years far from ours are cut off.
    DateTime::UNIX_EPOCH + TimeDelta::try_days(day).unwrap_or_default()
}

/// A word of the wire as people write it.
pub(crate) fn words(word: &str) -> String {
    word.replace('_', " ")
}

/// The form of a noun for a number of things.
pub(crate) fn plural<'n>(count: &u64, one: &'n str, many: &'n str) -> &'n str {
    if *count == 1 { one } else { many }
}

/// A query string of one parameter.
pub(crate) fn query(name: &str, value: impl std::fmt::Display) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair(name, &value.to_string())
        .finish()
}

/// What browsers call themselves in `User-Agent`, and their names. Most claim to be
/// others as well; those that say more come first.
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
/// The same for systems. Versions are left out: Windows, macOS and others have
/// stopped telling them.
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

/// A browser by its name and system, where its `User-Agent` tells them, and by
/// what it says otherwise.
pub(crate) fn browser(agent: &str) -> String {
    let find = |known: &[(&str, &'static str)]| {
        let found = known.iter().find(|(sign, _)| agent.contains(sign));
        found.map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) if agent.starts_with("Mozilla/") => {
            format!("{browser} on {system}")
        }
        _ => excerpt(agent),
    }
}

/// A text that somebody else wrote, with what is invisible in it spelled out.
pub(crate) fn visible(text: &str) -> String {
    changelog_core::text::printable(text).into_owned()
}

/// The beginning of a text that may be long.
pub(crate) fn excerpt(text: &str) -> String {
    const MOST: usize = 160;
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(MOST).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

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
