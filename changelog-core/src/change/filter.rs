//! The filter of the list of changes, and its query string.

use super::{ChangeCursor, MadeBy, RiskLevel, Status};
use crate::host::Environment;
use crate::ids::{HostId, ServiceId};
use crate::limits::{DEFAULT_PER_PAGE, MAX_NAME_CHARS, MAX_PER_PAGE, MAX_QUERY_WORDS, MAX_TAGS};
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
    /// Only changes with, for each word, a word that starts with it in the title, a
    /// tag, or the name of a service or the host; or the changes whose id starts with
    /// this, if it has at least [`MIN_ID_PREFIX`](crate::limits::MIN_ID_PREFIX) digits.
    pub text: Option<String>,
    /// Only changes of this service, whether it is the first or not.
    pub service_id: Option<ServiceId>,
    /// Only changes on this host.
    pub host_id: Option<HostId>,
    /// Only changes of one of these environments; empty for all.
    pub environments: Vec<Environment>,
    /// Only changes of one of these risk levels; empty for all.
    pub risk_levels: Vec<RiskLevel>,
    /// Only changes of one of these statuses; empty for all.
    pub statuses: Vec<Status>,
    /// Only changes recorded by this API key or person: an id, or a name (ASCII case
    /// is ignored).
    pub created_by: Option<String>,
    /// Only changes of this source: an id, or a name (ASCII case is ignored).
    pub source: Option<String>,
    /// Only changes that this automation made (ASCII case is ignored).
    pub agent: Option<String>,
    /// Only changes that were made by one of these; empty for all.
    pub made_by: Vec<MadeBy>,
    /// Only changes with all of these tags, matched exactly.
    pub tags: Vec<String>,
    /// Only changes whose effective time is this or later; if the range contains the
    /// present time, also those in progress, which happen now.
    pub since: Option<Timestamp>,
    /// Only changes whose effective time is before this.
    pub until: Option<Timestamp>,
    /// Continues after this change, towards older ones. Unlike page numbers, new
    /// changes do not shift it. `count` remains that of the whole list.
    pub before: Option<ChangeCursor>,
    /// Whether the listed changes have [`Change::updated_by`](super::Change::updated_by).
    pub with_updated_by: bool,
}

impl Default for ChangeFilter {
    fn default() -> Self {
        Self {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
            q: None,
            text: None,
            service_id: None,
            host_id: None,
            environments: Vec::new(),
            risk_levels: Vec::new(),
            statuses: Vec::new(),
            created_by: None,
            source: None,
            agent: None,
            made_by: Vec::new(),
            tags: Vec::new(),
            since: None,
            until: None,
            before: None,
            with_updated_by: false,
        }
    }
}

/// The value of `include` with which changes have `updated_by`.
const UPDATED_BY: &str = "updated_by";

/// Takes `include`.
fn with_updated_by(query: &mut Query) -> bool {
    let included = query.one("include");
    let is_known = included.as_deref().is_none_or(|name| name == UPDATED_BY);
    if !is_known {
        let message = format!("must be {UPDATED_BY}");
        query.add("include", ViolationCode::InvalidFormat, message);
    }
    included.is_some() && is_known
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
            with_updated_by: with_updated_by(&mut query),
            ..Self::selection(&mut query)
        };
        query.finish(filter)
    }

    /// Takes the parameters that say which changes.
    pub(super) fn selection(query: &mut Query) -> Self {
        let filter = Self {
            q: query.one("q"),
            text: query.one("text"),
            service_id: query.parsed("service_id"),
            host_id: query.parsed("host_id"),
            environments: query.parsed_list("environment"),
            risk_levels: risk_levels(query),
            statuses: statuses(query),
            created_by: query.one("created_by"),
            source: query.one("source"),
            agent: query.one("agent"),
            made_by: query.parsed_list("by"),
            tags: query.all("tag"),
            ..Self::default()
        };
        for (parameter, name, of) in [
            (
                "created_by",
                &filter.created_by,
                "the id or the name of an API key, a workload identity or a person",
            ),
            ("source", &filter.source, "the id or the name of a source"),
            ("agent", &filter.agent, "the name of an automation"),
        ] {
            let is_name = |name: &String| {
                (1..=MAX_NAME_CHARS).contains(&name.chars().count())
                    && !name.contains(char::is_control)
            };
            if !name.as_ref().is_none_or(is_name) {
                let message = format!("must be {of}, of 1 to {MAX_NAME_CHARS} characters");
                query.add(parameter, ViolationCode::InvalidFormat, message);
            }
        }
        if filter.tags.len() > MAX_TAGS {
            let message = format!(
                "may be repeated at most {MAX_TAGS} times, got {} values",
                filter.tags.len()
            );
            query.add("tag", ViolationCode::TooMany, message);
        }
        for (name, words) in [("q", filter.words()), ("text", filter.text_words())] {
            if words.len() > MAX_QUERY_WORDS {
                let message = format!(
                    "must have at most {MAX_QUERY_WORDS} different words, got {}; a word that is a \
                     prefix of another word does not count",
                    words.len()
                );
                query.add(name, ViolationCode::TooMany, message);
            }
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
        pairs.push_some("include", self.with_updated_by.then_some(UPDATED_BY));
        pairs.finish()
    }

    /// Writes the parameters that [`Self::selection`] takes.
    pub(super) fn push_selection(&self, pairs: &mut Pairs) {
        pairs.push_some("q", self.q.as_ref());
        pairs.push_some("text", self.text.as_ref());
        pairs.push_some("service_id", self.service_id);
        pairs.push_some("host_id", self.host_id);
        pairs.push_list("environment", &self.environments);
        pairs.push_list("risk_level", &self.risk_levels);
        pairs.push_list("status", &self.statuses);
        pairs.push_some("created_by", self.created_by.as_ref());
        pairs.push_some("source", self.source.as_ref());
        pairs.push_some("agent", self.agent.as_ref());
        pairs.push_list("by", &self.made_by);
        for tag in &self.tags {
            pairs.push("tag", tag);
        }
    }

    /// Returns whether it selects by the source, the automation or what made changes.
    pub fn has_origin(&self) -> bool {
        self.source.is_some() || self.agent.is_some() || !self.made_by.is_empty()
    }

    /// Leaves out planned changes, which have not happened, unless the query string that this
    /// was read from asks for them by `status`, or for no others.
    pub fn without_planned(mut self, raw: &str) -> Self {
        let asked: Vec<Status> = Query::new(raw).parsed_list("status");
        if !asked.contains(&Status::Planned) && self.statuses != [Status::Planned] {
            if self.statuses.is_empty() {
                self.statuses = Status::ALL.to_vec();
            }
            self.statuses.retain(|status| *status != Status::Planned);
        }
        self
    }

    /// Returns the words of `q` that are searched for, folded as titles are (see
    /// [`crate::text::query_words`]); none means no search.
    pub fn words(&self) -> Vec<String> {
        self.q
            .as_deref()
            .map(crate::text::query_words)
            .unwrap_or_default()
    }

    /// Returns the words of `text`, folded as those of [`Self::words`].
    pub fn text_words(&self) -> Vec<String> {
        self.text
            .as_deref()
            .map(crate::text::query_words)
            .unwrap_or_default()
    }
}

/// Takes the parameters about risk: `risk_level` with one or several values, and
/// `min_risk`.
fn risk_levels(query: &mut Query) -> Vec<RiskLevel> {
    let mut levels: Vec<RiskLevel> = query.parsed_list("risk_level");
    if let Some(least) = query.parsed::<RiskLevel>("min_risk") {
        let all_given = levels.is_empty();
        let chosen = |level: &&RiskLevel| **level >= least && (all_given || levels.contains(level));
        levels = RiskLevel::ALL.iter().filter(chosen).cloned().collect();
        if levels.is_empty() {
            let message = "must be at most the risk_level, or no change can match";
            query.add("min_risk", ViolationCode::OutOfRange, message);
        }
        if levels.len() == RiskLevel::ALL.len() {
            levels.clear();
        }
    }
    levels
}

/// Takes the parameters about the status: `status` and `not_status`, each with one or
/// several values, and `active`.
fn statuses(query: &mut Query) -> Vec<Status> {
    let given: Vec<Status> = query.parsed_list("status");
    let excluded: Vec<Status> = query.parsed_list("not_status");
    let active = query.boolean("active");
    if excluded.is_empty() && active.is_none() {
        return given;
    }
    let chosen = |status: &&Status| {
        (given.is_empty() || given.contains(status))
            && !excluded.contains(status)
            && active.is_none_or(|active| active == (**status == Status::InProgress))
    };
    let statuses: Vec<Status> = Status::ALL.iter().filter(chosen).cloned().collect();
    if statuses.is_empty() {
        let name = if excluded.is_empty() {
            "active"
        } else {
            "not_status"
        };
        let message = "must leave a status, or no change can match";
        query.add(name, ViolationCode::OutOfRange, message);
    }
    statuses
}

/// Which of the planned changes that have a scheduled time to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcomingFilter {
    /// The most changes, 1 to [`MAX_PER_PAGE`].
    pub limit: u64,
}

impl Default for UpcomingFilter {
    fn default() -> Self {
        Self {
            limit: DEFAULT_PER_PAGE,
        }
    }
}

impl UpcomingFilter {
    /// Reads a query string; a `limit` above the maximum becomes the maximum.
    pub fn from_query(raw: &str) -> Result<Self, Invalid> {
        let mut query = Query::new(raw);
        let limit = query.number("limit", 1).unwrap_or(DEFAULT_PER_PAGE);
        query.finish(Self {
            limit: limit.min(MAX_PER_PAGE),
        })
    }

    /// Writes the query string that [`Self::from_query`] reads.
    pub fn to_query(&self) -> String {
        let mut pairs = Pairs::default();
        pairs.push("limit", self.limit);
        pairs.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::StreamFilter;

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
            text: Some("ä #1".into()),
            environments: vec![Environment::Prod, Environment::Staging],
            risk_levels: vec![RiskLevel::High, RiskLevel::Low],
            statuses: vec![Status::RolledBack],
            created_by: Some("deploy & co".into()),
            source: Some("GitHub & co".into()),
            agent: Some("Terraform".into()),
            made_by: vec![MadeBy::Hand, MadeBy::Agent],
            tags: vec!["a b".into(), "ä&=".into()],
            since: Some(now()),
            until: Some(now()),
            before: format!("{id}@2026-11-21T08:30:00.000Z").parse().ok(),
            with_updated_by: true,
        };
        let selection = ChangeFilter {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
            since: None,
            until: None,
            before: None,
            with_updated_by: false,
            ..filter.clone()
        };
        let stream = |changes: &ChangeFilter| StreamFilter {
            changes: changes.clone(),
            ..StreamFilter::default()
        };
        assert_eq!(
            StreamFilter::from_query(&stream(&filter).to_query()),
            Ok(stream(&selection))
        );
        assert_eq!(ChangeFilter::from_query(&filter.to_query()), Ok(filter));
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

    #[test]
    fn several_values_and_exclusions_become_one_selection() {
        use RiskLevel::{High, Low, Medium};
        use Status::{Completed, InProgress, Planned, RolledBack};

        let read = |query: &str| {
            ChangeFilter::from_query(query).map(|filter| (filter.risk_levels, filter.statuses))
        };
        for (query, risks, statuses) in [
            ("risk_level=high,medium,high", vec![High, Medium], vec![]),
            (
                "risk_level=high&risk_level=medium",
                vec![High, Medium],
                vec![],
            ),
            ("min_risk=medium", vec![Medium, High], vec![]),
            ("min_risk=low", vec![], vec![]),
            (
                "min_risk=medium&risk_level=low,medium",
                vec![Medium],
                vec![],
            ),
            (
                "not_status=planned",
                vec![],
                vec![InProgress, Completed, RolledBack],
            ),
            (
                "status=planned,completed&not_status=planned",
                vec![],
                vec![Completed],
            ),
            ("active=true", vec![], vec![InProgress]),
            (
                "active=false&not_status=planned",
                vec![],
                vec![Completed, RolledBack],
            ),
            ("status=planned", vec![], vec![Planned]),
            ("risk_level=low", vec![Low], vec![]),
        ] {
            assert_eq!(read(query), Ok((risks, statuses)), "{query}");
        }
        for query in [
            "risk_level=",
            "risk_level=high,",
            "risk_level=high;low",
            "min_risk=high&risk_level=low",
            "status=planned&not_status=planned",
            "status=planned&active=true",
            "active=yes",
            "environment=production",
            "before=x@y",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
