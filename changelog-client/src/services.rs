//! The endpoints for services.

use changelog_core::{NewService, Service, ServiceId, ServicePatch};

use crate::error::Error;
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for services; see [`Client::services`](crate::Client::services).
#[derive(Clone, Debug)]
pub struct Services {
    transport: Transport,
}

impl Services {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Prepares to create a service with a name of 2 to 100 characters, unique
    /// regardless of ASCII case.
    pub fn create(&self, name: impl Into<String>) -> CreateService {
        self.create_from(NewService {
            name: name.into(),
            ..NewService::default()
        })
    }

    /// Prepares to create a service from its fields.
    pub fn create_from(&self, service: NewService) -> CreateService {
        CreateService {
            transport: self.transport.clone(),
            service,
            idempotency_key: None,
        }
    }

    /// Lists all services of the organization, sorted by name.
    pub fn list(&self) -> impl Future<Output = Result<Vec<Service>, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            transport
                .send_for_data(&ApiRequest::get(&["services"]))
                .await
        }
    }

    /// Gets a service.
    pub fn get(
        &self,
        id: ServiceId,
    ) -> impl Future<Output = Result<Service, Error>> + Send + use<> {
        let transport = self.transport.clone();
        async move {
            let request = ApiRequest::get(&["services", &id.to_string()]);
            transport.send_for_data(&request).await
        }
    }

    /// Prepares to update a service.
    pub fn update(&self, id: ServiceId) -> UpdateService {
        self.update_with(id, ServicePatch::default())
    }

    /// Prepares to update a service with a patch.
    pub fn update_with(&self, id: ServiceId, patch: ServicePatch) -> UpdateService {
        UpdateService {
            transport: self.transport.clone(),
            id,
            patch,
        }
    }
}

/// A service to create; nothing is sent until [`CreateService::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateService {
    transport: Transport,
    service: NewService,
    idempotency_key: Option<String>,
}

impl CreateService {
    /// Sets the description: at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.service.description = Some(text.into());
        self
    }

    /// Sets the color, `#rgb` or `#rrggbb`; `#6366f1` by default.
    pub fn color(mut self, color: impl Into<String>) -> Self {
        self.service.color = Some(color.into());
        self
    }

    /// Sets the services that it depends on: at most
    /// [`MAX_DEPENDENCIES`](crate::limits::MAX_DEPENDENCIES).
    pub fn depends_on(mut self, ids: impl IntoIterator<Item = ServiceId>) -> Self {
        self.service.depends_on = ids.into_iter().collect();
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a new one
    /// by default.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the service.
    pub async fn send(self) -> Result<Service, Error> {
        let request = ApiRequest::create(&["services"], &self.service, self.idempotency_key)?;
        self.transport.send_for_data(&request).await
    }
}

/// An update of a service; nothing is sent until [`UpdateService::send`]. Fields
/// that are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateService {
    transport: Transport,
    id: ServiceId,
    patch: ServicePatch,
}

impl UpdateService {
    /// Sets the name: 2 to 100 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.patch.name = Some(name.into());
        self
    }

    /// Sets the description (at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters), or clears it.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
        self
    }

    /// Sets the color, `#rgb` or `#rrggbb`.
    pub fn color(mut self, color: impl Into<String>) -> Self {
        self.patch.color = Some(color.into());
        self
    }

    /// Replaces the list of the services that it depends on (at most
    /// [`MAX_DEPENDENCIES`](crate::limits::MAX_DEPENDENCIES)); an empty list clears it.
    pub fn depends_on(mut self, ids: impl IntoIterator<Item = ServiceId>) -> Self {
        self.patch.depends_on = Some(ids.into_iter().collect());
        self
    }

    /// Updates the service, and returns it with its new values.
    pub async fn send(self) -> Result<Service, Error> {
        let request = ApiRequest::update(&["services", &self.id.to_string()], &self.patch)?;
        self.transport.send_for_data(&request).await
    }
}
