//! Datadog webhooks: <https://docs.datadoghq.com/integrations/webhooks/>.
//!
//! What Datadog sends is up to a template. Ours has these members, of which only `title` and
//! `transition` are needed. A cycle of a monitor, from the alert to its recovery, is one
//! incident.
//!
//! ```json
//! {
//!   "cycle": "$ALERT_CYCLE_KEY",
//!   "monitor": "$ALERT_ID",
//!   "transition": "$ALERT_TRANSITION",
//!   "type": "$ALERT_TYPE",
//!   "priority": "$ALERT_PRIORITY",
//!   "title": "$ALERT_TITLE",
//!   "tags": "$TAGS",
//!   "link": "$LINK",
//!   "date": "$DATE"
//! }
//! ```

use changelog_core::Severity;
use serde_json::Value;

use super::Kind;
use crate::alert::{Alert, Labels, severity_of};
use crate::json::{parse, required, text, time};
use crate::observation::{Reading, Unreadable};
use crate::proof::Proof;
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Secret {
        header: "authorization",
    }],
    ..Kind::new(read)
};

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let transition = required(&body, "/transition", "the webhook")?;
    let word = transition.to_lowercase();
    let is_firing = if word.contains("recover") {
        false
    } else if ["trigger", "warn", "no data", "notify"]
        .iter()
        .any(|one| word.contains(one))
    {
        true
    } else {
        let reason = format!("the transition {transition} neither alerts nor recovers");
        return Ok(Reading::ignored(reason));
    };
    let title = required(&body, "/title", "the webhook")?;
    let key = member(&body, "cycle").or_else(|| member(&body, "monitor"));
    let tags = member(&body, "tags").unwrap_or_default();
    let labels: Labels = tags
        .split(',')
        .filter_map(|tag| tag.split_once(':'))
        .collect();
    Ok(Alert {
        key: key.unwrap_or_else(|| title.clone()),
        at: time(&body, "/date").unwrap_or(received.at),
        told_at: None,
        is_firing,
        title: without_transition(&title).to_owned(),
        severity: severity(&body, &word),
        services: labels.services(settings),
        places: labels.places(settings),
        started_at: None,
        url: member(&body, "link"),
    }
    .into())
}

/// Returns a member; `None` for a variable that Datadog did not replace.
fn member(body: &Value, name: &str) -> Option<String> {
    text(body, &format!("/{name}")).filter(|text| !text.starts_with('$'))
}

/// Returns the title without `[Triggered]` and the like before it.
fn without_transition(title: &str) -> &str {
    let rest = title
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    rest.map(|(_, rest)| rest.trim())
        .filter(|rest| !rest.is_empty())
        .unwrap_or(title)
}

/// Returns the priority of the monitor, or else what the alert is.
fn severity(body: &Value, transition: &str) -> Option<Severity> {
    if transition.contains("warn") {
        return Some(Severity::Warning);
    }
    let words = ["priority", "type"]
        .iter()
        .filter_map(|name| member(body, name));
    words.into_iter().find_map(|word| severity_of(&word))
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{alerts_of, ignored, is_proven, withstands_garbage};

    const KIND: SourceKind = SourceKind::Datadog;

    fn event(transition: &str) -> Value {
        json!({
            "cycle": "8123", "monitor": "42", "transition": transition, "type": "error",
            "priority": "", "title": "[Triggered] Errors of checkout are high",
            "tags": "env:production,monitor,service:checkout,team:shop",
            "link": "https://app.datadoghq.com/event/event?id=1", "date": "1795255200000",
        })
    }

    #[test]
    fn a_cycle_of_a_monitor_is_an_alert() {
        for (transition, is_firing, severity) in [
            ("Triggered", true, Severity::Critical),
            ("Warn", true, Severity::Warning),
            ("No Data", true, Severity::Critical),
            ("Re-Triggered", true, Severity::Critical),
            ("Recovered", false, Severity::Critical),
        ] {
            let body = event(transition).to_string();
            let alerts = alerts_of(&KIND, &Settings::default(), &[], &body);
            let alert = &alerts[0];
            assert_eq!(
                (&*alert.key, alert.is_firing),
                ("8123", is_firing),
                "{transition}"
            );
            assert_eq!(alert.severity, Some(severity), "{transition}");
            assert_eq!(alert.title, "Errors of checkout are high");
            assert_eq!(
                (&*alert.services, &*alert.places),
                (&["checkout".to_owned()][..], &["production".to_owned()][..],)
            );
            assert_eq!(alert.at, "2026-11-21T10:00:00Z".parse().unwrap());
        }
        let reason = "the transition Muted neither alerts nor recovers";
        assert_eq!(ignored(&KIND, &[], &event("Muted")), [reason]);
        withstands_garbage(&KIND, &[], &event("Triggered"));
    }

    #[test]
    fn what_datadog_did_not_replace_is_missing() {
        let mut body = event("Triggered");
        for name in ["cycle", "priority", "link"] {
            body[name] = format!("${}", name.to_uppercase()).into();
        }
        let alerts = alerts_of(&KIND, &Settings::default(), &[], &body.to_string());
        assert_eq!((&*alerts[0].key, &alerts[0].url), ("42", &None));
        let secret = crate::kinds::testing::SECRET;
        assert!(is_proven(&KIND, &[("authorization", secret)], "{}"));
    }
}
