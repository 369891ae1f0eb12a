//! The rules that several nouns share: texts, lists, words, formats.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::limits::{MAX_CLOCK_SKEW, MAX_NAME_CHARS, MAX_URL_CHARS};
use crate::problem::{BadValue, ViolationCode, Violations};
use crate::text::{composed, is_format, is_joiner, printable};
use crate::time::Timestamp;

/// The characters that a string may contain in addition to visible ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// No control characters.
    Line,
    /// Line feeds and tabs.
    MultiLine,
    /// A name that people read: no control and no format characters, but joiners
    /// between characters beyond ASCII. Letters and marks are composed.
    Name,
    /// The same for a name by which something is found: no joiners either, and
    /// no variation selectors, or two that look the same would be two.
    Key,
}

impl TextKind {
    /// Returns whether strings of this kind must not contain a character.
    #[cfg(feature = "openapi")]
    pub(crate) fn forbids(self, c: char) -> bool {
        self.forbidden(c.encode_utf8(&mut [0; 4])).is_some()
    }

    /// Finds what must not be in a text, with the kind of character that it is.
    fn forbidden(self, text: &str) -> Option<(char, &'static str)> {
        if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            return None;
        }
        let mut before = ' ';
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let after = characters.peek().copied().unwrap_or(' ');
            if c.is_control() && !(self == Self::MultiLine && matches!(c, '\n' | '\t')) {
                return Some((c, "control"));
            }
            let refused = match self {
                Self::Line | Self::MultiLine => false,
                Self::Name if is_joiner(c) => before.is_ascii() || after.is_ascii(),
                Self::Name => is_format(c),
                Self::Key => is_format(c) || matches!(c, '\u{fe00}'..='\u{fe0f}'),
            };
            if refused {
                return Some((c, "invisible"));
            }
            before = c;
        }
        None
    }
}

/// Quotes what was given for an error message in one line, cut to a bearable length.
pub(crate) fn quoted(given: &str) -> String {
    const MOST: usize = 60;
    let mut chars = given.chars();
    let start: String = chars.by_ref().take(MOST).collect();
    let dots = if chars.next().is_some() { "…" } else { "" };
    let start = printable(&start).replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{start}\"{dots}")
}

/// Says that a word is not in its list.
pub(crate) fn not_one_of(what: &str, words: &[&str], given: &str) -> BadValue {
    let hint = crate::text::closest(given, words.iter().copied())
        .map(|word| format!(" (did you mean {word}?)"))
        .unwrap_or_default();
    let message = format!(
        "must be {what}, one of {}; got {}{hint}",
        words.join(", "),
        quoted(given)
    );
    BadValue {
        code: ViolationCode::UnknownValue,
        message,
    }
}

/// Trims a text and checks its length in characters (Unicode scalar values).
pub(crate) fn text(
    problems: &mut Violations,
    pointer: &str,
    value: &mut String,
    length: RangeInclusive<usize>,
    kind: TextKind,
) {
    if kind == TextKind::MultiLine && value.contains('\r') {
        // What a form or a Windows editor sends for a line feed.
        *value = value.replace("\r\n", "\n");
    }
    let trimmed = value.trim();
    if trimmed.len() != value.len() {
        *value = trimmed.to_owned();
    }
    if matches!(kind, TextKind::Name | TextKind::Key) && !value.is_ascii() {
        *value = composed(value);
    }
    if let Some((bad, class)) = kind.forbidden(value) {
        let message = format!(
            "must not contain {class} characters, got U+{:04X}",
            u32::from(bad)
        );
        return problems.add(pointer, ViolationCode::ControlCharacter, message);
    }
    let (least, most) = length.into_inner();
    let count = value.chars().count();
    let wanted = if least == 0 {
        format!("at most {most}")
    } else {
        format!("{least} to {most}")
    };
    let message = || format!("must have {wanted} characters, got {count}");
    if count < least {
        problems.add(pointer, ViolationCode::TooShort, message());
    } else if count > most {
        problems.add(pointer, ViolationCode::TooLong, message());
    }
}

/// The same for a text that may be absent.
pub(crate) fn optional_text(
    problems: &mut Violations,
    pointer: &str,
    value: &mut Option<String>,
    most: usize,
    kind: TextKind,
) {
    if let Some(value) = value {
        text(problems, pointer, value, 0..=most, kind);
    }
}

/// Checks how many elements a list has; returns whether they are not too many.
/// The elements of a list that is too long are not to be looked at.
pub(crate) fn at_most<T>(
    problems: &mut Violations,
    pointer: &str,
    list: &[T],
    most: usize,
) -> bool {
    if list.len() <= most {
        return true;
    }
    let message = format!("must have at most {most} elements, got {}", list.len());
    problems.add(pointer, ViolationCode::TooMany, message);
    false
}

/// Checks a list of names of 1 to 100 characters each.
pub(crate) fn names(
    problems: &mut Violations,
    pointer: &str,
    names: &mut [String],
    most: usize,
    kind: TextKind,
) {
    if !at_most(problems, pointer, names, most) {
        return;
    }
    for (index, name) in names.iter_mut().enumerate() {
        text(
            problems,
            &format!("{pointer}/{index}"),
            name,
            1..=MAX_NAME_CHARS,
            kind,
        );
    }
}

/// Checks an http or https URL.
pub(crate) fn web_url(problems: &mut Violations, pointer: &str, value: &mut String) {
    text(problems, pointer, value, 1..=MAX_URL_CHARS, TextKind::Line);
    let is_web = url::Url::parse(value)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_web {
        let message = format!("must be an http or https URL, got {}", quoted(value));
        problems.add(pointer, ViolationCode::InvalidFormat, message);
    }
}

/// Reports a time that is before 1970 or in the future.
pub(crate) fn past_time(
    problems: &mut Violations,
    pointer: &str,
    at: Option<Timestamp>,
    now: Timestamp,
) {
    let Some(at) = at else {
        return;
    };
    let latest = now.plus(MAX_CLOCK_SKEW);
    let minutes = MAX_CLOCK_SKEW.num_minutes();
    if at > latest {
        let message =
            format!("must be at most {minutes} minutes after the server time ({now}), got {at}");
        problems.add(pointer, ViolationCode::OutOfRange, message);
    } else if at < Timestamp::EPOCH {
        let message = format!("must be {} or later, got {at}", Timestamp::EPOCH);
        problems.add(pointer, ViolationCode::OutOfRange, message);
    }
}

/// Checks a hex color: `#rgb` or `#rrggbb`.
pub(crate) fn color(problems: &mut Violations, pointer: &str, value: &mut String) {
    *value = value.trim().to_owned();
    let digits = value.strip_prefix('#').unwrap_or_default();
    if !matches!(digits.len(), 3 | 6) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        let message = format!(
            "must be a hex color such as #6366f1 or #63f, got {}",
            quoted(value)
        );
        problems.add(pointer, ViolationCode::InvalidFormat, message);
    }
}

/// Checks an IP address and puts it into its canonical form.
pub(crate) fn ip_address(problems: &mut Violations, pointer: &str, value: &mut String) {
    if let Ok(address) = value.trim().parse::<IpAddr>() {
        *value = address.to_string();
    } else {
        let message = format!("must be an IPv4 or IPv6 address, got {}", quoted(value));
        problems.add(pointer, ViolationCode::InvalidFormat, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_and_in_one_line() {
        assert_eq!(quoted("a \u{200b}\n\tb"), "\"a <U+200B>\\n\\tb\"");
        let long = "é".repeat(61);
        assert_eq!(quoted(&long), format!("\"{}\"…", "é".repeat(60)));
    }

    #[test]
    fn names_that_look_the_same_are_the_same() {
        let read = |text: &str, kind| {
            let mut problems = Violations::default();
            let mut value = text.to_owned();
            super::text(&mut problems, "/name", &mut value, 1..=100, kind);
            problems.into_result(value).ok()
        };
        for (name, as_name, as_key) in [
            ("payments", Some("payments"), Some("payments")),
            ("cafe\u{301}", Some("caf\u{e9}"), Some("caf\u{e9}")),
            ("pay\u{200b}ments", None, None),
            ("pay\u{200d}ments", None, None),
            ("\u{202e}stnemyap", None, None),
            ("pay\u{ad}ments", None, None),
            ("payments\u{e0041}", None, None),
            ("payments\u{fe0f}", Some("payments\u{fe0f}"), None),
            ("\u{feff}payments", None, None),
            ("👩\u{200d}👧", Some("👩\u{200d}👧"), None),
            ("می\u{200c}خواهم", Some("می\u{200c}خواهم"), None),
        ] {
            assert_eq!(read(name, TextKind::Name).as_deref(), as_name, "{name:?}");
            assert_eq!(read(name, TextKind::Key).as_deref(), as_key, "{name:?}");
            // What people write comes back as they wrote it.
            assert_eq!(
                read(name, TextKind::Line).as_deref(),
                Some(name),
                "{name:?}"
            );
        }
    }
}
