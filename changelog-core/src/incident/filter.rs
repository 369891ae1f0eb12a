//! Which incidents a list has.

use super::IncidentStatus;
use crate::ids::{IdPrefix, IncidentId, ServiceId};
use crate::limits::{DEFAULT_PER_PAGE, MAX_PER_PAGE};
use crate::problem::Invalid;
use crate::query::{Pairs, Query};
use crate::time::Timestamp;

/// Selects incidents: open ones first, then by their start, the latest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentFilter {
    /// Only those whose id begins with this; then the latest recorded come first.
    pub id: Option<IdPrefix>,
    /// Only those of this status.
    pub status: Option<IncidentStatus>,
    /// Only those of this service.
    pub service_id: Option<ServiceId>,
    /// Only those that started at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that started before this time.
    pub until: Option<Timestamp>,
    /// Continue after this incident, which need not match the rest of the filter.
    pub before: Option<IncidentId>,
    /// The most incidents to return, 1 to [`MAX_PER_PAGE`].
    pub limit: u64,
}

impl Default for IncidentFilter {
    fn default() -> Self {
        Self {
            id: None,
            status: None,
            service_id: None,
            since: None,
            until: None,
            before: None,
            limit: DEFAULT_PER_PAGE,
        }
    }
}

impl IncidentFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let limit = query.number("limit", 1).unwrap_or(DEFAULT_PER_PAGE);
        let filter = Self {
            id: query.parsed("id"),
            status: query.parsed("status"),
            service_id: query.parsed("service_id"),
            since: query.parsed("since"),
            until: query.parsed("until"),
            before: query.parsed("before"),
            limit: limit.min(MAX_PER_PAGE),
        };
        query.finish(filter)
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push_some("id", self.id.as_ref());
        pairs.push_some("status", self.status.as_ref());
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("since", self.since);
        pairs.push_some("until", self.until);
        pairs.push_some("before", self.before);
        pairs.push("limit", self.limit);
        pairs.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_is_what_the_service_reads() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let filter = IncidentFilter {
            id: None,
            status: Some(IncidentStatus::Open),
            service_id: id.parse().ok(),
            since: "2026-11-21T12:00:00.000Z".parse().ok(),
            until: "2026-11-22T12:00:00.000Z".parse().ok(),
            before: id.parse().ok(),
            limit: 7,
        };
        assert_eq!(IncidentFilter::from_query(&filter.to_query()), Ok(filter));
        let named = IncidentFilter {
            id: "018F4E9A-7b1c".parse().ok(),
            ..IncidentFilter::default()
        };
        assert_eq!(IncidentFilter::from_query(&named.to_query()), Ok(named));
        let read = |query: &str| IncidentFilter::from_query(query).map(|filter| filter.limit);
        assert_eq!(read(""), Ok(25));
        assert_eq!(read("limit=101"), Ok(100));
        for bad in [
            "limit=0",
            "status=closed",
            "before=x",
            "severity=critical",
            "id=018f4e9",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
