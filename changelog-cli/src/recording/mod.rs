//! How a change is recorded: sent at once, or kept in the spool and sent later.

pub(crate) mod draft;
pub(crate) mod find_change;
pub(crate) mod fit;
pub(crate) mod run_recorder;
pub(crate) mod secrets;
pub(crate) mod spool;
pub(crate) mod submit;
pub(crate) mod update;
