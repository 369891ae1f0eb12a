//! Reading JSON whose members may be missing or of another type.

use changelog_core::{Link, Timestamp};
use ring::digest;
use serde_json::Value;

use crate::observation::Unreadable;

/// Reads a body, which may begin with a byte order mark.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Unreadable> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    Ok(serde_json::from_slice(body)?)
}

/// Returns what tells one body from others: its SHA-256.
pub(crate) fn digest_of(body: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, body))
}

/// Returns the text at a JSON pointer; `None` if there is none, or an empty one. Numbers
/// are written as text.
pub(crate) fn text(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the text at a JSON pointer, without which the body cannot be read; `of` says in
/// what it is missing.
pub(crate) fn required(value: &Value, pointer: &str, of: &str) -> Result<String, Unreadable> {
    let name = pointer.trim_start_matches('/').replace('/', ".");
    text(value, pointer).ok_or_else(|| Unreadable(format!("{of} has no {name}")))
}

/// Returns the elements of the list at a JSON pointer; none if there is no list.
pub(crate) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the time at a JSON pointer: RFC 3339, `2021-04-28 21:50:00 +0200`,
/// `2021-04-28T21:50:00.000+0200`, `2021-04-28 21:50:00 UTC`, seconds or milliseconds since
/// 1970.
pub(crate) fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    time_of(&text(value, pointer)?)
}

/// The number from which on a number of seconds is one of milliseconds.
const FIRST_MILLIS: f64 = 100_000_000_000.0;

/// Reads a time as [`time`] does.
pub(crate) fn time_of(text: &str) -> Option<Timestamp> {
    use chrono::{DateTime, NaiveDateTime};
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.to_utc().into());
    }
    for format in ["%Y-%m-%d %H:%M:%S %z", "%Y-%m-%dT%H:%M:%S%.f%z"] {
        if let Ok(at) = DateTime::parse_from_str(text, format) {
            return Some(at.to_utc().into());
        }
    }
    let naive = text.trim_end_matches(" UTC").trim_end_matches('Z');
    for format in ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"] {
        if let Ok(at) = NaiveDateTime::parse_from_str(naive, format) {
            return Some(at.and_utc().into());
        }
    }
    let number: f64 = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())?;
    let millis = if number < FIRST_MILLIS {
        number * 1_000.0
    } else {
        number
    };
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (0.0..4e12)
        .contains(&millis)
        .then(|| Timestamp::from_millis(millis as i64))
}

/// Returns the first non-empty line, truncated to `most` characters.
pub(crate) fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    fit(line.unwrap_or_default(), most)
}

/// Returns a text without line breaks and other control characters.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Returns what a sender says about a failure, in one line; `None` if it is about a secret,
/// because errors quote what they refuse.
pub(crate) fn failure(text: &str) -> Option<String> {
    let line = first_line(text, 300);
    let is_public = !line.is_empty() && !text.to_lowercase().contains("secret");
    is_public.then_some(line)
}

/// Returns the values that are known, each behind its words: `Deploy payments to production`.
pub(crate) fn phrase<const N: usize>(parts: [(&str, Option<&str>); N]) -> String {
    let known = parts
        .into_iter()
        .filter_map(|(words, value)| value.map(|value| format!("{words}{value}")));
    known.collect()
}

/// Truncates a string to `most` characters, ending in an ellipsis.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    let mut short: String = kept.collect::<String>().trim_end().to_owned();
    short.push('…');
    short
}

/// Returns the links whose addresses are known, each address once.
pub(crate) fn links<const N: usize>(pairs: [(&str, Option<String>); N]) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (label, url) in pairs {
        if let Some(url) = url
            && !links.iter().any(|link| link.url == url)
        {
            let label = label.to_owned();
            links.push(Link { label, url });
        }
    }
    links
}
