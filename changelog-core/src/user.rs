//! Users and their credentials.

use serde::{Deserialize, Serialize};

use crate::activity::{API_KEY_PREFIX, OPERATOR, PIPELINE_PREFIX, SERVICE, SOURCE_PREFIX};
use crate::erasure::PSEUDONYM_PREFIX;
use crate::ids::UserId;
use crate::input::{Input, ObjectReader};
use crate::limits::{
    MAX_EMAIL_CHARS, MAX_NAME_CHARS, MAX_PASSWORD_CHARS, MIN_EMAIL_CHARS, MIN_PASSWORD_CHARS,
};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::text::words;
use crate::time::Timestamp;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The id.
    pub id: UserId,
    /// The email address for signing in.
    pub email: String,
    /// The display name.
    pub name: String,
}

/// Input for creating the user who accepts an invitation; the email address is
/// that of the invitation.
#[derive(Clone, PartialEq, Eq)]
pub struct UserInput {
    /// The display name.
    pub name: String,
    /// The password; never logged or shown.
    pub password: String,
}

impl Input for UserInput {
    const FIELDS: &'static [&'static str] = &["name", "password"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            name: object.required_string("name"),
            password: object.required_string("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_password(problems, &self.password);
    }
}

/// Input for creating the first owner of an organization.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerInput {
    /// The email address for signing in.
    pub email: String,
    /// The display name.
    pub name: String,
    /// The password; never logged or shown.
    pub password: String,
}

impl Input for OwnerInput {
    const FIELDS: &'static [&'static str] = &["email", "name", "password"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            email: object.required_string("email"),
            name: object.required_string("name"),
            password: object.required_string("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
        check_name(problems, &mut self.name);
        check_password(problems, &self.password);
    }
}

/// An email address and a password, for signing in or for a new password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The email address.
    pub email: String,
    /// The password.
    pub password: String,
}

impl Input for Credentials {
    const FIELDS: &'static [&'static str] = &["email", "password"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            email: object.required_string("email"),
            password: object.required_string("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
        check_password(problems, &self.password);
    }
}

/// Returns the form in which email addresses are compared: in lower case.
pub fn fold_email(email: &str) -> String {
    // PostgreSQL does not store NUL, and no valid address contains it.
    email.trim().to_lowercase().replace('\0', "\u{fffd}")
}

pub(crate) fn check_email(problems: &mut Violations, email: &mut String) {
    rules::text(
        problems,
        "/email",
        email,
        MIN_EMAIL_CHARS..=MAX_EMAIL_CHARS,
        TextKind::Key,
    );
    let well_formed = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty() && !domain.is_empty() && !domain.contains('@')
    }) && !email.contains(char::is_whitespace);
    if !well_formed {
        problems.add(
            "/email",
            ViolationCode::InvalidFormat,
            "must be an email address such as ada@example.com",
        );
    }
}

/// Names that only the operator and the service have in the activity log.
const RESERVED_NAMES: [&str; 2] = [OPERATOR, SERVICE];
/// What the names of all others begin with that act in the activity log and are no people.
const RESERVED_PREFIXES: [&str; 4] = [
    API_KEY_PREFIX,
    PIPELINE_PREFIX,
    SOURCE_PREFIX,
    PSEUDONYM_PREFIX,
];

/// Checks the name of a user. The names of what is no person in the activity log are reserved
/// in every spelling.
pub fn check_name(problems: &mut Violations, name: &mut String) {
    rules::text(problems, "/name", name, 1..=MAX_NAME_CHARS, TextKind::Name);
    let folded = |text: &str| words(text).concat();
    let given = folded(name);
    let is_reserved = RESERVED_NAMES
        .iter()
        .any(|reserved| given == folded(reserved))
        || RESERVED_PREFIXES
            .iter()
            .any(|prefix| given.starts_with(&folded(prefix)));
    if is_reserved {
        let begins = RESERVED_PREFIXES.map(|prefix| prefix.trim_end_matches([':', ' ']));
        let message = format!(
            "must not be {}, and must not begin with {}: these names are reserved in the activity \
             log",
            RESERVED_NAMES.join(" or "),
            begins.join(", "),
        );
        problems.add("/name", ViolationCode::InvalidFormat, message);
    }
}

/// Checks the length of a password. The server also checks that it is not common.
pub fn check_password(problems: &mut Violations, password: &str) {
    let count = password.chars().count();
    let message = || {
        format!("must have {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters, got {count}")
    };
    if count < MIN_PASSWORD_CHARS {
        problems.add("/password", ViolationCode::TooShort, message());
    } else if count > MAX_PASSWORD_CHARS {
        problems.add("/password", ViolationCode::TooLong, message());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(email: &str, password: &str) -> Vec<(String, ViolationCode)> {
        let owner = OwnerInput {
            email: email.to_owned(),
            name: "Ada".to_owned(),
            password: password.to_owned(),
        };
        problems(owner.checked(Timestamp::EPOCH))
    }

    /// Returns the broken rules, as pointer and code.
    fn problems<T>(checked: Result<T, crate::problem::Invalid>) -> Vec<(String, ViolationCode)> {
        match checked {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid
                .violations
                .into_iter()
                .map(|v| (v.pointer, v.code))
                .collect(),
        }
    }

    #[test]
    fn names_of_what_is_no_person_are_refused() {
        for (name, fine) in [
            ("Ada", true),
            ("Olga Operator", true),
            ("Operators", true),
            ("Operator", false),
            (" oper ator ", false),
            ("\u{ff2f}perator", false),
            ("API key: ci", false),
            ("api\u{a0}KEY\u{ff1a}ci", false),
            ("A.P.I. Key", false),
            ("Change log", false),
            ("change-LOG", false),
            ("Changelog Charlie", true),
            ("Source: GitHub", false),
            ("source\u{ff1a}GitHub", false),
            ("Olga Source", true),
            ("Pipeline: deploy", false),
            ("Erased person 8b7d1e90", false),
        ] {
            let mut problems = Violations::default();
            check_name(&mut problems, &mut name.to_owned());
            assert_eq!(problems.into_result(()).is_ok(), fine, "{name}");
        }
    }

    #[test]
    fn who_is_new_is_checked_as_an_owner_is() {
        for (name, password, expected) in [
            ("Ada", "twelve chars", &[][..]),
            (" Ada ", "twelve chars", &[]),
            ("", "twelve chars", &[("/name", ViolationCode::TooShort)]),
            (
                "A\u{7}",
                "twelve chars",
                &[("/name", ViolationCode::ControlCharacter)],
            ),
            (
                "",
                "short",
                &[
                    ("/name", ViolationCode::TooShort),
                    ("/password", ViolationCode::TooShort),
                ],
            ),
        ] {
            let person = UserInput {
                name: name.to_owned(),
                password: password.to_owned(),
            };
            let owner = OwnerInput {
                email: "a@b".to_owned(),
                name: name.to_owned(),
                password: password.to_owned(),
            };
            let found = problems(person.checked(Timestamp::EPOCH));
            assert_eq!(found, problems(owner.checked(Timestamp::EPOCH)), "{name:?}");
            let expected: Vec<_> = expected
                .iter()
                .map(|(pointer, code)| ((*pointer).to_owned(), code.clone()))
                .collect();
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn passwords_at_their_limits() {
        for letter in ["x", "🚀"] {
            for (size, code) in [
                (0, Some(ViolationCode::TooShort)),
                (11, Some(ViolationCode::TooShort)),
                (12, None),
                (13, None),
                (255, None),
                (256, None),
                (257, Some(ViolationCode::TooLong)),
            ] {
                let expected: Vec<_> = code
                    .map(|code| ("/password".to_owned(), code))
                    .into_iter()
                    .collect();
                assert_eq!(codes("a@b.c", &letter.repeat(size)), expected, "{size}");
            }
        }
        // White space around it is part of it.
        assert!(codes("a@b.c", "  ten chars ").is_empty());
    }

    #[test]
    fn addresses_have_one_at_inside() {
        let long = |size: usize| format!("{}@b", "x".repeat(size - 2));
        for good in [
            "a@b",
            "ada@example.com",
            " ada@example.com ",
            &long(253),
            &long(254),
        ] {
            assert!(codes(good, "twelve chars").is_empty(), "{good}");
        }
        for bad in ["", "ab", "ada", "@b", "a@", "a@b@c", "a b@c", &long(255)] {
            let found = codes(bad, "twelve chars");
            assert_eq!(found.len(), 1, "{bad}");
            assert_eq!(found[0].0, "/email", "{bad}");
        }
        assert_eq!(fold_email(" Ada@Example.COM "), "ada@example.com");
    }
}
