//! Ranks the changes before a moment.

use changelog_core::{Around, AroundFilter, Environment, HostId, ServiceId, Timestamp};

use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::setters::setters;

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

    setters! { filter:
        /// Sets the moment; now by default.
        at(at: Timestamp) => at = Some(at);
        /// Sets the affected service. Its changes rank higher, and those of services that
        /// it depends on, or that depend on it.
        service(id: ServiceId) => service_id = Some(id);
        /// Sets the affected host. Its changes rank higher.
        host(id: HostId) => host_id = Some(id);
        /// Sets the affected environment; that of the host by default. Its changes rank
        /// higher.
        environment(environment: Environment) => environment = Some(environment);
        /// Sets the symptom, such as an error message. Changes rank higher if words of it
        /// are in their title or in the name of their service. Only these words are sent, and
        /// not more than are compared.
        symptom(text: impl Into<String>) => q = Some(text.into());
        /// Sets how far to look back, in minutes: 1 to 10,080 (7 days). By default a day;
        /// if that has nothing of weight, 3 days, then 7.
        window_minutes(minutes: u64) => window_minutes = Some(minutes);
        /// Includes planned changes, which have not happened.
        with_planned() => planned = true;
        /// Sets the maximum number of changes: 1 to 100; 20 by default.
        limit(count: u64) => limit = count;
    }

    /// Returns the changes with the reasons for their rank, the most suspicious
    /// first.
    pub fn send(self) -> M::Response<Around> {
        let query = self.filter.with_short_symptom().to_query();
        let request = ApiRequest::get(&["changes", "around"]).query(query);
        self.sender.body(Ok(request))
    }
}

into_future!(AroundChanges => Around);
