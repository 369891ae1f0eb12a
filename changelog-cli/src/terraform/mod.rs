//! What Terraform (or `OpenTofu`) says about a run, and what of it is recorded.
//!
//! Its output and its plans are full of values: variables, attributes, outputs,
//! what provisioners print. [`events`] and [`plan`] decode addresses, actions,
//! counts and the summaries of errors, and know no field in which a value could
//! stand, so that none can get into a [`summary`]. Only [`renderer`], which shows
//! a run to whoever started it, reads more.

pub(crate) mod events;
pub(crate) mod plan;
pub(crate) mod renderer;
pub(crate) mod summary;
