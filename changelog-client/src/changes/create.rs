//! Creates changes.

use changelog_core::{
    Agent, Change, ChangeCreated, Environment, HostId, Link, NewChange, NewChanges, Outcome,
    RiskLevel, ServiceId, Status, Timestamp, headers,
};

use serde::Deserialize;

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::setters::setters;

/// A change to create; nothing is sent until [`CreateChange::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateChange<M = Async> {
    sender: Sender<M>,
    change: NewChange,
    idempotency_key: Option<String>,
}

impl<M: Mode> CreateChange<M> {
    pub(super) fn new(sender: Sender<M>, change: NewChange) -> Self {
        Self {
            sender,
            change,
            idempotency_key: None,
        }
    }

    setters! { change:
        /// Sets the description: at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters.
        description(text: impl Into<String>) => description = Some(text.into());
        /// Sets the risk level; [`RiskLevel::Low`] by default.
        risk_level(risk: RiskLevel) => risk_level = Some(risk);
        /// Sets the status; [`Status::Planned`] by default.
        status(status: Status) => status = Some(status);
        /// Sets the expected impact: at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters.
        impact(text: impl Into<String>) => impact = Some(text.into());
        /// Sets the service that is changed.
        service(id: ServiceId) => service_id = Some(id);
        /// Sets the service that is changed by its name, regardless of ASCII case.
        service_name(name: impl Into<String>) => service_name = Some(name.into());
        /// Sets the host that is changed by its name, regardless of ASCII case.
        hostname(name: impl Into<String>) => hostname = Some(name.into());
        /// Sets the host that is changed.
        host(id: HostId) => host_id = Some(id);
        /// Sets the time for which the change is scheduled.
        scheduled_for(at: Timestamp) => scheduled_for = Some(at);
        /// Sets all services that were changed: at most 20, the first one first.
        services(ids: impl IntoIterator<Item = ServiceId>) =>
            service_ids = ids.into_iter().collect();
        /// Sets the environment; that of the host by default.
        environment(environment: Environment) => environment = Some(environment);
        /// Sets how the change ended; needs another status than [`Status::Planned`].
        outcome(outcome: Outcome) => outcome = Some(outcome);
        /// Sets the time at which the change was started; that of the change by default.
        /// Needs another status than [`Status::Planned`].
        started_at(at: Timestamp) => started_at = Some(at);
        /// Sets the time at which the change ended, not before its start. Needs the status
        /// [`Status::Completed`] or [`Status::RolledBack`].
        ended_at(at: Timestamp) => ended_at = Some(at);
        /// Sets the person for whom the API key acts: a name or an address of at most 254
        /// characters.
        on_behalf_of(person: impl Into<String>) => on_behalf_of = Some(person.into());
        /// Sets the automation that acts.
        agent(agent: Agent) => agent = Some(agent);
        /// Sets the commit that is deployed: at most 100 characters.
        commit(commit: impl Into<String>) => commit = Some(commit.into());
        /// Sets the time of that commit.
        committed_at(at: Timestamp) => committed_at = Some(at);
        /// Sets the time of the change: from 1970, at most 5 minutes in the future;
        /// its start, or else now, by default.
        occurred_at(at: Timestamp) => occurred_at = Some(at);
    }

    /// Adds a tag of 1 to 100 characters; at most 20 tags.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.change.tags.push(tag.into());
        self
    }

    /// Adds tags.
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.change.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Adds a link with a label of 1 to 100 characters and an `http` or `https`
    /// URL of at most 2,048 characters; at most 10 links.
    pub fn link(mut self, label: impl Into<String>, url: impl Into<String>) -> Self {
        self.change.links.push(Link {
            label: label.into(),
            url: url.into(),
        });
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters.
    ///
    /// Creates with the same key and the same content create one change. By
    /// default each call of [`CreateChange::send`] uses a new key for all its
    /// attempts.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the change.
    pub fn send(self) -> M::Response<ChangeCreated> {
        let request = ApiRequest::create(&["changes"], &self.change, self.idempotency_key);
        self.sender.data(request)
    }

    /// Creates the change, and returns it with all its fields.
    pub fn send_in_full(self) -> M::Response<Change> {
        let request = ApiRequest::create(&["changes"], &self.change, self.idempotency_key);
        self.sender.run(|transport| async move {
            let request = request?.prefer(headers::RETURN_REPRESENTATION);
            match transport.send_for_data(&request).await? {
                Created::InFull(change) => Ok(*change),
                Created::InBrief(created) => {
                    let request = ApiRequest::get(&["changes", &created.id.to_string()]);
                    transport.send_for_data(&request).await
                }
            }
        })
    }
}

/// The response to a create that prefers the whole change, which a service need not
/// return.
#[derive(Deserialize)]
#[serde(untagged)]
enum Created {
    InFull(Box<Change>),
    InBrief(ChangeCreated),
}

/// Several changes to create; nothing is sent until [`CreateChanges::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateChanges<M = Async> {
    sender: Sender<M>,
    changes: NewChanges,
    idempotency_key: Option<String>,
}

impl<M: Mode> CreateChanges<M> {
    pub(super) fn new(sender: Sender<M>, changes: Vec<NewChange>) -> Self {
        Self {
            sender,
            changes: NewChanges {
                changes,
                notify: None,
            },
            idempotency_key: None,
        }
    }

    /// Sets the idempotency key of the whole request: 1 to 255 printable ASCII
    /// characters. By default each call of [`CreateChanges::send`] uses a new key
    /// for all its attempts.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sets whether receivers and subscribers are notified of the changes; they are by
    /// default.
    pub fn notify(mut self, notify: bool) -> Self {
        self.changes.notify = Some(notify);
        self
    }

    /// Creates all changes, in the order given; none if one of them breaks a
    /// validation rule. The pointer of each
    /// [violation](crate::ErrorResponse::violations) then names the change:
    /// `/changes/3/title` is the title of the fourth.
    pub fn send(self) -> M::Response<Vec<ChangeCreated>> {
        let path = ["changes", "bulk"];
        self.sender.data(ApiRequest::create(
            &path,
            &self.changes,
            self.idempotency_key,
        ))
    }
}

into_future!(CreateChange => ChangeCreated, CreateChanges => Vec<ChangeCreated>);
