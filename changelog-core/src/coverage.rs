//! Coverage: which sources report changes, and when one of them was silent for too long, so
//! that "nothing changed" is not confused with "nothing was reported".

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The kind of a covered API key, next to those of sources.
pub const API_KEY_KIND: &str = "api-key";

/// What an organization's changes come from, and the times in which something was missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Coverage {
    /// The sources that are on, and the API keys that record changes, by name.
    pub sources: Vec<CoveredSource>,
    /// The times in which one of them was silent for longer than its rhythm allows, the
    /// newest first.
    pub gaps: Vec<Gap>,
}

/// A source, or an API key that records changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CoveredSource {
    /// The name of the source or the API key.
    #[cfg_attr(feature = "openapi", schema(example = "github"))]
    pub name: String,
    /// The kind of the source; `api-key` for an API key.
    #[cfg_attr(feature = "openapi", schema(example = "github"))]
    pub kind: String,
    /// When it was last heard; null if never.
    pub last_seen_at: Option<Timestamp>,
    /// When it is to be heard again at the latest, by the rhythm of the last eight weeks;
    /// null while the rhythm is learned.
    pub expected_by: Option<Timestamp>,
}

/// A time in which a source or an API key was silent for longer than its rhythm allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gap {
    /// The name of the source or the API key.
    #[cfg_attr(feature = "openapi", schema(example = "github"))]
    pub name: String,
    /// When it was last heard before.
    pub since: Timestamp,
    /// When it was heard again; null if it is still silent.
    pub until: Option<Timestamp>,
}

impl CoveredSource {
    /// Returns since when it has been silent for longer than its rhythm allows.
    pub fn silent_since(&self, now: Timestamp) -> Option<Timestamp> {
        let is_late = self.expected_by.is_some_and(|expected| expected < now);
        self.last_seen_at.filter(|_| is_late)
    }
}

impl Coverage {
    /// Returns the gaps that have not ended.
    pub fn open_gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(|gap| gap.until.is_none())
    }
}
