//! Which events a connection sends.

use serde::{Deserialize, Serialize};

use super::{ConnectionKind, Event, EventKind, EventOfChange, EventOfIncident};
use crate::change::{RiskLevel, Status};
use crate::host::Environment;
use crate::ids::ServiceId;

/// Which events are sent: those that meet every condition. An empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventFilter {
    /// The kinds of events.
    pub events: Vec<EventKind>,
    /// Changes and incidents of one of these services.
    pub service_ids: Vec<ServiceId>,
    /// Changes and incidents of one of these environments.
    pub environments: Vec<Environment>,
    /// Changes with all of these tags.
    pub tags: Vec<String>,
    /// Changes that have one of these statuses after the event.
    pub statuses: Vec<Status>,
    /// Changes of at least this risk.
    pub min_risk: Option<RiskLevel>,
    /// Environments whose changes need not have that risk.
    pub any_risk_in: Vec<Environment>,
}

impl EventFilter {
    /// Returns the filter that a connection of this kind has by default. Chats get what
    /// is worth reading; Grafana's store is made for hundreds of annotations a day.
    pub fn default_of(kind: &ConnectionKind) -> Self {
        match kind {
            ConnectionKind::Slack | ConnectionKind::Teams => Self {
                events: vec![
                    EventKind::Created,
                    EventKind::StatusChanged,
                    EventKind::IncidentOpened,
                    EventKind::IncidentSuspects,
                    EventKind::IncidentResolved,
                ],
                ..Self::default()
            },
            ConnectionKind::Grafana => Self {
                min_risk: Some(RiskLevel::Medium),
                any_risk_in: vec![Environment::Prod],
                ..Self::default()
            },
            _ => Self::default(),
        }
    }

    /// Sets the kinds of events to those that PagerDuty is sent: changes, and what notes on
    /// incidents are about.
    pub fn set_kinds_of_pagerduty(&mut self, with_notes: bool) {
        let notes = [EventKind::IncidentSuspects, EventKind::IncidentResolved];
        let kinds = EventKind::ALL.iter();
        self.events = kinds
            .filter(|kind| kind.is_of_change() || with_notes && notes.contains(kind))
            .cloned()
            .collect();
    }

    /// Returns the kinds of events that are sent. Without a condition on kinds they are all, but
    /// those of sources only if there is no other condition either, and those of incidents only
    /// if there is none that only changes can meet.
    pub fn kinds(&self) -> Vec<EventKind> {
        if !self.events.is_empty() {
            return self.events.clone();
        }
        let has_conditions = *self != Self::default();
        let is_for_changes =
            self.min_risk.is_some() || !self.statuses.is_empty() || !self.tags.is_empty();
        let kinds = EventKind::ALL.iter();
        let sent = kinds.filter(|kind| match kind {
            _ if kind.is_of_source() => !has_conditions,
            _ if kind.is_of_incident() => !is_for_changes,
            _ => true,
        });
        sent.cloned().collect()
    }

    /// Removes the condition on kinds if the others imply it.
    pub fn simplify(&mut self) {
        let mut chosen = std::mem::take(&mut self.events);
        let mut implied = self.kinds();
        chosen.sort_unstable();
        implied.sort_unstable();
        if chosen != implied {
            self.events = chosen;
        }
    }

    /// Returns whether an event is sent.
    pub fn matches(&self, event: &Event) -> bool {
        match event {
            Event::Change(event) => self.matches_change(event),
            Event::Source(event) => self.kinds().contains(&event.kind),
            Event::Incident(event) => self.matches_incident(event),
        }
    }

    fn matches_incident(&self, event: &EventOfIncident) -> bool {
        let incident = &event.incident;
        let service = incident.service_id;
        let environment = incident.environment.as_ref();
        let has_service = self.service_ids.is_empty()
            || service.is_some_and(|service| self.service_ids.contains(&service));
        let has_environment = self.environments.is_empty()
            || environment.is_some_and(|environment| self.environments.contains(environment));
        has_service && has_environment && self.kinds().contains(&event.kind)
    }

    fn matches_change(&self, event: &EventOfChange) -> bool {
        let change = &event.change;
        let environment = change.environment.as_ref();
        let is_in = |environments: &[Environment]| {
            environment.is_some_and(|environment| environments.contains(environment))
        };
        let has_risk = match &self.min_risk {
            None => true,
            Some(risk) => change.risk_level >= *risk || is_in(&self.any_risk_in),
        };
        let has_service = self.service_ids.is_empty()
            || self
                .service_ids
                .iter()
                .any(|id| change.service_ids.contains(id));
        has_risk
            && has_service
            && (self.events.is_empty() || self.events.contains(&event.kind))
            && (self.environments.is_empty() || is_in(&self.environments))
            && (self.statuses.is_empty() || self.statuses.contains(&change.status))
            && self.tags.iter().all(|tag| change.tags.contains(tag))
    }
}
