//! Changes as a user names them: by ID, by the beginning of one, or as `@last`.

use std::str::FromStr;

use changelog_core::ChangeId;
use changelog_core::limits::MIN_ID_PREFIX;
use uuid::Uuid;

/// The name of the change that this user recorded or updated last.
pub(crate) const LAST: &str = "@last";
/// The hexadecimal digits of an ID.
const ID_DIGITS: usize = 32;

/// A change as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeRef {
    Id(ChangeId),
    /// The first hexadecimal digits of an ID, in lower case.
    Prefix(String),
    /// The change that this user recorded or updated last.
    Last,
}

impl FromStr for ChangeRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == LAST {
            return Ok(Self::Last);
        }
        // The address of its page, as commands print it.
        let text = match text.split_once("://") {
            Some((_, address)) => address
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or(text),
            None => text,
        };
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hexadecimal || !(MIN_ID_PREFIX..=ID_DIGITS).contains(&digits.len()) {
            return Err(format!(
                "must be the ID of a change, at least its first {MIN_ID_PREFIX} digits, or {LAST}"
            ));
        }
        Ok(match Uuid::try_parse(&digits) {
            Ok(id) => Self::Id(id.into()),
            Err(_) => Self::Prefix(digits.to_ascii_lowercase()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_by_ids_prefixes_and_last() {
        let id = "01a1fc2f-a733-7820-9a46-0802c0ffd162";
        let whole = ChangeRef::Id(id.parse().unwrap());
        let address = format!("https://example.com/log/changes/{id}");
        for text in [id, &id.replace('-', ""), &id.to_uppercase(), &address] {
            assert_eq!(text.parse(), Ok(whole.clone()), "{text}");
        }
        for (text, digits) in [
            ("01A1FC2F", "01a1fc2f"),
            ("01a1fc2f-a7", "01a1fc2fa7"),
            ("01a1fc2f-", "01a1fc2f"),
        ] {
            let prefix = ChangeRef::Prefix(digits.to_owned());
            assert_eq!(text.parse(), Ok(prefix), "{text}");
        }
        assert_eq!("@last".parse(), Ok(ChangeRef::Last));
        for text in ["", "01a1fc2", "last", "01a1fc2g", &format!("{id}0")] {
            assert!(text.parse::<ChangeRef>().is_err(), "{text}");
        }
    }
}
