//! GitLab webhooks:
//! <https://docs.gitlab.com/user/project/integrations/webhook_events/>.
//!
//! A deployment is one change, which its statuses move; each status has the whole
//! deployment. A release is a change once it is created, and a feature flag whenever it is
//! turned on or off.

use serde_json::Value;

use super::Kind;
use super::actor::by;
use crate::json::{digest_of, first_line, links, parse, phrase, required, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::Proof;
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[
        Proof::StandardWebhooks,
        Proof::Secret {
            header: "x-gitlab-token",
        },
    ],
    is_signed: true,
    request_id,
    ..Kind::new(read)
};

/// Returns the id of an event:
/// <https://docs.gitlab.com/user/project/integrations/webhooks/#delivery-headers>. Hooks
/// without a signature have only the second header, and those of older versions only the third,
/// which an event has in common with those that its receiver causes.
fn request_id(received: &Received<'_>) -> Option<String> {
    let headers = received.headers;
    let id = headers
        .get("webhook-id")
        .or_else(|| headers.get("idempotency-key"));
    id.map(str::to_owned).or_else(|| {
        let id = headers.get("x-gitlab-event-uuid")?;
        Some(format!("{id}/{}", digest_of(received.body)))
    })
}

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    // The body says what the X-Gitlab-Event header says, also where there are no headers.
    let kind = match text(&body, "/object_kind") {
        Some(kind) => kind,
        // What happens to members, groups and projects has a name instead.
        None => required(&body, "/event_name", "the event")?,
    };
    match kind.as_str() {
        "deployment" => deployment(received, &body),
        "feature_flag" => feature_flag(received, &body),
        "release" => release(received, &body),
        other => Ok(Reading::ignored(format!(
            "events of type {other} are no changes"
        ))),
    }
}

fn deployment(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let id = required(body, "/deployment_id", "the deployment")?;
    let status = required(body, "/status", "the deployment")?;
    let progress = match status.as_str() {
        "created" | "blocked" => Progress::Planned,
        "running" => Progress::Running,
        "success" => Progress::Succeeded,
        "failed" | "canceled" => Progress::Failed,
        other => {
            return Ok(Reading::ignored(format!(
                "the status {other} moves no change"
            )));
        }
    };
    let project = project(body);
    let environment = text(body, "/environment");
    let reference = text(body, "/ref");
    let commit_url = text(body, "/commit_url");
    let commit = commit_url
        .as_ref()
        .and_then(|url| Some(url.rsplit_once("/commit/")?.1.to_owned()));
    let short = text(body, "/short_sha");
    let title = phrase([
        ("Deploy ", project.as_deref().or(Some("project"))),
        (" ", reference.as_deref().or(short.as_deref())),
        (" to ", environment.as_deref()),
    ]);
    // The tier tells production from the rest, whatever the environment is called.
    let tier = text(body, "/environment_tier");
    let facts = Facts {
        title,
        description: text(body, "/commit_title").map(|title| first_line(&title, 300)),
        services: project.into_iter().collect(),
        places: tier
            .into_iter()
            .chain(environment)
            .chain(reference)
            .collect(),
        commit: commit.or(short),
        links: links([
            ("job", text(body, "/deployable_url")),
            ("environment", text(body, "/environment_external_url")),
            ("commit", commit_url),
        ]),
        ..by(text(body, "/user/username"))
    };
    Ok(State {
        key: format!("deployment/{id}"),
        at: time(body, "/status_changed_at").unwrap_or(received.at),
        progress,
        started_at: None,
        facts,
    }
    .into())
}

/// The time in which an event without an id is a repeat of the same one.
const REPEATED_FOR_MILLIS: i64 = 10 * 60 * 1_000;

/// Reads that a flag was turned on or off. In which environments it is, the event does not say.
fn feature_flag(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let name = required(body, "/object_attributes/name", "the feature flag")?;
    let id = required(body, "/object_attributes/id", "the feature flag")?;
    let is_active = body
        .pointer("/object_attributes/active")
        .and_then(Value::as_bool);
    let verb = match is_active {
        Some(true) => "Turn on flag ",
        Some(false) => "Turn off flag ",
        None => "Change flag ",
    };
    let project = project(body);
    // Nothing in the event tells when it happened, nor tells it from the next one of the
    // flag: without an id, the same event is a repeat for as long as GitLab tries.
    let event = request_id(received).unwrap_or_else(|| {
        let period = received.at.millis() / REPEATED_FOR_MILLIS;
        format!("{}/{period}", digest_of(received.body))
    });
    Ok(State {
        key: format!("flag/{id}/{event}"),
        at: received.at,
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: phrase([(verb, Some(&name)), (" in ", project.as_deref())]),
            services: project.into_iter().collect(),
            links: links([(
                "flags",
                text(body, "/project/web_url").map(|url| format!("{url}/-/feature_flags")),
            )]),
            tags: vec!["flag".to_owned()],
            ..by(text(body, "/user/username"))
        },
    }
    .into())
}

fn release(received: &Received<'_>, body: &Value) -> Result<Reading, Unreadable> {
    let action = required(body, "/action", "the release")?;
    if action != "create" {
        return Ok(Reading::ignored(format!(
            "a release is a change at its create, not at its {action}"
        )));
    }
    let id = required(body, "/id", "the release")?;
    let tag = required(body, "/tag", "the release")?;
    let project = project(body);
    let at = time(body, "/released_at").or_else(|| time(body, "/created_at"));
    Ok(State {
        key: format!("release/{id}"),
        at: at.unwrap_or(received.at),
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: phrase([
                ("Release ", project.as_deref().or(Some("project"))),
                (" ", Some(&tag)),
            ]),
            description: text(body, "/name").filter(|name| *name != tag),
            services: project.into_iter().collect(),
            commit: text(body, "/commit/id"),
            links: links([("release", text(body, "/url"))]),
            tags: vec!["release".to_owned()],
            ..Facts::default()
        },
    }
    .into())
}

/// Returns the name of the project as it stands in its address.
fn project(body: &Value) -> Option<String> {
    let path = text(body, "/project/path_with_namespace");
    path.as_deref()
        .and_then(|path| path.rsplit('/').next())
        .map(str::to_owned)
        .or_else(|| text(body, "/project/name"))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA256;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        SECRET, changes_in_any_order, changes_of, id_of, ignored, is_proven, now, signature,
        withstands_garbage,
    };
    use crate::received::Headers;

    const KIND: SourceKind = SourceKind::Gitlab;

    fn project() -> Value {
        json!({
            "id": 4, "name": "Payments", "path_with_namespace": "acme/money/payments",
            "web_url": "https://gitlab.example.com/acme/money/payments",
        })
    }

    fn deployment_event(status: &str, at: &str) -> Value {
        json!({
            "object_kind": "deployment", "status": status, "status_changed_at": at,
            "deployment_id": 31, "environment": "eu-1", "environment_tier": "production",
            "deployable_url": "https://gitlab.example.com/acme/money/payments/-/jobs/9",
            "short_sha": "1a2b3c4d", "user": { "username": "ada" }, "project": project(),
            "commit_url": "https://gitlab.example.com/acme/money/payments/-/commit/1a2b3c4d5e6f",
            "commit_title": "Retry card payments",
        })
    }

    fn flag_event(is_active: bool) -> Value {
        json!({
            "object_kind": "feature_flag", "project": project(),
            "user": { "username": "project_4_bot_9f" },
            "object_attributes": { "id": 6, "name": "new-checkout", "active": is_active },
        })
    }

    fn release_event(action: &str) -> Value {
        json!({
            "object_kind": "release", "action": action, "id": 2, "tag": "v4.2", "name": "v4.2",
            "created_at": "2026-11-20 09:00:00 UTC", "released_at": "2026-11-20 10:00:00 UTC",
            "url": "https://gitlab.example.com/acme/money/payments/-/releases/v4.2",
            "commit": { "id": "1a2b3c4d5e6f" }, "project": project(),
        })
    }

    #[test]
    fn a_deployment_is_moved_by_its_statuses_in_any_order() {
        let events = [
            deployment_event("created", "2026-11-20 11:00:00 +0100"),
            deployment_event("running", "2026-11-20 11:01:00 +0100"),
            deployment_event("success", "2026-11-20 11:04:00 +0100"),
        ];
        let changes = changes_in_any_order(&KIND, &[], &events);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["payments"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Deploy payments 1a2b3c4d to eu-1",
                "description": "Retry card payments",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:01:00.000Z",
                "started_at": "2026-11-20T10:01:00.000Z",
                "ended_at": "2026-11-20T10:04:00.000Z",
                "environment": "prod", "commit": "1a2b3c4d5e6f", "on_behalf_of": "ada",
                "tags": ["gitlab"],
                "links": [
                    { "label": "job", "url": "https://gitlab.example.com/acme/money/payments/-/jobs/9" },
                    { "label": "commit", "url": "https://gitlab.example.com/acme/money/payments/-/commit/1a2b3c4d5e6f" },
                ],
            })
        );
        let canceled = [deployment_event("canceled", "2026-11-20 11:02:00 +0100")];
        let changes = changes_in_any_order(&KIND, &[], &canceled);
        assert_eq!(changes[0].fields["outcome"], "failed");
    }

    #[test]
    fn a_flag_is_a_change_whenever_it_is_toggled() {
        let requests: Vec<_> = [("a", true), ("b", false), ("a", true)]
            .map(|(id, is_active)| (vec![("webhook-id", id)], flag_event(is_active).to_string()))
            .into();
        let changes = changes_of(&KIND, &Settings::default(), &requests);
        let titles: Vec<_> = changes
            .iter()
            .map(|change| &change.fields["title"])
            .collect();
        assert_eq!(
            titles,
            [
                "Turn on flag new-checkout in payments",
                "Turn off flag new-checkout in payments"
            ]
        );
        assert_eq!(changes[0].fields["agent"]["name"], "project_4_bot_9f");
    }

    #[test]
    fn a_flag_that_is_toggled_without_an_id_is_known_when_it_is_repeated() {
        let events = [flag_event(true), flag_event(false)];
        for headers in [vec![], vec![("x-gitlab-event-uuid", "one-for-both")]] {
            assert_eq!(changes_in_any_order(&KIND, &headers, &events).len(), 2);
        }
    }

    #[test]
    fn a_release_is_a_change() {
        let changes = changes_in_any_order(&KIND, &[], &[release_event("create")]);
        assert_eq!(changes[0].fields["title"], "Release payments v4.2");
        assert_eq!(changes[0].fields["ended_at"], "2026-11-20T10:00:00.000Z");
        assert_eq!(changes[0].fields["tags"], json!(["gitlab", "release"]));
    }

    #[test]
    fn other_events_are_ignored_with_a_reason() {
        for (body, reason) in [
            (
                json!({ "object_kind": "push" }),
                "events of type push are no changes",
            ),
            (
                json!({ "event_name": "user_add_to_group" }),
                "events of type user_add_to_group are no changes",
            ),
            (
                deployment_event("skipped", ""),
                "the status skipped moves no change",
            ),
            (
                release_event("update"),
                "a release is a change at its create, not at its update",
            ),
        ] {
            assert_eq!(ignored(&KIND, &[], &body), [reason]);
        }
    }

    #[test]
    fn requests_have_ids() {
        for header in ["webhook-id", "Idempotency-Key"] {
            let id = id_of(&KIND, &[(header, "id-1")], &json!({}));
            assert_eq!(id.as_deref(), Some("id-1"));
            let stored = Headers::from_iter([(header, "id-1")]).without_secrets();
            assert_eq!(stored.get(&header.to_lowercase()), Some("id-1"));
        }
    }

    #[test]
    fn the_origin_is_proven_by_a_signature_or_the_token() {
        assert!(is_proven(&KIND, &[("X-Gitlab-Token", SECRET)], "{}"));
        assert!(!is_proven(&KIND, &[("X-Gitlab-Token", "another")], "{}"));
        assert!(!is_proven(&KIND, &[], "{}"));
        let sent = (now().millis() / 1_000).to_string();
        let tag = signature(HMAC_SHA256, &format!("id-1.{sent}.{{}}"));
        let value = format!("v1,{}", BASE64_STANDARD.encode(tag));
        let headers = [
            ("webhook-id", "id-1"),
            ("webhook-timestamp", &sent),
            ("webhook-signature", &value),
        ];
        assert!(is_proven(&KIND, &headers, "{}"));
        assert!(!is_proven(&KIND, &headers, "{ }"));
    }

    #[test]
    fn garbage_is_withstood() {
        for body in [
            deployment_event("success", "2026-11-20 11:04:00 +0100"),
            flag_event(true),
            release_event("create"),
        ] {
            withstands_garbage(&KIND, &[], &body);
        }
    }
}
