//! Links to the previous and the next page of a list.

use super::query_string::{address, with};

#[derive(Debug, Default)]
pub(crate) struct Pager {
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
    /// Which page this is; empty if that is unknown.
    pub(crate) position: String,
}

impl Pager {
    /// Returns the pager of a list with a known count.
    pub(crate) fn of_pages(path: &str, query: &str, page: u64, per_page: u64, count: u64) -> Self {
        let pages = count.div_ceil(per_page.max(1));
        let to = |page: u64| address(path, &with(query, "page", page));
        Self {
            previous: (page > 1 && count > 0).then(|| to((page - 1).min(pages))),
            next: (page < pages).then(|| to(page + 1)),
            position: if count == 0 {
                String::new()
            } else {
                format!("Page {page} of {pages}")
            },
        }
    }

    /// Returns the pager of a list of unknown length.
    pub(crate) fn of_offset(
        path: &str,
        query: &str,
        limit: u64,
        offset: u64,
        has_more: bool,
    ) -> Self {
        let to = |offset: u64| address(path, &with(query, "offset", offset));
        Self {
            previous: (offset > 0).then(|| to(offset.saturating_sub(limit))),
            next: has_more.then(|| to(offset.saturating_add(limit))),
            position: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pager: &Pager) -> (Option<&str>, Option<&str>) {
        (pager.previous.as_deref(), pager.next.as_deref())
    }

    #[test]
    fn pages_have_neighbours_within_the_list() {
        let pager = |page| Pager::of_pages("/changes", "tag=a&page=9", page, 25, 60);
        assert_eq!(links(&pager(1)), (None, Some("/changes?tag=a&page=2")));
        assert_eq!(links(&pager(3)), (Some("/changes?tag=a&page=2"), None));
        // From beyond the end back to the last page.
        assert_eq!(links(&pager(9)), (Some("/changes?tag=a&page=3"), None));
        assert_eq!(
            links(&Pager::of_pages("/changes", "", 2, 25, 0)),
            (None, None)
        );
    }

    #[test]
    fn offsets_stay_within_their_range() {
        let pager = Pager::of_offset("/activity", "", 50, 20, true);
        assert_eq!(
            links(&pager),
            (Some("/activity?offset=0"), Some("/activity?offset=70"))
        );
    }
}
