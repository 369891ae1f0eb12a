//! Connections: events are written with the change, queued for each connection, and sent
//! at least once.

pub mod http;
pub mod message;
pub mod senders;
pub mod target;
