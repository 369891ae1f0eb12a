//! Alerts as any JSON, by templates of the source, as [`super::generic`] reads changes.

use serde_json::Value;

use super::Kind;
use super::template::{self, Renderer, read_each, time_in};
use crate::alert::{Alert, severity_of};
use crate::json::{first_line, parse};
use crate::observation::{Observation, Reading, Unreadable};
use crate::received::Received;
use crate::settings::{AlertTemplates, Settings};

pub(super) const KIND: Kind = Kind {
    proofs: template::PROOFS,
    request_id: template::id_of,
    ..Kind::new(read)
};

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let renderer = Renderer::new();
    read_each(&body, &settings.alert.each, |element, _| {
        let alert = alert(&renderer, &settings.alert, element, received)?;
        Ok(alert.map(|alert| Observation::Alert(Box::new(alert))))
    })
}

/// Reads an element; `None` if it is to be ignored.
fn alert(
    renderer: &Renderer,
    of: &AlertTemplates,
    element: &Value,
    received: &Received<'_>,
) -> Result<Option<Alert>, Unreadable> {
    let render = |name, template| renderer.render(name, template, element);
    if render("ignore", &of.ignore)?.as_deref() == Some("true") {
        return Ok(None);
    }
    let title = renderer.title(&of.title, *of != AlertTemplates::default(), element)?;
    let time = |name, template| {
        let time = render(name, template)?.map(|text| time_in(name, &text));
        time.transpose()
    };
    let is_firing = match render("status", &of.status)? {
        Some(status) => fires(&status)?,
        None => true,
    };
    let severity = match render("severity", &of.severity)? {
        Some(word) => Some(severity_of(&word).ok_or_else(|| {
            let word = first_line(&word, 50);
            Unreadable(format!(
                "severity: {word} is no known severity; write critical, warning or info"
            ))
        })?),
        None => None,
    };
    Ok(Some(Alert {
        key: render("key", &of.key)?.unwrap_or_else(|| title.clone()),
        at: time("at", &of.at)?.unwrap_or(received.at),
        told_at: None,
        is_firing,
        severity,
        services: render("service", &of.service)?.into_iter().collect(),
        places: render("environment", &of.environment)?
            .into_iter()
            .collect(),
        started_at: time("started_at", &of.started_at)?,
        url: render("link", &of.link)?,
        title,
    }))
}

/// Returns whether an alert fires, in the words of many senders.
fn fires(status: &str) -> Result<bool, Unreadable> {
    let word = status.trim().to_lowercase().replace([' ', '-'], "_");
    Ok(match word.as_str() {
        "firing" | "fired" | "triggered" | "trigger" | "open" | "opened" | "alerting" | "alert"
        | "alarm" | "active" | "problem" | "down" | "critical" | "warning" | "failed" | "true" => {
            true
        }
        "resolved" | "resolve" | "ok" | "recovered" | "recovery" | "closed" | "close"
        | "normal" | "inactive" | "up" | "healthy" | "succeeded" | "false" => false,
        _ => {
            return Err(Unreadable(format!(
                "status: {} is no known status; write firing or resolved",
                first_line(status, 50)
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::{Severity, SourceKind};
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{alerts_of, now, reading_of};

    const KIND: SourceKind = SourceKind::GenericAlert;

    fn settings(members: &Value) -> Settings {
        Settings {
            alert: serde_json::from_value(members.clone()).unwrap(),
            ..Settings::default()
        }
    }

    #[test]
    fn templates_fill_the_fields() {
        let settings = settings(&json!({
            "each": "/checks", "ignore": "{{ kind == 'test' }}", "key": "{{ id }}",
            "title": "{{ app }} is {{ state }}", "status": "{{ state }}", "severity": "{{ prio }}",
            "at": "{{ time }}", "started_at": "{{ since }}", "service": "{{ app }}",
            "environment": "{{ stage }}", "link": "{{ url }}",
        }));
        let body = json!({ "checks": [{
            "id": 7, "app": "shop", "state": "DOWN", "prio": "P1", "time": 1_795_168_860,
            "since": 1_795_168_800, "stage": "prod", "url": "https://check.example.com/7",
        }, { "kind": "test" }] });
        let alerts = alerts_of(&KIND, &settings, &[], &body.to_string());
        let expected = Alert {
            key: "7".to_owned(),
            at: "2026-11-20T10:01:00.000Z".parse().unwrap(),
            told_at: None,
            is_firing: true,
            title: "shop is DOWN".to_owned(),
            severity: Some(Severity::Critical),
            services: vec!["shop".to_owned()],
            places: vec!["prod".to_owned()],
            started_at: "2026-11-20T10:00:00.000Z".parse().ok(),
            url: Some("https://check.example.com/7".to_owned()),
        };
        assert_eq!(alerts, [expected]);
    }

    #[test]
    fn a_first_alert_is_shown_without_templates() {
        let body = json!({ "message": "The shop is down" }).to_string();
        let alerts = alerts_of(&KIND, &Settings::default(), &[], &body);
        assert_eq!(
            (&*alerts[0].title, alerts[0].is_firing),
            ("The shop is down", true)
        );
        assert_eq!((&*alerts[0].key, alerts[0].at), ("The shop is down", now()));
    }

    #[test]
    fn what_cannot_be_read_says_which_template_to_change() {
        for (members, reason) in [
            (
                json!({ "key": "1" }),
                "set the template of the title, which is required",
            ),
            (
                json!({ "title": "a", "status": "blue" }),
                "status: blue is no known status",
            ),
            (
                json!({ "title": "a", "severity": "blue" }),
                "severity: blue is no known severity",
            ),
            (
                json!({ "title": "a", "started_at": "soon" }),
                "started_at: soon is no time",
            ),
            (
                json!({ "title": "a", "each": "/a" }),
                "each: there is no list at /a",
            ),
        ] {
            let error = reading_of(&KIND, &settings(&members), &[], "{}").unwrap_err();
            assert!(error.0.starts_with(reason), "{error}");
        }
    }
}
