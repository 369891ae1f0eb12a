//! What receivers are sent: something that happened to a change, to a source, or an incident.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::activity::Differences;
use crate::change::{Change, Status};
use crate::ids::{ServiceId, UserId};
use crate::incident::Incident;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What happened, as receivers are sent it.
    EventKind, "an event", example "change.created" {
        /// The change was recorded.
        Created = "change.created",
        /// Fields other than the status were changed.
        Updated = "change.updated",
        /// The status was changed, possibly with other fields.
        StatusChanged = "change.status_changed",
        /// The change was deleted.
        Deleted = "change.deleted",
        /// A source, or an API key that records changes, was silent for longer than its
        /// rhythm allows.
        SourceSilent = "source.silent",
        /// It was heard again.
        SourceHeard = "source.heard",
        /// An incident was opened, or opened again.
        IncidentOpened = "incident.opened",
        /// The suspects of an open incident were ranked, or the first three became others.
        IncidentSuspects = "incident.suspects",
        /// An incident was resolved.
        IncidentResolved = "incident.resolved",
    }
}

impl EventKind {
    /// Returns whether it happens to sources, not to changes.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Self::SourceSilent | Self::SourceHeard)
    }

    /// Returns whether it is about an incident.
    pub fn is_of_incident(&self) -> bool {
        matches!(
            self,
            Self::IncidentOpened | Self::IncidentSuspects | Self::IncidentResolved
        )
    }

    /// Returns whether it happens to changes.
    pub fn is_of_change(&self) -> bool {
        !self.is_of_source() && !self.is_of_incident()
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// To a change.
    Change(Box<EventOfChange>),
    /// To a source or an API key.
    Source(EventOfSource),
    /// To an incident.
    Incident(Box<EventOfIncident>),
}

impl Event {
    /// Returns the id, the same in every attempt to send the event.
    pub fn id(&self) -> Uuid {
        match self {
            Self::Change(event) => event.id,
            Self::Source(event) => event.id,
            Self::Incident(event) => event.id,
        }
    }

    /// Returns what happened.
    pub fn kind(&self) -> &EventKind {
        match self {
            Self::Change(event) => &event.kind,
            Self::Source(event) => &event.kind,
            Self::Incident(event) => &event.kind,
        }
    }

    /// Returns the id of what it happened to: events of one are sent in their order.
    pub fn subject(&self) -> Uuid {
        match self {
            Self::Change(event) => event.change.id.0,
            Self::Source(event) => event.source.id,
            Self::Incident(event) => event.incident.id.0,
        }
    }

    /// Returns the event of a change.
    pub fn of_change(&self) -> Option<&EventOfChange> {
        match self {
            Self::Change(event) => Some(event),
            Self::Source(_) | Self::Incident(_) => None,
        }
    }

    /// Returns the service that it is about: the first one of the change, or that of the
    /// incident.
    pub fn service(&self) -> Option<ServiceId> {
        match self {
            Self::Change(event) => event.change.service_ids.first().copied(),
            Self::Source(_) => None,
            Self::Incident(event) => event.incident.service_id,
        }
    }

    /// Returns what people know it by: the title of the change or the incident, or the name
    /// of the source.
    pub fn title(&self) -> &str {
        match self {
            Self::Change(event) => &event.change.title,
            Self::Source(event) => &event.source.name,
            Self::Incident(event) => &event.incident.title,
        }
    }
}

impl From<EventOfChange> for Event {
    fn from(event: EventOfChange) -> Self {
        Self::Change(Box::new(event))
    }
}

impl From<EventOfIncident> for Event {
    fn from(event: EventOfIncident) -> Self {
        Self::Incident(Box::new(event))
    }
}

/// An incident was opened or resolved, or its suspects were ranked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOfIncident {
    /// As [`EventOfChange::id`].
    pub id: Uuid,
    /// [`EventKind::IncidentOpened`], [`EventKind::IncidentSuspects`] or
    /// [`EventKind::IncidentResolved`].
    pub kind: EventKind,
    /// When it was recorded.
    pub at: Timestamp,
    /// As [`EventOfChange::actor`].
    pub actor: String,
    /// As [`EventOfChange::actor_id`].
    #[serde(default)]
    pub actor_id: Option<UserId>,
    /// Whether the incident had been resolved before it was opened, or had other suspects
    /// before.
    pub again: bool,
    /// The incident after the event, with all its suspects.
    pub incident: Incident,
}

/// A source, or an API key that records changes, fell silent or was heard again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOfSource {
    /// As [`EventOfChange::id`].
    pub id: Uuid,
    /// [`EventKind::SourceSilent`] or [`EventKind::SourceHeard`].
    pub kind: EventKind,
    /// When it was noticed.
    pub at: Timestamp,
    /// Which one.
    pub source: SilentSource,
}

/// A source or an API key with its silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentSource {
    /// The id of the source or the API key.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The kind of the source; `api-key` for an API key.
    pub kind: String,
    /// When it was last heard before the silence.
    pub since: Timestamp,
    /// When it was heard again; null while it is silent.
    pub until: Option<Timestamp>,
}

/// Something that happened to a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventOfChange {
    /// The id, the same in every attempt to send the event.
    pub id: Uuid,
    /// What happened.
    pub kind: EventKind,
    /// When it was recorded.
    pub at: Timestamp,
    /// Who did it, as the activity log names them.
    pub actor: String,
    /// The person who did it; `None` for an API key and the operator.
    #[serde(default)]
    pub actor_id: Option<UserId>,
    /// The change after the event; before it, if it was deleted.
    pub change: Change,
    /// What an update changed; empty for other events.
    #[serde(default)]
    pub changes: Differences,
    /// Why an update was made, if a reason was given.
    #[serde(default)]
    pub reason: Option<String>,
}

impl EventOfChange {
    /// Returns the kind of an update that changed these fields.
    pub fn kind_of_update(changes: &Differences) -> EventKind {
        if changes.contains_key("status") {
            EventKind::StatusChanged
        } else {
            EventKind::Updated
        }
    }

    /// Returns whether the change ended by this event: it was recorded as ended, or its
    /// status became one of an ended change.
    pub fn ends_the_change(&self) -> bool {
        let was_ended = || {
            let before = self.changes.get("status")?.from.as_str()?;
            Some(before.parse::<Status>().ok()?.is_ended())
        };
        match self.kind {
            EventKind::Created => self.change.status.is_ended(),
            EventKind::StatusChanged => {
                self.change.status.is_ended() && !was_ended().unwrap_or(false)
            }
            _ => false,
        }
    }
}
