//! Updates a change.

use changelog_core::{
    Change, ChangeId, ChangePatch, HostId, Link, RiskLevel, ServiceId, Status, Timestamp,
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

    /// Sets the service that is changed, or clears it.
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

    /// Updates the change, and returns it with its new values.
    pub async fn send(self) -> Result<Change, Error> {
        let request = ApiRequest::update(&["changes", &self.id.to_string()], &self.patch)?;
        self.transport.send_for_data(&request).await
    }
}
