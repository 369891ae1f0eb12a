//! Connections: what is sent to receivers, which are servers of the test harness.

mod senders;
