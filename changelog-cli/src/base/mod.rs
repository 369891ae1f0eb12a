//! What everything else may use: failures, text, times and private files.

pub(crate) mod failure;
pub(crate) mod private_fs;
pub(crate) mod time;
