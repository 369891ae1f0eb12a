//! The measured lists with their expected counts: figures of a wrong result would be
//! worthless.

use crate::history::{History, timestamp};
use crate::seed::{CHANGES_PER_SMALL, SmallOrganization};

/// A list with its expected count.
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) query: String,
    pub(crate) count: u64,
    /// Whether the changes that the benchmark creates are listed, too.
    pub(crate) grows: bool,
}

impl Expected {
    fn growing(self) -> Self {
        Self {
            grows: true,
            ..self
        }
    }
}

/// The list by risk.
pub(crate) fn by_risk(key: &str, history: &History) -> Expected {
    let high = history.matching(|change| change.risk == "high");
    expected(key, "high risk", "risk_level=high", high)
}

/// The lists of the main table.
pub(crate) fn main_lists(key: &str, history: &History) -> Vec<Expected> {
    let deploy = history.matching(|change| change.deploy);
    vec![
        expected(key, "everything", "", history.count),
        by_risk(key, history),
        expected(key, "a rare word", "q=needle", 100),
        expected(key, "a common word", "q=deploy", deploy),
    ]
}

/// Lists that are hard to read fast.
pub(crate) fn hard_lists(
    key: &str,
    history: &History,
    empty: &str,
    small: &SmallOrganization,
) -> Vec<Expected> {
    let hour = history.middle_hour();
    let (since, until) = (timestamp(hour.start), timestamp(hour.end));
    let services = &history.services;
    let service = services.len() / 2;
    let id = &services[service];
    let list = |name: &str, query: &str, count| expected(key, name, query, count);
    let small_list = |name: &str, query: &str, count| expected(&small.key, name, query, count);
    vec![
        list(
            "high risk and rolled back: the oldest 10",
            "risk_level=high&status=rolled_back",
            10,
        ),
        small_list("a small organization's list", "", CHANGES_PER_SMALL),
        small_list(
            "a small organization's `q` of the common word",
            "q=deploy",
            small.history.matching(|change| change.deploy),
        ),
        list(
            "one of 5,000 services",
            &format!("service_id={id}"),
            history.matching(|change| change.service == Some(service)),
        ),
        list(
            "a service without changes",
            &format!("service_id={empty}"),
            0,
        ),
        list(
            "a service together with high risk",
            &format!("service_id={id}&risk_level=high"),
            history.matching(|change| change.service == Some(service) && change.risk == "high"),
        ),
        list(
            "a tag that half of the changes carry",
            "tag=common",
            history.matching(|change| change.has_tag("common")),
        ),
        list(
            "a tag that 100 changes carry",
            "tag=rare",
            history.matching(|change| change.has_tag("rare")),
        ),
        list(
            "one environment",
            "environment=prod",
            history.matching(|change| change.environment == "prod"),
        ),
        list(
            "medium or high risk in production",
            "environment=prod&min_risk=medium",
            history.matching(|change| change.environment == "prod" && change.risk != "low"),
        ),
        list(
            "everything but planned changes",
            "not_status=planned",
            history.matching(|change| change.status != "planned"),
        ),
        list(
            "everything that one API key recorded",
            "created_by=bench",
            history.count,
        )
        .growing(),
        list("a rare word (`text`)", "text=needle", 100),
        list(
            "the last month and what is in progress",
            &format!("since={}", timestamp(history.last_month())),
            history.matching(|change| {
                change.status == "in_progress"
                    || change.is_within(&(history.last_month()..chrono::Utc::now()))
            }),
        )
        .growing(),
        list(
            "completed in one hour in the middle of the year",
            &format!("status=completed&since={since}&until={until}"),
            history.matching(|change| change.status == "completed" && change.is_within(&hour)),
        ),
    ]
}

fn expected(key: &str, name: &str, query: &str, count: u64) -> Expected {
    Expected {
        name: name.to_owned(),
        key: key.to_owned(),
        query: query.to_owned(),
        count,
        grows: false,
    }
}
