//! PagerDuty webhooks, version 3: <https://developer.pagerduty.com/docs/webhooks-overview>.
//!
//! An incident of PagerDuty is one incident. Notes, responders and escalations say nothing
//! about its state.

use changelog_core::Severity;
use serde_json::Value;

use super::Kind;
use crate::alert::{Alert, severity_of};
use crate::handshake::Handshake;
use crate::json::{parse, required, text, time};
use crate::observation::{Reading, Unreadable};
use crate::proof::{Hash, Proof};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Hmac {
        header: "x-pagerduty-signature",
        prefix: "v1=",
        hash: Hash::Sha256,
    }],
    is_signed: true,
    handshake,
    request_id: |received| text(&parse(received.body).ok()?, "/event/id"),
    ..Kind::new(read)
};

fn handshake(received: &Received<'_>) -> Option<Handshake> {
    let kind = text(&parse(received.body).ok()?, "/event/event_type")?;
    (kind == "pagey.ping").then_some(Handshake::Ping)
}

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let kind = required(&body, "/event/event_type", "the webhook")?;
    let is_firing = match kind.as_str() {
        "incident.triggered"
        | "incident.acknowledged"
        | "incident.unacknowledged"
        | "incident.reopened"
        | "incident.escalated"
        | "incident.reassigned"
        | "incident.delegated"
        | "incident.priority_updated" => true,
        "incident.resolved" => false,
        other => {
            let reason = format!("events of the type {other} move no incident");
            return Ok(Reading::ignored(reason));
        }
    };
    let data = body.pointer("/event/data").unwrap_or(&Value::Null);
    let is_resolved = text(data, "/status").as_deref() == Some("resolved");
    if is_resolved && !matches!(kind.as_str(), "incident.resolved" | "incident.reopened") {
        // Such as the priority that it is given for its post-mortem.
        return Ok(Reading::ignored("the incident is resolved"));
    }
    let services = ["/service/summary", "/service/name"];
    Ok(Alert {
        key: required(data, "/id", "the incident")?,
        at: time(&body, "/event/occurred_at").unwrap_or(received.at),
        told_at: None,
        is_firing,
        title: required(data, "/title", "the incident")?,
        severity: severity(data),
        services: services
            .iter()
            .filter_map(|name| text(data, name))
            .take(1)
            .collect(),
        places: services
            .iter()
            .filter_map(|name| text(data, name))
            .take(1)
            .collect(),
        started_at: time(data, "/created_at"),
        url: text(data, "/html_url"),
    }
    .into())
}

/// Returns the priority, whose names an account chooses, or else the urgency.
fn severity(data: &Value) -> Option<Severity> {
    let priority = text(data, "/priority/summary").or_else(|| text(data, "/priority/name"));
    let of_priority = priority.and_then(|name| severity_of(&name));
    of_priority.or_else(|| match text(data, "/urgency")?.as_str() {
        "high" => Some(Severity::Critical),
        "low" => Some(Severity::Warning),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use ring::hmac::HMAC_SHA256;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{
        alerts_of, id_of, ignored, is_proven, received, signature, withstands_garbage,
    };

    const KIND: SourceKind = SourceKind::Pagerduty;

    fn event(kind: &str, at: &str) -> Value {
        json!({ "event": {
            "id": "01CPXSVOB1", "event_type": kind, "resource_type": "incident", "occurred_at": at,
            "agent": { "id": "PLH1HKV", "type": "user_reference" }, "client": null,
            "data": {
                "id": "PGR0VU2", "type": "incident", "number": 2, "status": "triggered",
                "self": "https://api.pagerduty.com/incidents/PGR0VU2",
                "html_url": "https://acme.pagerduty.com/incidents/PGR0VU2",
                "incident_key": "d3640fbd", "created_at": "2026-11-25T10:00:00Z",
                "title": "A little bump in the road", "urgency": "high", "priority": null,
                "service": { "id": "PF9KMXH", "summary": "payments-prod" },
            },
        }})
    }

    #[test]
    fn an_incident_fires_until_it_is_resolved() {
        for (kind, is_firing) in [("incident.triggered", true), ("incident.resolved", false)] {
            let body = event(kind, "2026-11-25T10:01:00Z").to_string();
            let alerts = alerts_of(&KIND, &Settings::default(), &[], &body);
            assert_eq!(alerts.len(), 1);
            let alert = &alerts[0];
            assert_eq!((&*alert.key, alert.is_firing), ("PGR0VU2", is_firing));
            assert_eq!(alert.title, "A little bump in the road");
            assert_eq!(alert.services, ["payments-prod"]);
            assert_eq!(alert.severity, Some(Severity::Critical));
            assert_eq!(alert.started_at, "2026-11-25T10:00:00Z".parse().ok());
            assert_eq!(alert.at, "2026-11-25T10:01:00Z".parse().unwrap());
        }
        let mut low = event("incident.triggered", "2026-11-25T10:01:00Z");
        low["event"]["data"]["priority"] = json!({ "summary": "P4" });
        let alerts = alerts_of(&KIND, &Settings::default(), &[], &low.to_string());
        assert_eq!(alerts[0].severity, Some(Severity::Info));
        let mut later = event("incident.priority_updated", "2026-11-25T11:00:00Z");
        later["event"]["data"]["status"] = json!("resolved");
        assert_eq!(ignored(&KIND, &[], &later), ["the incident is resolved"]);
        let note = event("incident.annotated", "2026-11-25T10:01:00Z");
        let reason = "events of the type incident.annotated move no incident";
        assert_eq!(ignored(&KIND, &[], &note), [reason]);
        assert_eq!(id_of(&KIND, &[], &note).as_deref(), Some("01CPXSVOB1"));
        withstands_garbage(&KIND, &[], &event("incident.triggered", ""));
    }

    #[test]
    fn pings_and_signatures_are_recognized() {
        let ping = json!({ "event": { "event_type": "pagey.ping" } }).to_string();
        let answer = received(&[], &ping, |received| {
            super::super::handshake(&KIND, received)
        });
        assert_eq!(answer, Some(Handshake::Ping));
        let good = format!("v1={}", hex::encode(signature(HMAC_SHA256, "{}").as_ref()));
        // While a secret is changed there are several.
        let several = format!("v1={},{good}", "0".repeat(64));
        let header = "X-PagerDuty-Signature";
        assert!(is_proven(&KIND, &[(header, &good)], "{}"));
        assert!(is_proven(&KIND, &[(header, &several)], "{}"));
        assert!(!is_proven(&KIND, &[(header, &good)], "{} "));
    }
}
