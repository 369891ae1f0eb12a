//! Terraform's (or `OpenTofu`'s) output, and the part of it that is recorded.
//!
//! The output and the plans are full of values: variables, attributes, outputs,
//! what provisioners print. [`events`] and [`plan`] decode addresses, actions,
//! counts and the summaries of errors, but no field that could hold a value, so
//! that no value can get into a [`summary`]. Only [`renderer`], which shows a run
//! to its user, reads more.

pub(crate) mod events;
pub(crate) mod plan;
pub(crate) mod renderer;
pub(crate) mod resources;
pub(crate) mod summary;
