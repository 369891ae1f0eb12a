//! Forms that may be sent once: reloading the page that shows a new secret must not create
//! another one. A form has the id of what it will create as the hidden field `new_id`.

use changelog_core::OrganizationId;
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::form::Form;
use crate::store::new_id;

/// Returns the id in a form, or another one if it has none.
pub(crate) fn id_in(form: &Form, now: DateTime<Utc>) -> Uuid {
    let sent = form.value("new_id").parse().ok();
    sent.filter(|id: &Uuid| id.get_version_num() == 7)
        .unwrap_or_else(|| new_id(now))
}

/// Returns the id of what a form creates in an organization, where only the id and the
/// organization together are unique. A form must not choose it: the address of a public key has
/// only the id of its connection, and the operator names sources by their ids.
pub(crate) fn id_for(organization: OrganizationId, form: &Form, now: DateTime<Utc>) -> Uuid {
    derived(organization, id_in(form, now))
}

fn derived(organization: OrganizationId, sent: Uuid) -> Uuid {
    let hash = Sha256::new()
        .chain_update(organization.0)
        .chain_update(sent)
        .finalize();
    let mut bytes = sent.into_bytes();
    // After the time.
    bytes[6..].copy_from_slice(&hash[..10]);
    let id = Builder::from_bytes(bytes)
        .with_variant(Variant::RFC4122)
        .with_version(Version::SortRand);
    id.into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_forms_differ_between_organizations() {
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        let id = |organization: Uuid, sent: Uuid| derived(OrganizationId(organization), sent);
        assert_eq!(id(one, other), id(one, other));
        assert_ne!(id(one, other), id(other, other));
        assert_ne!(id(one, one), id(one, other));
        let made = id(one, other);
        assert_eq!(made.get_version(), Some(Version::SortRand));
        assert_eq!(made.as_bytes()[..6], other.as_bytes()[..6]);
    }
}
