//! The questions that are asked about each incident.

use crate::history::Incident;

/// What the person who asks knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// The first service of the cause.
    Service,
    /// Another service that the cause touched.
    Other,
    /// A service that depends on that of the cause; no dependency is recorded.
    Wrong,
    /// The same, with recorded dependencies.
    WrongWithDependencies,
    /// Nothing.
    Nothing,
    /// Nothing but what was written about the incident afterwards: more than is known
    /// while it lasts.
    Symptom,
    /// The first service; what had been undone by then is marked.
    LiveService,
    /// Nothing; what had been undone by then is marked.
    LiveNothing,
}

impl Asked {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Other => "other",
            Self::Wrong => "wrong",
            Self::WrongWithDependencies => "wrong, with dependencies",
            Self::Nothing => "none",
            Self::Symptom => "none, with the words of hindsight",
            Self::LiveService => "live service",
            Self::LiveNothing => "live none",
        }
    }

    /// Returns whether the question can be asked about an incident.
    pub(crate) fn fits(self, incident: &Incident) -> bool {
        match self {
            Self::Other | Self::Wrong | Self::WrongWithDependencies => {
                self.service(incident).is_some()
            }
            Self::Symptom => incident.symptom.is_some(),
            Self::Service | Self::LiveService | Self::Nothing | Self::LiveNothing => true,
        }
    }

    /// Returns the number of the service that is named.
    pub(crate) fn service(self, incident: &Incident) -> Option<usize> {
        match self {
            Self::Service | Self::LiveService => Some(incident.service),
            Self::Other => incident.other,
            Self::Wrong | Self::WrongWithDependencies => incident.dependent,
            Self::Nothing | Self::Symptom | Self::LiveNothing => None,
        }
    }

    /// Returns the words that are asked with.
    pub(crate) fn symptom(self, incident: &Incident) -> Option<&str> {
        match self {
            Self::Symptom => incident.symptom.as_deref(),
            _ => None,
        }
    }
}

/// How far to look back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    /// As far as the endpoint does by default.
    Default,
    /// Seven days.
    Week,
}

impl Window {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Week => "7 d",
        }
    }
}
