//! What everything else may use: failures, texts, times and private files.

pub(crate) mod debug;
pub(crate) mod failure;
pub(crate) mod private_fs;
pub(crate) mod prompting;
pub(crate) mod text;
pub(crate) mod time;
