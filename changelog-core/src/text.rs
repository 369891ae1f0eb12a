//! Text: folding titles into searchable words, and guessing what was meant.

use std::fmt::Write;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The longest word that is searched, in bytes: PostgreSQL's limit for one
/// lexeme is 2046, with room left for the organization's prefix.
const MAX_WORD_BYTES: usize = 1_900;
/// The longest text, in bytes, for which [`closest`] guesses what was meant:
/// comparing takes as long as the product of the lengths, and no name is longer.
const MAX_GUESSED_BYTES: usize = 64;

/// Splits a string into the words that search works on: runs of Unicode letters
/// and digits, with case and diacritics folded away (`Überlauf` is
/// `uberlauf`, `Straße` is `strasse`).
///
/// Both databases index exactly these words, and a query is split by the same
/// function, so their results are equal.
pub fn words(text: &str) -> Vec<String> {
    // Folding leaves nothing else to do in ASCII, which most titles are.
    let folded = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        fold(text)
    };
    folded
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word[..word.floor_char_boundary(MAX_WORD_BYTES)].to_owned())
        .collect()
}

/// Folds case and diacritics away.
fn fold(text: &str) -> String {
    // Upper then lower is Unicode's way to make ß equal ss and σ equal ς,
    // which lower alone is not. Lower before that makes ẞ the ß that it is the
    // capital of, which upper leaves as it is.
    text.nfkd()
        .filter(|c| !is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        // Folding may have produced marks anew (İ becomes i and a dot).
        .nfkd()
        .filter(|c| !is_combining_mark(*c))
        .collect()
}

/// Returns the words of a query, in alphabetical order: [`words`] without those
/// that are said twice and those that another one begins with. Whatever has a
/// word that begins with the longer one has one that begins with the shorter.
pub fn query_words(text: &str) -> Vec<String> {
    let mut words = words(text);
    words.sort_unstable();
    // In this order, what begins with a word follows it at once.
    words.dedup_by(|next, word| {
        let begins = next.starts_with(word.as_str());
        if begins {
            std::mem::swap(next, word);
        }
        begins
    });
    words
}

/// Returns the known word that `given` most probably meant, if any is close.
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > MAX_GUESSED_BYTES {
        return None;
    }
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|word| {
            let abbreviates =
                given.len() >= 3 && (word.starts_with(&given) || given.starts_with(word));
            let score = strsim::jaro_winkler(&given, word) + if abbreviates { 0.2 } else { 0.0 };
            (score, word)
        })
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// Returns whether a character is invisible and changes how others look, or what
/// they are taken for: Unicode's format characters, such as those that reorder
/// text, have no width, or tag others. Signs that are written around Arabic
/// numbers are format characters too, and visible.
pub(crate) fn is_format(c: char) -> bool {
    !c.is_ascii()
        && c.general_category() == GeneralCategory::Format
        && !matches!(c, '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{110bd}' | '\u{110cd}')
}

/// Returns whether a character joins its neighbours, or keeps them apart: what
/// families and flags of emoji, Persian and many Indian words are written with.
pub(crate) fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Composes letters and their marks (Unicode's form NFC), so that names that look
/// the same are the same.
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// Replaces what could steer a terminal, or make a text look like another one:
/// control characters other than line feed and tab, format characters other than joiners,
/// and the two characters that XML cannot have, become `<U+200B>` with their numbers.
pub fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let unsafe_char = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || (is_format(c) && !is_joiner(c))
            || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    if !text.contains(unsafe_char) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if unsafe_char(c) {
            // Writing to a string does not fail.
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_letters_and_digits() {
        for (title, expected) in [
            ("Deploy API v2.3", vec!["deploy", "api", "v2", "3"]),
            ("Überlauf in Straße", vec!["uberlauf", "in", "strasse"]),
            ("STRAẞE", vec!["strasse"]),
            ("İstanbul ΣΟΦΟΣ", vec!["istanbul", "σοφοσ"]),
            ("café cafe\u{301}", vec!["cafe", "cafe"]),
            ("数据库 升级", vec!["数据库", "升级"]),
            ("%_'\"*) OR NEAR( - : ^", vec!["or", "near"]),
            ("🚀🚀", vec![]),
        ] {
            assert_eq!(words(title), expected, "{title}");
        }
    }

    #[test]
    fn words_that_others_begin_with_are_not_searched_for() {
        for (q, expected) in [
            ("deploy api", vec!["api", "deploy"]),
            ("d de dep api deploy Deploy ap", vec!["api", "deploy"]),
            ("a ab ac a abc", vec!["abc", "ac"]),
            ("é e\u{301}clair", vec!["eclair"]),
            ("- %", vec![]),
        ] {
            assert_eq!(query_words(q), expected, "{q}");
        }
    }

    #[test]
    fn guesses_near_misses_only() {
        let known = ["title", "risk_level", "status", "service_id"];
        assert_eq!(closest("risk", known), Some("risk_level"));
        assert_eq!(closest("titel", known), Some("title"));
        assert_eq!(closest("Service", known), Some("service_id"));
        assert_eq!(closest("frobnicate", known), None);
        assert_eq!(closest(&"title".repeat(20), known), None);
    }

    #[test]
    fn printable_escapes_what_steers_a_terminal() {
        assert_eq!(printable("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(printable("a\u{1b}[31mb"), "a<U+001B>[31mb");
        assert_eq!(printable("\u{202e}x"), "<U+202E>x");
        for c in [
            '\u{200b}',
            '\u{200e}',
            '\u{61c}',
            '\u{feff}',
            '\u{ffff}',
            '\u{e0041}',
        ] {
            assert_eq!(
                printable(&format!("a{c}b")),
                format!("a<U+{:04X}>b", u32::from(c))
            );
        }
        for fine in ["👩‍👩‍👧‍👦", "می‌خواهم", "\u{600}١", "é", "❤️"]
        {
            assert_eq!(printable(fine), fine);
        }
    }

    #[test]
    fn folding_twice_is_folding_once() {
        for c in '\0'..=char::MAX {
            let once = words(&c.to_string());
            assert_eq!(words(&once.join(" ")), once, "U+{:04X}", u32::from(c));
        }
    }

    proptest::proptest! {
        /// A word found in a title is found by itself, by its beginning, and
        /// however it is written.
        #[test]
        fn words_are_stable(text in ".{0,80}") {
            let once = words(&text);
            for word in &once {
                proptest::prop_assert_eq!(words(word), vec![word.clone()]);
            }
            proptest::prop_assert_eq!(words(&once.join(" ")), once);
            let decomposed: String = text.nfd().collect();
            proptest::prop_assert_eq!(words(&decomposed), words(&text));
        }

        #[test]
        fn printable_has_no_controls(text in "\\PC{0,20}[\u{0}-\u{9f}\u{202a}-\u{202e}]{0,20}") {
            let printed = printable(&text);
            proptest::prop_assert!(!printed.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
