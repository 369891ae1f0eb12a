//! The event stream of `terraform apply -json`: one JSON object per line.
//!
//! Everything that is decoded here may be recorded. Therefore no `detail` of an
//! error, no snippet, no output, no id of a resource and no message is.

use std::collections::BTreeMap;
use std::time::Duration;

use changelog_core::Timestamp;
use serde::Deserialize;

use super::resources::{Action, Counts, Resources, State};
use super::summary::{Ending, Operation, Problems, Summary};

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "@timestamp")]
    at: Option<String>,
    terraform: Option<String>,
    tofu: Option<String>,
    change: Option<Hook>,
    hook: Option<Hook>,
    changes: Option<Changes>,
    diagnostic: Option<Diagnostic>,
    outputs: Option<BTreeMap<String, Output>>,
}

/// The resource and action of a planned change or a step of an apply.
#[derive(Deserialize)]
struct Hook {
    resource: Option<Resource>,
    action: Option<String>,
}

#[derive(Deserialize)]
struct Resource {
    addr: String,
}

#[derive(Deserialize)]
struct Changes {
    #[serde(default)]
    add: u64,
    #[serde(default)]
    change: u64,
    #[serde(default)]
    import: u64,
    #[serde(default)]
    remove: u64,
    operation: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    severity: String,
    summary: String,
    address: Option<String>,
}

#[derive(Deserialize)]
struct Output {
    action: Option<String>,
}

/// What is known of a run in addition to its events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunFacts {
    pub(crate) operation: Option<Operation>,
    /// Whether the exit code was a success.
    pub(crate) success: Option<bool>,
}

/// What the events so far have reported.
#[derive(Debug, Default)]
pub(crate) struct Events {
    lines: u64,
    tofu: bool,
    version: Option<String>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    planned: Option<Counts>,
    /// Whether any action has started.
    begun: bool,
    done: Counts,
    /// The number of completed steps of each listed replacement, which has two.
    steps: BTreeMap<String, u32>,
    total: Option<(Operation, Counts)>,
    resources: Resources,
    outputs: u64,
    problems: Problems,
}

impl Events {
    /// Reads a line; returns whether it is an event.
    pub(crate) fn read_line(&mut self, line: &[u8]) -> bool {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            return false;
        };
        self.lines += 1;
        if let Some(at) = event.at.as_deref().and_then(|at| at.parse().ok()) {
            self.first.get_or_insert(at);
            self.last = Some(at);
        }
        match event.kind.as_str() {
            "version" => {
                self.tofu = event.tofu.is_some();
                self.version = event.tofu.or(event.terraform);
            }
            "planned_change" => {
                if let Some((address, action)) = event.change.and_then(Hook::read) {
                    self.resources.add(&address, action, State::Planned);
                }
            }
            "apply_start" => self.begun |= event.hook.and_then(Hook::read).is_some(),
            "apply_complete" => {
                if let Some((address, action)) = event.hook.and_then(Hook::read) {
                    self.done(&address, action);
                }
            }
            "apply_errored" => {
                if let Some((address, action)) = event.hook.and_then(Hook::read) {
                    self.mark(&address, action, State::Failed);
                }
            }
            "change_summary" => {
                if let Some(changes) = event.changes {
                    self.total(&changes);
                }
            }
            "outputs" => {
                let outputs = event.outputs.unwrap_or_default();
                let changed =
                    |output: &&Output| output.action.as_deref().is_some_and(|word| word != "noop");
                self.outputs += outputs.values().filter(changed).count() as u64;
            }
            "diagnostic" => {
                if let Some(error) = event.diagnostic.filter(|one| one.severity == "error") {
                    self.problems.add(&error.summary, error.address.as_deref());
                }
            }
            _ => {}
        }
        true
    }

    /// Returns whether any event was read.
    pub(crate) fn any(&self) -> bool {
        self.lines > 0
    }

    fn done(&mut self, address: &str, action: Action) {
        self.begun = true;
        self.done.count(action);
        let replaced = self
            .resources
            .find(address)
            .is_some_and(|one| one.action == Action::Replace);
        if replaced {
            let steps = self.steps.entry(address.to_owned()).or_default();
            *steps += 1;
            if *steps < 2 {
                return;
            }
        }
        self.mark(address, action, State::Done);
    }

    fn mark(&mut self, address: &str, action: Action, state: State) {
        self.begun = true;
        if let Some(one) = self.resources.find(address) {
            one.state = state;
        } else if self.resources.more == 0 {
            self.resources.add(address, action, state);
        }
        // Otherwise it was planned, and is counted as one of the others.
    }

    fn total(&mut self, changes: &Changes) {
        let counts = Counts {
            added: changes.add,
            changed: changes.change,
            destroyed: changes.remove,
            imported: changes.import,
        };
        match changes.operation.as_str() {
            "plan" => self.planned = Some(counts),
            "destroy" => self.total = Some((Operation::Destroy, counts)),
            _ => self.total = Some((Operation::Apply, counts)),
        }
    }

    /// Returns the summary after the last event.
    pub(crate) fn finish(self, known: RunFacts) -> Summary {
        let failed = !self.problems.is_empty()
            || known.success == Some(false)
            || self
                .resources
                .listed
                .iter()
                .any(|one| one.state == State::Failed);
        let only_planned = self.planned.filter(|_| {
            !self.begun
                && known
                    .operation
                    .is_none_or(|operation| operation == Operation::Plan)
        });
        let (operation, counts, result) = match (self.total, only_planned) {
            (Some((operation, counts)), _) => (Some(operation), counts, true),
            (None, Some(counts)) if !failed => (Some(Operation::Plan), counts, true),
            (None, _) if self.begun && self.resources.only_deletes() => {
                (Some(Operation::Destroy), self.done, false)
            }
            (None, _) if self.begun => (Some(Operation::Apply), self.done, false),
            (None, _) => (None, self.done, false),
        };
        let ending = match (failed, result) {
            (true, _) => Ending::Failed,
            (false, true) => Ending::Complete,
            (false, false) => Ending::Missing,
        };
        let lasted = self.first.zip(self.last).map(|(first, last)| {
            let millis = last.millis().saturating_sub(first.millis());
            Duration::from_millis(u64::try_from(millis).unwrap_or_default())
        });
        Summary {
            tofu: self.tofu,
            // Applying a saved plan that destroys is an apply.
            operation: known.operation.or(operation),
            ending,
            counts,
            resources: self.resources,
            outputs: self.outputs,
            problems: self.problems,
            version: self.version,
            duration: lasted,
            ..Summary::default()
        }
    }
}

impl Hook {
    /// Returns the address and the action; none if nothing is changed.
    fn read(self) -> Option<(String, Action)> {
        let action = Action::of_word(&self.action?)?;
        Some((self.resource?.addr, action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use changelog_core::{RiskLevel, Status};
    use serde_json::{Value, json};

    fn planned(address: &str, action: &str) -> Value {
        json!({
            "type": "planned_change", "@timestamp": "2026-11-21T08:30:00.000000Z",
            "change": { "resource": { "addr": address }, "action": action },
        })
    }

    fn step(kind: &str, address: &str, action: &str) -> Value {
        json!({
            "type": kind, "@timestamp": "2026-11-21T08:30:03.200000Z",
            "hook": {
                "resource": { "addr": address }, "action": action,
                "id_key": "id", "id_value": "PLANTED",
            },
        })
    }

    fn total(operation: &str, add: u64, change: u64, remove: u64) -> Value {
        json!({
            "type": "change_summary",
            "changes": {
                "add": add, "change": change, "remove": remove, "import": 0,
                "operation": operation,
            },
        })
    }

    fn finished(lines: &[Value], known: RunFacts) -> Summary {
        let mut events = Events::default();
        for line in lines {
            assert!(events.read_line(line.to_string().as_bytes()), "{line}");
        }
        events.finish(known)
    }

    fn sum(lines: &[Value]) -> Summary {
        finished(lines, RunFacts::default())
    }

    #[test]
    fn an_apply_is_summarized() {
        let summary = sum(&[
            planned("a.new", "create"),
            planned("a.old", "replace"),
            planned("data.a.read", "read"),
            total("plan", 2, 0, 1),
            step("apply_start", "a.new", "create"),
            step("apply_complete", "a.new", "create"),
            step("apply_complete", "a.old", "delete"),
            step("apply_complete", "a.old", "create"),
            total("apply", 2, 0, 1),
        ]);
        assert_eq!(summary.title(), "terraform apply: 2 added, 1 destroyed");
        assert_eq!(summary.duration, Some(Duration::from_millis(3_200)));
        let states: Vec<_> = summary
            .resources
            .listed
            .iter()
            .map(|one| one.state)
            .collect();
        assert_eq!(states, [State::Done, State::Done]);
        assert!(!format!("{summary:?}").contains("PLANTED"));
    }

    #[test]
    fn only_the_first_of_many_are_listed_and_each_is_counted_once() {
        let address = |index: u32| format!("a.b[{index}]");
        let mut lines: Vec<_> = (0..70)
            .map(|index| planned(&address(index), "replace"))
            .collect();
        for index in 0..70 {
            lines.push(step("apply_complete", &address(index), "delete"));
            lines.push(step("apply_complete", &address(index), "create"));
        }
        lines.push(total("apply", 70, 0, 70));
        let summary = sum(&lines);
        assert_eq!(
            (summary.resources.listed.len(), summary.resources.more),
            (50, 20)
        );
        assert_eq!(summary.title(), "terraform apply: 70 added, 70 destroyed");
    }

    #[test]
    fn a_failed_run_reports_its_progress() {
        let error = json!({
            "type": "diagnostic",
            "diagnostic": {
                "severity": "error", "summary": "it broke", "detail": "PLANTED",
                "address": "a.bad", "snippet": { "code": "PLANTED" },
            },
        });
        let warning = json!({
            "type": "diagnostic",
            "diagnostic": { "severity": "warning", "summary": "it creaks" },
        });
        let summary = sum(&[
            warning,
            planned("a.good", "create"),
            planned("a.bad", "update"),
            planned("a.never", "create"),
            step("apply_complete", "a.good", "create"),
            step("apply_errored", "a.bad", "update"),
            error.clone(),
        ]);
        assert_eq!(summary.title(), "terraform apply: failed, 1 added");
        let text = summary.description();
        for line in [
            "- create `a.good`\n",
            "- update `a.bad`: failed",
            "- create `a.never`: not done",
            "- it broke, at `a.bad`",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(
            !text.contains("creaks") && !text.contains("PLANTED"),
            "{text}"
        );
        // Before the operation is known.
        let summary = sum(&[error]);
        assert_eq!(summary.title(), "terraform: failed");
        assert_eq!(
            (summary.result().0, summary.risk()),
            (Status::RolledBack, RiskLevel::High)
        );
    }

    #[test]
    fn a_plan_differs_from_a_run_that_was_cut_off() {
        let plan = [planned("a.b", "update"), total("plan", 0, 1, 0)];
        let summary = sum(&plan);
        assert_eq!(summary.title(), "terraform plan: 1 to change");
        assert_eq!(
            (summary.result().0, summary.risk()),
            (Status::Planned, RiskLevel::Medium)
        );
        let mut begun = plan.to_vec();
        begun.push(step("apply_start", "a.b", "update"));
        assert_eq!(
            sum(&begun).title(),
            "terraform apply: ended without a result"
        );
        // With the operation and exit code known.
        let known = |success| RunFacts {
            operation: Some(Operation::Apply),
            success: Some(success),
        };
        assert_eq!(
            finished(&plan, known(true)).title(),
            "terraform apply: ended without a result"
        );
        assert_eq!(
            finished(&begun, known(false)).title(),
            "terraform apply: failed"
        );
        let destroys = [
            planned("a.b", "delete"),
            step("apply_start", "a.b", "delete"),
        ];
        assert_eq!(
            sum(&destroys).title(),
            "terraform destroy: ended without a result"
        );
    }

    #[test]
    fn opentofu_is_recognized() {
        let version = json!({ "type": "version", "tofu": "1.9.0", "ui": "1.2" });
        let summary = sum(&[version, total("apply", 1, 0, 0)]);
        assert_eq!(summary.title(), "tofu apply: 1 added");
        assert_eq!(summary.description(), "OpenTofu 1.9.0");
    }

    #[test]
    fn other_lines_are_not_events() {
        let mut events = Events::default();
        for line in ["", "plain", "{}", "[]", "{\"type\": 3}"] {
            assert!(!events.read_line(line.as_bytes()), "{line}");
        }
        assert!(!events.any());
        // An event of an unknown type is an event.
        assert!(events.read_line(b"{\"type\": \"something_new\", \"hook\": {\"x\": 1}}"));
        assert!(events.any());
    }
}
