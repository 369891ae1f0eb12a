//! The history of a change: what was done to it, when and by whom.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Author, AuthorType};
use crate::activity::{Action, Differences};
use crate::ids::ActivityId;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The type of the actor of an entry.
    ActorType, "a type of actor", example "person" {
        /// An API key.
        ApiKey = "api_key",
        /// A person, in the dashboard.
        Person = "person",
        /// A source, from what another system has sent.
        Source = "source",
        /// A pipeline, by a token that its own system has signed.
        Workload = "workload",
        /// The operator, at the server's own command line.
        Operator = "operator",
    }
}

/// Who did what an entry records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryActor {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ActorType,
    /// The present name of the person, or the name of the API key, which stays when the
    /// key is revoked.
    #[cfg_attr(feature = "openapi", schema(example = "terraform"))]
    pub name: String,
    /// The id of the API key or the person; null for the operator.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub id: Option<Uuid>,
}

impl HistoryActor {
    /// Returns the author of a change that the actor recorded or updated; `None` for the
    /// operator.
    pub fn author(&self) -> Option<Author> {
        let kind = match self.kind {
            ActorType::ApiKey => AuthorType::ApiKey,
            ActorType::Person => AuthorType::Person,
            ActorType::Source => AuthorType::Source,
            ActorType::Workload => AuthorType::Workload,
            _ => return None,
        };
        Some(Author {
            kind,
            name: self.name.clone(),
            id: self.id?,
            verified: None,
        })
    }
}

/// What was done to a change at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// The id of the entry in the activity log.
    pub id: ActivityId,
    /// The action: `created` or `updated`.
    pub action: Action,
    /// Who did it.
    pub by: HistoryActor,
    /// The time of the action.
    pub at: Timestamp,
    /// What an update changed; empty for the creation.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = std::collections::BTreeMap<String, crate::activity::Difference>)
    )]
    pub changes: Differences,
    /// The reason that was given for a rollback.
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "The error rate doubled.")
    )]
    pub reason: Option<String>,
    /// The automation that acted, as it claims.
    #[cfg_attr(feature = "openapi", schema(required, example = "renovate"))]
    pub agent: Option<String>,
}

/// The response to `GET /api/changes/:id/history`, in `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeHistory {
    /// Who recorded the change; null for the operator.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub created_by: Option<Author>,
    /// Who made the newest update; null when the change was not updated, and for the
    /// operator.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub updated_by: Option<Author>,
    /// The creation and the last 200 entries after it, newest first.
    pub entries: Vec<HistoryEntry>,
}
