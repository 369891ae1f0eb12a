//! Changes as a user names them: by ID, by the beginning of one, or as `@last`.

use std::str::FromStr;

use changelog_core::ChangeId;
use changelog_core::ids::IdPrefix;
use changelog_core::limits::MIN_ID_PREFIX;

/// The name of the change that this user recorded or updated last.
pub(crate) const LAST: &str = "@last";

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
        let prefix: IdPrefix = without_address(text).parse().map_err(|_| {
            format!(
                "must be the ID of a change, at least its first {MIN_ID_PREFIX} digits, or {LAST}"
            )
        })?;
        Ok(match prefix.whole() {
            Some(id) => Self::Id(id.into()),
            None => Self::Prefix(prefix.to_string()),
        })
    }
}

/// Returns the end of the address of a page, as commands print it; other texts as they are.
pub(super) fn without_address(text: &str) -> &str {
    match text.split_once("://") {
        Some((_, address)) => {
            let mut parts = address.trim_end_matches('/').rsplit('/');
            parts.next().unwrap_or(text)
        }
        None => text,
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
