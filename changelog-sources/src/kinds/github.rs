//! GitHub webhooks: <https://docs.github.com/en/webhooks/webhook-events-and-payloads>.
//!
//! A deployment is one change, which its statuses move; each status has the whole
//! deployment, so that it may arrive first. A published release is a change, and a workflow
//! run only if the source names its workflow.

use std::borrow::Cow;

use serde_json::Value;

use super::Kind;
use super::actor::by;
use crate::handshake::Handshake;
use crate::json::{first_line, links, parse, phrase, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "x-hub-signature-256",
        prefix: "sha256=",
        hash: Hash::Sha256,
    }],
    is_signed: true,
    handshake: |received| (event(received) == "ping").then_some(Handshake::Ping),
    request_id: |received| received.headers.get("x-github-delivery").map(str::to_owned),
    read,
};

fn event<'r>(received: &Received<'r>) -> &'r str {
    received.headers.get("x-github-event").unwrap_or_default()
}

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(&json_of(received))?;
    let event = match event(received) {
        "" => event_of(&body).unwrap_or_default(),
        event => event,
    };
    match event {
        "deployment" | "deployment_status" => deployment(received, &body),
        "release" => release(received, &body),
        "workflow_run" => workflow_run(received, &body, settings),
        "" => Err(Unreadable(
            "the X-GitHub-Event header is missing, and the body is none of its events".to_owned(),
        )),
        other => Ok(Reading::ignored(format!(
            "events of type {other} are no changes"
        ))),
    }
}

/// Returns the event that a body is of which was stored without its headers: each has a
/// member of that name.
fn event_of(body: &Value) -> Option<&'static str> {
    let known = ["workflow_run", "deployment", "release"];
    known.into_iter().find(|name| body.get(name).is_some())
}

/// Returns the JSON of a body, which is in the field of a form if the webhook has GitHub's
/// default content type.
fn json_of<'r>(received: &Received<'r>) -> Cow<'r, [u8]> {
    let content_type = received.headers.get("content-type").unwrap_or_default();
    if content_type.starts_with("application/x-www-form-urlencoded")
        && let Some((_, payload)) =
            form_urlencoded::parse(received.body).find(|(name, _)| name == "payload")
    {
        return payload.into_owned().into_bytes().into();
    }
    received.body.into()
}

/// Reads a deployment, or a status of one.
fn deployment(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let id = text(body, "/deployment/id")
        .ok_or_else(|| Unreadable("the deployment has no id".to_owned()))?;
    let state = text(body, "/deployment_status/state");
    let progress = match state.as_deref() {
        // A deployment without a status was only requested.
        None | Some("pending" | "queued" | "waiting") => Progress::Planned,
        Some("in_progress") => Progress::Running,
        Some("success") => Progress::Succeeded,
        Some("failure" | "error") => Progress::Failed,
        Some(other) => {
            return Ok(Reading::ignored(format!(
                "the state {other} moves no change"
            )));
        }
    };
    let at = if state.is_some() {
        "/deployment_status"
    } else {
        "/deployment"
    };
    let at =
        time(body, &format!("{at}/updated_at")).or_else(|| time(body, &format!("{at}/created_at")));
    let repository = text(body, "/repository/name");
    let environment = text(body, "/deployment_status/environment")
        .or_else(|| text(body, "/deployment/environment"));
    let reference = text(body, "/deployment/ref");
    let commit = text(body, "/deployment/sha");
    let version = reference
        .clone()
        .filter(|name| Some(name) != commit.as_ref());
    let version = version.or_else(|| commit.as_ref().map(|sha| sha.chars().take(7).collect()));
    let title = phrase([
        ("Deploy ", repository.as_deref().or(Some("repository"))),
        (" ", version.as_deref()),
        (" to ", environment.as_deref()),
    ]);
    let person = text(body, "/deployment/creator/login").or_else(|| text(body, "/sender/login"));
    let facts = Facts {
        title,
        description: text(body, "/deployment_status/description")
            .or_else(|| text(body, "/deployment/description")),
        services: repository.into_iter().collect(),
        places: environment.into_iter().chain(reference).collect(),
        commit,
        links: links([
            ("run", text(body, "/deployment_status/log_url")),
            ("run", text(body, "/deployment_status/target_url")),
            (
                "environment",
                text(body, "/deployment_status/environment_url"),
            ),
            ("workflow", text(body, "/workflow_run/html_url")),
        ]),
        ..by(person)
    };
    Ok(State {
        key: format!("deployment/{id}"),
        at: at.unwrap_or(received.at),
        progress,
        started_at: None,
        facts,
    }
    .into())
}

fn release(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let action = text(body, "/action").unwrap_or_default();
    if action != "published" {
        return Ok(Reading::ignored(format!(
            "a release is a change once it is published, not when it is {action}"
        )));
    }
    let id =
        text(body, "/release/id").ok_or_else(|| Unreadable("the release has no id".to_owned()))?;
    let repository = text(body, "/repository/name");
    let tag = text(body, "/release/tag_name").unwrap_or_default();
    let person = text(body, "/release/author/login").or_else(|| text(body, "/sender/login"));
    Ok(State {
        key: format!("release/{id}"),
        at: time(body, "/release/published_at").unwrap_or(received.at),
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: format!(
                "Release {} {tag}",
                repository.as_deref().unwrap_or("repository")
            ),
            description: text(body, "/release/name").filter(|name| *name != tag),
            services: repository.into_iter().collect(),
            links: links([("release", text(body, "/release/html_url"))]),
            tags: vec!["release".to_owned()],
            ..by(person)
        },
    }
    .into())
}

fn workflow_run(
    received: &Received<'_>,
    body: &Value,
    settings: &Settings,
) -> Result<Reading, Unreadable> {
    let name = text(body, "/workflow_run/name").or_else(|| text(body, "/workflow/name"));
    let name = name.unwrap_or_default();
    if !settings
        .workflows
        .iter()
        .any(|one| one.eq_ignore_ascii_case(&name))
    {
        return Ok(Reading::ignored(format!(
            "the source does not name {name} as a workflow that deploys"
        )));
    }
    let id =
        text(body, "/workflow_run/id").ok_or_else(|| Unreadable("the run has no id".to_owned()))?;
    let attempt = text(body, "/workflow_run/run_attempt").unwrap_or_default();
    let progress = match text(body, "/workflow_run/status").as_deref() {
        Some("completed") => match text(body, "/workflow_run/conclusion").as_deref() {
            Some("success") => Progress::Succeeded,
            Some(conclusion @ ("skipped" | "neutral" | "stale")) => {
                return Ok(Reading::ignored(format!(
                    "a run that ended as {conclusion} did nothing"
                )));
            }
            _ => Progress::Failed,
        },
        Some("in_progress") => Progress::Running,
        _ => Progress::Planned,
    };
    let branch = text(body, "/workflow_run/head_branch");
    let message = text(body, "/workflow_run/display_title")
        .or_else(|| text(body, "/workflow_run/head_commit/message"));
    let message = message.map(|message| first_line(&message, 150));
    let title = phrase([("Run ", Some(&name)), (": ", message.as_deref())]);
    let person = text(body, "/workflow_run/triggering_actor/login")
        .or_else(|| text(body, "/workflow_run/actor/login"));
    Ok(State {
        key: format!("run/{id}/{attempt}"),
        at: time(body, "/workflow_run/updated_at").unwrap_or(received.at),
        progress,
        started_at: time(body, "/workflow_run/run_started_at")
            .filter(|_| progress != Progress::Planned),
        facts: Facts {
            title,
            services: text(body, "/repository/name").into_iter().collect(),
            places: branch.into_iter().collect(),
            commit: text(body, "/workflow_run/head_sha"),
            links: links([("run", text(body, "/workflow_run/html_url"))]),
            ..by(person)
        },
    }
    .into())
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{changes_of, reading_of};

    fn deployment_event(id: u64, state: Option<&str>, at: &str) -> Value {
        let mut event = json!({
            "deployment": {
                "id": id, "sha": "1a2b3c4d5e6f", "ref": "v4.2", "task": "deploy",
                "environment": "production", "creator": { "login": "ada" },
                "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z",
            },
            "repository": { "name": "payments", "full_name": "acme/payments" },
            "sender": { "login": "github-actions[bot]" },
        });
        if let Some(state) = state {
            event["deployment_status"] = json!({
                "state": state, "environment": "production", "updated_at": at,
                "log_url": "https://github.com/acme/payments/actions/runs/7",
            });
        }
        event
    }

    #[test]
    fn a_deployment_is_moved_by_its_statuses_in_any_order() {
        let kind = SourceKind::Github;
        let events = [
            ("deployment", deployment_event(1, None, "")),
            (
                "deployment_status",
                deployment_event(1, Some("in_progress"), "2026-11-20T10:01:00Z"),
            ),
            (
                "deployment_status",
                deployment_event(1, Some("success"), "2026-11-20T10:04:00Z"),
            ),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let requests = order.map(|index| {
                let (name, body) = &events[index];
                (vec![("x-github-event", *name)], body.to_string())
            });
            let changes = changes_of(&kind, &Settings::default(), &requests);
            assert_eq!(changes.len(), 1);
            let change = &changes[0];
            assert_eq!(change.services, ["payments"]);
            assert_eq!(
                Value::Object(change.fields.clone()),
                json!({
                    "title": "Deploy payments v4.2 to production",
                    "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                    "occurred_at": "2026-11-20T10:01:00.000Z",
                    "started_at": "2026-11-20T10:01:00.000Z",
                    "ended_at": "2026-11-20T10:04:00.000Z",
                    "environment": "prod", "commit": "1a2b3c4d5e6f", "on_behalf_of": "ada",
                    "tags": ["github"],
                    "links": [{ "label": "run", "url": "https://github.com/acme/payments/actions/runs/7" }],
                }),
                "{order:?}"
            );
        }
    }

    #[test]
    fn other_events_are_ignored_with_a_reason() {
        for (event, body, reason) in [
            ("push", json!({}), "events of type push are no changes"),
            (
                "workflow_run",
                json!({ "workflow_run": { "id": 1, "name": "Tests" } }),
                "the source does not name Tests as a workflow that deploys",
            ),
            (
                "release",
                json!({ "action": "created" }),
                "a release is a change once it is published, not when it is created",
            ),
        ] {
            let headers = [("x-github-event", event)];
            let reading = reading_of(
                &SourceKind::Github,
                &Settings::default(),
                &headers,
                &body.to_string(),
            );
            assert_eq!(
                reading.map(|reading| reading.ignored),
                Ok(vec![reason.to_owned()])
            );
        }
    }

    #[test]
    fn forms_are_read_as_well() {
        let body = deployment_event(1, Some("failure"), "2026-11-20T10:04:00Z");
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &body.to_string())
            .finish();
        let headers = vec![
            ("x-github-event", "deployment_status"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let changes = changes_of(
            &SourceKind::Github,
            &Settings::default(),
            &[(headers, form)],
        );
        assert_eq!(changes[0].fields["outcome"], "failed");
        assert_eq!(changes[0].fields["risk_level"], "high");
    }
}
