//! The filter of the list of changes, and its query string.

use super::{RiskLevel, Status};
use crate::ids::{ChangeId, HostId, ServiceId};
use crate::limits::{DEFAULT_PER_PAGE, MAX_PER_PAGE, MAX_QUERY_WORDS, MAX_TAGS};
use crate::problem::{Invalid, ViolationCode};
use crate::query::{Pairs, Query};
use crate::time::Timestamp;

/// Which changes to list, and which page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFilter {
    /// The page, from 1.
    pub page: u64,
    /// Changes per page, 1 to [`MAX_PER_PAGE`].
    pub per_page: u64,
    /// Only titles that contain, for each word, a word that starts with it.
    pub q: Option<String>,
    /// Only changes of this service.
    pub service_id: Option<ServiceId>,
    /// Only changes on this host.
    pub host_id: Option<HostId>,
    /// Only changes of this risk level.
    pub risk_level: Option<RiskLevel>,
    /// Only changes of this status.
    pub status: Option<Status>,
    /// Only changes with all of these tags, matched exactly.
    pub tags: Vec<String>,
    /// Only changes at or after this time.
    pub since: Option<Timestamp>,
    /// Only changes before this time.
    pub until: Option<Timestamp>,
    /// Continues after this change, towards older ones. Unlike page numbers, new
    /// changes do not shift it. `count` remains that of the whole list.
    pub before: Option<ChangeId>,
}

impl Default for ChangeFilter {
    fn default() -> Self {
        Self {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
            q: None,
            service_id: None,
            host_id: None,
            risk_level: None,
            status: None,
            tags: Vec::new(),
            since: None,
            until: None,
            before: None,
        }
    }
}

impl ChangeFilter {
    /// Reads a query string; a `per_page` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let filter = Self {
            page: query.number("page", 1).unwrap_or(1),
            per_page: query
                .number("per_page", 1)
                .unwrap_or(DEFAULT_PER_PAGE)
                .min(MAX_PER_PAGE),
            since: query.parsed("since"),
            until: query.parsed("until"),
            before: query.parsed("before"),
            ..Self::selection(&mut query)
        };
        query.finish(filter)
    }

    /// Reads the query string of a stream, which takes what says which changes,
    /// and nothing about times and pages.
    pub fn from_stream_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let filter = Self::selection(&mut query);
        query.finish(filter)
    }

    /// Takes the parameters that say which changes.
    pub(super) fn selection(query: &mut Query) -> Self {
        let filter = Self {
            q: query.one("q"),
            service_id: query.parsed("service_id"),
            host_id: query.parsed("host_id"),
            risk_level: query.parsed("risk_level"),
            status: query.parsed("status"),
            tags: query.all("tag"),
            ..Self::default()
        };
        if filter.tags.len() > MAX_TAGS {
            let message = format!(
                "may be repeated at most {MAX_TAGS} times, got {} values",
                filter.tags.len()
            );
            query.add("tag", ViolationCode::TooMany, message);
        }
        let words = filter.words().len();
        if words > MAX_QUERY_WORDS {
            let message = format!(
                "must have at most {MAX_QUERY_WORDS} different words, got {words}; a word that is a prefix \
                 of another word does not count"
            );
            query.add("q", ViolationCode::TooMany, message);
        }
        if filter.tags.iter().any(|tag| tag.contains(char::is_control)) {
            let message = "must not contain control characters";
            query.add("tag", ViolationCode::ControlCharacter, message);
        }
        filter
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push("page", self.page);
        pairs.push("per_page", self.per_page);
        self.push_selection(&mut pairs);
        pairs.push_some("since", self.since);
        pairs.push_some("until", self.until);
        pairs.push_some("before", self.before);
        pairs.finish()
    }

    /// Writes the query string that [`Self::from_stream_query`] reads.
    pub fn to_stream_query(&self) -> String {
        let mut pairs = Pairs::default();
        self.push_selection(&mut pairs);
        pairs.finish()
    }

    pub(super) fn push_selection(&self, pairs: &mut Pairs) {
        pairs.push_some("q", self.q.as_ref());
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("host_id", self.host_id);
        pairs.push_some("risk_level", self.risk_level.as_ref());
        pairs.push_some("status", self.status.as_ref());
        for tag in &self.tags {
            pairs.push("tag", tag);
        }
    }

    /// Returns the words of `q` that are searched for, folded as titles are (see
    /// [`crate::text::query_words`]); none means no search.
    pub fn words(&self) -> Vec<String> {
        self.q
            .as_deref()
            .map(crate::text::query_words)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-21T08:30:00.000Z".parse().unwrap()
    }

    #[test]
    fn what_a_client_writes_is_what_the_service_reads() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let filter = ChangeFilter {
            page: 3,
            per_page: 100,
            q: Some("50% & more=?#".into()),
            service_id: id.parse().ok(),
            host_id: id.parse().ok(),
            risk_level: Some(RiskLevel::High),
            status: Some(Status::RolledBack),
            tags: vec!["a b".into(), "ä&=".into()],
            since: Some(now()),
            until: Some(now()),
            before: id.parse().ok(),
        };
        let selection = ChangeFilter {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
            since: None,
            until: None,
            before: None,
            ..filter.clone()
        };
        assert_eq!(
            ChangeFilter::from_stream_query(&filter.to_stream_query()),
            Ok(selection)
        );
        assert_eq!(ChangeFilter::from_query(&filter.to_query()), Ok(filter));
        for invalid in ["page=1", "since=2026-11-21T08:30:00Z", "tag=%00"] {
            assert!(
                ChangeFilter::from_stream_query(invalid).is_err(),
                "{invalid}"
            );
        }
        assert_eq!(ChangeFilter::from_query(""), Ok(ChangeFilter::default()));
        let defaults = ChangeFilter::default();
        assert_eq!(ChangeFilter::from_query(&defaults.to_query()), Ok(defaults));
    }

    #[test]
    fn pages_at_their_limits() {
        let read = |query: &str| ChangeFilter::from_query(query).map(|f| (f.page, f.per_page));
        for (query, expected) in [
            ("page=1", (1, 25)),
            ("page=2", (2, 25)),
            ("page=18446744073709551615", (u64::MAX, 25)),
            ("page=18446744073709551616", (u64::MAX, 25)),
            ("per_page=1", (1, 1)),
            ("per_page=99", (1, 99)),
            ("per_page=100", (1, 100)),
            ("per_page=101", (1, 100)),
        ] {
            assert_eq!(read(query), Ok(expected), "{query}");
        }
        for query in [
            "page=0",
            "page=-1",
            "page=1e3",
            "page=+5",
            "page=%205",
            "per_page=0",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
