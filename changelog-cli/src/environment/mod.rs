//! What a command finds on this machine: settings, keys, and the project that it runs in.

pub(crate) mod app;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod credentials;
pub(crate) mod git;
pub(crate) mod global;
