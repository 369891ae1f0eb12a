//! `/settings/sources`: other systems that send what changes. Owners and admins manage
//! them; others see their names and states.

mod actions;
mod create;
mod events;
mod form;
mod guide;
mod item;
mod kinds;
mod list;
mod preview;
mod request;
mod state;

pub(in crate::dashboard) use actions::{
    delete, disable, dismiss, enable, preview, renew, replay, replay_set_aside, update,
};
pub(in crate::dashboard) use create::{create, new_form};
pub(in crate::dashboard) use item::get;
pub(in crate::dashboard) use list::list;
pub(in crate::dashboard) use request::get as request;

/// The path of the list.
const PATH: &str = "/settings/sources";
