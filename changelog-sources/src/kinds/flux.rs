//! Events of Flux, through a provider of the type `generic-hmac`:
//! <https://fluxcd.io/flux/components/notification/providers/>.
//!
//! The reconciliation of a revision is one change from its progress to its end, however
//! often Flux repeats it. A release of Helm that is rolled back or uninstalled is a change
//! of its own. What Flux only fetches is none: what applies it is.

use serde_json::Value;

use super::Kind;
use super::actor::by_agent;
use crate::json::{failure, parse, phrase, required, text, time};
use crate::observation::{Facts, Progress, Reading, State, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "x-signature",
        prefix: "sha256=",
        hash: Hash::Sha256,
    }],
    is_signed: true,
    ..Kind::new(read)
};

/// The kinds of objects that fetch or scan, and apply nothing.
const FETCHING: [&str; 9] = [
    "GitRepository",
    "OCIRepository",
    "HelmRepository",
    "HelmChart",
    "Bucket",
    "ExternalArtifact",
    "ImageRepository",
    "ImagePolicy",
    "ImageUpdateAutomation",
];

/// The members of the metadata by which an alert can name the environment and the cluster.
const PLACES: [&str; 4] = ["environment", "env", "cluster", "region"];

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let kind = required(&body, "/involvedObject/kind", "the event")?;
    let name = required(&body, "/involvedObject/name", "the event")?;
    let reason = required(&body, "/reason", "the event")?;
    if FETCHING.contains(&kind.as_str()) {
        return Ok(Reading::ignored(format!("a {kind} applies nothing")));
    }
    let Some(step) = Step::of(&body, &reason) else {
        return Ok(Reading::ignored(format!(
            "the reason {reason} is neither progress nor an end"
        )));
    };
    let Some(revision) = metadata(&body, "revision") else {
        return Ok(Reading::ignored("the event has no revision"));
    };
    let namespace = text(&body, "/involvedObject/namespace");
    let id = text(&body, "/involvedObject/uid").unwrap_or_else(|| {
        let namespace = namespace.as_deref().unwrap_or_default();
        format!("{kind}/{namespace}/{name}")
    });
    let at = time(&body, "/timestamp").unwrap_or(received.at);
    let key = match step.verb {
        "Deploy " => format!("{id}/{revision}"),
        // Of the revision that is back again, which has its own change already.
        _ => format!("{id}/{revision}/{reason}/{}", at.millis()),
    };
    let mut places: Vec<String> = PLACES
        .iter()
        .filter_map(|name| metadata(&body, name))
        .collect();
    places.extend(namespace);
    let version = Revision::of(&revision);
    let facts = Facts {
        title: phrase([
            (step.verb, Some(&name)),
            (step.before_version, Some(&version.short)),
            (step.before_place, places.first().map(String::as_str)),
        ]),
        description: text(&body, "/message")
            .filter(|_| step.progress == Progress::Failed)
            .and_then(|message| failure(&message)),
        places: places
            .into_iter()
            .chain(metadata(&body, "summary"))
            .chain(version.branch)
            .collect(),
        services: vec![name],
        commit: version.commit,
        deletes: step.verb == "Uninstall ",
        ..by_agent(Some("Flux".to_owned()))
    };
    Ok(State {
        key,
        at,
        progress: step.progress,
        started_at: None,
        facts,
    }
    .into())
}

/// What the reason of an event says, and the words of a title.
struct Step {
    progress: Progress,
    verb: &'static str,
    before_version: &'static str,
    before_place: &'static str,
}

impl Step {
    fn of(body: &Value, reason: &str) -> Option<Self> {
        let is_error = text(body, "/severity").as_deref() == Some("error");
        let progress = match reason {
            _ if is_error => Progress::Failed,
            "Progressing" => Progress::Running,
            _ if reason.ends_with("Succeeded") => Progress::Succeeded,
            _ => return None,
        };
        let (verb, before_version, before_place) = match reason {
            "RollbackSucceeded" | "RollbackFailed" => ("Roll back ", " to ", " in "),
            "UninstallSucceeded" | "UninstallFailed" => ("Uninstall ", " ", " from "),
            _ => ("Deploy ", " ", " to "),
        };
        Some(Self {
            progress,
            verb,
            before_version,
            before_place,
        })
    }
}

/// Returns a member of the metadata, which may be behind the group of the object:
/// `kustomize.toolkit.fluxcd.io/revision`.
fn metadata(body: &Value, name: &str) -> Option<String> {
    let members = body.get("metadata")?.as_object()?;
    let member = members.iter().find(|(key, value)| {
        key.rsplit('/').next() == Some(name) && value.as_str().is_some_and(|text| !text.is_empty())
    });
    member?.1.as_str().map(str::to_owned)
}

/// A revision: `main@sha1:1a2b…`, `v4.2@sha256:…`, `main/1a2b…` before Flux 2, or the version
/// of a chart.
struct Revision {
    short: String,
    branch: Option<String>,
    commit: Option<String>,
}

impl Revision {
    fn of(revision: &str) -> Self {
        let (name, digest) = match revision.rsplit_once(['@', '/']) {
            Some((name, digest)) => (Some(name), digest),
            None => (None, revision),
        };
        let (algorithm, digest) = digest.split_once(':').unwrap_or(("", digest));
        let is_digest = digest.len() >= 40 && digest.chars().all(|one| one.is_ascii_hexdigit());
        if !is_digest {
            return Self {
                short: revision.to_owned(),
                branch: None,
                commit: None,
            };
        }
        let short: String = digest.chars().take(7).collect();
        let is_commit = digest.len() == 40 || algorithm == "sha1";
        // Of an artifact of OCI, the tag says more than the digest.
        let short = match name {
            Some(name) if is_commit => format!("{name}@{short}"),
            Some(name) => name.to_owned(),
            None => short,
        };
        Self {
            short,
            branch: name.map(str::to_owned),
            commit: is_commit.then(|| digest.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA256;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        changes_in_any_order, ignored, is_proven, signature, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Flux;
    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn event(severity: &str, reason: &str, at: &str) -> Value {
        json!({
            "involvedObject": {
                "kind": "Kustomization", "namespace": "shop", "name": "payments", "uid": "u-1",
            },
            "severity": severity, "reason": reason, "timestamp": at,
            "message": "the pods did not start\nand more",
            "metadata": {
                "kustomize.toolkit.fluxcd.io/revision": format!("main@sha1:{COMMIT}"),
                "env": "production",
            },
        })
    }

    #[test]
    fn a_reconciliation_goes_to_its_end_in_any_order() {
        let events = [
            event("info", "Progressing", "2026-11-20T10:00:00Z"),
            event("error", "HealthCheckFailed", "2026-11-20T10:02:00Z"),
            event("info", "ReconciliationSucceeded", "2026-11-20T10:04:00Z"),
        ];
        let changes = changes_in_any_order(&KIND, &[], &events);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["payments"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Deploy payments main@1a2b3c4 to production",
                "description": "the pods did not start",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z",
                "ended_at": "2026-11-20T10:04:00.000Z",
                "environment": "prod", "commit": COMMIT, "agent": { "name": "Flux" },
                "tags": ["flux"], "links": [],
            })
        );
        let fields = &changes_in_any_order(&KIND, &[], &events[..2])[0].fields;
        assert_eq!(fields["outcome"], "failed");
        assert_eq!(fields["description"], "the pods did not start");
    }

    #[test]
    fn a_release_that_is_rolled_back_or_uninstalled_is_a_change_of_its_own() {
        let events = [
            "UpgradeSucceeded",
            "RollbackSucceeded",
            "UninstallSucceeded",
        ]
        .map(|reason| {
            let mut event = event("info", reason, "2026-11-20T10:04:00Z");
            event["metadata"] = json!({ "revision": "7.1.0", "summary": "cluster of tests" });
            event
        });
        let changes = changes_in_any_order(&KIND, &[], &events);
        let titles: Vec<_> = changes
            .iter()
            .map(|change| &change.fields["title"])
            .collect();
        assert_eq!(
            titles,
            [
                "Deploy payments 7.1.0 to shop",
                "Roll back payments to 7.1.0 in shop",
                "Uninstall payments 7.1.0 from shop",
            ]
        );
        assert_eq!(changes[2].fields["risk_level"], "high");
    }

    #[test]
    fn revisions_are_shortened() {
        let digest = "0123456789abcdef".repeat(4);
        for (revision, short) in [
            (format!("main@sha1:{COMMIT}"), "main@1a2b3c4"),
            (format!("feature/x@sha1:{COMMIT}"), "feature/x@1a2b3c4"),
            (format!("main/{COMMIT}"), "main@1a2b3c4"),
            (format!("sha1:{COMMIT}"), "1a2b3c4"),
            (format!("v4.2@sha256:{digest}"), "v4.2"),
            ("7.1.0+b1".to_owned(), "7.1.0+b1"),
            ("@:/".to_owned(), "@:/"),
        ] {
            assert_eq!(Revision::of(&revision).short, short, "{revision}");
        }
    }

    #[test]
    fn other_events_are_ignored_with_a_reason() {
        let mut source = event("info", "NewArtifact", "");
        source["involvedObject"]["kind"] = json!("GitRepository");
        let mut bare = event("info", "ReconciliationSucceeded", "");
        bare["metadata"] = json!({ "env": "production" });
        for (body, reason) in [
            (source, "a GitRepository applies nothing"),
            (bare, "the event has no revision"),
            (
                event("info", "DependencyNotReady", ""),
                "the reason DependencyNotReady is neither progress nor an end",
            ),
        ] {
            assert_eq!(ignored(&KIND, &[], &body), [reason]);
        }
    }

    #[test]
    fn errors_about_secrets_stay_out() {
        let mut event = event("error", "BuildFailed", "2026-11-20T10:00:00Z");
        event["message"] = json!("Secret/shop/db: illegal base64 data in hunter2");
        let changes = changes_in_any_order(&KIND, &[], &[event]);
        assert_eq!(changes[0].fields.get("description"), None);
    }

    #[test]
    fn the_signature_proves_the_origin() {
        let signed = format!("sha256={}", hex::encode(signature(HMAC_SHA256, "{}")));
        assert!(is_proven(&KIND, &[("X-Signature", &signed)], "{}"));
        assert!(!is_proven(&KIND, &[("X-Signature", &signed)], "[]"));
    }

    #[test]
    fn garbage_is_withstood() {
        withstands_garbage(
            &KIND,
            &[],
            &event("error", "BuildFailed", "2026-11-20T10:00:00Z"),
        );
    }
}
