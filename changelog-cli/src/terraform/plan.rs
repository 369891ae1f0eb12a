//! A saved plan as `terraform show -json` prints it.
//!
//! It holds every value in plain text, also sensitive ones. Only what may be
//! recorded is decoded here: addresses and actions.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::resources::{Action, Counts, Resources, State};
use super::summary::{Operation, Summary};
use crate::base::text::sha256_hex;

/// The hexadecimal digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 16;

/// A plan.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    terraform_version: Option<String>,
    /// When it was created.
    timestamp: Option<String>,
    #[serde(default)]
    resource_changes: Vec<ResourceChange>,
    #[serde(default)]
    output_changes: BTreeMap<String, OutputChange>,
    /// Distinguishes a plan from a state.
    planned_values: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct ResourceChange {
    address: String,
    previous_address: Option<String>,
    /// The key of an object that a replacement left over.
    deposed: Option<String>,
    change: Actions,
}

#[derive(Debug, Deserialize)]
struct Actions {
    actions: Vec<String>,
    importing: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct OutputChange {
    actions: Vec<String>,
}

impl Plan {
    /// Reads a plan. An error never quotes the input.
    pub(crate) fn read(from: impl Read) -> Result<Self, String> {
        let plan: Self = serde_json::from_reader(from).map_err(|error| {
            // The decoder's message may quote the input.
            format!(
                "valid JSON, but not a Terraform plan (line {}, column {})",
                error.line(),
                error.column()
            )
        })?;
        if plan.planned_values.is_none() {
            return Err("valid JSON, but not a Terraform plan".to_owned());
        }
        Ok(plan)
    }

    /// Returns 16 hexadecimal digits that identify the saved plan: a hash of the
    /// addresses, the actions, the version of Terraform and the time of
    /// planning.
    pub(crate) fn fingerprint(&self) -> String {
        let mut lines: Vec<String> = self
            .resource_changes
            .iter()
            .map(|one| {
                let deposed = one.deposed.as_deref().unwrap_or_default();
                format!("{:?} {deposed:?} {:?}", one.address, one.change.actions)
            })
            .collect();
        lines.sort();
        let (version, time) = (&self.terraform_version, &self.timestamp);
        let text = format!("{version:?}\n{time:?}\n{}\n", lines.join("\n"));
        sha256_hex(&text, FINGERPRINT_DIGITS)
    }

    /// Returns the summary of the plan.
    pub(crate) fn summary(&self) -> Summary {
        let mut resources = Resources::default();
        let mut counts = Counts::default();
        for one in &self.resource_changes {
            if one.change.importing.is_some() {
                counts.imported += 1;
            }
            if let Some(action) = one.action() {
                resources.add(&one.address, action, State::Planned);
                if action != Action::Import {
                    counts.count(action);
                }
            }
        }
        let outputs = self.output_changes.values();
        let changed = |one: &&OutputChange| one.actions.iter().any(|word| word != "no-op");
        Summary {
            operation: Some(Operation::Plan),
            counts,
            resources,
            outputs: outputs.filter(changed).count() as u64,
            version: self.terraform_version.clone(),
            ..Summary::default()
        }
    }
}

impl ResourceChange {
    fn action(&self) -> Option<Action> {
        let words: Vec<&str> = self.change.actions.iter().map(String::as_str).collect();
        match words[..] {
            ["create"] | ["create", "forget"] => Some(Action::Create),
            ["update"] => Some(Action::Update),
            ["delete"] => Some(Action::Delete),
            ["delete", "create"] | ["create", "delete"] => Some(Action::Replace),
            ["forget"] => Some(Action::Forget),
            _ if self.change.importing.is_some() => Some(Action::Import),
            _ if self.previous_address.is_some() => Some(Action::Move),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::RiskLevel;
    use serde_json::json;

    fn plan(changes: &serde_json::Value) -> Plan {
        let plan = json!({
            "format_version": "1.2", "terraform_version": "1.11.4",
            "timestamp": "2026-11-21T08:30:00Z", "planned_values": {},
            "variables": { "password": { "value": "PLANTED" } },
            "resource_changes": changes,
        });
        Plan::read(plan.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn every_kind_of_action_is_read() {
        let change = |address: &str, actions: &[&str]| {
            json!({
                "address": address, "mode": "managed",
                "change": { "actions": actions, "before": "PLANTED", "after": { "a": "PLANTED" } },
            })
        };
        let mut moved = change("a.moved", &["no-op"]);
        moved["previous_address"] = json!("a.before");
        let mut imported = change("a.imported", &["no-op"]);
        imported["change"]["importing"] = json!({ "id": "PLANTED" });
        let plan = plan(&json!([
            change("a.none", &["no-op"]),
            change("data.a.read", &["read"]),
            change("a.created", &["create"]),
            change("a.updated", &["update"]),
            change("a.replaced", &["delete", "create"]),
            change("a.replaced_gently", &["create", "delete"]),
            change("a.deleted", &["delete"]),
            change("a.forgotten", &["forget"]),
            moved,
            imported,
        ]));
        let summary = plan.summary();
        assert_eq!(
            summary.title(),
            "terraform plan: 3 to add, 1 to change, 3 to destroy, 1 to import"
        );
        let text = summary.description();
        for line in [
            "- create `a.created`",
            "- update `a.updated`",
            "- replace `a.replaced`",
            "- replace `a.replaced_gently`",
            "- destroy `a.deleted`",
            "- forget `a.forgotten`",
            "- move `a.moved`",
            "- import `a.imported`",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("PLANTED") && !text.contains("a.none") && !text.contains("read"));
        assert_eq!(summary.risk(), RiskLevel::High);
    }

    #[test]
    fn a_fingerprint_belongs_to_one_plan_and_not_to_its_values() {
        let change = |address: &str, action: &str, value: &str| json!({ "address": address, "change": { "actions": [action], "after": value } });
        let one = plan(&json!([
            change("a.a", "create", "x"),
            change("a.b", "update", "x")
        ]));
        let print = one.fingerprint();
        assert_eq!(print.len(), 16);
        assert!(print.bytes().all(|b| b.is_ascii_hexdigit()));
        // The order and the values do not count.
        let same = plan(&json!([
            change("a.b", "update", "y"),
            change("a.a", "create", "y")
        ]));
        assert_eq!(same.fingerprint(), print);
        for other in [
            json!([change("a.a", "create", "x")]),
            json!([change("a.a", "update", "x"), change("a.b", "update", "x")]),
            json!([change("a.c", "create", "x"), change("a.b", "update", "x")]),
        ] {
            assert_ne!(plan(&other).fingerprint(), print);
        }
        let mut later = one;
        later.timestamp = Some("2026-11-21T08:30:01Z".to_owned());
        assert_ne!(later.fingerprint(), print);
    }

    #[test]
    fn other_input_is_rejected_and_not_quoted() {
        for text in [
            "",
            "PLANTED",
            "{\"PLANTED\": 1}",
            "[\"PLANTED\"]",
            "{\"resource_changes\": \"PLANTED\"}",
            "{\"format_version\": \"1.0\", \"values\": {\"outputs\": {\"a\": \"PLANTED\"}}}",
        ] {
            let error = Plan::read(text.as_bytes()).unwrap_err();
            assert!(!error.contains("PLANTED"), "{error}");
        }
    }
}
