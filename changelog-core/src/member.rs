//! People, their roles in an organization, and what they sign in with.

use serde::{Deserialize, Serialize};

use crate::ids::{InvitationId, UserId};
use crate::input::{Fields, Input};
use crate::problem::{Code, Violations};
use crate::rules::{self, Lines};
use crate::text::words;
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

impl Role {
    /// Tells whether it may log and edit changes, hosts and services.
    pub fn may_write(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin | Self::Member)
    }

    /// Tells whether it may manage the organization: its members, its keys, its
    /// name.
    pub fn may_manage(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin)
    }

    /// Tells whether it may give somebody a role, or take it from them: only an
    /// owner makes owners, demotes and removes them.
    pub fn may_give(&self, role: &Self) -> bool {
        match self {
            Self::Owner => true,
            Self::Admin => *role != Self::Owner,
            _ => false,
        }
    }

    /// Tells whether it may change somebody's role from one to another.
    pub fn may_change(&self, from: &Self, to: &Self) -> bool {
        self.may_give(from) && self.may_give(to)
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

/// A person, as a member of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who it is.
    pub user: User,
    /// What they may do.
    pub role: Role,
    /// Since when they belong to it.
    pub joined_at: Timestamp,
}

/// An invitation to an organization that nobody has accepted yet. The token of
/// its link is shown once and kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// Its id, for withdrawing it.
    pub id: InvitationId,
    /// The address that it is for.
    pub email: String,
    /// What whoever accepts it may do.
    pub role: Role,
    /// The name of who invited.
    pub invited_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it cannot be accepted any more.
    pub expires_at: Timestamp,
}

/// What makes an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// The address that it is for: at most 254 characters with an `@` inside.
    pub email: String,
    /// What whoever accepts it may do; a member where nothing is said.
    pub role: Role,
}

impl Input for NewInvitation {
    const FIELDS: &'static [&'static str] = &["email", "role"];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            email: fields.required_text("email"),
            role: fields.parsed("role").unwrap_or(Role::Member),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
    }
}

/// What makes a person of whoever accepts an invitation; the address is the
/// invitation's.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPerson {
    /// 1 to 100 characters.
    pub name: String,
    /// 12 to 256 characters; not logged, not shown.
    pub password: String,
}

impl Input for NewPerson {
    const FIELDS: &'static [&'static str] = &["name", "password"];

    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.required_text("name"),
            password: fields.required_text("password"),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_password(problems, &self.password);
    }
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
        check_name(problems, &mut self.name);
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

/// The longest mail address, in characters.
pub const MAX_EMAIL: usize = 254;

/// Returns the form in which addresses are compared: without case.
pub fn fold_email(email: &str) -> String {
    // A NUL cannot be in a text of PostgreSQL; no address has this either.
    email.trim().to_lowercase().replace('\0', "\u{fffd}")
}

fn check_email(problems: &mut Violations, email: &mut String) {
    rules::text(problems, "/email", email, 3..=MAX_EMAIL, Lines::Key);
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

/// Checks the name of a person. The names by which the activity log calls API keys
/// and the operator are nobody's, however they are written.
pub fn check_name(problems: &mut Violations, name: &mut String) {
    rules::text(problems, "/name", name, 1..=100, Lines::Name);
    let folded: String = words(name).concat();
    if folded == "operator" || folded.starts_with("apikey") {
        let message = "must not be Operator or begin with API key: the activity log calls \
                       others so";
        problems.add("/name", Code::InvalidFormat, message);
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
        problems(owner.checked(Timestamp::EPOCH))
    }

    /// Returns the broken rules, as pointer and code.
    fn problems<T>(checked: Result<T, crate::problem::Invalid>) -> Vec<(String, Code)> {
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
    fn roles_and_what_they_may() {
        use Role::{Admin, Member, Owner, Viewer};
        for (role, write, manage) in [
            (Owner, true, true),
            (Admin, true, true),
            (Member, true, false),
            (Viewer, false, false),
            // A role of the future is not guessed at.
            (Role::Unknown("king".into()), false, false),
        ] {
            assert_eq!(role.may_write(), write, "{role}");
            assert_eq!(role.may_manage(), manage, "{role}");
            for from in Role::ALL {
                assert_eq!(
                    role.may_give(from),
                    manage && (role == Owner || *from != Owner),
                    "{role} gives {from}"
                );
                for to in Role::ALL {
                    let expected = match role {
                        Owner => true,
                        Admin => *from != Owner && *to != Owner,
                        _ => false,
                    };
                    assert_eq!(role.may_change(from, to), expected, "{role}: {from}, {to}");
                }
            }
        }
    }

    #[test]
    fn nobody_is_called_as_a_key_or_the_operator() {
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
            ("", "twelve chars", &[("/name", Code::TooShort)]),
            (
                "A\u{7}",
                "twelve chars",
                &[("/name", Code::ControlCharacter)],
            ),
            (
                "",
                "short",
                &[("/name", Code::TooShort), ("/password", Code::TooShort)],
            ),
        ] {
            let person = NewPerson {
                name: name.to_owned(),
                password: password.to_owned(),
            };
            let owner = NewOwner {
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
    fn invitations_have_an_address_and_a_role() {
        let read = |members: serde_json::Value| {
            let object = members.as_object().cloned().unwrap_or_default();
            crate::input::from_object::<NewInvitation>(object, Timestamp::EPOCH)
        };
        for (members, role) in [
            (serde_json::json!({ "email": " a@b " }), Role::Member),
            (
                serde_json::json!({ "email": "a@b", "role": "viewer" }),
                Role::Viewer,
            ),
            (
                serde_json::json!({ "email": "a@b", "role": "owner" }),
                Role::Owner,
            ),
        ] {
            let email = "a@b".to_owned();
            assert_eq!(read(members), Ok(NewInvitation { email, role }));
        }
        for (members, pointer) in [
            (serde_json::json!({ "email": "ab" }), "/email"),
            (
                serde_json::json!({ "email": "a@b", "role": "king" }),
                "/role",
            ),
            (serde_json::json!({ "email": "a@b", "name": "A" }), "/name"),
        ] {
            let found = problems(read(members.clone()));
            let places: Vec<_> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
            assert!(places.contains(&pointer), "{members}: {found:?}");
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
