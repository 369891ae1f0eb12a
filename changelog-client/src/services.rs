//! The fields of services.

use changelog_core::{Service, ServiceId};

use crate::catalog::{Catalog, CreateItem, UpdateItem};
use crate::mode::{Async, Mode};
use crate::setters::setters;

/// The endpoints for services; see [`Client::services`](crate::Client::services).
pub type Services<M = Async> = Catalog<Service, M>;

impl<M: Mode> CreateItem<Service, M> {
    setters! { new:
        /// Sets the description: at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters.
        description(text: impl Into<String>) => description = Some(text.into());
        /// Sets the color, `#rgb` or `#rrggbb`; `#6366f1` by default.
        color(color: impl Into<String>) => color = Some(color.into());
        /// Sets the services that it depends on: at most
        /// [`MAX_DEPENDENCIES`](crate::limits::MAX_DEPENDENCIES).
        depends_on(ids: impl IntoIterator<Item = ServiceId>) =>
            depends_on = ids.into_iter().collect();
    }
}

impl<M: Mode> UpdateItem<Service, M> {
    setters! { patch:
        /// Sets the name: 2 to 100 characters.
        name(name: impl Into<String>) => name = Some(name.into());
        /// Sets the description (at most
        /// [`MAX_LONG_TEXT_CHARS`](crate::limits::MAX_LONG_TEXT_CHARS) characters).
        description(text: impl Into<String>) => description = Some(Some(text.into()));
        /// Clears the description.
        clear_description() => description = Some(None);
        /// Sets the color, `#rgb` or `#rrggbb`.
        color(color: impl Into<String>) => color = Some(color.into());
        /// Replaces the list of the services that it depends on (at most
        /// [`MAX_DEPENDENCIES`](crate::limits::MAX_DEPENDENCIES)); an empty list clears it.
        depends_on(ids: impl IntoIterator<Item = ServiceId>) =>
            depends_on = Some(ids.into_iter().collect());
    }
}
