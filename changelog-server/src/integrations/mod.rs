//! Connections: events are written with the change, queued for each connection, and sent
//! at least once.

pub(crate) mod message;
pub(crate) mod target;
