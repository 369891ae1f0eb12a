//! Ranks the changes before a moment.

use changelog_core::{Around, AroundFilter, HostId, ServiceId, Timestamp};

use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// A ranking of the changes before a moment; nothing is sent until
/// [`AroundChanges::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct AroundChanges {
    transport: Transport,
    filter: AroundFilter,
}

impl AroundChanges {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport,
            filter: AroundFilter::default(),
        }
    }

    /// Sets the moment; now by default.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.filter.at = Some(at);
        self
    }

    /// Sets the affected service. Its changes rank higher.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.filter.service_id = Some(id);
        self
    }

    /// Sets the affected host. Its changes rank higher.
    pub fn host(mut self, id: HostId) -> Self {
        self.filter.host_id = Some(id);
        self
    }

    /// Sets how far to look back, in minutes: 1 to 10,080 (7 days); 120 by
    /// default.
    pub fn window_minutes(mut self, minutes: u64) -> Self {
        self.filter.window_minutes = minutes;
        self
    }

    /// Sets the maximum number of changes: 1 to 100; 20 by default.
    pub fn limit(mut self, count: u64) -> Self {
        self.filter.limit = count;
        self
    }

    /// Returns the changes with the reasons for their rank, the most suspicious
    /// first.
    pub async fn send(self) -> Result<Around, Error> {
        let request = ApiRequest::get(&["changes", "around"]).query(self.filter.to_query());
        self.transport.send(&request).await
    }
}
