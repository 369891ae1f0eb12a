//! The fields of services.

use changelog_core::{Service, ServiceId};

use crate::catalog::{Catalog, CreateItem, UpdateItem};
use crate::mode::{Async, Mode};

/// The endpoints for services; see [`Client::services`](crate::Client::services).
pub type Services<M = Async> = Catalog<Service, M>;

impl<M: Mode> CreateItem<Service, M> {
    /// Sets the description: at most
    /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.new.description = Some(text.into());
        self
    }

    /// Sets the color, `#rgb` or `#rrggbb`; `#6366f1` by default.
    pub fn color(mut self, color: impl Into<String>) -> Self {
        self.new.color = Some(color.into());
        self
    }

    /// Sets the services that it depends on: at most
    /// [`MAX_DEPENDENCIES`](crate::limits::MAX_DEPENDENCIES).
    pub fn depends_on(mut self, ids: impl IntoIterator<Item = ServiceId>) -> Self {
        self.new.depends_on = ids.into_iter().collect();
        self
    }
}

impl<M: Mode> UpdateItem<Service, M> {
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
}
