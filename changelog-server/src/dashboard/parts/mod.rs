//! Parts that the pages share; nothing here imports a page.

pub(super) mod activity_rows;
pub(super) mod assets;
pub(super) mod charts;
pub(super) mod download;
pub(super) mod filter_errors;
pub(super) mod form;
pub(super) mod format;
pub(super) mod named;
pub(super) mod one_time;
pub(super) mod page;
pub(super) mod pager;
pub(super) mod query_string;
pub(crate) mod row;
pub(super) mod shown_values;
pub(super) mod suspects;
pub(super) mod time_ranges;
pub(super) mod timeline;
pub(super) mod viewer;
pub(super) mod zone;
