//! How a change is recorded: sent at once, or kept in the spool.

pub(crate) mod run_recorder;
pub(crate) mod secrets;
pub(crate) mod spool;
pub(crate) mod submit;
