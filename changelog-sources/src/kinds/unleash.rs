//! Unleash webhooks: <https://docs.getunleash.io/reference/integrations/webhook>, with the
//! events of <https://docs.getunleash.io/reference/events> as they are, without a body
//! template.
//!
//! A feature flag or segment that is turned on or off, comes, goes, or serves something else
//! than before is a change. Its description, tags, marks and requests for changes are none:
//! what a request changes comes as events of its own.

use serde_json::Value;

use super::Kind;
use super::actor::{by, by_agent};
use crate::json::{parse, phrase, required, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::Proof;
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Secret {
        header: "authorization",
    }],
    request_id: |received| text(&parse(received.body).ok()?, "/id"),
    ..Kind::new(read)
};

/// Returns what an event does, up to the name; `None` if it changes nothing that is served.
fn verb(event: &str) -> Option<&'static str> {
    Some(match event {
        "feature-environment-enabled" => "Turn on flag ",
        "feature-environment-disabled" => "Turn off flag ",
        "feature-created" => "Create flag ",
        "feature-import" => "Import flag ",
        "feature-archived" => "Archive flag ",
        "feature-revived" => "Revive flag ",
        "feature-deleted" => "Delete flag ",
        "feature-updated" => "Change flag ",
        "feature-project-change" => "Move flag ",
        "feature-strategy-add" => "Add a strategy to flag ",
        "feature-strategy-update" => "Change a strategy of flag ",
        "feature-strategy-remove" => "Remove a strategy from flag ",
        "strategy-order-changed" => "Change the order of the strategies of flag ",
        "feature-variants-updated" | "feature-environment-variants-updated" => {
            "Change the variants of flag "
        }
        "feature-dependency-added"
        | "feature-dependency-removed"
        | "feature-dependencies-removed" => "Change the dependencies of flag ",
        "release-plan-added" => "Add a release plan to flag ",
        "release-plan-removed" => "Remove the release plan from flag ",
        "release-plan-milestone-started" => "Start a milestone of the release plan of flag ",
        "segment-created" => "Create segment ",
        "segment-updated" => "Change segment ",
        "segment-deleted" => "Delete segment ",
        _ => return None,
    })
}

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let event = required(&body, "/type", "the event")?;
    let Some(verb) = verb(&event) else {
        return Ok(Reading::ignored(format!(
            "events of type {event} change nothing that is served"
        )));
    };
    let id = required(&body, "/id", "the event")?;
    let name = ["/featureName", "/data/name", "/preData/name"]
        .iter()
        .find_map(|pointer| text(&body, pointer))
        .ok_or_else(|| Unreadable("expected the name of the flag in featureName".to_owned()))?;
    let environment = text(&body, "/environment");
    Ok(State {
        key: format!("event/{id}"),
        at: time(&body, "/createdAt").unwrap_or(received.at),
        progress: Progress::Succeeded,
        started_at: None,
        facts: Facts {
            title: phrase([(verb, Some(&name)), (" in ", environment.as_deref())]),
            // Everybody has a project of this name.
            services: text(&body, "/project")
                .filter(|project| project != "default")
                .into_iter()
                .collect(),
            places: environment.into_iter().collect(),
            tags: vec!["flag".to_owned()],
            deletes: verb.starts_with("Delete "),
            ..actor(&body)
        },
    }
    .into())
}

/// Returns who did it. Unleash itself and tokens of its API have ids below zero.
fn actor(body: &Value) -> Facts {
    let name = text(body, "/createdBy");
    let id = body.get("createdByUserId").and_then(Value::as_i64);
    if id.is_some_and(|id| id < 0) {
        by_agent(name)
    } else {
        by(name)
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        SECRET, changes_in_any_order, id_of, ignored, is_proven, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Unleash;

    fn event(kind: &str, id: u64) -> Value {
        json!({
            "id": id, "type": kind, "createdAt": "2026-11-20T10:00:00.000Z",
            "createdBy": "ada@example.com", "createdByUserId": 3, "featureName": "new-checkout",
            "project": "shop", "environment": "production",
            "data": { "constraints": [{ "values": ["hunter2"] }] },
        })
    }

    #[test]
    fn a_flag_that_is_toggled_is_a_change() {
        let changes = changes_in_any_order(&KIND, &[], &[event("feature-environment-enabled", 7)]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["shop"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Turn on flag new-checkout in production",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z",
                "ended_at": "2026-11-20T10:00:00.000Z",
                "environment": "prod", "on_behalf_of": "ada@example.com",
                "tags": ["unleash", "flag"], "links": [],
            })
        );
    }

    #[test]
    fn every_event_is_a_change_with_its_own_title() {
        let mut archived = event("feature-archived", 3);
        archived["environment"] = json!(null);
        archived["project"] = json!("default");
        archived["createdBy"] = json!("admin-token");
        archived["createdByUserId"] = json!(-42);
        let mut segment = event("segment-deleted", 4);
        segment["featureName"] = json!(null);
        segment["preData"] = json!({ "name": "testers" });
        let changes = changes_in_any_order(
            &KIND,
            &[],
            &[
                event("feature-environment-disabled", 1),
                event("feature-strategy-update", 2),
                archived,
                segment,
            ],
        );
        let titles: Vec<_> = changes
            .iter()
            .map(|change| &change.fields["title"])
            .collect();
        assert_eq!(
            titles,
            [
                "Turn off flag new-checkout in production",
                "Change a strategy of flag new-checkout in production",
                "Archive flag new-checkout",
                "Delete segment testers in production",
            ]
        );
        assert_eq!(changes[2].fields["agent"]["name"], "admin-token");
        assert!(changes[2].services.is_empty());
        assert_eq!(changes[3].fields["risk_level"], "high");
    }

    #[test]
    fn other_events_are_ignored_with_a_reason() {
        for kind in [
            "feature-tagged",
            "change-request-applied",
            "feature-stale-on",
            "user-created",
        ] {
            let reason = format!("events of type {kind} change nothing that is served");
            assert_eq!(ignored(&KIND, &[], &event(kind, 1)), [reason]);
        }
    }

    #[test]
    fn a_header_proves_the_origin_and_the_event_has_an_id() {
        assert!(is_proven(&KIND, &[("Authorization", SECRET)], "{}"));
        assert!(!is_proven(&KIND, &[("Authorization", "another")], "{}"));
        assert!(!is_proven(&KIND, &[], "{}"));
        let id = id_of(&KIND, &[], &event("feature-tagged", 7));
        assert_eq!(id.as_deref(), Some("7"));
    }

    #[test]
    fn garbage_is_withstood() {
        withstands_garbage(&KIND, &[], &event("feature-environment-enabled", 7));
    }
}
