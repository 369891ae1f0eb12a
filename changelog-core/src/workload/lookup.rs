//! How the identities that may fit a token are found without reading all of them.

use serde_json::{Map, Value};

use super::PUBLIC_ISSUERS;
use super::claim::{ClaimPattern, owner};

/// Claims that say whose job it is, the most telling first. By one of them the bindings are
/// found that a token may fit.
pub(super) const IDENTIFYING: [&str; 12] = [
    "repository",
    "project_path",
    "sub",
    "repository_id",
    "project_id",
    "email",
    "repository_owner",
    "repository_owner_id",
    "namespace_path",
    "namespace_id",
    "organization_slug",
    "terraform_organization_name",
];

/// The most values of a claim by which bindings are looked up, if it is a list.
const MAX_LISTED_VALUES: usize = 10;

/// By which a binding is looked up: a token has several, one of which is that of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LookupKey(String);

impl LookupKey {
    fn new(issuer: &str, audience: &str, kind: char, name: &str, value: &str) -> Self {
        // None of them can contain a line feed.
        Self(format!("{issuer}\n{audience}\n{kind}{name}\n{value}"))
    }

    /// Returns the key as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn any(issuer: &str, audience: &str) -> Self {
        Self::new(issuer, audience, '*', "", "")
    }

    fn identifying(claims: &[ClaimPattern]) -> impl Iterator<Item = &ClaimPattern> + Clone {
        let named = |name: &&str| claims.iter().find(|claim| claim.name == *name);
        let found: Vec<_> = IDENTIFYING.iter().filter_map(named).collect();
        found.into_iter()
    }

    /// Returns the key by which a binding is found for tokens that fit.
    pub fn of_binding(issuer: &str, audience: &str, claims: &[ClaimPattern]) -> Self {
        let identifying = Self::identifying(claims);
        let exact = |claim: &ClaimPattern| {
            let value = claim.exact()?;
            Some(Self::new(issuer, audience, '=', &claim.name, value))
        };
        let by_owner = |claim: &ClaimPattern| {
            let owner = claim.owner()?;
            Some(Self::new(issuer, audience, '/', &claim.name, owner))
        };
        let mut exact = identifying.clone().filter_map(exact);
        let mut by_owner = identifying.filter_map(by_owner);
        exact
            .next()
            .or_else(|| by_owner.next())
            .unwrap_or_else(|| Self::any(issuer, audience))
    }

    /// Returns the key by which a binding is found for tokens that are told why they do not
    /// fit: those of the same owner. An issuer that is not a public one is the
    /// organization's own, and all of its tokens are.
    pub fn of_hints(issuer: &str, audience: &str, claims: &[ClaimPattern]) -> Self {
        if !PUBLIC_ISSUERS.contains(&issuer) {
            return Self::any(issuer, audience);
        }
        let by_owner = |claim: &ClaimPattern| {
            let owner = claim.owner()?;
            Some(Self::new(issuer, audience, '/', &claim.name, owner))
        };
        let mut by_owner = Self::identifying(claims).filter_map(by_owner);
        by_owner
            .next()
            .unwrap_or_else(|| Self::of_binding(issuer, audience, claims))
    }

    /// Returns the keys of all bindings that a token may fit.
    pub fn of_token(issuer: &str, audience: &str, claims: &Map<String, Value>) -> Vec<Self> {
        let mut keys = vec![Self::any(issuer, audience)];
        for name in IDENTIFYING {
            let values = match claims.get(name) {
                Some(Value::Array(values)) => values.as_slice(),
                Some(value) => std::slice::from_ref(value),
                None => continue,
            };
            // Each is looked up.
            for value in values.iter().take(MAX_LISTED_VALUES) {
                let value = match value {
                    Value::String(text) => text.clone(),
                    value @ Value::Number(_) => value.to_string(),
                    _ => continue,
                };
                keys.push(Self::new(issuer, audience, '=', name, &value));
                if let Some(owner) = owner(&value) {
                    keys.push(Self::new(issuer, audience, '/', name, owner));
                }
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn every_binding_is_found_for_the_tokens_that_fit() {
        let token = claims(&json!({
            "repository": "acme/shop", "repository_owner": "acme", "sub": "repo:acme/shop:x",
            "environment": "production", "repository_id": 42,
        }));
        let (issuer, audience) = (PUBLIC_ISSUERS[0], "https://changes.example");
        let keys = LookupKey::of_token(issuer, audience, &token);
        let found = |pattern: &str| {
            let claims: Vec<ClaimPattern> =
                pattern.split(' ').map(|one| one.parse().unwrap()).collect();
            (
                keys.contains(&LookupKey::of_binding(issuer, audience, &claims)),
                keys.contains(&LookupKey::of_hints(issuer, audience, &claims)),
            )
        };
        for (pattern, expected) in [
            ("repository=acme/shop", (true, true)),
            ("repository=acme/*", (true, true)),
            ("repository=* sub=repo:acme/shop:*", (true, true)),
            ("repository_owner=acme", (true, true)),
            ("repository_id=42", (true, true)),
            ("environment=production", (true, true)),
            // Of the same owner: not found, but told why.
            ("repository=acme/other", (false, true)),
            ("repository=evil/shop", (false, false)),
            ("repository=evil/*", (false, false)),
            ("repository_owner=evil", (false, false)),
        ] {
            assert_eq!(found(pattern), expected, "{pattern}");
        }
        assert!(!keys.contains(&LookupKey::of_binding(issuer, "other", &[])));
        // All tokens of an issuer of one's own are explained.
        let own = LookupKey::of_token("https://own.example", audience, &token);
        let other: ClaimPattern = "repository=evil/shop".parse().unwrap();
        let hints = LookupKey::of_hints("https://own.example", audience, &[other]);
        assert!(own.contains(&hints));
    }
}
