//! Sign-in by the identity provider of an organization (`OpenID` Connect).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::input::{Input, ObjectReader};
use crate::issuer::check_issuer;
use crate::limits::{MAX_EMAIL_CHARS, MAX_TOKEN_CHARS};
use crate::membership::Role;
use crate::problem::{BadValue, ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// The claim with a person's groups, unless the organization names another one.
pub const DEFAULT_GROUPS_CLAIM: &str = "groups";
/// The limit on the groups that have roles.
pub const MAX_GROUP_ROLES: usize = 200;
/// The limit on a client id and the name of a claim or group, in characters.
const MAX_SSO_CHARS: usize = 255;

/// The role of a group, written `changelog-admins=admin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRole {
    /// The group, as the provider writes it in its claim.
    pub group: String,
    /// The role of its people.
    pub role: Role,
}

impl FromStr for GroupRole {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .rsplit_once('=')
            .map(|(group, role)| (group.trim(), role.trim()));
        let Some((group, role)) = parts.filter(|(group, _)| !group.is_empty()) else {
            let given = rules::quoted(text);
            return Err(BadValue::format(format!(
                "must be GROUP=ROLE such as changelog-admins=admin, got {given}"
            )));
        };
        Ok(Self {
            group: group.to_owned(),
            role: role.parse()?,
        })
    }
}

impl fmt::Display for GroupRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.group, self.role)
    }
}

/// Who gets which role when signing in by the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsoRoles {
    /// The role of people without a group that has one; such people are refused without it.
    pub default_role: Option<Role>,
    /// The claim with a person's groups.
    pub groups_claim: String,
    /// The roles of groups. Without any, only new people are given a role, and keep it.
    pub groups: Vec<GroupRole>,
}

impl SsoRoles {
    /// Returns whether the roles of members follow their groups at each sign-in.
    pub fn follow_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns the role of a person with these groups: the one that may most, or else the
    /// default role; `None` for a person who is to be refused.
    pub fn role_of(&self, groups: &[String]) -> Option<Role> {
        let matching = self.groups.iter().filter(|one| groups.contains(&one.group));
        // Roles are in the order of what they may do, most first.
        let best = matching.map(|one| &one.role).min();
        best.or(self.default_role.as_ref()).cloned()
    }
}

/// At which address the provider returns people to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SsoRedirect {
    /// `/sso/callback`, which all organizations share.
    #[default]
    Shared,
    /// `/sso/callback/ORGANIZATION`, which keeps the answers of providers apart that do not
    /// name themselves in them (RFC 9207).
    Own,
}

impl SsoRedirect {
    /// The words of a form.
    pub const WORDS: &'static [&'static str] = &["own", "shared"];

    /// Returns the word of a form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

impl FromStr for SsoRedirect {
    type Err = BadValue;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "own" => Ok(Self::Own),
            "shared" => Ok(Self::Shared),
            _ => Err(rules::not_one_of("an address", Self::WORDS, word)),
        }
    }
}

/// Input for connecting the identity provider of an organization.
#[derive(Clone, PartialEq, Eq)]
pub struct SsoInput {
    /// The issuer: a URL, compared exactly.
    pub issuer: String,
    /// The id of the service at the provider.
    pub client_id: String,
    /// The secret of the service at the provider; the present one is kept without it. Never
    /// logged or shown.
    pub client_secret: Option<String>,
    /// Who gets which role.
    pub roles: SsoRoles,
    /// Whether passwords no longer work in the organization.
    pub required: bool,
    /// The email address of the owner whose password still works then; without it, of the
    /// owner who was chosen before, or else of the first who has a password.
    pub emergency_owner: Option<String>,
    /// At which address the provider returns people to the service.
    pub redirect: SsoRedirect,
}

impl Input for SsoInput {
    const FIELDS: &'static [&'static str] = &[
        "issuer",
        "client_id",
        "client_secret",
        "default_role",
        "groups_claim",
        "groups",
        "required",
        "emergency_owner",
        "redirect",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            issuer: object.required_string("issuer"),
            client_id: object.required_string("client_id"),
            client_secret: object.string("client_secret"),
            roles: SsoRoles {
                default_role: object.parsed("default_role"),
                groups_claim: object.string("groups_claim").unwrap_or_default(),
                groups: object
                    .parsed_list("groups", MAX_GROUP_ROLES)
                    .unwrap_or_default(),
            },
            required: object.boolean("required").unwrap_or_default(),
            emergency_owner: object.string("emergency_owner"),
            redirect: object.parsed("redirect").unwrap_or_default(),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_issuer(problems, "/issuer", &mut self.issuer);
        let line = TextKind::Line;
        let client_id = &mut self.client_id;
        rules::text(problems, "/client_id", client_id, 1..=MAX_SSO_CHARS, line);
        let secret = &mut self.client_secret;
        rules::optional_text(problems, "/client_secret", secret, MAX_TOKEN_CHARS, line);
        let owner = &mut self.emergency_owner;
        rules::optional_text(problems, "/emergency_owner", owner, MAX_EMAIL_CHARS, line);
        for absent in [secret, owner] {
            if absent.as_ref().is_some_and(String::is_empty) {
                *absent = None;
            }
        }
        let roles = &mut self.roles;
        if roles.default_role == Some(Role::Owner) {
            let message = "must not be owner, or everyone at the provider could do everything; give \
                           the role owner to a group instead";
            problems.add("/default_role", ViolationCode::InvalidFormat, message);
        }
        let claim = &mut roles.groups_claim;
        rules::text(problems, "/groups_claim", claim, 0..=MAX_SSO_CHARS, line);
        if claim.is_empty() {
            DEFAULT_GROUPS_CLAIM.clone_into(claim);
        }
        let mut seen = BTreeSet::new();
        for (index, one) in roles.groups.iter_mut().enumerate() {
            let pointer = format!("/groups/{index}");
            rules::text(problems, &pointer, &mut one.group, 1..=MAX_SSO_CHARS, line);
            if !seen.insert(one.group.clone()) {
                let group = rules::quoted(&one.group);
                let message = format!("the group {group} must be given once");
                problems.add(pointer, ViolationCode::InvalidFormat, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::input::from_object;
    use crate::problem::Invalid;

    fn read(value: &serde_json::Value) -> Result<SsoInput, Invalid> {
        let mut object = json!({ "issuer": "https://login.example.com", "client_id": "log" });
        for (name, value) in value.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        from_object(
            object.as_object().cloned().unwrap_or_default(),
            Timestamp::EPOCH,
        )
    }

    #[test]
    fn the_role_that_may_most_counts() {
        let groups = ["ops=viewer", "dev=member", "a=b=admin", "roots=owner"];
        let input = read(&json!({ "groups": groups, "default_role": "viewer" }));
        let roles = input.unwrap_or_else(|invalid| panic!("{invalid}")).roles;
        assert_eq!(roles.groups_claim, "groups");
        let role = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
            roles.role_of(&groups)
        };
        assert_eq!(role(&["dev", "ops"]), Some(Role::Member));
        assert_eq!(role(&["ops", "a=b", "dev"]), Some(Role::Admin));
        assert_eq!(role(&["roots", "ops"]), Some(Role::Owner));
        assert_eq!(role(&["Dev"]), Some(Role::Viewer));
        assert_eq!(role(&[]), Some(Role::Viewer));
        let refusing = SsoRoles {
            default_role: None,
            ..roles
        };
        assert_eq!(refusing.role_of(&["Dev".to_owned()]), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, pointer) in [
            (json!({ "issuer": "login.example.com" }), "/issuer"),
            (json!({ "issuer": "ftp://login.example.com" }), "/issuer"),
            (
                json!({ "issuer": "https://a:b@login.example.com" }),
                "/issuer",
            ),
            (
                json!({ "issuer": "https://login.example.com?x=1" }),
                "/issuer",
            ),
            (json!({ "client_id": " " }), "/client_id"),
            (json!({ "default_role": "owner" }), "/default_role"),
            (json!({ "default_role": "king" }), "/default_role"),
            (json!({ "groups": ["dev"] }), "/groups/0"),
            (json!({ "groups": ["a=member", "=member"] }), "/groups/1"),
            (json!({ "groups": ["a=member", "a=admin"] }), "/groups/1"),
            (json!({ "redirect": "none" }), "/redirect"),
        ] {
            let invalid = read(&value).map(|_| ()).expect_err("it is wrong");
            let found: Vec<&str> = invalid.violations.iter().map(|v| &*v.pointer).collect();
            assert!(found.contains(&pointer), "{value}: {found:?}");
        }
    }

    #[test]
    fn an_issuer_is_kept_as_it_was_given() {
        for issuer in [
            "https://login.example.com/",
            "https://Login.example.com:443/a",
        ] {
            let input = read(&json!({ "issuer": issuer }));
            assert_eq!(input.map(|input| input.issuer), Ok(issuer.to_owned()));
        }
    }
}
