//! How a source does, for people.

use changelog_core::{Coverage, Timestamp};

use crate::store::Source;

/// How a source does.
pub(super) struct State {
    pub(super) label: &'static str,
    /// The class of the badge.
    pub(super) class: &'static str,
    pub(super) since: Option<Timestamp>,
}

impl State {
    /// Returns the state of a source, as its organization is covered at a time.
    pub(super) fn of(source: &Source, coverage: &Coverage, now: Timestamp) -> Self {
        let mut covered = coverage.sources.iter();
        let covered =
            covered.find(|one| one.name == source.name && one.kind == source.kind.as_str());
        let silent_since = covered.and_then(|one| one.silent_since(now));
        let (label, class) = match (source.disabled_at, source.last_event_at, silent_since) {
            (Some(_), ..) => ("Off", "overdue"),
            (None, _, Some(_)) => ("Silent", "overdue"),
            (None, None, None) => ("No events yet", "planned"),
            (None, Some(_), None) => ("On", "completed"),
        };
        Self {
            label,
            class,
            since: source.disabled_at.or(silent_since),
        }
    }
}
