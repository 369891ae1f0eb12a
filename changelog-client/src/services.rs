//! The endpoints for services.

use changelog_core::{NewService, Service, ServiceId, ServicePatch};

use crate::error::{Error, ErrorKind};
use crate::mode::{Async, Mode, Sender, into_future};
use crate::request::ApiRequest;
use crate::transport::Transport;

/// The endpoints for services; see [`Client::services`](crate::Client::services).
#[derive(Clone, Debug)]
pub struct Services<M = Async> {
    sender: Sender<M>,
}

impl<M: Mode> Services<M> {
    pub(crate) fn new(sender: Sender<M>) -> Self {
        Self { sender }
    }

    /// Prepares to create a service with a name of 2 to 100 characters, unique
    /// regardless of ASCII case.
    pub fn create(&self, name: impl Into<String>) -> CreateService<M> {
        self.create_from(NewService {
            name: name.into(),
            ..NewService::default()
        })
    }

    /// Prepares to create a service from its fields.
    pub fn create_from(&self, service: NewService) -> CreateService<M> {
        CreateService {
            sender: self.sender.clone(),
            service,
            idempotency_key: None,
        }
    }

    /// Lists all services of the organization, sorted by name.
    pub fn list(&self) -> M::Response<Vec<Service>> {
        self.sender.data(Ok(ApiRequest::get(&["services"])))
    }

    /// Gets a service.
    pub fn get(&self, id: ServiceId) -> M::Response<Service> {
        self.sender
            .data(Ok(ApiRequest::get(&["services", &id.to_string()])))
    }

    /// Finds a service by its name, regardless of ASCII case, in the list of all.
    pub fn find(&self, name: impl Into<String>) -> M::Response<Option<Service>> {
        let name = name.into();
        self.sender
            .run(|transport| async move { find(&transport, &name).await })
    }

    /// Finds a service by its name, regardless of ASCII case, and creates it if it does not
    /// exist.
    pub fn ensure(&self, name: impl Into<String>) -> M::Response<Service> {
        let name = name.into();
        self.sender.run(|transport| async move {
            if let Some(found) = find(&transport, &name).await? {
                return Ok(found);
            }
            let new = NewService {
                name: name.clone(),
                ..NewService::default()
            };
            let request = ApiRequest::create(&["services"], &new, None)?;
            match transport.send_for_data(&request).await {
                // Another client has created it meanwhile.
                Err(error) if error.kind() == Some(ErrorKind::Conflict) => {
                    find(&transport, &name).await?.ok_or(error)
                }
                created => created,
            }
        })
    }

    /// Prepares to update a service.
    pub fn update(&self, id: ServiceId) -> UpdateService<M> {
        self.update_with(id, ServicePatch::default())
    }

    /// Prepares to update a service with a patch.
    pub fn update_with(&self, id: ServiceId, patch: ServicePatch) -> UpdateService<M> {
        UpdateService {
            sender: self.sender.clone(),
            id,
            patch,
        }
    }
}

async fn find(transport: &Transport, name: &str) -> Result<Option<Service>, Error> {
    let all: Vec<Service> = transport
        .send_for_data(&ApiRequest::get(&["services"]))
        .await?;
    let mut all = all.into_iter();
    Ok(all.find(|one| one.name.eq_ignore_ascii_case(name.trim())))
}

/// A service to create; nothing is sent until [`CreateService::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateService<M = Async> {
    sender: Sender<M>,
    service: NewService,
    idempotency_key: Option<String>,
}

impl<M: Mode> CreateService<M> {
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
    pub fn send(self) -> M::Response<Service> {
        self.sender.data(ApiRequest::create(
            &["services"],
            &self.service,
            self.idempotency_key,
        ))
    }
}

/// An update of a service; nothing is sent until [`UpdateService::send`]. Fields
/// that are not set keep their values.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateService<M = Async> {
    sender: Sender<M>,
    id: ServiceId,
    patch: ServicePatch,
}

impl<M: Mode> UpdateService<M> {
    /// Sets the name: 2 to 100 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.patch.name = Some(name.into());
        self
    }

    /// Sets the description (at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.patch.description = Some(Some(text.into()));
        self
    }

    /// Clears the description.
    pub fn clear_description(mut self) -> Self {
        self.patch.description = Some(None);
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
    pub fn send(self) -> M::Response<Service> {
        self.sender.data(ApiRequest::update(
            &["services", &self.id.to_string()],
            &self.patch,
        ))
    }
}

into_future!(CreateService => Service, UpdateService => Service);
