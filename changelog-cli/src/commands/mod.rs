//! The commands, one file each.

pub(crate) mod api;
pub(crate) mod around;
pub(crate) mod auth;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod import;
pub(crate) mod incident;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod show;
pub(crate) mod spool;
pub(crate) mod terraform;
pub(crate) mod upcoming;
pub(crate) mod update;
pub(crate) mod watch;
