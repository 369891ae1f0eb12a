//! The way from one page of a list to the next.

use changelog_core::query::Pairs;

/// Where the pages before and after are, and which one this is.
#[derive(Debug)]
pub(crate) struct Pager {
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
    pub(crate) told: String,
}

impl Pager {
    /// Makes the pager of a list that is exactly counted.
    pub(crate) fn of_pages(path: &str, query: &str, page: u64, per_page: u64, count: u64) -> Self {
        let pages = count.div_ceil(per_page.max(1));
        let told = match count {
            0 => String::new(),
            _ => format!("Page {page} of {pages}"),
        };
        let address = |page| address(path, query, "page", page);
        Self {
            previous: (page > 1 && count > 0).then(|| address((page - 1).min(pages))),
            next: (page < pages).then(|| address(page + 1)),
            told,
        }
    }

    /// Makes the pager of a list of which nobody knows how long it is, but that
    /// there is more.
    pub(crate) fn of_offset(
        path: &str,
        query: &str,
        limit: u64,
        offset: u64,
        has_more: bool,
    ) -> Self {
        let address = |offset| address(path, query, "offset", offset);
        Self {
            previous: (offset > 0).then(|| address(offset.saturating_sub(limit))),
            next: has_more.then(|| address(offset.saturating_add(limit))),
            told: String::new(),
        }
    }
}

fn address(path: &str, query: &str, name: &str, value: u64) -> String {
    let mut pairs = Pairs::default();
    for (found, kept) in form_urlencoded::parse(query.as_bytes()) {
        if found != name {
            pairs.push(&found, kept);
        }
    }
    pairs.push(name, value);
    format!("{path}?{}", pairs.finish())
}
