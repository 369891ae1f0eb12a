//! The operations of Azure Resource Manager.

use super::names::cased;
use super::{Entry, in_mixed_case};
use crate::json::text;
use crate::kinds::calls::{NoCall, ignored, phrase, reads, sentence, singular, unreadable, words};

/// How the names of events begin that are no operations of anybody.
const NO_OPERATIONS: [(&str, &str); 8] = [
    (
        "microsoft.authorization/policies/",
        "evaluations of policies",
    ),
    ("microsoft.policyinsights/", "evaluations of policies"),
    ("microsoft.resourcehealth/", "reports of health"),
    ("microsoft.servicehealth/", "reports of health"),
    ("microsoft.advisor/", "recommendations"),
    ("microsoft.insights/alertrules/activated/", "alerts"),
    ("microsoft.insights/alertrules/resolved/", "alerts"),
    ("microsoft.security/locations/alerts/", "alerts"),
];

/// What was done, from a name such as `Microsoft.Compute/virtualMachines/restart/action`.
pub(super) struct Operation {
    pub(super) full: String,
    /// The provider: `compute`.
    pub(super) area: String,
    pub(super) noun: String,
    pub(super) verb: String,
}

impl Operation {
    pub(super) fn of(entry: &Entry<'_>) -> Result<Self, NoCall> {
        let mut names = ["/operationName/value", "/operationName"].iter();
        let name = names.find_map(|pointer| text(entry.data, pointer));
        let full = in_mixed_case(name, text(&entry.authorization, "/action"));
        let full = full.ok_or_else(|| {
            unreadable("expected entries of the activity log, with an operationName")
        })?;
        let mut parts: Vec<&str> = full.split('/').filter(|part| !part.is_empty()).collect();
        let provider = parts.first().copied().unwrap_or_default().to_lowercase();
        let (kind, verb) = match parts.pop().map(str::to_lowercase).as_deref() {
            Some("write") => ("write", "write"),
            Some("delete") => ("delete", "delete"),
            Some("action") => ("action", parts.pop().unwrap_or("change")),
            Some("read") => return ignored(READ),
            _ => return ignored(format!("operations such as {full} are no changes")),
        };
        // Exports write in capitals, which leaves no words to look at.
        let is_reading = |verb: &str| {
            let verb = verb.to_lowercase();
            reads(&verb)
                || ["get", "list", "whatif"]
                    .iter()
                    .any(|word| verb.starts_with(word))
        };
        if kind == "action" && is_reading(verb) {
            return ignored(READ);
        }
        let lower = full.to_lowercase();
        if let Some((_, what)) = NO_OPERATIONS
            .iter()
            .find(|(start, _)| lower.starts_with(start))
        {
            return ignored(format!("{what} are no changes"));
        }
        let noun = parts
            .get(1..)
            .and_then(<[&str]>::last)
            .copied()
            .unwrap_or_default();
        Ok(Self {
            area: provider
                .strip_prefix("microsoft.")
                .unwrap_or(&provider)
                .to_owned(),
            noun: singular(&words(cased(noun)).join(" ")),
            verb: cased(verb).to_owned(),
            full,
        })
    }

    pub(super) fn what(&self) -> String {
        match self.verb.as_str() {
            verb if self.noun.is_empty() => sentence(verb),
            "write" => format!("Create or update {}", self.noun),
            verb => phrase(verb, &self.noun),
        }
    }
}

pub(super) const READ: &str = "operations that only read are no changes";
