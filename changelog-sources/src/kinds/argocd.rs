//! Argo CD notifications:
//! <https://argo-cd.readthedocs.io/en/stable/operator-manual/notifications/services/webhook/>.
//!
//! A sync is one change from its start to its end; an application that is degraded after it
//! makes it a failed one. What Argo CD sends is up to a template. Ours has the members of
//! [`MEMBERS`], of which only `app`, `startedAt` and `phase` are needed, a `trigger` (`sync` or
//! `degraded`), and the `url` of the page of the application. Templates that send the whole
//! application, as `app` or by itself, are read as well.

use std::borrow::Cow;

use changelog_core::Timestamp;
use serde_json::{Map, Value};

use super::Kind;
use super::actor::{by, by_agent};
use crate::json::{failure, links, parse, phrase, text, time_of};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::Proof;
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Secret {
        header: "authorization",
    }],
    ..Kind::new(read)
};

/// The members of our template, and where the application has them.
const MEMBERS: [(&str, &str); 18] = [
    ("app", "/metadata/name"),
    ("uid", "/metadata/uid"),
    ("project", "/spec/project"),
    ("namespace", "/spec/destination/namespace"),
    ("cluster", "/spec/destination/name"),
    ("server", "/spec/destination/server"),
    ("repoURL", "/spec/source/repoURL"),
    ("targetRevision", "/spec/source/targetRevision"),
    ("revision", "/status/operationState/syncResult/revision"),
    ("revisions", "/status/operationState/syncResult/revisions"),
    ("phase", "/status/operationState/phase"),
    ("message", "/status/operationState/message"),
    ("startedAt", "/status/operationState/startedAt"),
    ("finishedAt", "/status/operationState/finishedAt"),
    (
        "initiatedBy",
        "/status/operationState/operation/initiatedBy/username",
    ),
    (
        "automated",
        "/status/operationState/operation/initiatedBy/automated",
    ),
    ("health", "/status/health/status"),
    ("healthChangedAt", "/status/health/lastTransitionTime"),
];

/// Returns the members of our template, also of a body that has the whole application.
fn members(body: &Value) -> Cow<'_, Value> {
    let app = body.get("app").unwrap_or(body);
    if app.pointer("/metadata/name").is_none() {
        return Cow::Borrowed(body);
    }
    let own = body.as_object().filter(|_| body.get("app").is_some());
    let mut members: Map<String, Value> = own.cloned().unwrap_or_default();
    for (name, pointer) in MEMBERS {
        members.insert(
            name.to_owned(),
            app.pointer(pointer).cloned().unwrap_or_default(),
        );
    }
    Cow::Owned(Value::Object(members))
}

/// Returns a member; `None` if the application does not have what the template asks for.
fn member(body: &Value, name: &str) -> Option<String> {
    text(body, &format!("/{name}")).filter(|text| text != "<no value>")
}

fn moment(body: &Value, name: &str) -> Option<Timestamp> {
    time_of(&member(body, name)?)
}

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let body = members(&body);
    let app = member(&body, "app").ok_or_else(|| {
        Unreadable("expected the name of the application in app, or the application".to_owned())
    })?;
    let Some(started) = member(&body, "startedAt") else {
        return Ok(Reading::ignored("the application has not been synced"));
    };
    let phase = member(&body, "phase")
        .ok_or_else(|| Unreadable("expected the phase of the sync in phase".to_owned()))?;
    let finished_at = moment(&body, "finishedAt");
    let (progress, at) = match phase.as_str() {
        "Running" | "Terminating" => (Progress::Running, moment(&body, "startedAt")),
        "Succeeded" => (Progress::Succeeded, finished_at),
        "Failed" | "Error" => (Progress::Failed, finished_at),
        other => {
            return Ok(Reading::ignored(format!(
                "the phase {other} moves no change"
            )));
        }
    };
    let (progress, at) = match (is_degraded(&body, progress), progress) {
        (false, _) => (progress, at),
        (true, Progress::Running) => {
            return Ok(Reading::ignored(
                "a sync is under way, which may end the degradation",
            ));
        }
        // It may have been degraded before the end of the sync, but it did not recover.
        (true, _) => (Progress::Failed, moment(&body, "healthChangedAt").max(at)),
    };
    let id = member(&body, "uid").unwrap_or_else(|| app.clone());
    Ok(State {
        key: format!("sync/{id}/{started}"),
        at: at.unwrap_or(received.at),
        progress,
        started_at: moment(&body, "startedAt"),
        facts: facts(&body, app, progress),
    }
    .into())
}

/// Returns whether the application is reported as degraded. The health in a report of a sync
/// is still the one before the new revision has come up.
fn is_degraded(body: &Value, progress: Progress) -> bool {
    match member(body, "trigger") {
        Some(trigger) => trigger.contains("degraded"),
        None => {
            progress == Progress::Succeeded
                && member(body, "health").is_some_and(|health| health == "Degraded")
        }
    }
}

fn facts(body: &Value, app: String, progress: Progress) -> Facts {
    let first = text(body, "/revisions/0").filter(|text| text != "<no value>");
    let revision = member(body, "revision").or(first);
    let commit = revision.clone().filter(|revision| is_commit(revision));
    let version = revision.map(|revision| match &commit {
        Some(commit) => commit.chars().take(7).collect(),
        None => revision,
    });
    let cluster = member(body, "cluster").or_else(|| member(body, "server"));
    // The cluster of Argo CD itself, which has the same name everywhere.
    let cluster =
        cluster.filter(|name| name != "in-cluster" && !name.contains("kubernetes.default.svc"));
    let namespace = member(body, "namespace");
    let place = [&namespace, &cluster]
        .into_iter()
        .flatten()
        .find(|place| **place != app);
    let is_automated = body
        .get("automated")
        .is_some_and(|is| *is == true || *is == "true");
    let actor = if is_automated {
        by_agent(Some("Argo CD".to_owned()))
    } else {
        by(member(body, "initiatedBy"))
    };
    // Only a failure says more than that it is one.
    let message = member(body, "message").filter(|_| progress == Progress::Failed);
    Facts {
        title: phrase([
            ("Sync ", Some(&app)),
            (" to ", version.as_deref()),
            (" in ", place.map(String::as_str)),
        ]),
        description: message.and_then(|message| failure(&message)),
        places: [
            namespace,
            cluster,
            member(body, "project"),
            Some(app.clone()),
            member(body, "targetRevision"),
        ]
        .into_iter()
        .flatten()
        .collect(),
        services: vec![app],
        commit,
        links: links([
            ("application", member(body, "url")),
            (
                "repository",
                // Not one that is no page, or that has a password.
                member(body, "repoURL").filter(|url| url.starts_with("http") && !url.contains('@')),
            ),
        ]),
        ..actor
    }
}

/// Returns whether a revision is a commit, and not the version of a chart.
fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.chars().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        SECRET, changes_in_any_order, ignored, is_proven, now, reading_of, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Argocd;
    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn sync(phase: &str, finished_at: Option<&str>) -> Value {
        json!({
            "trigger": "sync", "app": "payments", "uid": "u-1", "project": "money",
            "namespace": "shop-prod", "cluster": null, "server": "https://kubernetes.default.svc",
            "repoURL": "https://git.example.com/acme/deploy", "targetRevision": "main",
            "revision": COMMIT, "phase": phase, "message": "one task failed\nand more",
            "startedAt": "2026-11-20T10:00:00Z", "finishedAt": finished_at,
            "initiatedBy": "ada", "automated": null, "health": "Progressing",
            "url": "https://argo.example.com/applications/argocd/payments",
        })
    }

    fn degraded(at: &str) -> Value {
        let mut body = sync("Succeeded", Some("2026-11-20T10:02:00Z"));
        body["trigger"] = json!("degraded");
        body["health"] = json!("Degraded");
        body["healthChangedAt"] = json!(at);
        body
    }

    #[test]
    fn a_sync_goes_from_its_start_to_its_end_in_any_order() {
        let events = [
            sync("Running", None),
            sync("Succeeded", Some("2026-11-20T10:02:00Z")),
        ];
        let changes = changes_in_any_order(&KIND, &[], &events);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["payments"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Sync payments to 1a2b3c4 in shop-prod",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z",
                "ended_at": "2026-11-20T10:02:00.000Z",
                "environment": "prod", "commit": COMMIT, "on_behalf_of": "ada",
                "tags": ["argocd"],
                "links": [
                    { "label": "application", "url": "https://argo.example.com/applications/argocd/payments" },
                    { "label": "repository", "url": "https://git.example.com/acme/deploy" },
                ],
            })
        );
        let failed = [sync("Error", Some("2026-11-20T10:02:00Z"))];
        let fields = &changes_in_any_order(&KIND, &[], &failed)[0].fields;
        assert_eq!(fields["outcome"], "failed");
        assert_eq!(fields["description"], "one task failed");
    }

    #[test]
    fn an_application_that_is_degraded_fails_its_last_sync() {
        for (at, ended_at) in [
            ("2026-11-20T10:05:00Z", "2026-11-20T10:05:00.000Z"),
            ("2026-11-20T10:01:00Z", "2026-11-20T10:02:00.000Z"),
        ] {
            let events = [
                sync("Running", None),
                sync("Succeeded", Some("2026-11-20T10:02:00Z")),
                degraded(at),
            ];
            let changes = changes_in_any_order(&KIND, &[], &events);
            assert_eq!(changes.len(), 1);
            assert_eq!(changes[0].fields["outcome"], "failed");
            assert_eq!(changes[0].fields["ended_at"], ended_at);
        }
        let mut without_trigger = degraded("2026-11-20T10:05:00Z");
        without_trigger["trigger"] = json!(null);
        let changes = changes_in_any_order(&KIND, &[], &[without_trigger]);
        assert_eq!(changes[0].fields["outcome"], "failed");
    }

    #[test]
    fn the_whole_application_is_read() {
        let application = json!({
            "metadata": { "name": "payments", "uid": "u-1" },
            "spec": {
                "project": "money",
                "destination": { "namespace": "shop-prod", "server": "https://kubernetes.default.svc" },
                "source": { "repoURL": "https://git.example.com/acme/deploy", "targetRevision": "main" },
            },
            "status": {
                "health": { "status": "Healthy" },
                "operationState": {
                    "phase": "Succeeded", "startedAt": "2026-11-20T10:00:00Z",
                    "finishedAt": "2026-11-20T10:02:00Z", "message": "successfully synced",
                    "operation": { "initiatedBy": { "automated": true } },
                    "syncResult": { "revision": COMMIT },
                },
            },
        });
        let alone = changes_in_any_order(&KIND, &[], std::slice::from_ref(&application));
        assert_eq!(alone.len(), 1);
        let fields = &alone[0].fields;
        assert_eq!(fields["title"], "Sync payments to 1a2b3c4 in shop-prod");
        assert_eq!(fields["ended_at"], "2026-11-20T10:02:00.000Z");
        assert_eq!(fields["agent"]["name"], "Argo CD");
        // The same operation, whichever template tells of it.
        let members = sync("Running", None);
        let named = json!({ "app": application, "recipient": "changelog" });
        assert_eq!(changes_in_any_order(&KIND, &[], &[members, named]).len(), 1);
    }

    #[test]
    fn members_may_be_missing() {
        let none = "<no value>";
        let body = json!({
            "app": "payments", "uid": none, "namespace": none, "revision": none,
            "revisions": ["7.1.0"], "cluster": "payments", "phase": "Succeeded",
            "startedAt": "2026-11-20T10:00:00Z", "finishedAt": none, "automated": true,
        });
        let changes = changes_in_any_order(&KIND, &[], &[body]);
        let fields = &changes[0].fields;
        assert_eq!(fields["title"], "Sync payments to 7.1.0");
        assert_eq!(fields["ended_at"], json!(now()));
        assert_eq!(fields["agent"]["name"], "Argo CD");
        assert_eq!(fields.get("on_behalf_of"), None);
    }

    #[test]
    fn what_moves_no_sync_is_ignored_with_a_reason() {
        let mut never = sync("<no value>", None);
        never["startedAt"] = json!("<no value>");
        let mut under_way = degraded("2026-11-20T10:05:00Z");
        under_way["phase"] = json!("Running");
        for (body, reason) in [
            (never, "the application has not been synced"),
            (
                under_way,
                "a sync is under way, which may end the degradation",
            ),
            (sync("Paused", None), "the phase Paused moves no change"),
        ] {
            assert_eq!(ignored(&KIND, &[], &body), [reason]);
        }
    }

    #[test]
    fn a_header_proves_the_origin() {
        let bearer = format!("Bearer {SECRET}");
        assert!(is_proven(&KIND, &[("Authorization", &bearer)], "{}"));
        assert!(!is_proven(&KIND, &[("Authorization", "Bearer x")], "{}"));
    }

    #[test]
    fn garbage_is_withstood() {
        withstands_garbage(&KIND, &[], &degraded("2026-11-20T10:05:00Z"));
        let error = reading_of(&KIND, &Settings::default(), &[], "{}");
        assert_eq!(
            error.map_err(|error| error.0),
            Err("expected the name of the application in app, or the application".to_owned())
        );
    }
}
