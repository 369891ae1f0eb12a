//! What a connection sends, in a few words.

use changelog_core::{EventFilter, EventKind, ServiceId};

use super::form;
use super::kinds::OfferedKind;
use crate::dashboard::parts::format;

/// Returns the conditions of a filter: the events, then what the changes have in common.
pub(super) fn summary(
    filter: &EventFilter,
    kind: Option<&OfferedKind>,
    services: &[(ServiceId, String)],
) -> Vec<String> {
    let mut parts = vec![events(filter, kind)];
    if !filter.service_ids.is_empty() {
        let name = |id: &ServiceId| {
            let found = services.iter().find(|(known, _)| known == id);
            found.map_or_else(|| id.to_string(), |(_, name)| format::visible(name))
        };
        let names: Vec<String> = filter.service_ids.iter().map(name).collect();
        parts.push(format::excerpt(&names.join(", ")));
    }
    if !filter.environments.is_empty() {
        parts.push(joined(&filter.environments));
    }
    if !filter.tags.is_empty() {
        let tags = format::visible(&filter.tags.join(" and "));
        parts.push(format!("tagged {}", format::excerpt(&tags)));
    }
    if !filter.statuses.is_empty() {
        parts.push(joined(&filter.statuses));
    }
    if let Some(risk) = &filter.min_risk {
        let mut text = format!("{risk} risk");
        if risk.as_str() != "high" {
            text.push_str(" or more");
        }
        if !filter.any_risk_in.is_empty() {
            text = format!("{text}, any risk in {}", joined(&filter.any_risk_in));
        }
        parts.push(text);
    }
    parts
}

fn events(filter: &EventFilter, kind: Option<&OfferedKind>) -> String {
    if kind.is_some_and(|kind| !kind.takes_events()) {
        let with_notes = filter.events.contains(&EventKind::IncidentSuspects);
        let notes = if with_notes {
            ", notes on incidents"
        } else {
            ""
        };
        return format!("Changes that have ended{notes}");
    }
    if filter.events.is_empty() {
        return "Everything".to_owned();
    }
    let events: Vec<&str> = filter.events.iter().map(event).collect();
    let mut text = events.join(", ").to_lowercase();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// Returns the label of an event.
pub(super) fn event(kind: &EventKind) -> &str {
    let mut labels = form::events().into_iter();
    let found = labels.find(|(word, _)| *word == kind.as_str());
    found.map_or(kind.as_str(), |(_, label)| label)
}

fn joined<T: ToString>(values: &[T]) -> String {
    let words = values.iter().map(|value| format::label(&value.to_string()));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use changelog_core::{ConnectionKind, Environment, RiskLevel, Status};

    use super::super::kinds::kind_of;
    use super::*;

    #[test]
    fn conditions_are_named() {
        let filter = EventFilter {
            events: vec![EventKind::Created, EventKind::StatusChanged],
            environments: vec![Environment::Prod, Environment::Staging],
            tags: vec!["db".to_owned(), "eu".to_owned()],
            statuses: vec![Status::RolledBack],
            min_risk: Some(RiskLevel::Medium),
            any_risk_in: vec![Environment::Prod],
            ..EventFilter::default()
        };
        let parts = summary(&filter, kind_of(&ConnectionKind::Slack), &[]);
        assert_eq!(
            parts,
            [
                "Recorded, status changed",
                "prod, staging",
                "tagged db and eu",
                "rolled back",
                "medium risk or more, any risk in prod"
            ]
        );
        let all = EventFilter::default();
        assert_eq!(summary(&all, None, &[]), ["Everything"]);
        let ended = summary(&all, kind_of(&ConnectionKind::PagerDuty), &[]);
        assert_eq!(ended, ["Changes that have ended"]);
    }
}
