//! Incidents as tables, CSV and text show them.

use std::fmt::Write;

use changelog_core::{Environment, Gap, Incident, IncidentSuspect, Timestamp};

use super::colors::{colored, severity_color};
use super::detail::{BOLD, exact, titled};
use super::fitted::{Cell, Kind};
use super::record::{Column, Record};
use crate::base::text::one_line;
use crate::base::time::{duration, relative};

impl Record for Incident {
    const PLURAL: &'static str = "incidents";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "title",
        "severity",
        "status",
        "service",
        "environment",
        "started_at",
        "resolved_at",
        "suspect",
        "cause",
        "cause_change_id",
        "url",
        "source",
        "created_at",
        "updated_at",
    ];

    fn cells(&self) -> Vec<String> {
        let source = self.source.as_ref().map(|source| source.name.clone());
        let environment = self.environment.as_ref().map(ToString::to_string);
        let resolved_at = self.resolved_at.map(|at| at.to_string());
        let cause = self.cause_change_id.map(|id| id.to_string());
        vec![
            self.id.to_string(),
            self.title.clone(),
            self.severity.to_string(),
            self.status.to_string(),
            service(self).unwrap_or_default(),
            environment.unwrap_or_default(),
            self.started_at.to_string(),
            resolved_at.unwrap_or_default(),
            suspect(self).unwrap_or_default(),
            decision(self).unwrap_or_default(),
            cause.unwrap_or_default(),
            self.url.clone().unwrap_or_default(),
            source.unwrap_or_default(),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]
    }

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("id", Kind::Id, |incident: &Self, _| {
                Cell::new(incident.id.to_string())
            }),
            Column::new("started", Kind::Fixed, |incident: &Self, context| {
                Cell::new(relative(incident.started_at, context.now))
            }),
            Column::new("severity", Kind::Fixed, |incident: &Self, _| {
                Cell::new(incident.severity.as_str()).color(severity_color(&incident.severity))
            }),
            Column::new("status", Kind::Fixed, |incident: &Self, _| {
                Cell::new(incident.status.as_str())
            }),
            Column::new("title", Kind::Text, |incident: &Self, _| {
                Cell::new(&incident.title)
            }),
            Column::new("service", Kind::Side, |incident: &Self, _| {
                Cell::of(service(incident))
            }),
            Column::new("env", Kind::Side, |incident: &Self, _| {
                Cell::of(incident.environment.as_ref().map(Environment::as_str))
            }),
            Column::new("lasted", Kind::Side, |incident: &Self, _| {
                Cell::of(lasted(incident))
            }),
            Column::new("suspect", Kind::Side, |incident: &Self, _| {
                Cell::of(suspect(incident))
            }),
            Column::new("cause", Kind::Side, |incident: &Self, _| {
                Cell::of(decision(incident))
            }),
        ]
    }
}

fn service(incident: &Incident) -> Option<String> {
    let service = incident.service.as_ref();
    service.map(|service| service.name.clone())
}

/// Returns the title of the first suspect.
fn suspect(incident: &Incident) -> Option<String> {
    let first = incident.suspects.first();
    first.map(|suspect| suspect.change.title.clone())
}

/// Returns what people have decided about the cause.
fn decision(incident: &Incident) -> Option<String> {
    let cause = incident.cause.as_ref()?;
    Some(cause.title.clone().unwrap_or("none recorded".to_owned()))
}

/// Returns how long a resolved incident lasted.
pub(super) fn lasted(incident: &Incident) -> Option<String> {
    let end = incident.resolved_at?;
    let millis = end.millis() - incident.started_at.millis();
    let millis = u64::try_from(millis).unwrap_or_default();
    Some(duration(std::time::Duration::from_millis(millis)))
}

/// Formats an incident in full, with its suspects.
pub(crate) fn detail(incident: &Incident, now: Timestamp) -> String {
    let severity = colored(
        incident.severity.as_str(),
        severity_color(&incident.severity),
    );
    let mut fields = vec![
        ("id", incident.id.to_string()),
        ("severity", severity),
        ("status", one_line(incident.status.as_str())),
    ];
    if let Some(service) = &incident.service {
        let name = one_line(&service.name);
        fields.push(("service", format!("{name} ({})", service.id)));
    }
    if let Some(environment) = &incident.environment {
        fields.push(("environment", one_line(environment.as_str())));
    }
    fields.push(("started", exact(incident.started_at, now)));
    if let Some(at) = incident.resolved_at {
        fields.push(("resolved", exact(at, now)));
        fields.extend(lasted(incident).map(|lasted| ("lasted", lasted)));
    }
    if let Some(url) = &incident.url {
        fields.push(("url", one_line(url)));
    }
    if let Some(source) = &incident.source {
        fields.push(("source", one_line(&source.name)));
    } else if let Some(author) = &incident.created_by {
        fields.push(("by", one_line(&author.name)));
    }
    if let Some(cause) = &incident.cause {
        let what = match (&cause.title, cause.change_id) {
            (Some(title), Some(id)) => format!("{} ({id})", one_line(title)),
            _ => "no recorded change".to_owned(),
        };
        let (by, at) = (one_line(&cause.marked_by), exact(cause.marked_at, now));
        fields.push(("cause", what));
        fields.push(("found", format!("{at} by {by}")));
    }
    let mut text = titled(&incident.title, &fields);
    let ranked = match incident.ranked_at {
        None => "Suspects are not ranked yet".to_owned(),
        Some(_) if incident.suspects.is_empty() => "No changes before it".to_owned(),
        Some(at) => format!("Suspects, ranked {}", relative(at, now)),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{BOLD}{ranked}{BOLD:#}");
    for (number, suspect) in (1..).zip(&incident.suspects) {
        push_suspect(&mut text, number, suspect);
    }
    for gap in &incident.gaps {
        let _ = writeln!(text, "{}", one_line(&missing(gap)));
    }
    text
}

fn push_suspect(text: &mut String, number: usize, suspect: &IncidentSuspect) {
    let change = &suspect.change;
    let title = one_line(&change.title);
    let _ = writeln!(
        text,
        "{number:>2}. {title}\n    {}, {} risk, score {}  {}",
        change.at, change.risk_level, suspect.score, change.id
    );
    for reason in &suspect.reasons {
        let _ = writeln!(text, "    - {}", one_line(&reason.text));
    }
}

/// Says that changes of a source may be missing.
pub(crate) fn missing(gap: &Gap) -> String {
    let Gap { name, since, until } = gap;
    match until {
        None => format!("{name} has been silent since {since}: its changes may be missing"),
        Some(until) => {
            format!("{name} was silent from {since} to {until}: its changes may be missing")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::changes::tests::{NOW, plain};
    use super::*;
    use serde_json::json;

    /// Returns a resolved incident with a suspect.
    pub(in crate::output) fn incident(title: &str) -> Incident {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let suspect = json!({
            "score": 154,
            "reasons": [{ "code": "same_service", "points": 64, "text": "same service: payments" }],
            "change": {
                "id": id, "title": "Deploy *payments* 4.2", "risk_level": "high",
                "status": "completed", "outcome": null, "environment": "prod",
                "service": { "id": id, "name": "payments", "color": "#fff" },
                "at": "2026-11-21T08:02:00.000Z", "on_behalf_of": null,
                "created_by": { "type": "api_key", "name": "ci", "id": id },
            },
        });
        serde_json::from_value(json!({
            "id": id, "title": title, "severity": "critical", "status": "resolved",
            "service_id": id, "service": { "id": id, "name": "payments", "color": "#fff" },
            "environment": "prod", "started_at": "2026-11-21T08:20:00.000Z",
            "resolved_at": "2026-11-21T08:32:00.000Z", "url": "https://alerts.example.com/7",
            "source": { "id": id, "kind": "alertmanager", "name": "Alerts" },
            "created_by": null, "suspects": [suspect], "first_suspects": [suspect],
            "ranked_at": "2026-11-21T08:21:00.000Z",
            "gaps": [{ "name": "github", "since": "2026-11-21T07:02:00.000Z", "until": null }],
            "cause_change_id": id,
            "cause": {
                "change_id": id, "title": "Deploy *payments* 4.2", "marked_by": "Ada",
                "marked_at": "2026-11-21T08:31:00.000Z",
            },
            "created_at": "2026-11-21T08:21:00.000Z", "updated_at": "2026-11-21T08:32:00.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn an_incident_in_full_has_its_suspects_and_its_cause() {
        let text = plain(&detail(&incident("Down\u{1b}[2J"), NOW.parse().unwrap()));
        for line in [
            "Down<U+001B>[2J\n",
            "lasted       12 min 0 s\n",
            "cause        Deploy *payments* 4.2 (018f4e9a-",
            "found        2026-11-21T08:31:00.000Z (2m ago) by Ada\n",
            "\nSuspects, ranked 12m ago\n 1. Deploy *payments* 4.2\n",
            "    - same service: payments\n",
            "github has been silent since 2026-11-21T07:02:00.000Z",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(incident("Down").cells().len(), Incident::COLUMNS.len());
    }
}
