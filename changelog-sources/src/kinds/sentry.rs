//! Sentry's integration platform: <https://docs.sentry.io/organization/integrations/integration-platform/webhooks/>.
//!
//! An issue alert fires for an issue, and what resolves it is the issue: resolved or
//! archived. A metric alert has its own incident at Sentry, with its end.

use changelog_core::Severity;
use serde_json::Value;

use super::Kind;
use crate::alert::{Alert, Labels, severity_of};
use crate::handshake::Handshake;
use crate::json::{list, parse, required, text, time};
use crate::observation::{Reading, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "sentry-hook-signature",
        prefix: "",
        hash: Hash::Sha256,
    }],
    is_signed: true,
    handshake,
    request_id: |received| received.headers.get("request-id").map(str::to_owned),
    ..Kind::new(read)
};

fn resource<'r>(received: &'r Received<'_>) -> &'r str {
    received
        .headers
        .get("sentry-hook-resource")
        .unwrap_or_default()
}

fn handshake(received: &Received<'_>) -> Option<Handshake> {
    (resource(received) == "installation").then_some(Handshake::Ping)
}

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let action = required(&body, "/action", "the webhook")?;
    match resource(received) {
        "event_alert" => event_alert(&body, received, settings),
        "metric_alert" => metric_alert(&body, &action, received),
        "issue" => issue(&body, &action, received),
        other => {
            let reason = format!("webhooks about {other:?} are no alerts");
            Ok(Reading::ignored(reason))
        }
    }
}

/// Returns the key of an issue, which its alerts and its resolution have in common.
fn issue_key(id: &str) -> String {
    format!("issue/{id}")
}

fn event_alert(
    body: &Value,
    received: &Received<'_>,
    settings: &Settings,
) -> Result<Reading, Unreadable> {
    let event = body.pointer("/data/event").unwrap_or(&Value::Null);
    let id = required(event, "/issue_id", "the event")?;
    let pairs = list(event, "/tags").iter();
    let tags: Labels = pairs
        .filter_map(|pair| Some((text(pair, "/0")?, text(pair, "/1")?)))
        .collect();
    let mut services = tags.services(settings);
    services.extend(text(event, "/project_slug").or_else(|| text(event, "/project_name")));
    let mut places = tags.places(settings);
    places.extend(text(event, "/environment"));
    Ok(Alert {
        key: issue_key(&id),
        at: time(event, "/datetime").unwrap_or(received.at),
        told_at: None,
        is_firing: true,
        title: required(event, "/title", "the event")?,
        severity: text(event, "/level").and_then(|level| severity_of(&level)),
        services,
        places,
        started_at: None,
        url: text(event, "/web_url").or_else(|| text(event, "/issue_url")),
    }
    .into())
}

fn metric_alert(
    body: &Value,
    action: &str,
    received: &Received<'_>,
) -> Result<Reading, Unreadable> {
    let alert = body.pointer("/data/metric_alert").unwrap_or(&Value::Null);
    let (is_firing, severity) = match action {
        "critical" => (true, Some(Severity::Critical)),
        "warning" | "open" => (true, Some(Severity::Warning)),
        "resolved" | "closed" => (false, None),
        other => {
            let reason = format!("the action {other} moves no incident");
            return Ok(Reading::ignored(reason));
        }
    };
    let started_at = time(alert, "/date_started").or_else(|| time(alert, "/date_detected"));
    let at = if is_firing {
        time(alert, "/date_detected").max(started_at)
    } else {
        time(alert, "/date_closed")
    };
    let name = text(alert, "/alert_rule/name").or_else(|| text(alert, "/title"));
    let title = name.or_else(|| text(body, "/data/description_title"));
    let projects = list(alert, "/projects")
        .iter()
        .chain(list(alert, "/alert_rule/projects"));
    let mut services: Vec<String> = Vec::new();
    for project in projects.filter_map(Value::as_str) {
        if !services.iter().any(|known| known == project) {
            services.push(project.to_owned());
        }
    }
    Ok(Alert {
        key: format!("metric/{}", required(alert, "/id", "the metric alert")?),
        at: at.unwrap_or(received.at),
        told_at: None,
        is_firing,
        title: title.ok_or_else(|| Unreadable("the metric alert has no name".to_owned()))?,
        severity,
        services,
        places: text(alert, "/alert_rule/environment").into_iter().collect(),
        started_at,
        url: text(body, "/data/web_url"),
    }
    .into())
}

fn issue(body: &Value, action: &str, received: &Received<'_>) -> Result<Reading, Unreadable> {
    if !matches!(action, "resolved" | "archived" | "ignored") {
        let reason = format!("the action {action} of an issue moves no incident");
        return Ok(Reading::ignored(reason));
    }
    let issue = body.pointer("/data/issue").unwrap_or(&Value::Null);
    Ok(Alert {
        key: issue_key(&required(issue, "/id", "the issue")?),
        // The webhook has no time of the resolution.
        at: received.at,
        told_at: None,
        is_firing: false,
        title: required(issue, "/title", "the issue")?,
        severity: None,
        services: text(issue, "/project/slug").into_iter().collect(),
        places: Vec::new(),
        started_at: None,
        url: text(issue, "/web_url").or_else(|| text(issue, "/permalink")),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA256;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        alerts_of, id_of, ignored, is_proven, signature, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Sentry;

    fn of(resource: &str, body: &Value) -> Alert {
        let headers = [("Sentry-Hook-Resource", resource)];
        let mut alerts = alerts_of(&KIND, &Settings::default(), &headers, &body.to_string());
        assert_eq!(alerts.len(), 1);
        alerts.remove(0)
    }

    fn event_alert() -> Value {
        json!({
            "action": "triggered", "actor": { "id": "sentry", "type": "application" },
            "data": { "triggered_rule": "Errors", "event": {
                "event_id": "e1", "issue_id": "1170820242", "title": "ReferenceError: blooop",
                "web_url": "https://sentry.io/organizations/acme/issues/1170820242/events/e1/",
                "level": "error", "datetime": "2026-11-25T10:00:00.000000Z", "project": 1,
                "tags": [["environment", "production"], ["service", "checkout"]],
            }},
        })
    }

    #[test]
    fn an_issue_alert_is_resolved_by_its_issue() {
        let alert = of("event_alert", &event_alert());
        assert_eq!((&*alert.key, alert.is_firing), ("issue/1170820242", true));
        assert_eq!(alert.severity, Some(Severity::Critical));
        assert_eq!(alert.services, ["checkout"]);
        assert_eq!(alert.places, ["production"]);
        let issue = |action: &str| {
            json!({ "action": action, "data": { "issue": {
                "id": "1170820242", "title": "ReferenceError: blooop", "status": "resolved",
                "firstSeen": "2026-11-20T10:00:00.000000Z", "project": { "slug": "shop" },
            }}})
        };
        for action in ["resolved", "archived"] {
            let resolved = of("issue", &issue(action));
            assert_eq!(
                (&*resolved.key, resolved.is_firing),
                ("issue/1170820242", false)
            );
        }
        let headers = [("Sentry-Hook-Resource", "issue"), ("Request-ID", "r1")];
        let reason = "the action assigned of an issue moves no incident";
        assert_eq!(ignored(&KIND, &headers, &issue("assigned")), [reason]);
        assert_eq!(
            id_of(&KIND, &headers, &issue("assigned")).as_deref(),
            Some("r1")
        );
        withstands_garbage(
            &KIND,
            &[("Sentry-Hook-Resource", "event_alert")],
            &event_alert(),
        );
    }

    #[test]
    fn a_metric_alert_has_its_own_states() {
        let metric = |action: &str| {
            json!({ "action": action, "data": {
                "description_title": "Critical: Too many errors",
                "web_url": "https://sentry.io/organizations/acme/alerts/rules/details/7/",
                "metric_alert": {
                    "id": "7", "date_started": "2026-11-25T10:00:00Z",
                    "date_detected": "2026-11-25T10:01:00Z",
                    "date_closed": if action == "resolved" { json!("2026-11-25T10:09:00Z") } else { json!(null) },
                    "projects": ["shop"],
                    "alert_rule": { "name": "Too many errors", "environment": "prod", "projects": ["shop"] },
                },
            }})
        };
        let at = |text: &str| text.parse().unwrap();
        let critical = of("metric_alert", &metric("critical"));
        assert_eq!((&*critical.key, critical.is_firing), ("metric/7", true));
        assert_eq!(critical.severity, Some(Severity::Critical));
        assert_eq!(critical.title, "Too many errors");
        assert_eq!(
            (&*critical.services, critical.at),
            (&["shop".to_owned()][..], at("2026-11-25T10:01:00Z"))
        );
        let resolved = of("metric_alert", &metric("resolved"));
        assert_eq!(
            (resolved.is_firing, resolved.at),
            (false, at("2026-11-25T10:09:00Z"))
        );
        assert_eq!(resolved.started_at, Some(at("2026-11-25T10:00:00Z")));
        withstands_garbage(
            &KIND,
            &[("Sentry-Hook-Resource", "metric_alert")],
            &metric("critical"),
        );
    }

    #[test]
    fn the_body_is_signed() {
        let good = hex::encode(signature(HMAC_SHA256, "{}").as_ref());
        assert!(is_proven(&KIND, &[("Sentry-Hook-Signature", &good)], "{}"));
        assert!(!is_proven(&KIND, &[("Sentry-Hook-Signature", &good)], "[]"));
    }
}
