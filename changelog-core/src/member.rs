//! People, their roles in an organization, and what they sign in with.

use serde::{Deserialize, Serialize};

use crate::ids::UserId;
use crate::input::{Fields, Input};
use crate::problem::{Code, Violations};
use crate::rules::{self, Lines};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What a person may do in an organization.
    Role, "a role", example "member" {
        /// Everything.
        Owner = "owner",
        /// All but removing or demoting an owner.
        Admin = "admin",
        /// Logs and edits changes, hosts and services.
        Member = "member",
        /// Reads.
        Viewer = "viewer",
    }
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Their id.
    pub id: UserId,
    /// The address they sign in with.
    pub email: String,
    /// The name that others see.
    pub name: String,
}

/// What makes the first owner of an organization.
#[derive(Clone, PartialEq, Eq)]
pub struct NewOwner {
    /// The address to sign in with: at most 254 characters with an `@` inside.
    pub email: String,
    /// 1 to 100 characters.
    pub name: String,
    /// 12 to 256 characters; not logged, not shown.
    pub password: String,
}

impl Input for NewOwner {
    const FIELDS: &'static [&'static str] = &["email", "name", "password"];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            email: fields.required_text("email"),
            name: fields.required_text("name"),
            password: fields.required_text("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
        rules::text(problems, "/name", &mut self.name, 1..=100, Lines::One);
        check_password(problems, &self.password);
    }
}

/// An address and a password, as a sign-in or a new password gives them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The address.
    pub email: String,
    /// The password.
    pub password: String,
}

impl Input for Credentials {
    const FIELDS: &'static [&'static str] = &["email", "password"];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            email: fields.required_text("email"),
            password: fields.required_text("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
        check_password(problems, &self.password);
    }
}

/// Returns the form in which addresses are compared: without case.
pub fn fold_email(email: &str) -> String {
    // A NUL cannot be in a text of PostgreSQL; no address has this either.
    email.trim().to_lowercase().replace('\0', "\u{fffd}")
}

fn check_email(problems: &mut Violations, email: &mut String) {
    rules::text(problems, "/email", email, 3..=254, Lines::One);
    let well_formed = email.split_once('@').is_some_and(|(local, domain)| {
        !local.is_empty() && !domain.is_empty() && !domain.contains('@')
    }) && !email.contains(char::is_whitespace);
    if !well_formed {
        problems.add(
            "/email",
            Code::InvalidFormat,
            "must be a mail address such as ada@example.com",
        );
    }
}

/// Checks the length of a password; whether it is too common is for the
/// server, which knows the list.
pub fn check_password(problems: &mut Violations, password: &str) {
    let count = password.chars().count();
    let message = || format!("must have 12 to 256 characters, got {count}");
    if count < 12 {
        problems.add("/password", Code::TooShort, message());
    } else if count > 256 {
        problems.add("/password", Code::TooLong, message());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(email: &str, password: &str) -> Vec<(String, Code)> {
        let owner = NewOwner {
            email: email.to_owned(),
            name: "Ada".to_owned(),
            password: password.to_owned(),
        };
        match owner.checked(Timestamp::EPOCH) {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid
                .violations
                .into_iter()
                .map(|v| (v.pointer, v.code))
                .collect(),
        }
    }

    #[test]
    fn passwords_at_their_limits() {
        for letter in ["x", "🚀"] {
            for (size, code) in [
                (0, Some(Code::TooShort)),
                (11, Some(Code::TooShort)),
                (12, None),
                (13, None),
                (255, None),
                (256, None),
                (257, Some(Code::TooLong)),
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
