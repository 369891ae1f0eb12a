//! The JSON members of records, and checks of ids and times.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use crate::text;

/// The members of a host, sorted.
pub const HOST: [&str; 11] = [
    "created_at",
    "description",
    "environment",
    "fqdn",
    "hostname",
    "id",
    "ip_address",
    "organization_id",
    "os",
    "platform",
    "roles",
];

/// The members of a service, sorted.
pub const SERVICE: [&str; 7] = [
    "color",
    "created_at",
    "depends_on",
    "description",
    "id",
    "name",
    "organization_id",
];

/// The members of an incident, sorted.
pub const INCIDENT: [&str; 21] = [
    "cause",
    "cause_change_id",
    "created_at",
    "created_by",
    "environment",
    "first_suspects",
    "gaps",
    "id",
    "ranked_at",
    "resolved_at",
    "sender_id",
    "service",
    "service_id",
    "severity",
    "source",
    "started_at",
    "status",
    "suspects",
    "title",
    "updated_at",
    "url",
];

/// The members of a change in full, sorted.
pub const CHANGE: [&str; 26] = [
    "agent",
    "commit",
    "committed_at",
    "created_at",
    "created_by",
    "description",
    "ended_at",
    "environment",
    "host_ref",
    "id",
    "impact",
    "links",
    "occurred_at",
    "on_behalf_of",
    "organization_id",
    "outcome",
    "risk_level",
    "scheduled_for",
    "service",
    "service_ids",
    "source",
    "started_at",
    "status",
    "tags",
    "title",
    "updated_at",
];

/// The members of the response to creating a change, sorted.
pub const CHANGE_CREATED: [&str; 6] = [
    "created_at",
    "id",
    "organization_id",
    "risk_level",
    "status",
    "title",
];

/// The members of an activity entry, sorted.
pub const ACTIVITY: [&str; 9] = [
    "action",
    "actor_id",
    "actor_name",
    "created_at",
    "id",
    "metadata",
    "resource_id",
    "resource_label",
    "resource_type",
];

/// Requires a UUID version 7 in lower case.
#[track_caller]
pub fn assert_id(value: &Value) {
    let id = text(value);
    let parsed = uuid::Uuid::parse_str(&id).unwrap_or_else(|error| panic!("{id}: {error}"));
    assert_eq!(parsed.get_version_num(), 7, "{id}");
    assert_eq!(parsed.hyphenated().to_string(), id);
}

/// Requires RFC 3339 in UTC with milliseconds and `Z`, and returns the time.
#[track_caller]
pub fn assert_time(value: &Value) -> DateTime<Utc> {
    let time = text(value);
    let parsed: DateTime<Utc> = time
        .parse()
        .unwrap_or_else(|error| panic!("{time}: {error}"));
    assert_eq!(parsed.to_rfc3339_opts(SecondsFormat::Millis, true), time);
    parsed
}

/// Requires a time within the last minute.
#[track_caller]
pub fn assert_recent(value: &Value) {
    let age = Utc::now() - assert_time(value);
    assert!(
        (-1..60).contains(&age.num_seconds()),
        "{value} is {age} old"
    );
}

/// Formats a time as the service does.
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
