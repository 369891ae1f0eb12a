//! The names of the API's HTTP headers, in lower case.

/// Chooses the organization of a token that fits workload identities of several.
pub const ORGANIZATION_ID: &str = "x-organization-id";
/// The request header with the name of the automation that calls: a claim, which the activity
/// log keeps.
pub const AGENT: &str = "changelog-agent";
/// The request header that carries the API key.
pub const API_KEY: &str = "x-api-key";
/// The request header that names a create, so that it can be repeated safely.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The response header that is `true` when the response repeats an earlier one.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// The request header that resumes a stream after an event.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// The request header that states preferences (RFC 7240).
pub const PREFER: &str = "prefer";
/// The response header that names the preferences that were followed.
pub const PREFERENCE_APPLIED: &str = "preference-applied";
/// The preference for a response with the whole record.
pub const RETURN_REPRESENTATION: &str = "return=representation";
/// The response header with the id of the request in the server's log.
pub const REQUEST_ID: &str = "x-request-id";
