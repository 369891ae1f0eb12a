//! What receivers are sent: something that happened to a change.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::activity::Differences;
use crate::change::{Change, Status};
use crate::ids::UserId;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What happened to a change, as receivers are sent it.
    EventKind, "an event", example "change.created" {
        /// The change was recorded.
        Created = "change.created",
        /// Fields other than the status were changed.
        Updated = "change.updated",
        /// The status was changed, possibly with other fields.
        StatusChanged = "change.status_changed",
        /// The change was deleted.
        Deleted = "change.deleted",
    }
}

/// Something that happened to a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
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

impl Event {
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
