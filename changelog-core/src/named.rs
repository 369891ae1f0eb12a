//! What services and hosts have in common: a name that is unique in the organization, by
//! which changes find them.

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::activity::ResourceType;
use crate::ids::OrganizationId;
use crate::input::Input;
use crate::problem::{BadValue, Invalid};
use crate::time::Timestamp;

/// A service or a host.
pub trait Named: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The word for it in commands and messages.
    const NOUN: &'static str;
    /// What the activity log calls it.
    const RESOURCE_TYPE: ResourceType;
    /// The last part of the path of the list, and the table of the database.
    const PLURAL: &'static str;
    /// The field that has the name.
    const NAME_FIELD: &'static str;

    /// The type of its id.
    type Id: FromStr<Err = BadValue>
        + fmt::Debug
        + fmt::Display
        + From<Uuid>
        + Into<Uuid>
        + Copy
        + Eq
        + Hash
        + Send
        + Sync
        + 'static;
    /// The input that creates it.
    type New: Input + Serialize + Clone + fmt::Debug + Send + Sync + 'static;
    /// The input that updates it.
    type Patch: Input + Serialize + Clone + fmt::Debug + Default + Send + Sync + 'static;

    /// Returns its id.
    fn id(&self) -> Self::Id;

    /// Returns its name.
    fn name(&self) -> &str;

    /// Returns the input that creates it with nothing but a name.
    fn named(name: String) -> Self::New;

    /// Returns the name in the input that creates it.
    fn name_of(new: &Self::New) -> &str;

    /// Makes it from input that is valid.
    fn create(
        new: Self::New,
        id: Self::Id,
        organization_id: OrganizationId,
        created_at: Timestamp,
    ) -> Self;

    /// Replaces the fields that a patch has.
    ///
    /// # Errors
    /// [`Invalid`] when a service would depend on itself.
    fn apply(&mut self, patch: Self::Patch) -> Result<(), Invalid>;
}

/// Replaces the value of a field by that of a patch, if it has one.
pub(crate) fn replace<T>(field: &mut T, patched: Option<T>) {
    if let Some(value) = patched {
        *field = value;
    }
}
