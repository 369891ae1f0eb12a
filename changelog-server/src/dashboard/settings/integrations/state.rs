//! How a connection does, for people.

use changelog_core::Timestamp;

use crate::store::{Connection, DeliveryTotals, MAX_COUNTED};

/// How a connection does.
pub(super) struct State {
    pub(super) label: &'static str,
    /// The class of the badge.
    pub(super) class: &'static str,
    pub(super) since: Option<Timestamp>,
    /// Why, for owners and admins.
    pub(super) reason: Option<String>,
}

impl State {
    pub(super) fn of(connection: &Connection, totals: &DeliveryTotals) -> Self {
        let state = |label, class, since, reason| Self {
            label,
            class,
            since,
            reason,
        };
        if let Some(disabled) = &connection.disabled {
            let reason = Some(disabled.reason.clone());
            return state("Disabled", "failed", Some(disabled.at), reason);
        }
        if connection.failing_since.is_some() {
            let reason = totals.reason.clone();
            return state("Failing", "overdue", connection.failing_since, reason);
        }
        match totals.newest_at {
            None => state("Nothing sent yet", "planned", None, None),
            Some(_) => state("Working", "completed", None, None),
        }
    }
}

/// Returns a count that ends at [`MAX_COUNTED`].
pub(super) fn counted(count: i64) -> String {
    if count > MAX_COUNTED {
        format!("{MAX_COUNTED}+")
    } else {
        count.to_string()
    }
}

/// What a connection has if nothing was queued for it.
pub(super) const NOTHING: DeliveryTotals = DeliveryTotals {
    pending: 0,
    dead: 0,
    newest_at: None,
    reason: None,
};
