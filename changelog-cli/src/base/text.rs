//! Texts: shortened, on one line, without control characters, hashed.

use changelog_core::text::printable;
use sha2::{Digest, Sha256};

/// Returns a string as one line that is safe to print on a terminal: control
/// characters are escaped.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// Removes control characters and surrounding white space. None if nothing is
/// left.
pub(crate) fn without_controls(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the first line that is not empty, without control characters.
pub(crate) fn first_line(text: &str) -> Option<String> {
    without_controls(text.trim().lines().next()?)
}

/// Replaces control characters by spaces, and removes surrounding white space.
pub(crate) fn controls_to_spaces(text: &str) -> String {
    let spaced = text.replace(|c: char| c.is_control(), " ");
    spaced.trim().to_owned()
}

/// Shortens a string to at most `max_chars` characters; `…` shows that it was
/// shortened.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let start: String = text.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// Returns a number with its noun in the right form, such as `1 change`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// Returns a number with a comma between groups of three digits, such as `10,023`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the first `digits` hexadecimal digits (at most 64) of a string's
/// SHA-256.
pub(crate) fn sha256_hex(text: &str, digits: usize) -> String {
    let mut digest = hex::encode(Sha256::digest(text));
    digest.truncate(digits);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_safe_for_a_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\nc\td"), "a<U+001B>[31mb c d");
    }

    #[test]
    fn control_characters_are_removed_or_replaced() {
        assert_eq!(without_controls(" a\u{1b}b\n"), Some("ab".to_owned()));
        assert_eq!(without_controls("\n \u{7}"), None);
        assert_eq!(controls_to_spaces("\na\tb\n"), "a b");
        assert_eq!(first_line("\n one\u{7}\ntwo"), Some("one".to_owned()));
        assert_eq!(first_line(" \n"), None);
    }

    #[test]
    fn texts_are_shortened_by_characters() {
        assert_eq!(shorten("éé", 2), "éé");
        assert_eq!(shorten("ééé", 2), "é…");
        assert_eq!(shorten("a b c", 3), "a…");
        assert_eq!(shorten("ab", 0), "…");
    }

    #[test]
    fn digits_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn digests_have_the_asked_number_of_digits() {
        assert_eq!(sha256_hex("abc", 16), "ba7816bf8f01cfea");
        assert_eq!(sha256_hex("abc", 32).len(), 32);
    }
}
