//! How a source does, for people.

use changelog_core::Timestamp;

use crate::store::Source;

/// How a source does.
pub(super) struct State {
    pub(super) label: &'static str,
    /// The class of the badge.
    pub(super) class: &'static str,
    pub(super) since: Option<Timestamp>,
}

impl State {
    pub(super) fn of(source: &Source) -> Self {
        let (label, class) = match (source.disabled_at, source.last_event_at) {
            (Some(_), _) => ("Off", "overdue"),
            (None, None) => ("No events yet", "planned"),
            (None, Some(_)) => ("On", "completed"),
        };
        Self {
            label,
            class,
            since: source.disabled_at,
        }
    }
}
