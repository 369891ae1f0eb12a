//! What a user types: shared flags, filters, names, messages and their completion.

pub(crate) mod change_ref;
pub(crate) mod command_words;
pub(crate) mod complete;
pub(crate) mod filter;
pub(crate) mod flags;
pub(crate) mod incident_ref;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod web;
