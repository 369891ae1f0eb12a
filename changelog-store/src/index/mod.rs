//! What changes are found and counted by: the order of lists, the kept counts
//! and the search index.

pub(crate) mod counts;
pub(crate) mod search;
pub(crate) mod sort_key;
