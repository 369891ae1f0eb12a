//! `/activity`: the activity log, as a page and as downloads.

pub(super) mod download;
mod filter;
pub(super) mod list;
