//! `/settings/integrations`: connections to receivers, which are sent what happens to
//! changes. Owners and admins manage them; others see their names and states.

mod actions;
mod create;
mod deliveries;
mod form;
mod item;
mod kinds;
mod list;
mod public_key;
mod state;
mod summary;
mod trouble;

pub(in crate::dashboard) use actions::{
    delete, disable, enable, replay, replay_dead, rotate, test, update,
};
pub(in crate::dashboard) use create::{create, new_form};
pub(in crate::dashboard) use item::get;
pub(in crate::dashboard) use list::list;
pub(in crate::dashboard) use public_key::public_key;
pub(in crate::dashboard) use trouble::troubles;

/// The path of the list.
const PATH: &str = "/settings/integrations";
