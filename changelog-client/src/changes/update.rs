//! Updates a change.

use changelog_core::{
    Agent, Change, ChangeId, ChangePatch, Environment, HostId, Link, Outcome, RiskLevel, ServiceId,
    Status, Timestamp,
};

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;

/// An update of a change; nothing is sent until [`UpdateChange::send`]. Fields
/// that are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateChange<M = Async> {
    sender: Sender<M>,
    id: ChangeId,
    patch: ChangePatch,
}

impl<M: Mode> UpdateChange<M> {
    pub(super) fn new(sender: Sender<M>, id: ChangeId, patch: ChangePatch) -> Self {
        Self { sender, id, patch }
    }

    /// Sets the title: [`MIN_TITLE_CHARS`](crate::limits::MIN_TITLE_CHARS) to
    /// [`MAX_TITLE_CHARS`](crate::limits::MAX_TITLE_CHARS) characters.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.patch.title = Some(title.into());
        self
    }

    /// Sets the description (at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.patch.description = Some(Some(text.into()));
        self
    }

    /// Clears the description.
    pub fn clear_description(mut self) -> Self {
        self.patch.description = Some(None);
        self
    }

    /// Sets the risk level.
    pub fn risk_level(mut self, risk: RiskLevel) -> Self {
        self.patch.risk_level = Some(risk);
        self
    }

    /// Sets the status.
    pub fn status(mut self, status: Status) -> Self {
        self.patch.status = Some(status);
        self
    }

    /// Sets the expected impact (at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
    pub fn impact(mut self, text: impl Into<String>) -> Self {
        self.patch.impact = Some(Some(text.into()));
        self
    }

    /// Clears the expected impact.
    pub fn clear_impact(mut self) -> Self {
        self.patch.impact = Some(None);
        self
    }

    /// Sets the first service that is changed.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.patch.service_id = Some(Some(id));
        self
    }

    /// Removes all services.
    pub fn clear_service(mut self) -> Self {
        self.patch.service_id = Some(None);
        self
    }

    /// Sets the host that is changed.
    pub fn host(mut self, id: HostId) -> Self {
        self.patch.host_id = Some(Some(id));
        self
    }

    /// Removes the host.
    pub fn clear_host(mut self) -> Self {
        self.patch.host_id = Some(None);
        self
    }

    /// Replaces all tags: at most 20, of 1 to 100 characters.
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patch.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// Replaces all links: at most 10.
    pub fn links(mut self, links: impl IntoIterator<Item = Link>) -> Self {
        self.patch.links = Some(links.into_iter().collect());
        self
    }

    /// Sets the time for which the change is scheduled.
    pub fn scheduled_for(mut self, at: Timestamp) -> Self {
        self.patch.scheduled_for = Some(Some(at));
        self
    }

    /// Clears the time for which the change is scheduled.
    pub fn clear_scheduled_for(mut self) -> Self {
        self.patch.scheduled_for = Some(None);
        self
    }

    /// Replaces all services: at most 20, the first one first; none removes all.
    pub fn services(mut self, ids: impl IntoIterator<Item = ServiceId>) -> Self {
        self.patch.service_ids = Some(ids.into_iter().collect());
        self
    }

    /// Sets the environment.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.patch.environment = Some(Some(environment));
        self
    }

    /// Sets the environment of the host.
    pub fn clear_environment(mut self) -> Self {
        self.patch.environment = Some(None);
        self
    }

    /// Sets how the change ended.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.patch.outcome = Some(Some(outcome));
        self
    }

    /// Clears how the change ended.
    pub fn clear_outcome(mut self) -> Self {
        self.patch.outcome = Some(None);
        self
    }

    /// Sets why the change was rolled back, for its history; needs the status
    /// [`Status::RolledBack`].
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.patch.reason = Some(reason.into());
        self
    }

    /// Corrects the time at which the change was started.
    pub fn started_at(mut self, at: Timestamp) -> Self {
        self.patch.started_at = Some(Some(at));
        self
    }

    /// Sets the start to the time for which the change was recorded.
    pub fn clear_started_at(mut self) -> Self {
        self.patch.started_at = Some(None);
        self
    }

    /// Corrects the time at which the change ended.
    pub fn ended_at(mut self, at: Timestamp) -> Self {
        self.patch.ended_at = Some(Some(at));
        self
    }

    /// Clears the time at which the change ended.
    pub fn clear_ended_at(mut self) -> Self {
        self.patch.ended_at = Some(None);
        self
    }

    /// Sets the person for whom an API key acted.
    pub fn on_behalf_of(mut self, person: impl Into<String>) -> Self {
        self.patch.on_behalf_of = Some(Some(person.into()));
        self
    }

    /// Clears the person for whom an API key acted.
    pub fn clear_on_behalf_of(mut self) -> Self {
        self.patch.on_behalf_of = Some(None);
        self
    }

    /// Sets the automation that acted.
    pub fn agent(mut self, agent: Agent) -> Self {
        self.patch.agent = Some(Some(agent));
        self
    }

    /// Clears the automation that acted.
    pub fn clear_agent(mut self) -> Self {
        self.patch.agent = Some(None);
        self
    }

    /// Sets the commit.
    pub fn commit(mut self, commit: impl Into<String>) -> Self {
        self.patch.commit = Some(Some(commit.into()));
        self
    }

    /// Clears the commit.
    pub fn clear_commit(mut self) -> Self {
        self.patch.commit = Some(None);
        self
    }

    /// Sets the time of the commit.
    pub fn committed_at(mut self, at: Timestamp) -> Self {
        self.patch.committed_at = Some(Some(at));
        self
    }

    /// Clears the time of the commit.
    pub fn clear_committed_at(mut self) -> Self {
        self.patch.committed_at = Some(None);
        self
    }

    /// Updates the change, and returns it with its new values.
    pub fn send(self) -> M::Response<Change> {
        self.sender.data(ApiRequest::update(
            &["changes", &self.id.to_string()],
            &self.patch,
        ))
    }
}

into_future!(UpdateChange => Change);
