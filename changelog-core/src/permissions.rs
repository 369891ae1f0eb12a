//! What an API key may do: its scopes, and the bounds of what it may record.

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::host::Environment;
use crate::ids::ServiceId;
use crate::incident::Incident;
use crate::input::ObjectReader;
use crate::limits::MAX_KEY_SERVICES;
use crate::problem::{ViolationCode, Violations};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// A kind of requests that a key may send.
    Scope, "a scope", example "read" {
        /// To read everything that the organization has recorded.
        Read = "read",
        /// To create and update changes and incidents.
        Record = "record",
        /// To create and update hosts and services.
        Admin = "admin",
    }
}

impl Scope {
    /// Returns what a key with this scope may do, as a phrase.
    pub fn allows(&self) -> &'static str {
        match self {
            Self::Read => "read everything in the organization",
            Self::Record => "create and update changes and incidents",
            Self::Admin => "create and update hosts and services",
            Self::Unknown(_) => "something that this version does not know",
        }
    }
}

/// The most services that a refusal names.
const MAX_NAMED_SERVICES: usize = 3;

/// What a key may do. It is chosen when the key is made and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// The scopes, each once.
    pub scopes: Vec<Scope>,
    /// The environments that the key may record changes and incidents in; empty: any, and none.
    #[serde(default)]
    pub environments: Vec<Environment>,
    /// The services that the key may record changes and incidents of; empty: any, and none.
    #[serde(default)]
    pub service_ids: Vec<ServiceId>,
}

impl Default for Permissions {
    /// All scopes, without bounds.
    fn default() -> Self {
        Self::of(Scope::ALL)
    }
}

impl Permissions {
    /// The names of the members of an input that has permissions.
    pub(crate) const FIELDS: [&'static str; 3] = ["scopes", "environments", "service_ids"];

    /// Returns these scopes without bounds.
    pub fn of(scopes: &[Scope]) -> Self {
        Self {
            scopes: scopes.to_vec(),
            environments: Vec::new(),
            service_ids: Vec::new(),
        }
    }

    /// Returns whether a scope is among them.
    pub fn includes(&self, scope: &Scope) -> bool {
        self.scopes.contains(scope)
    }

    /// Reads the members of an input; without `scopes`, all of them.
    pub(crate) fn read(object: &mut ObjectReader<'_>) -> Self {
        let scopes = object.parsed_list("scopes", Scope::ALL.len());
        Self {
            scopes: scopes.unwrap_or_else(|| Scope::ALL.to_vec()),
            environments: object
                .parsed_list("environments", Environment::ALL.len())
                .unwrap_or_default(),
            service_ids: object
                .parsed_list("service_ids", MAX_KEY_SERVICES)
                .unwrap_or_default(),
        }
    }

    /// Puts the scopes in order, each once, and reports broken rules.
    pub(crate) fn check(&mut self, problems: &mut Violations) {
        let given = std::mem::take(&mut self.scopes);
        let known = Scope::ALL.iter().filter(|scope| given.contains(scope));
        self.scopes = known.cloned().collect();
        if self.scopes.is_empty() {
            let message = format!(
                "must name at least one of {}; without the field a key has all of them",
                Scope::WORDS.join(", ")
            );
            problems.add("/scopes", ViolationCode::Required, message);
        }
        self.environments.sort_by_key(|one| one.as_str().to_owned());
        self.environments.dedup();
        self.service_ids.sort_unstable();
        self.service_ids.dedup();
        crate::rules::at_most(
            problems,
            "/service_ids",
            &self.service_ids,
            MAX_KEY_SERVICES,
        );
        if self.has_bounds() && !self.includes(&Scope::Record) {
            let field = if self.environments.is_empty() {
                "/service_ids"
            } else {
                "/environments"
            };
            let message = "bounds what the key may record, and needs the scope record";
            problems.add(field, ViolationCode::OutOfRange, message);
        }
    }

    /// Returns whether the key may record only some changes.
    pub fn has_bounds(&self) -> bool {
        !self.environments.is_empty() || !self.service_ids.is_empty()
    }

    /// Checks that a change of this environment and these services may be recorded. All
    /// services of the change must be allowed.
    ///
    /// # Errors
    /// What is allowed and what was given, as the rest of a sentence that begins with the key.
    pub fn check_bounds(
        &self,
        environment: Option<&Environment>,
        service_ids: &[ServiceId],
    ) -> Result<(), String> {
        self.check_bounds_of("change", environment, service_ids)
    }

    fn check_bounds_of(
        &self,
        noun: &str,
        environment: Option<&Environment>,
        service_ids: &[ServiceId],
    ) -> Result<(), String> {
        let is_allowed = |given: &Environment| self.environments.contains(given);
        if !self.environments.is_empty() && !environment.is_some_and(is_allowed) {
            let words: Vec<&str> = self.environments.iter().map(Environment::as_str).collect();
            let given = environment.map_or_else(
                || format!("the {noun} has no environment"),
                |given| format!("the {noun} is in {given}"),
            );
            return Err(format!(
                "may record {noun}s in {} only; {given}",
                words.join(", ")
            ));
        }
        if self.service_ids.is_empty() {
            return Ok(());
        }
        let given = match service_ids
            .iter()
            .find(|given| !self.service_ids.contains(given))
        {
            Some(other) => format!("the {noun} is of the service {other}"),
            None if service_ids.is_empty() => format!("the {noun} has no service"),
            None => return Ok(()),
        };
        let shown = self.service_ids.iter().take(MAX_NAMED_SERVICES);
        let mut words: Vec<String> = shown.map(ToString::to_string).collect();
        if let Some(more) = self.service_ids.len().checked_sub(MAX_NAMED_SERVICES)
            && more > 0
        {
            words.push(format!("{more} more"));
        }
        Err(format!(
            "may record {noun}s of the services {} only; {given}",
            words.join(", ")
        ))
    }

    /// Checks that a change may be recorded as it is.
    ///
    /// # Errors
    /// As [`Self::check_bounds`].
    pub fn check_change(&self, change: &Change) -> Result<(), String> {
        self.check_bounds(change.environment.as_ref(), &change.service_ids)
    }

    /// Checks that an incident may be recorded as it is.
    ///
    /// # Errors
    /// As [`Self::check_bounds`].
    pub fn check_incident(&self, incident: &Incident) -> Result<(), String> {
        let services = incident.service_id.as_slice();
        self.check_bounds_of("incident", incident.environment.as_ref(), services)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Input, from_object};
    use crate::{NewApiKey, Timestamp};
    use serde_json::json;

    fn parse(mut members: serde_json::Value) -> Result<Permissions, Vec<(String, ViolationCode)>> {
        members["name"] = json!("ci");
        let object = members.as_object().cloned().unwrap_or_default();
        match from_object::<NewApiKey>(object, Timestamp::EPOCH) {
            Ok(new) => Ok(new.permissions),
            Err(invalid) => Err((invalid.violations.into_iter())
                .map(|one| (one.pointer, one.code))
                .collect()),
        }
    }

    #[test]
    fn a_key_without_a_choice_has_all_scopes() {
        let all = parse(json!({})).unwrap();
        assert_eq!(all, Permissions::default());
        assert!(Scope::ALL.iter().all(|scope| all.includes(scope)) && !all.has_bounds());
        assert_eq!(parse(json!({ "scopes": null })).unwrap(), all);
        let some = parse(json!({ "scopes": ["record", "read", "record"] })).unwrap();
        assert_eq!(some.scopes, [Scope::Read, Scope::Record]);
        for (members, pointer) in [
            (json!({ "scopes": [] }), "/scopes"),
            (json!({ "scopes": ["write"] }), "/scopes/0"),
            (json!({ "scopes": "read" }), "/scopes"),
            (
                json!({ "scopes": ["read"], "environments": ["prod"] }),
                "/environments",
            ),
            (json!({ "environments": ["moon"] }), "/environments/0"),
            (json!({ "service_ids": ["x"] }), "/service_ids/0"),
        ] {
            let pointers: Vec<_> = parse(members.clone()).unwrap_err();
            assert_eq!(pointers[0].0, pointer, "{members}");
        }
        assert_eq!(NewApiKey::FIELDS[2..], Permissions::FIELDS);
    }

    #[test]
    fn bounds_are_environments_and_services() {
        let id = |number| ServiceId(uuid::Uuid::from_u128(number));
        let mut permissions = Permissions::default();
        assert_eq!(permissions.check_bounds(None, &[id(1)]), Ok(()));
        permissions.environments = vec![Environment::Staging];
        permissions.service_ids = vec![id(1), id(2)];
        let staging = Some(&Environment::Staging);
        for (environment, services, message) in [
            (staging, vec![id(1)], None),
            (staging, vec![id(2), id(1)], None),
            (
                staging,
                vec![id(2), id(3)],
                Some("the change is of the service 0"),
            ),
            (staging, vec![], Some("the change has no service")),
            (None, vec![id(1)], Some("the change has no environment")),
            (
                Some(&Environment::Prod),
                vec![id(1)],
                Some("in staging only; the change is in prod"),
            ),
        ] {
            match (permissions.check_bounds(environment, &services), message) {
                (Ok(()), None) => {}
                (Err(refusal), Some(part)) => assert!(refusal.contains(part), "{refusal}"),
                (result, _) => panic!("{services:?}: {result:?}"),
            }
        }
    }
}
