//! Requests by which senders check an address before they send events.

/// What is answered to a request that only checks the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The status 200 with a JSON body.
    Json(serde_json::Value),
    /// A link that an admin must open, which is never opened by itself.
    Confirm(String),
    /// A test of the address, with nothing to store.
    Ping,
}
