//! What the stream of changes sends: which events there are, and how a client selects
//! them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Change, ChangeFilter};
use crate::activity::{Action, Differences, ResourceType};
use crate::problem::{BadValue, Invalid};
use crate::query::{Pairs, Query};
use crate::rules::not_one_of;

/// What a stream of changes sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeEvent {
    /// The change was recorded.
    Created,
    /// Fields of the change were changed.
    Updated,
    /// An incident was opened or changed, or its suspects were ranked.
    Incident,
}

impl ChangeEvent {
    /// The words that select events, in the order of their declaration.
    pub const WORDS: &'static [&'static str] = &["created", "updated", "incident"];

    /// Returns the event that an action on a resource is, if it is streamed.
    pub fn of_action(resource: &ResourceType, action: &Action) -> Option<Self> {
        match (resource, action) {
            (ResourceType::Change, Action::Created) => Some(Self::Created),
            (ResourceType::Change, Action::Updated) => Some(Self::Updated),
            (ResourceType::Incident, Action::Created | Action::Updated) => Some(Self::Incident),
            _ => None,
        }
    }

    /// Returns the word that selects it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Incident => "incident",
        }
    }

    /// Returns the name of the server-sent event.
    pub fn event_name(self) -> &'static str {
        match self {
            Self::Created => "change",
            Self::Updated => "updated",
            Self::Incident => "incident",
        }
    }
}

impl fmt::Display for ChangeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ChangeEvent {
    type Err = BadValue;

    fn from_str(word: &str) -> Result<Self, BadValue> {
        match word {
            "created" => Ok(Self::Created),
            "updated" => Ok(Self::Updated),
            "incident" => Ok(Self::Incident),
            _ => Err(not_one_of("an event", Self::WORDS, word)),
        }
    }
}

/// The data of an `updated` event: a change that was updated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeUpdate {
    /// The change in its present state, which may be that of a later update.
    pub change: Change,
    /// What this update changed.
    pub changes: Differences,
}

/// Which events of which changes to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFilter {
    /// Which changes. Times and pages are ignored. Incidents are selected by the service and
    /// the environments only.
    pub changes: ChangeFilter,
    /// Which events; creations by default.
    pub events: BTreeSet<ChangeEvent>,
}

impl Default for StreamFilter {
    fn default() -> Self {
        Self {
            changes: ChangeFilter::default(),
            events: [ChangeEvent::Created].into(),
        }
    }
}

impl StreamFilter {
    /// Reads a query string. Unlike that of a list, it has no times and pages, and
    /// may name the events, separated by commas.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let mut filter = Self {
            changes: ChangeFilter::selection(&mut query),
            ..Self::default()
        };
        let events = query.parsed_list("events");
        if !events.is_empty() {
            filter.events = events.into_iter().collect();
        }
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        self.changes.push_selection(&mut pairs);
        if self.events != Self::default().events {
            let events: Vec<ChangeEvent> = self.events.iter().copied().collect();
            pairs.push_list("events", &events);
        }
        pairs.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::ViolationCode;

    #[test]
    fn what_a_client_writes_is_what_the_service_reads() {
        let changes = ChangeFilter {
            q: Some("50% & more=?#".into()),
            tags: vec!["a b".into(), "ä&=".into()],
            ..ChangeFilter::default()
        };
        let every = [
            ChangeEvent::Created,
            ChangeEvent::Updated,
            ChangeEvent::Incident,
        ];
        for events in [&every[..], &every[..1], &every[1..]] {
            let filter = StreamFilter {
                changes: changes.clone(),
                events: events.iter().copied().collect(),
            };
            assert_eq!(StreamFilter::from_query(&filter.to_query()), Ok(filter));
        }
        assert_eq!(StreamFilter::default().to_query(), "");
        assert_eq!(StreamFilter::from_query(""), Ok(StreamFilter::default()));
    }

    #[test]
    fn unknown_events_and_parameters_of_lists_are_refused() {
        for (query, code) in [
            ("events=", ViolationCode::UnknownValue),
            ("events=deleted", ViolationCode::UnknownValue),
            ("events=created,", ViolationCode::UnknownValue),
            ("page=1", ViolationCode::UnknownField),
            ("since=2026-11-21T08:30:00Z", ViolationCode::UnknownField),
            ("tag=%00", ViolationCode::ControlCharacter),
        ] {
            let invalid = StreamFilter::from_query(query).unwrap_err();
            let codes: Vec<_> = invalid
                .violations
                .iter()
                .map(|one| one.code.clone())
                .collect();
            assert_eq!(codes, [code], "{query}");
        }
        let invalid = StreamFilter::from_query("events=update").unwrap_err();
        let message = &invalid.violations[0].message;
        assert!(message.contains("created, updated, incident"), "{message}");
        for query in ["events=updated,updated", "events=updated&events=updated"] {
            let twice = StreamFilter::from_query(query).unwrap();
            assert_eq!(twice.events, [ChangeEvent::Updated].into(), "{query}");
        }
    }
}
