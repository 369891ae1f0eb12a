//! Reads a person from the claims of a provider.

use changelog_core::limits::{MAX_EMAIL_CHARS, MAX_NAME_CHARS};
use changelog_core::user::check_name;
use changelog_core::{SsoRoles, Violations};
use serde_json::{Map, Value};

use crate::store::SsoPerson;

/// The limit on a subject and on the id of a session, in characters (`OpenID` Connect Core 1.0).
const MAX_ID_CHARS: usize = 255;

/// Why a person cannot be read from what a provider says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PersonError {
    /// There is no usable subject.
    #[error(
        "the identity provider did not say who signed in: the claim sub is missing or too long"
    )]
    NoSubject,
    /// The person is in so many groups that the provider left them out.
    #[error(
        "you are in so many groups that the identity provider did not send them; ask your \
         administrator to have it send only the groups that are assigned to the change log"
    )]
    TooManyGroups,
}

/// Reads a person.
pub(crate) fn read(
    claims: &Map<String, Value>,
    roles: &SsoRoles,
) -> Result<SsoPerson, PersonError> {
    let subject = id(claims, "sub").ok_or(PersonError::NoSubject)?;
    let email = email(claims);
    let groups = groups(claims, &roles.groups_claim);
    if groups.is_none() && roles.follow_groups() && is_left_out(claims, &roles.groups_claim) {
        return Err(PersonError::TooManyGroups);
    }
    Ok(SsoPerson {
        name: name(claims, email.as_deref(), &subject),
        subject,
        is_verified: email.is_some() && is_verified(claims),
        email,
        role: roles.role_of(&groups.unwrap_or_default()),
    })
}

/// Returns an id that the provider has given; `None` if it is missing or unusable.
pub(crate) fn id(claims: &Map<String, Value>, name: &str) -> Option<String> {
    let id = claims.get(name)?.as_str()?;
    let is_usable =
        !id.is_empty() && id.chars().count() <= MAX_ID_CHARS && !id.chars().any(char::is_control);
    is_usable.then(|| id.to_owned())
}

/// Returns the address: that of the claim `email`, or else the name that the person signs in
/// with, if that is an address, as it often is at Entra ID.
fn email(claims: &Map<String, Value>) -> Option<String> {
    ["email", "preferred_username"].iter().find_map(|name| {
        let text = claims.get(*name)?.as_str()?.trim();
        let (local, domain) = text.split_once('@')?;
        let is_address = !local.is_empty()
            && !domain.is_empty()
            && !domain.contains('@')
            && text.chars().count() <= MAX_EMAIL_CHARS
            && !text.chars().any(|c| c.is_whitespace() || c.is_control());
        is_address.then(|| text.to_owned())
    })
}

/// Returns whether the provider says that the claim `email` is the person's.
fn is_verified(claims: &Map<String, Value>) -> bool {
    let has_email = claims.get("email").is_some_and(Value::is_string);
    // Some send a string, and Entra ID a number or string in a claim of its own.
    let is_true = |name: &str| match claims.get(name) {
        Some(Value::Bool(is_true)) => *is_true,
        Some(Value::String(text)) => text == "true" || text == "1",
        Some(Value::Number(number)) => number.as_u64() == Some(1),
        _ => false,
    };
    has_email
        && match claims.get("email_verified") {
            Some(_) => is_true("email_verified"),
            None => is_true("xms_edov"),
        }
}

/// Returns the name, or else what the address begins with, so that it may stand in the activity
/// log.
fn name(claims: &Map<String, Value>, email: Option<&str>, subject: &str) -> String {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let given = [text("given_name"), text("family_name")];
    let parts: Vec<&str> = given.into_iter().flatten().collect();
    let parts = parts.join(" ");
    let local = email.and_then(|email| email.split('@').next());
    let candidates = [text("name"), Some(&*parts), local, Some(subject)];
    let usable = candidates.into_iter().flatten().find_map(|name| {
        let mut name: String = name.trim().chars().take(MAX_NAME_CHARS).collect();
        let mut problems = Violations::default();
        check_name(&mut problems, &mut name);
        problems.into_result(name).ok()
    });
    usable.unwrap_or_else(|| "Unnamed person".to_owned())
}

/// Returns the groups: of a claim with this name, or with this path of names with dots between
/// them. `None` if there is no such claim.
fn groups(claims: &Map<String, Value>, claim: &str) -> Option<Vec<String>> {
    let value = claims.get(claim).or_else(|| {
        let mut names = claim.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    })?;
    match value {
        Value::String(group) => Some(vec![group.clone()]),
        Value::Array(groups) => {
            let groups = groups.iter().filter_map(Value::as_str);
            Some(groups.map(str::to_owned).collect())
        }
        _ => None,
    }
}

/// Returns whether the provider says that the claim is elsewhere (`OpenID` Connect Core 1.0,
/// 5.6.2), as Entra ID does for people in many groups.
fn is_left_out(claims: &Map<String, Value>, claim: &str) -> bool {
    claims
        .get("_claim_names")
        .is_some_and(|names| names.get(claim).is_some())
}

#[cfg(test)]
mod tests {
    use changelog_core::{GroupRole, Role};
    use serde_json::json;

    use super::*;

    fn roles(claim: &str) -> SsoRoles {
        SsoRoles {
            default_role: None,
            groups_claim: claim.to_owned(),
            groups: vec![GroupRole {
                group: "ops".to_owned(),
                role: Role::Admin,
            }],
        }
    }

    fn person(claims: &Value, claim: &str) -> Result<SsoPerson, PersonError> {
        read(claims.as_object().expect("an object"), &roles(claim))
    }

    #[test]
    fn groups_are_found_where_providers_write_them() {
        for (claims, claim, role) in [
            (
                json!({ "groups": ["dev", "ops"] }),
                "groups",
                Some(Role::Admin),
            ),
            (json!({ "groups": "ops" }), "groups", Some(Role::Admin)),
            (json!({ "groups": ["OPS", 1, null] }), "groups", None),
            (
                json!({ "realm_access": { "roles": ["ops"] } }),
                "realm_access.roles",
                Some(Role::Admin),
            ),
            (
                json!({ "https://a.example/groups": ["ops"] }),
                "https://a.example/groups",
                Some(Role::Admin),
            ),
            (json!({ "groups": { "ops": true } }), "groups", None),
            (json!({}), "groups", None),
        ] {
            let mut claims = claims;
            claims["sub"] = json!("1");
            assert_eq!(
                person(&claims, claim).expect("a person").role,
                role,
                "{claims}"
            );
        }
        let left_out = json!({ "sub": "1", "_claim_names": { "groups": "src1" } });
        assert_eq!(person(&left_out, "groups"), Err(PersonError::TooManyGroups));
    }

    #[test]
    fn an_address_is_verified_only_if_the_provider_says_so() {
        for (claims, is_verified) in [
            (json!({ "email": "a@b.c", "email_verified": true }), true),
            (json!({ "email": "a@b.c", "email_verified": "true" }), true),
            (json!({ "email": "a@b.c", "email_verified": false }), false),
            (json!({ "email": "a@b.c", "email_verified": "yes" }), false),
            (json!({ "email": "a@b.c" }), false),
            (json!({ "email": "a@b.c", "xms_edov": true }), true),
            (json!({ "email": "a@b.c", "xms_edov": "1" }), true),
            (
                json!({ "email": "a@b.c", "email_verified": false, "xms_edov": true }),
                false,
            ),
            // It is verified that the address is somebody's who is not named.
            (
                json!({ "preferred_username": "a@b.c", "email_verified": true }),
                false,
            ),
        ] {
            let mut claims = claims;
            claims["sub"] = json!("1");
            let person = person(&claims, "groups").expect("a person");
            assert_eq!(person.email.as_deref(), Some("a@b.c"), "{claims}");
            assert_eq!(person.is_verified, is_verified, "{claims}");
        }
    }

    #[test]
    fn names_are_those_that_people_may_have() {
        for (claims, name) in [
            (json!({ "name": "Ada Lovelace" }), "Ada Lovelace"),
            (
                json!({ "given_name": "Ada", "family_name": "Byron" }),
                "Ada Byron",
            ),
            (json!({ "name": "Operator", "email": "ada@b.c" }), "ada"),
            (json!({ "name": "API key: x" }), "s1"),
            (json!({ "name": " " }), "s1"),
        ] {
            let mut claims = claims;
            claims["sub"] = json!("s1");
            assert_eq!(
                person(&claims, "groups").expect("a person").name,
                name,
                "{claims}"
            );
        }
        for sub in [json!(null), json!(""), json!("a".repeat(256)), json!(7)] {
            let claims = json!({ "sub": sub });
            assert_eq!(person(&claims, "groups"), Err(PersonError::NoSubject));
        }
    }
}
