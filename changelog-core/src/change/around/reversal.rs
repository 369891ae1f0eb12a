//! Titles that say that a change undoes an earlier one, or repeats one that had been
//! undone.

/// What a title says about an earlier change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reversal {
    /// The change undoes an earlier one.
    Revert,
    /// The change repeats one that had been undone.
    Relanding,
}

/// Recognizes the titles of git (`Revert "X"`, `Reapply "X"`), GitHub (`Merge pull
/// request #2 from org/revert-1-x`), Gerrit (`Revert^2 "X"`, `Reland "X"`), conventional
/// commits (`revert: X`), and sentences that begin with such a word (`Roll back X`).
/// `[labels]` and prefixes such as `api:` may precede it. A revert of a revert is a
/// relanding.
pub(super) fn reversal(title: &str) -> Option<Reversal> {
    let title = title.to_lowercase();
    let (reverts, repeats) = match merged_branch(&title) {
        Some(branch) => (branch.matches("revert-").count(), false),
        None => leading_words(&title),
    };
    match (reverts % 2, reverts > 0 || repeats) {
        (1, _) => Some(Reversal::Revert),
        (_, true) => Some(Reversal::Relanding),
        (_, false) => None,
    }
}

/// Returns the name of the branch that GitHub has made for a revert, from the title of
/// its merge.
fn merged_branch(title: &str) -> Option<&str> {
    let (_, branch) = title
        .strip_prefix("merge pull request #")?
        .split_once('/')?;
    let number = branch.strip_prefix("revert-")?;
    number
        .starts_with(|c: char| c.is_ascii_digit())
        .then_some(branch)
}

/// Counts the reverts that the title begins with, and returns whether it begins with a
/// word for a repetition.
fn leading_words(title: &str) -> (usize, bool) {
    let (mut reverts, mut repeats) = (0, false);
    let mut rest = title;
    loop {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '[');
        if let Some((label, after)) = label(rest) {
            match label {
                "revert" => reverts += 1,
                "reland" => repeats = true,
                _ => {}
            }
            rest = after;
        } else if let Some((count, after)) = revert(rest) {
            reverts += count;
            rest = after;
        } else if let Some(after) = repetition(rest) {
            repeats = true;
            rest = after;
        } else if let Some(after) = prefix(rest) {
            rest = after;
        } else {
            return (reverts, repeats);
        }
    }
}

/// Splits off `[label]`.
fn label(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('[')?.split_once(']')
}

/// Splits off a word for undoing, and returns how often it undoes.
fn revert(text: &str) -> Option<(usize, &str)> {
    const WORDS: [&str; 12] = [
        "revert",
        "reverts",
        "reverted",
        "reverting",
        "rollback",
        "roll back",
        "rolled back",
        "rolling back",
        "backout",
        "back out",
        "backed out",
        "undo",
    ];
    let after = WORDS.iter().find_map(|word| after_word(text, word))?;
    let Some(power) = after.strip_prefix('^') else {
        return Some((1, after));
    };
    let digits = power.bytes().take_while(u8::is_ascii_digit).count();
    let (count, after) = power.split_at(digits);
    Some((count.parse().unwrap_or(1), after))
}

/// Splits off a word for doing again what had been undone.
fn repetition(text: &str) -> Option<&str> {
    const WORDS: [&str; 8] = [
        "reland",
        "re-land",
        "relanding",
        "reapply",
        "re-apply",
        "reapplying",
        "unrevert",
        "un-revert",
    ];
    WORDS.iter().find_map(|word| after_word(text, word))
}

/// Returns what follows a word at the beginning of a string.
fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let after = text.strip_prefix(word)?;
    (!after.starts_with(char::is_alphanumeric)).then_some(after)
}

/// Splits off a prefix such as `api:` or `fix(api):`.
fn prefix(text: &str) -> Option<&str> {
    let (prefix, after) = text.split_once(": ")?;
    (!prefix.contains(char::is_whitespace)).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_reverts_and_relandings_are_recognized() {
        use Reversal::{Relanding, Revert};
        for (title, expected) in [
            ("Revert \"Deploy payments 2.3\"", Some(Revert)),
            ("Revert \"Revert \"Deploy payments 2.3\"\"", Some(Relanding)),
            ("Reapply \"Deploy payments 2.3\"", Some(Relanding)),
            ("Revert \"Reapply \"Deploy payments 2.3\"\"", Some(Revert)),
            ("Revert^2 \"Deploy payments\"", Some(Relanding)),
            ("Revert^3 \"Deploy payments\"", Some(Revert)),
            ("Revert^99999999999999999999 \"Deploy\"", Some(Revert)),
            ("Reland \"Deploy payments\"", Some(Relanding)),
            ("[reland] Deploy payments", Some(Relanding)),
            ("[prod][api] Revert deployment 17", Some(Revert)),
            ("mediawiki: Revert \"cache: Revert \"X\"\"", Some(Relanding)),
            ("revert: feat(api): faster lists", Some(Revert)),
            ("revert(api): faster lists", Some(Revert)),
            ("fix(api): revert faster lists", Some(Revert)),
            (
                "Merge pull request #12 from acme/revert-11-deploy",
                Some(Revert),
            ),
            (
                "Merge pull request #13 from acme/revert-12-revert-11-deploy",
                Some(Relanding),
            ),
            ("Merge pull request #14 from acme/reverting", None),
            ("Roll back payments to 2.2", Some(Revert)),
            ("Backed out changeset 1234 for failures", Some(Revert)),
            ("Back out \"Deploy payments\"", Some(Revert)),
            ("Rollout of payments 2.3", None),
            ("Undoing", None),
            ("Deploy payments 2.3, reverts the cache", None),
            ("Document how to revert: read this", None),
            ("Reverter 2.0", None),
            ("[unfinished", None),
            ("", None),
            ("🚀 Deploy", None),
        ] {
            assert_eq!(reversal(title), expected, "{title}");
        }
    }
}
