//! What a command finds on this machine: settings, keys, and the project that
//! it runs in.

pub(crate) mod app;
pub(crate) mod config;
pub(crate) mod config_files;
pub(crate) mod context;
pub(crate) mod credentials;
pub(crate) mod defaults;
pub(crate) mod dirs;
pub(crate) mod git;
pub(crate) mod global;
pub(crate) mod last_change;
pub(crate) mod repository;
pub(crate) mod sourced;
