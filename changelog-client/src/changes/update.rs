//! Updates a change.

use changelog_core::{
    Agent, Change, ChangeId, ChangePatch, Environment, HostId, Link, Outcome, RiskLevel, ServiceId,
    Status, Timestamp,
};

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::setters::setters;

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

    setters! { patch:
        /// Sets the title: [`MIN_TITLE_CHARS`](crate::limits::MIN_TITLE_CHARS) to
        /// [`MAX_TITLE_CHARS`](crate::limits::MAX_TITLE_CHARS) characters.
        title(title: impl Into<String>) => title = Some(title.into());
        /// Sets the description (at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
        description(text: impl Into<String>) => description = Some(Some(text.into()));
        /// Clears the description.
        clear_description() => description = Some(None);
        /// Sets the risk level.
        risk_level(risk: RiskLevel) => risk_level = Some(risk);
        /// Sets the status.
        status(status: Status) => status = Some(status);
        /// Sets the expected impact (at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
        impact(text: impl Into<String>) => impact = Some(Some(text.into()));
        /// Clears the expected impact.
        clear_impact() => impact = Some(None);
        /// Sets the first service that is changed.
        service(id: ServiceId) => service_id = Some(Some(id));
        /// Removes all services.
        clear_service() => service_id = Some(None);
        /// Sets the host that is changed.
        host(id: HostId) => host_id = Some(Some(id));
        /// Removes the host.
        clear_host() => host_id = Some(None);
        /// Replaces all tags: at most 20, of 1 to 100 characters.
        tags(tags: impl IntoIterator<Item = impl Into<String>>) =>
            tags = Some(tags.into_iter().map(Into::into).collect());
        /// Replaces all links: at most 10.
        links(links: impl IntoIterator<Item = Link>) => links = Some(links.into_iter().collect());
        /// Sets the time for which the change is scheduled.
        scheduled_for(at: Timestamp) => scheduled_for = Some(Some(at));
        /// Clears the time for which the change is scheduled.
        clear_scheduled_for() => scheduled_for = Some(None);
        /// Replaces all services: at most 20, the first one first; none removes all.
        services(ids: impl IntoIterator<Item = ServiceId>) =>
            service_ids = Some(ids.into_iter().collect());
        /// Sets the environment.
        environment(environment: Environment) => environment = Some(Some(environment));
        /// Sets the environment of the host.
        clear_environment() => environment = Some(None);
        /// Sets how the change ended.
        outcome(outcome: Outcome) => outcome = Some(Some(outcome));
        /// Clears how the change ended.
        clear_outcome() => outcome = Some(None);
        /// Sets why the change was rolled back, for its history; needs the status
        /// [`Status::RolledBack`].
        reason(reason: impl Into<String>) => reason = Some(reason.into());
        /// Corrects the time at which the change was started.
        started_at(at: Timestamp) => started_at = Some(Some(at));
        /// Sets the start to the time for which the change was recorded.
        clear_started_at() => started_at = Some(None);
        /// Corrects the time at which the change ended.
        ended_at(at: Timestamp) => ended_at = Some(Some(at));
        /// Clears the time at which the change ended.
        clear_ended_at() => ended_at = Some(None);
        /// Sets the person for whom an API key acted.
        on_behalf_of(person: impl Into<String>) => on_behalf_of = Some(Some(person.into()));
        /// Clears the person for whom an API key acted.
        clear_on_behalf_of() => on_behalf_of = Some(None);
        /// Sets the automation that acted.
        agent(agent: Agent) => agent = Some(Some(agent));
        /// Clears the automation that acted.
        clear_agent() => agent = Some(None);
        /// Sets the commit.
        commit(commit: impl Into<String>) => commit = Some(Some(commit.into()));
        /// Clears the commit.
        clear_commit() => commit = Some(None);
        /// Sets the time of the commit.
        committed_at(at: Timestamp) => committed_at = Some(Some(at));
        /// Clears the time of the commit.
        clear_committed_at() => committed_at = Some(None);
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
