//! Updates a change.

use changelog_core::{
    Agent, Change, ChangeId, ChangePatch, Environment, HostId, Link, Outcome, RiskLevel, ServiceId,
    Status, Timestamp,
};

use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// An update of a change; nothing is sent until [`UpdateChange::send`]. Fields
/// that are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateChange {
    transport: Transport,
    id: ChangeId,
    patch: ChangePatch,
}

impl UpdateChange {
    pub(super) fn new(transport: Transport, id: ChangeId, patch: ChangePatch) -> Self {
        Self {
            transport,
            id,
            patch,
        }
    }

    /// Sets the title: [`MIN_TITLE_CHARS`](crate::limits::MIN_TITLE_CHARS) to
    /// [`MAX_TITLE_CHARS`](crate::limits::MAX_TITLE_CHARS) characters.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.patch.title = Some(title.into());
        self
    }

    /// Sets the description (at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters), or clears it.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
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
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters), or clears it.
    pub fn impact(mut self, text: Option<String>) -> Self {
        self.patch.impact = Some(text);
        self
    }

    /// Sets the first service that is changed, or removes all services.
    pub fn service(mut self, id: Option<ServiceId>) -> Self {
        self.patch.service_id = Some(id);
        self
    }

    /// Sets the host that is changed, or clears it.
    pub fn host(mut self, id: Option<HostId>) -> Self {
        self.patch.host_id = Some(id);
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

    /// Sets the time for which the change is scheduled, or clears it.
    pub fn scheduled_for(mut self, at: Option<Timestamp>) -> Self {
        self.patch.scheduled_for = Some(at);
        self
    }

    /// Replaces all services: at most 20, the first one first; none removes all.
    pub fn services(mut self, ids: impl IntoIterator<Item = ServiceId>) -> Self {
        self.patch.service_ids = Some(ids.into_iter().collect());
        self
    }

    /// Sets the environment, or sets that of the host.
    pub fn environment(mut self, environment: Option<Environment>) -> Self {
        self.patch.environment = Some(environment);
        self
    }

    /// Sets how the change ended, or clears it.
    pub fn outcome(mut self, outcome: Option<Outcome>) -> Self {
        self.patch.outcome = Some(outcome);
        self
    }

    /// Sets why the change was rolled back, for its history; needs the status
    /// [`Status::RolledBack`].
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.patch.reason = Some(reason.into());
        self
    }

    /// Corrects the time at which the change was started; `None` sets the time for which
    /// it was recorded.
    pub fn started_at(mut self, at: Option<Timestamp>) -> Self {
        self.patch.started_at = Some(at);
        self
    }

    /// Corrects the time at which the change ended, or clears it.
    pub fn ended_at(mut self, at: Option<Timestamp>) -> Self {
        self.patch.ended_at = Some(at);
        self
    }

    /// Sets the person for whom an API key acted, or clears it.
    pub fn on_behalf_of(mut self, person: Option<String>) -> Self {
        self.patch.on_behalf_of = Some(person);
        self
    }

    /// Sets the automation that acted, or clears it.
    pub fn agent(mut self, agent: Option<Agent>) -> Self {
        self.patch.agent = Some(agent);
        self
    }

    /// Sets the commit, or clears it.
    pub fn commit(mut self, commit: Option<String>) -> Self {
        self.patch.commit = Some(commit);
        self
    }

    /// Sets the time of the commit, or clears it.
    pub fn committed_at(mut self, at: Option<Timestamp>) -> Self {
        self.patch.committed_at = Some(at);
        self
    }

    /// Updates the change, and returns it with its new values.
    pub async fn send(self) -> Result<Change, Error> {
        let request = ApiRequest::update(&["changes", &self.id.to_string()], &self.patch)?;
        self.transport.send_for_data(&request).await
    }
}
