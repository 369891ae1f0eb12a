//! Requests about services.

use changelog_core::{NewService, Service, ServiceId, ServicePatch};

use crate::client::Client;
use crate::error::Error;
use crate::send::Call;

const PATH: &str = "services";

/// The requests about services.
#[derive(Clone, Debug)]
pub struct Services {
    client: Client,
}

impl Services {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Starts a service with this name: 2 to 100 characters.
    pub fn create(&self, name: impl Into<String>) -> CreateService {
        self.create_from(NewService {
            name: name.into(),
            ..NewService::default()
        })
    }

    /// Starts a service from what was put together elsewhere.
    pub fn create_from(&self, service: NewService) -> CreateService {
        CreateService {
            client: self.client.clone(),
            service,
            idempotency_key: None,
        }
    }

    /// Lists all services of the organization, by name.
    pub fn list(&self) -> impl Future<Output = Result<Vec<Service>, Error>> + Send + use<> {
        let client = self.client.clone();
        async move { client.record(&Call::get(&[PATH])).await }
    }

    /// Gets one service.
    pub fn get(
        &self,
        id: ServiceId,
    ) -> impl Future<Output = Result<Service, Error>> + Send + use<> {
        let client = self.client.clone();
        async move {
            let call = Call::get(&[PATH, &id.to_string()]);
            client.record(&call).await
        }
    }

    /// Starts an update of one service.
    pub fn update(&self, id: ServiceId) -> UpdateService {
        self.update_with(id, ServicePatch::default())
    }

    /// Starts an update of one service from what was put together elsewhere.
    pub fn update_with(&self, id: ServiceId, patch: ServicePatch) -> UpdateService {
        UpdateService {
            client: self.client.clone(),
            id,
            patch,
        }
    }
}

/// A service that is to be created; [`CreateService::send`] does it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateService {
    client: Client,
    service: NewService,
    idempotency_key: Option<String>,
}

impl CreateService {
    /// Sets what it is: at most 20000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.service.description = Some(text.into());
        self
    }

    /// Sets its color, `#rgb` or `#rrggbb`; `#6366f1` when not set.
    pub fn color(mut self, color: impl Into<String>) -> Self {
        self.service.color = Some(color.into());
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters; a random
    /// one when not set.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the service.
    pub async fn send(self) -> Result<Service, Error> {
        let call = Call::create(&[PATH], &self.service, self.idempotency_key)?;
        self.client.record(&call).await
    }
}

/// An update of a service that is to be made; what is not set stays as it is.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateService {
    client: Client,
    id: ServiceId,
    patch: ServicePatch,
}

impl UpdateService {
    /// Sets the name: 2 to 100 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.patch.name = Some(name.into());
        self
    }

    /// Sets the description, or takes it away.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
        self
    }

    /// Sets the color, `#rgb` or `#rrggbb`.
    pub fn color(mut self, color: impl Into<String>) -> Self {
        self.patch.color = Some(color.into());
        self
    }

    /// Makes the update, and returns the service as it is then.
    pub async fn send(self) -> Result<Service, Error> {
        let call = Call::update(&[PATH, &self.id.to_string()], &self.patch)?;
        self.client.record(&call).await
    }
}
