//! The endpoints for incidents.

mod watch;

use changelog_core::ids::IdPrefix;
use changelog_core::{
    CauseInput, ChangeId, Environment, Incident, IncidentFilter, IncidentId, IncidentPatch,
    IncidentStatus, NewIncident, ServiceId, Severity, Timestamp,
};

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::setters::setters;

pub use self::watch::{WatchIncidents, WatchedIncident};

/// The first part of the paths.
const PATH: &str = "incidents";

/// The endpoints for incidents; see [`Client::incidents`](crate::Client::incidents).
#[derive(Clone, Debug)]
pub struct Incidents<M = Async> {
    sender: Sender<M>,
}

impl<M: Mode> Incidents<M> {
    pub(crate) fn new(sender: Sender<M>) -> Self {
        Self { sender }
    }

    /// Prepares to open an incident with a title of 3 to 300 characters.
    pub fn open(&self, title: impl Into<String>) -> OpenIncident<M> {
        self.open_from(NewIncident {
            title: title.into(),
            ..NewIncident::default()
        })
    }

    /// Prepares to open an incident from its fields.
    pub fn open_from(&self, new: NewIncident) -> OpenIncident<M> {
        OpenIncident {
            sender: self.sender.clone(),
            new,
            idempotency_key: None,
        }
    }

    /// Prepares to list incidents: open ones first, then by their start, the latest first.
    pub fn list(&self) -> ListIncidents<M> {
        ListIncidents {
            sender: self.sender.clone(),
            filter: IncidentFilter::default(),
        }
    }

    /// Prepares to receive incidents as they are opened, changed and resolved.
    pub fn watch(&self) -> WatchIncidents<M> {
        WatchIncidents::new(self.sender.clone())
    }

    /// Gets an incident with its suspects.
    pub fn get(&self, id: IncidentId) -> M::Response<Incident> {
        let request = ApiRequest::get(&[PATH, &id.to_string()]);
        self.sender.data(Ok(request))
    }

    /// Prepares to update an incident.
    pub fn update(&self, id: IncidentId) -> UpdateIncident<M> {
        UpdateIncident {
            sender: self.sender.clone(),
            id,
            patch: IncidentPatch::default(),
        }
    }

    /// Resolves an incident now.
    pub fn resolve(&self, id: IncidentId) -> M::Response<Incident> {
        self.update(id).status(IncidentStatus::Resolved).send()
    }

    /// Marks a change as the cause of an incident.
    pub fn mark_cause(&self, id: IncidentId, change: ChangeId) -> M::Response<Incident> {
        self.put_cause(
            id,
            CauseInput {
                change_id: Some(change),
                none_of_these: false,
            },
        )
    }

    /// Marks that no recorded change is the cause of an incident.
    pub fn mark_no_cause(&self, id: IncidentId) -> M::Response<Incident> {
        self.put_cause(
            id,
            CauseInput {
                change_id: None,
                none_of_these: true,
            },
        )
    }

    /// Takes the mark of the cause away.
    pub fn clear_cause(&self, id: IncidentId) -> M::Response<Incident> {
        self.put_cause(id, CauseInput::default())
    }

    fn put_cause(&self, id: IncidentId, cause: CauseInput) -> M::Response<Incident> {
        let path = [PATH, &id.to_string(), "cause"];
        self.sender.data(ApiRequest::put(&path, &cause))
    }
}

/// An incident to open; nothing is sent until [`OpenIncident::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct OpenIncident<M = Async> {
    sender: Sender<M>,
    new: NewIncident,
    idempotency_key: Option<String>,
}

impl<M: Mode> OpenIncident<M> {
    setters! { new:
        /// Sets how bad it is; `warning` by default.
        severity(severity: Severity) => severity = Some(severity);
        /// Sets the affected service.
        service(id: ServiceId) => service_id = Some(id);
        /// Sets the affected service by its name, regardless of ASCII case.
        service_name(name: impl Into<String>) => service_name = Some(name.into());
        /// Sets the affected environment.
        environment(environment: Environment) => environment = Some(environment);
        /// Sets when it started; now by default.
        started_at(at: Timestamp) => started_at = Some(at);
        /// Sets a page about it.
        url(url: impl Into<String>) => url = Some(url.into());
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a new one by default.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Opens the incident.
    pub fn send(self) -> M::Response<Incident> {
        let request = ApiRequest::create(&[PATH], &self.new, self.idempotency_key);
        self.sender.data(request)
    }
}

/// A list of incidents; nothing is sent until [`ListIncidents::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct ListIncidents<M = Async> {
    sender: Sender<M>,
    filter: IncidentFilter,
}

impl<M: Mode> ListIncidents<M> {
    setters! { filter:
        /// Lists only incidents whose id begins with this.
        id_prefix(prefix: IdPrefix) => id = Some(prefix);
        /// Lists only incidents of this status.
        status(status: IncidentStatus) => status = Some(status);
        /// Lists only incidents of this service.
        service(id: ServiceId) => service_id = Some(id);
        /// Lists only incidents that started at this time or later.
        since(at: Timestamp) => since = Some(at);
        /// Lists only incidents that started before this time.
        until(at: Timestamp) => until = Some(at);
        /// Continues after this incident: the last one of the page before.
        before(id: IncidentId) => before = Some(id);
        /// Sets the maximum number of incidents: 1 to 100; 25 by default.
        limit(count: u64) => limit = count;
    }

    /// Lists the incidents, each with its first three suspects.
    pub fn send(self) -> M::Response<Vec<Incident>> {
        let request = ApiRequest::get(&[PATH]).query(self.filter.to_query());
        self.sender.data(Ok(request))
    }
}

/// An update of an incident; nothing is sent until [`UpdateIncident::send`]. Fields that are
/// not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateIncident<M = Async> {
    sender: Sender<M>,
    id: IncidentId,
    patch: IncidentPatch,
}

impl<M: Mode> UpdateIncident<M> {
    setters! { patch:
        /// Sets the title: 3 to 300 characters.
        title(title: impl Into<String>) => title = Some(title.into());
        /// Sets how bad it is.
        severity(severity: Severity) => severity = Some(severity);
        /// Resolves it, now unless `resolved_at` is set, or opens it again.
        status(status: IncidentStatus) => status = Some(status);
        /// Sets the affected service.
        service(id: ServiceId) => service_id = Some(Some(id));
        /// Clears the affected service.
        clear_service() => service_id = Some(None);
        /// Sets the affected environment.
        environment(environment: Environment) => environment = Some(Some(environment));
        /// Clears the affected environment.
        clear_environment() => environment = Some(None);
        /// Corrects when it started.
        started_at(at: Timestamp) => started_at = Some(at);
        /// Sets when it was over; needs the status [`IncidentStatus::Resolved`].
        resolved_at(at: Timestamp) => resolved_at = Some(at);
        /// Sets a page about it.
        url(url: impl Into<String>) => url = Some(Some(url.into()));
        /// Clears the page about it.
        clear_url() => url = Some(None);
    }

    /// Updates the incident, and returns it with its new values.
    pub fn send(self) -> M::Response<Incident> {
        let path = [PATH, &self.id.to_string()];
        self.sender.data(ApiRequest::update(&path, &self.patch))
    }
}

into_future!(OpenIncident => Incident, ListIncidents => Vec<Incident>, UpdateIncident => Incident);
