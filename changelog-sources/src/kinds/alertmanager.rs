//! Prometheus Alertmanager:
//! <https://prometheus.io/docs/alerting/latest/configuration/#webhook_config>.
//!
//! A group of alerts is one incident, from the first of them that fires until all are
//! resolved. Alertmanager repeats a notification every `repeat_interval`, and can send a
//! credential but no signature.

use super::{Kind, alert_group};
use crate::proof::Proof;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Secret {
        header: "authorization",
    }],
    ..Kind::new(alert_group::read)
};

#[cfg(test)]
mod tests {
    use changelog_core::{Severity, SourceKind};
    use serde_json::{Value, json};

    use crate::alert::Alert;
    use crate::kinds::testing::{alerts_of, ignored, is_proven, withstands_garbage};
    use crate::settings::Settings;

    const KIND: SourceKind = SourceKind::Alertmanager;

    fn alert(status: &str, severity: &str, starts: &str, ends: &str) -> Value {
        json!({
            "status": status, "startsAt": starts, "endsAt": ends, "fingerprint": "a1",
            "generatorURL": "http://prometheus.example.com/graph?g0.expr=up",
            "labels": { "alertname": "HighErrors", "service": "checkout", "severity": severity,
                        "env": "prod-eu", "pod": "a" },
            "annotations": { "summary": "Checkout returns 502" },
        })
    }

    fn notification(status: &str, alerts: &[Value]) -> Value {
        json!({
            "version": "4", "groupKey": "{}:{alertname=\"HighErrors\"}", "status": status,
            "receiver": "changes", "truncatedAlerts": 0, "externalURL": "http://am.example.com",
            "groupLabels": { "alertname": "HighErrors" },
            "commonLabels": { "alertname": "HighErrors", "service": "checkout", "env": "prod-eu" },
            "commonAnnotations": { "summary": "Checkout returns 502" }, "alerts": alerts,
        })
    }

    const NEVER: &str = "0001-01-01T00:00:00Z";

    fn one(body: &Value) -> Alert {
        let mut alerts = alerts_of(&KIND, &Settings::default(), &[], &body.to_string());
        assert_eq!(alerts.len(), 1);
        alerts.remove(0)
    }

    #[test]
    fn a_group_is_one_alert_from_its_first_to_its_last() {
        let firing = one(&notification(
            "firing",
            &[
                alert("firing", "warning", "2026-11-25T10:02:00Z", NEVER),
                alert("firing", "critical", "2026-11-25T10:00:00Z", NEVER),
            ],
        ));
        let at = |text: &str| text.parse().unwrap();
        assert_eq!(firing.key, "{}:{alertname=\"HighErrors\"}");
        assert_eq!(firing.title, "Checkout returns 502");
        assert_eq!(firing.severity, Some(Severity::Critical));
        assert_eq!(firing.services, ["checkout"]);
        assert_eq!(firing.places, ["prod-eu"]);
        assert_eq!(firing.started_at, Some(at("2026-11-25T10:00:00Z")));
        assert_eq!(firing.at, at("2026-11-25T10:02:00Z"));
        assert!(firing.is_firing);
        let url = "http://prometheus.example.com/graph?g0.expr=up";
        assert_eq!(firing.url.as_deref(), Some(url));
        let (ended, later) = ("2026-11-25T10:05:00Z", "2026-11-25T10:07:00Z");
        let partly = one(&notification(
            "firing",
            &[
                alert("resolved", "critical", "2026-11-25T10:00:00Z", ended),
                alert("firing", "warning", "2026-11-25T10:02:00Z", NEVER),
            ],
        ));
        assert_eq!((partly.is_firing, partly.at), (true, at(ended)));
        assert_eq!(partly.severity, Some(Severity::Warning));
        let resolved = one(&notification(
            "resolved",
            &[
                alert("resolved", "critical", "2026-11-25T10:00:00Z", ended),
                alert("resolved", "warning", "2026-11-25T10:02:00Z", later),
            ],
        ));
        assert_eq!((resolved.is_firing, resolved.at), (false, at(later)));
        assert_eq!(resolved.started_at, firing.started_at);
    }

    #[test]
    fn without_annotations_the_alert_has_its_name() {
        let mut body = notification("firing", &[alert("firing", "x", NEVER, NEVER)]);
        body["commonAnnotations"] = json!({});
        let alert = one(&body);
        assert_eq!((alert.title.as_str(), alert.severity), ("HighErrors", None));
        assert_eq!(alert.at, crate::kinds::testing::now());
        body["status"] = "suppressed".into();
        let reason = "the status suppressed is neither firing nor resolved";
        assert_eq!(ignored(&KIND, &[], &body), [reason]);
    }

    #[test]
    fn anything_else_is_refused_or_ignored() {
        let alerts = [alert("firing", "page", "2026-11-25T10:00:00Z", NEVER)];
        withstands_garbage(&KIND, &[], &notification("firing", &alerts));
        let secret = format!("Bearer {}", crate::kinds::testing::SECRET);
        assert!(is_proven(&KIND, &[("authorization", &secret)], "{}"));
        assert!(!is_proven(&KIND, &[("authorization", "Bearer x")], "{}"));
    }
}
