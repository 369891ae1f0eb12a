//! `/incidents`

mod bands;
mod cause;
mod detail;
mod edit;
mod list;

pub(super) use bands::{bands, within};
pub(super) use cause::mark as mark_cause;
pub(super) use detail::get;
pub(super) use edit::{create, edit_form, new_form, update};
pub(super) use list::{counted, list};
