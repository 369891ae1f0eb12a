//! Whether an entry may be sent with a key: with the keys of its organization,
//! or, while its organization is not known, with the key that it was kept with.

use changelog_core::OrganizationId;

use super::entry::SpoolEntry;
use super::owner::Owner;

/// Whether an entry may be sent with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The entry belongs to the key's organization, or was kept with the key.
    Own,
    /// The entry belongs to another organization.
    Foreign,
    /// The entry was kept with another key whose organization is not known.
    Unknown,
}

impl Claim {
    /// Returns the claim of an owner on an entry; none if the owner's
    /// organization is needed and not known.
    pub(crate) fn of(
        entry: &SpoolEntry,
        owner: &Owner,
        organization: Option<OrganizationId>,
    ) -> Option<Self> {
        let is_same_key = entry.key_fingerprint == owner.fingerprint;
        match (entry.known_organization(), organization) {
            (Some(one), Some(other)) if one == other => Some(Self::Own),
            (Some(_), Some(_)) => Some(Self::Foreign),
            (_, None) | (None, _) if is_same_key => Some(Self::Own),
            (Some(_), None) => None,
            (None, _) => Some(Self::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::failure::Cause;
    use crate::base::time;

    fn entry(organization: Option<OrganizationId>, fingerprint: &str) -> SpoolEntry {
        SpoolEntry {
            file_id: None,
            // No organization is remembered for this URL.
            url: "http://entry.invalid".to_owned(),
            organization,
            key_fingerprint: fingerprint.to_owned(),
            idempotency_key: String::new(),
            kept_at: time::now(),
            cause: Cause::Unavailable,
            reason: String::new(),
            draft: None,
            id: None,
            update: None,
        }
    }

    #[test]
    fn an_entry_is_sent_only_with_keys_of_its_organization_or_its_own_key() {
        let id = |text: &str| text.parse::<OrganizationId>().ok();
        let (acme, umbrella) = (
            id("018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"),
            id("018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e91"),
        );
        assert!(acme.is_some() && umbrella.is_some());
        let owner = Owner {
            url: "http://owner.invalid".to_owned(),
            fingerprint: "one".to_owned(),
        };
        for (of, fingerprint, organization, expected) in [
            (acme, "one", acme, Some(Claim::Own)),
            // A rotated key of the same organization.
            (acme, "two", acme, Some(Claim::Own)),
            (acme, "one", umbrella, Some(Claim::Foreign)),
            (acme, "two", umbrella, Some(Claim::Foreign)),
            (acme, "one", None, Some(Claim::Own)),
            (acme, "two", None, None),
            (None, "one", acme, Some(Claim::Own)),
            (None, "one", None, Some(Claim::Own)),
            (None, "two", acme, Some(Claim::Unknown)),
            (None, "two", None, Some(Claim::Unknown)),
        ] {
            let claim = Claim::of(&entry(of, fingerprint), &owner, organization);
            assert_eq!(claim, expected, "{of:?} {fingerprint} {organization:?}");
        }
    }
}
