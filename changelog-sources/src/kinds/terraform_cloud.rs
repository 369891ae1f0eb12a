//! Notifications of HCP Terraform and Terraform Enterprise, with the destination "webhook":
//! <https://developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations>.
//!
//! A run is one change from its plan to its end. Drift that a health assessment has found
//! is a change that somebody else made; the other results of assessments are none.

use serde_json::Value;

use super::Kind;
use super::actor::by;
use crate::handshake::Handshake;
use crate::json::{first_line, links, list, parse, phrase, required, text, time};
use crate::observation::{Facts, Observation, Progress, Reading, State, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "x-tfe-notification-signature",
        prefix: "",
        hash: Hash::Sha512,
    }],
    is_signed: true,
    handshake: |received| {
        let body = parse(received.body).ok()?;
        let is_test = body.get("run_id").is_some_and(Value::is_null);
        is_test.then_some(Handshake::Ping)
    },
    request_id: |received| {
        let body = parse(received.body).ok()?;
        let configuration = text(&body, "/notification_configuration_id")?;
        let subject = text(&body, "/run_id").or_else(|| text(&body, ASSESSMENT))?;
        let status = text(&body, "/notifications/0/run_status").unwrap_or_default();
        Some(format!("{configuration} {subject} {status}"))
    },
    ..Kind::new(read)
};

const ASSESSMENT: &str = "/details/new_assessment_result/id";

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    if body.get("details").is_some() {
        return assessment(received, &body);
    }
    if body.get("run_id").is_some_and(Value::is_null) {
        return Ok(Reading::ignored("it only checks the address"));
    }
    let id = required(&body, "/run_id", "the notification")?;
    let mut reading = Reading::default();
    for notification in list(&body, "/notifications") {
        let status = required(notification, "/run_status", "the notification")?;
        match Step::of(&status) {
            Some(step) => {
                let state = State {
                    key: format!("run/{id}"),
                    at: time(notification, "/run_updated_at").unwrap_or(received.at),
                    progress: step.progress,
                    started_at: None,
                    facts: run(&body, &step),
                };
                reading
                    .observations
                    .push(Observation::State(Box::new(state)));
            }
            None => reading.ignore(format!("the status {status} moves no change")),
        }
    }
    if reading == Reading::default() {
        reading.ignore("it has no notifications");
    }
    Ok(reading)
}

/// What the status of a run says.
struct Step {
    progress: Progress,
    verb: &'static str,
    /// What a title needs to say after the workspace.
    note: Option<&'static str>,
}

impl Step {
    /// Reads a status:
    /// <https://developer.hashicorp.com/terraform/cloud-docs/api-docs/run#run-states>.
    fn of(status: &str) -> Option<Self> {
        let (progress, verb, note) = match status {
            "pending"
            | "fetching"
            | "fetching_completed"
            | "queuing"
            | "plan_queued"
            | "pre_plan_running"
            | "pre_plan_completed"
            | "planning"
            | "planned"
            | "cost_estimating"
            | "cost_estimated"
            | "policy_checking"
            | "policy_override"
            | "policy_soft_failed"
            | "policy_checked"
            | "post_plan_running"
            | "post_plan_awaiting_decision"
            | "post_plan_completed"
            | "planned_and_saved"
            | "confirmed"
            | "queuing_apply"
            | "apply_queued" => (Progress::Planned, "Apply", None),
            "pre_apply_running" | "pre_apply_completed" | "applying" => {
                (Progress::Running, "Apply", None)
            }
            "applied" => (Progress::Succeeded, "Apply", None),
            // There was nothing to apply, or only a plan was wanted.
            "planned_and_finished" => (Progress::Succeeded, "Finish", Some(" without an apply")),
            "errored" | "canceled" | "force_canceled" => (Progress::Failed, "Apply", None),
            // Nothing of it has been made.
            "discarded" => (Progress::Undone, "Discard", None),
            _ => return None,
        };
        Some(Self {
            progress,
            verb,
            note,
        })
    }
}

fn run(body: &Value, step: &Step) -> Facts {
    let workspace = text(body, "/workspace_name");
    let message = text(body, "/run_message").map(|message| first_line(&message, 150));
    Facts {
        title: phrase([
            ("", Some(step.verb)),
            (" Terraform run in ", workspace.as_deref()),
            ("", step.note),
            (": ", message.as_deref()),
        ]),
        services: workspace.iter().cloned().collect(),
        places: places(body, ""),
        links: links([("run", text(body, "/run_url"))]),
        ..by(text(body, "/run_created_by"))
    }
}

/// Returns the workspace, whose name often has the environment, and the organization.
fn places(body: &Value, parent: &str) -> Vec<String> {
    ["workspace_name", "organization_name"]
        .iter()
        .filter_map(|name| text(body, &format!("{parent}/{name}")))
        .collect()
}

fn assessment(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let trigger = required(body, "/trigger", "the notification")?;
    if trigger != "assessment:drifted" {
        return Ok(Reading::ignored(format!(
            "the trigger {trigger} is no change"
        )));
    }
    let id = required(body, ASSESSMENT, "the notification")?;
    let workspace = text(body, "/details/workspace_name");
    let count = text(body, "/details/new_assessment_result/resources_drifted");
    let resources = count.map(|count| match count.as_str() {
        "1" => "1 resource".to_owned(),
        _ => format!("{count} resources"),
    });
    Ok(State {
        key: format!("drift/{id}"),
        at: time(body, "/details/new_assessment_result/created_at").unwrap_or(received.at),
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: phrase([
                (
                    "Drift found in ",
                    workspace.as_deref().or(Some("Terraform")),
                ),
                (": ", resources.as_deref()),
            ]),
            services: workspace.into_iter().collect(),
            places: places(body, "/details"),
            links: links([("workspace", workspace_page(body))]),
            tags: vec!["drift".to_owned()],
            ..Facts::default()
        },
    }
    .into())
}

/// Returns the page of the workspace: the notification has only addresses of the API.
fn workspace_page(body: &Value) -> Option<String> {
    let api = text(body, "/notification_configuration_url")?;
    let (host, _) = api.split_once("/api/")?;
    let organization = text(body, "/details/organization_name")?;
    let workspace = text(body, "/details/workspace_name")?;
    Some(format!("{host}/app/{organization}/workspaces/{workspace}"))
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA512;
    use serde_json::json;

    use super::*;
    use crate::kinds::handshake;
    use crate::kinds::testing::{
        changes_in_any_order, id_of, ignored, is_proven, received, signature, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::TerraformCloud;

    fn run_event(status: &str, at: &str) -> Value {
        json!({
            "payload_version": 1, "notification_configuration_id": "nc-1", "run_id": "run-7",
            "run_url": "https://app.terraform.io/app/acme/workspaces/networking-prod/runs/run-7",
            "run_message": "Merge PR 12\n\nMore about it", "run_created_by": "ada",
            "workspace_name": "networking-prod", "organization_name": "acme",
            "notifications": [{ "trigger": "run:x", "run_status": status, "run_updated_at": at }],
        })
    }

    fn drift_event(trigger: &str) -> Value {
        json!({
            "payload_version": "2", "notification_configuration_id": "nc-1", "trigger": trigger,
            "notification_configuration_url": "https://tf.example.com/api/v2/notification-configurations/nc-1",
            "details": {
                "workspace_name": "networking", "organization_name": "acme",
                "new_assessment_result": {
                    "id": "asmt-3", "resources_drifted": 4, "created_at": "2026-11-20T10:00:00Z",
                },
            },
        })
    }

    #[test]
    fn a_run_goes_from_its_plan_to_its_end_in_any_order() {
        let events = [
            run_event("planning", "2026-11-20T10:00:00.000Z"),
            run_event("planned", "2026-11-20T10:01:00.000Z"),
            run_event("applying", "2026-11-20T10:02:00.000Z"),
            run_event("applied", "2026-11-20T10:04:00.000Z"),
        ];
        let changes = changes_in_any_order(&KIND, &[], &events);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["networking-prod"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Apply Terraform run in networking-prod: Merge PR 12",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:02:00.000Z",
                "started_at": "2026-11-20T10:02:00.000Z",
                "ended_at": "2026-11-20T10:04:00.000Z",
                "environment": "prod", "on_behalf_of": "ada", "tags": ["terraform-cloud"],
                "links": [{
                    "label": "run",
                    "url": "https://app.terraform.io/app/acme/workspaces/networking-prod/runs/run-7",
                }],
            })
        );
        let changes = changes_in_any_order(&KIND, &[], &events[..2]);
        assert_eq!(changes[0].fields["status"], "planned");
    }

    #[test]
    fn a_run_may_end_otherwise() {
        for (status, outcome, title) in [
            (
                "errored",
                "failed",
                "Apply Terraform run in networking-prod: Merge PR 12",
            ),
            (
                "canceled",
                "failed",
                "Apply Terraform run in networking-prod: Merge PR 12",
            ),
            (
                "discarded",
                "undone",
                "Discard Terraform run in networking-prod: Merge PR 12",
            ),
            (
                "planned_and_finished",
                "succeeded",
                "Finish Terraform run in networking-prod without an apply: Merge PR 12",
            ),
        ] {
            let events = [
                run_event("planning", "2026-11-20T10:00:00.000Z"),
                run_event(status, "2026-11-20T10:04:00.000Z"),
            ];
            let changes = changes_in_any_order(&KIND, &[], &events);
            assert_eq!(changes[0].fields["outcome"], outcome);
            assert_eq!(changes[0].fields["title"], title);
        }
    }

    #[test]
    fn drift_is_a_change() {
        let changes = changes_in_any_order(&KIND, &[], &[drift_event("assessment:drifted")]);
        let fields = &changes[0].fields;
        assert_eq!(fields["title"], "Drift found in networking: 4 resources");
        assert_eq!(fields["ended_at"], "2026-11-20T10:00:00.000Z");
        assert_eq!(fields["tags"], json!(["terraform-cloud", "drift"]));
        let page = "https://tf.example.com/app/acme/workspaces/networking";
        assert_eq!(fields["links"][0]["url"], page);
    }

    #[test]
    fn other_notifications_are_ignored_with_a_reason() {
        let mut no_run = run_event("planning", "");
        no_run["run_id"] = json!(null);
        let mut empty = run_event("planning", "");
        empty["notifications"] = json!([]);
        for (body, reason) in [
            (no_run, "it only checks the address"),
            (empty, "it has no notifications"),
            (
                run_event("assessed", ""),
                "the status assessed moves no change",
            ),
            (
                drift_event("assessment:check_failure"),
                "the trigger assessment:check_failure is no change",
            ),
        ] {
            assert_eq!(ignored(&KIND, &[], &body), [reason]);
        }
    }

    #[test]
    fn a_check_of_the_address_is_answered_and_requests_are_told_apart() {
        let mut check = run_event("planning", "");
        check["run_id"] = json!(null);
        let run = run_event("planning", "");
        let answer = |body: &Value| {
            received(&[], &body.to_string(), |received| {
                handshake(&KIND, received)
            })
        };
        assert_eq!(answer(&check), Some(Handshake::Ping));
        assert_eq!(answer(&run), None);
        let drift = drift_event("assessment:drifted");
        assert_eq!(answer(&drift), None);
        assert_eq!(
            id_of(&KIND, &[], &run).as_deref(),
            Some("nc-1 run-7 planning")
        );
        assert_eq!(id_of(&KIND, &[], &drift).as_deref(), Some("nc-1 asmt-3 "));
    }

    #[test]
    fn the_signature_proves_the_origin() {
        let signed = hex::encode(signature(HMAC_SHA512, "{}"));
        let headers = [("X-TFE-Notification-Signature", signed.as_str())];
        assert!(is_proven(&KIND, &headers, "{}"));
        assert!(!is_proven(&KIND, &headers, "[]"));
        assert!(!is_proven(&KIND, &[], "{}"));
    }

    #[test]
    fn garbage_is_withstood() {
        withstands_garbage(
            &KIND,
            &[],
            &run_event("applied", "2026-11-20T10:04:00.000Z"),
        );
        withstands_garbage(&KIND, &[], &drift_event("assessment:drifted"));
    }
}
