//! Which changes to list or to watch.

use changelog_core::query::Pairs;
use changelog_core::{
    ChangeCursor, ChangeEvent, ChangeFilter, Environment, HostId, MadeBy, RiskLevel, ServiceId,
    Status, StreamFilter, Timestamp,
};

use crate::setters::setters;

/// Which changes to [list](crate::Changes::list) or to
/// [watch](crate::Changes::watch): those that meet all conditions.
///
/// Setters of a single value take the value or an [`Option`]; `None` removes the
/// condition.
///
/// ```
/// use changelog_client::{ChangeQuery, RiskLevel};
///
/// let risky_deployments = ChangeQuery::new().risk_level(RiskLevel::High).tag("deploy");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a query does nothing until it is passed to `matching`"]
pub struct ChangeQuery {
    filter: ChangeFilter,
    min_risk: Option<RiskLevel>,
    not_statuses: Vec<Status>,
}

impl ChangeQuery {
    /// Returns a query that all changes match.
    pub fn new() -> Self {
        Self::default()
    }

    setters! { filter:
        /// Requires that each of these words is the start of a word of the title,
        /// regardless of case and diacritics. At most 16 different words.
        q(words: impl Into<String>) => q = Some(words.into());
        /// Requires that each of these words is the start of a word of the title, of a tag,
        /// or of the name of a service or the host; or that the id of the change starts with
        /// this. At most 16 different words.
        text(words: impl Into<String>) => text = Some(words.into());
        /// Lists changes with [`Change::updated_by`](changelog_core::Change::updated_by). It
        /// does not narrow the list; streams ignore it.
        with_updated_by() => with_updated_by = true;
        /// Requires this service, whether it is the first of the change or not.
        service(id: impl Into<Option<ServiceId>>) => service_id = id.into();
        /// Requires this host.
        host(id: impl Into<Option<HostId>>) => host_id = id.into();
        /// Requires one of these environments; none removes the condition.
        environments(any_of: impl IntoIterator<Item = Environment>) =>
            environments = any_of.into_iter().collect();
        /// Requires one of these risk levels; none removes the condition.
        risk_levels(any_of: impl IntoIterator<Item = RiskLevel>) =>
            risk_levels = any_of.into_iter().collect();
        /// Requires one of these statuses; none removes the condition.
        statuses(any_of: impl IntoIterator<Item = Status>) =>
            statuses = any_of.into_iter().collect();
        /// Requires that this API key or person recorded the change: an id or a name.
        created_by(author: impl Into<String>) => created_by = Some(author.into());
        /// Only changes that this source told of: an id, or a name regardless of ASCII case.
        source(source: impl Into<String>) => source = Some(source.into());
        /// Only changes that this automation made, by its name regardless of ASCII case.
        agent(name: impl Into<String>) => agent = Some(name.into());
        /// Only changes that were made by one of these.
        made_by(by: impl IntoIterator<Item = MadeBy>) => made_by = by.into_iter().collect();
        /// Requires that the change happened at this time or later, or is in progress. Does
        /// not apply to watching.
        since(at: impl Into<Option<Timestamp>>) => since = at.into();
        /// Requires that the change happened before this time. Does not apply to watching.
        until(at: impl Into<Option<Timestamp>>) => until = at.into();
    }

    /// Requires this environment.
    pub fn environment(self, environment: impl Into<Option<Environment>>) -> Self {
        self.environments(environment.into())
    }

    /// Requires this risk level.
    pub fn risk_level(self, risk: impl Into<Option<RiskLevel>>) -> Self {
        self.risk_levels(risk.into())
    }

    /// Requires this risk level or a higher one. The service refuses one that it does not
    /// know, or that is higher than all of [`ChangeQuery::risk_levels`].
    pub fn min_risk(mut self, least: &RiskLevel) -> Self {
        self.min_risk = Some(least.clone());
        self
    }

    /// Requires this status.
    pub fn status(self, status: impl Into<Option<Status>>) -> Self {
        self.statuses(status.into())
    }

    /// Requires a status other than these; none removes the condition. The service refuses
    /// conditions that leave no status.
    pub fn not_status(mut self, none_of: &[Status]) -> Self {
        self.not_statuses = none_of.to_vec();
        self
    }

    /// Requires this tag, in addition to those that were added before. At most
    /// 20 tags.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.filter.tags.push(tag.into());
        self
    }

    /// Requires all of these tags, in addition to those that were added before.
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Returns the query string of a page of a list.
    pub(super) fn list_query(&self, page: &ListPage) -> String {
        let defaults = &self.filter;
        let filter = ChangeFilter {
            page: page.number.unwrap_or(defaults.page),
            per_page: page.size.unwrap_or(defaults.per_page),
            before: page.before,
            ..defaults.clone()
        };
        self.with_conditions(filter.to_query())
    }

    /// Returns the query string of a watch for events; it has no times and pages.
    pub(crate) fn watch_query(&self, events: impl IntoIterator<Item = ChangeEvent>) -> String {
        let filter = StreamFilter {
            changes: self.filter.clone(),
            events: events.into_iter().collect(),
        };
        self.with_conditions(filter.to_query())
    }

    /// Adds the conditions that the service makes risk levels and statuses of.
    fn with_conditions(&self, query: String) -> String {
        let mut pairs = Pairs::default();
        pairs.push_some("min_risk", self.min_risk.as_ref());
        pairs.push_list("not_status", &self.not_statuses);
        let parts = [query, pairs.finish()];
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join("&")
    }
}

/// Which page of a list; what is not set has its default.
#[derive(Clone, Debug, Default)]
pub(super) struct ListPage {
    pub(super) number: Option<u64>,
    pub(super) size: Option<u64>,
    /// The change before the first one of the page.
    pub(super) before: Option<ChangeCursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

    #[test]
    fn a_watch_has_the_conditions_of_a_list_without_its_times() {
        let query = ChangeQuery::new()
            .q("50% & more")
            .service(ID.parse::<ServiceId>().unwrap())
            .host(ID.parse::<HostId>().unwrap())
            .risk_levels([RiskLevel::High, RiskLevel::Medium])
            .status(Status::RolledBack)
            .tag("a b")
            .tags(["c", "ä&="])
            .since("2026-11-21T08:30:00Z".parse::<Timestamp>().unwrap())
            .until("2026-11-22T08:30:00Z".parse::<Timestamp>().unwrap());
        let conditions = format!(
            "q=50%25+%26+more&service_id={ID}&host_id={ID}&risk_level=high%2Cmedium\
             &status=rolled_back&tag=a+b&tag=c&tag=%C3%A4%26%3D"
        );
        assert_eq!(query.watch_query([ChangeEvent::Created]), conditions);
        let with_updates = format!("{conditions}&events=created%2Cupdated");
        assert_eq!(
            query.watch_query([ChangeEvent::Created, ChangeEvent::Updated]),
            with_updates
        );
        assert_eq!(
            query.list_query(&ListPage::default()),
            format!(
                "page=1&per_page=25&{conditions}&since=2026-11-21T08%3A30%3A00.000Z\
                 &until=2026-11-22T08%3A30%3A00.000Z"
            )
        );
    }

    #[test]
    fn none_removes_a_condition() {
        let query = ChangeQuery::new().status(Status::Planned).status(None);
        assert_eq!(query, ChangeQuery::new());
        assert_eq!(query.watch_query([ChangeEvent::Created]), "");
    }

    #[test]
    fn conditions_that_nothing_or_everything_matches_are_sent() {
        let query = ChangeQuery::new()
            .min_risk(&RiskLevel::Unknown("critical".into()))
            .not_status(Status::ALL);
        let conditions = "min_risk=critical\
                          &not_status=planned%2Cin_progress%2Ccompleted%2Crolled_back";
        assert_eq!(query.watch_query([ChangeEvent::Created]), conditions);
        assert_eq!(
            query.list_query(&ListPage::default()),
            format!("page=1&per_page=25&{conditions}")
        );
        let query = query.not_status(&[]).min_risk(&RiskLevel::Low);
        assert_eq!(query.watch_query([ChangeEvent::Created]), "min_risk=low");
    }
}
