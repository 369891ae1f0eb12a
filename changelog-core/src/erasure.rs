//! Replacing the name of a person in everything that an organization has recorded.

use std::str::FromStr;

use crate::ids::UserId;
use crate::limits::MAX_EMAIL_CHARS;
use crate::problem::BadValue;

/// The most further names.
const MAX_NAMES: usize = 20;
/// The most characters of a name, as those of `on_behalf_of`.
const MAX_CHARS: usize = MAX_EMAIL_CHARS;

/// The further names by which records may call a person, besides the name and the address of
/// the account: logins at other systems, former names. Written with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FurtherNames(Vec<String>);

impl FurtherNames {
    /// Returns the names.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl FromStr for FurtherNames {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let names = text.split(',').map(str::trim);
        let names: Vec<String> = names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        if names.len() > MAX_NAMES {
            return Err(BadValue::format(format!(
                "must be at most {MAX_NAMES} names, got {}",
                names.len()
            )));
        }
        if let Some(long) = names
            .iter()
            .find(|name| name.chars().nth(MAX_CHARS).is_some())
        {
            let begin: String = long.chars().take(20).collect();
            return Err(BadValue::format(format!(
                "must be names of at most {MAX_CHARS} characters; the one that begins with \
                 {begin:?} is longer"
            )));
        }
        Ok(Self(names))
    }
}

/// What the names of erased persons begin with.
pub const PSEUDONYM_PREFIX: &str = "Erased person ";

/// Returns what records call a person after their name was erased: the same for all records of
/// one person, so that it can still be seen what one person did.
pub fn pseudonym(person: UserId) -> String {
    let id = person.0.simple().to_string();
    format!("{PSEUDONYM_PREFIX}{}", &id[id.len() - 8..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_separated_by_commas() {
        let names = |text: &str| text.parse::<FurtherNames>().map(FurtherNames::into_vec);
        assert_eq!(names(""), Ok(vec![]));
        assert_eq!(
            names(" ada, Ada L.,,"),
            Ok(vec!["ada".to_owned(), "Ada L.".to_owned()])
        );
        let many = ["a"; 21].join(",");
        assert!(names(&many).unwrap_err().message.contains("at most 20"));
        assert!(names(&"é".repeat(254)).is_ok());
        let long = names(&"é".repeat(255)).unwrap_err();
        assert!(long.message.contains("at most 254"), "{long}");
    }
}
