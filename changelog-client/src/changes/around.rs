//! Ranks the changes before a moment.

use changelog_core::{Around, AroundFilter, Environment, HostId, ServiceId, Timestamp};

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;

/// A ranking of the changes before a moment; nothing is sent until
/// [`AroundChanges::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct AroundChanges<M = Async> {
    sender: Sender<M>,
    filter: AroundFilter,
}

impl<M: Mode> AroundChanges<M> {
    pub(super) fn new(sender: Sender<M>) -> Self {
        Self {
            sender,
            filter: AroundFilter::default(),
        }
    }

    /// Sets the moment; now by default.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.filter.at = Some(at);
        self
    }

    /// Sets the affected service. Its changes rank higher, and those of services that
    /// it depends on, or that depend on it.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.filter.service_id = Some(id);
        self
    }

    /// Sets the affected host. Its changes rank higher.
    pub fn host(mut self, id: HostId) -> Self {
        self.filter.host_id = Some(id);
        self
    }

    /// Sets the affected environment; that of the host by default. Its changes rank
    /// higher.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.filter.environment = Some(environment);
        self
    }

    /// Sets the symptom, such as an error message. Changes rank higher if words of it
    /// are in their title or in the name of their service.
    pub fn symptom(mut self, text: impl Into<String>) -> Self {
        self.filter.q = Some(text.into());
        self
    }

    /// Sets how far to look back, in minutes: 1 to 10,080 (7 days). By default a day;
    /// if that has nothing of weight, 3 days, then 7.
    pub fn window_minutes(mut self, minutes: u64) -> Self {
        self.filter.window_minutes = Some(minutes);
        self
    }

    /// Includes planned changes, which have not happened.
    pub fn with_planned(mut self) -> Self {
        self.filter.planned = true;
        self
    }

    /// Sets the maximum number of changes: 1 to 100; 20 by default.
    pub fn limit(mut self, count: u64) -> Self {
        self.filter.limit = count;
        self
    }

    /// Returns the changes with the reasons for their rank, the most suspicious
    /// first.
    pub fn send(self) -> M::Response<Around> {
        let request = ApiRequest::get(&["changes", "around"]).query(self.filter.to_query());
        self.sender.body(Ok(request))
    }
}

into_future!(AroundChanges => Around);
