//! Subscriptions: members are notified of the changes of a service.

use crate::change::RiskLevel;
use crate::ids::ServiceId;
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// When a person is mailed about the changes of a subscription.
    MailMode, "a mail mode", example "daily" {
        /// Never: the dashboard lists them.
        Off = "none",
        /// At once, but at most one mail a minute.
        Instant = "instant",
        /// Once a day, at 08:00 in the person's time zone.
        Daily = "daily",
    }
}

/// What a person chooses about a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// The lowest risk of the changes.
    pub min_risk: RiskLevel,
    /// When they are mailed.
    pub mail: MailMode,
}

/// A subscription of a member to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The service.
    pub service_id: ServiceId,
    /// What the person has chosen.
    pub options: SubscriptionOptions,
    /// When it was started.
    pub created_at: Timestamp,
}
