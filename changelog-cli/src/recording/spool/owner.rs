//! Whose an entry of the spool is: an organization, or as long as that is not
//! known the key under which the entry was made.
//!
//! Which organization a key is of is learned from the service and remembered
//! by address and key, so that the next command need not ask:
//!
//! ```text
//! $XDG_STATE_HOME/chlog/spool/keys/DIGEST   the id of the organization
//! ```

use std::fs;
use std::path::PathBuf;

use changelog_client::Client;
use changelog_core::OrganizationId;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use super::{Entry, directory};
use crate::base::failure::Outcome;
use crate::base::private_fs;
use crate::environment::app::App;
use crate::environment::credentials;

/// How many hexadecimal digits of a SHA-256 stand for a key or an address. A
/// key has 190 random bits, so nobody finds it by trying.
const DIGITS: usize = 16;

/// A key at an address, without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    url: String,
    /// The beginning of the key's SHA-256.
    pub(crate) fingerprint: String,
}

/// Whether an entry may be sent under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is of the key's organization, or was made under the same key.
    Own,
    /// It is of another organization.
    Foreign,
    /// It was made under another key, of whose organization nothing is known.
    Unknown,
}

impl Owner {
    /// Returns the owner of what this app records.
    pub(crate) fn of(app: &App) -> Outcome<Self> {
        let url = &app.url()?.value;
        let key = app
            .key()?
            .ok_or_else(|| credentials::missing(&app.credentials, &app.config.profile, url))?;
        Ok(Self {
            url: url.clone(),
            fingerprint: digest(key.value.expose_secret()),
        })
    }

    fn of_entry(entry: &Entry) -> Self {
        Self {
            url: entry.url.clone(),
            fingerprint: entry.key_fingerprint.clone(),
        }
    }

    /// Returns the organization, if this machine has learned it.
    pub(crate) fn organization(&self) -> Option<OrganizationId> {
        fs::read_to_string(self.path()?).ok()?.trim().parse().ok()
    }

    /// Remembers the organization.
    pub(crate) fn learn(&self, organization: OrganizationId) {
        if self.organization() == Some(organization) {
            return;
        }
        if let Some(path) = self.path() {
            // Not remembered, it is asked for again.
            let _ =
                private_fs::write_private(&path, organization.to_string().as_bytes(), |_| Ok(()));
        }
    }

    /// Asks the service for the organization.
    pub(crate) async fn ask(&self, client: &Client) -> Outcome<OrganizationId> {
        let organization = client.key().await?.organization.id;
        self.learn(organization);
        Ok(organization)
    }

    fn path(&self) -> Option<PathBuf> {
        let url = self.url.trim().trim_end_matches('/');
        let name = digest(&format!("{url}\n{}", self.fingerprint));
        Some(directory()?.join("keys").join(name))
    }
}

/// Returns the organization that an entry is of, if it is known by now.
pub(crate) fn organization_of(entry: &Entry) -> Option<OrganizationId> {
    let learned = || Owner::of_entry(entry).organization();
    entry.organization.or_else(learned)
}

/// Judges whether an entry may be sent under the key of an owner; none where
/// that takes to know the owner's organization, and it is not known.
pub(crate) fn claim(
    entry: &Entry,
    owner: &Owner,
    organization: Option<OrganizationId>,
) -> Option<Claim> {
    let is_same_key = entry.key_fingerprint == owner.fingerprint;
    match (organization_of(entry), organization) {
        (Some(one), Some(other)) if one == other => Some(Claim::Own),
        (Some(_), Some(_)) => Some(Claim::Foreign),
        (_, None) | (None, _) if is_same_key => Some(Claim::Own),
        (Some(_), None) => None,
        (None, _) => Some(Claim::Unknown),
    }
}

fn digest(text: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(text));
    digest.truncate(DIGITS);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::failure::Cause;
    use crate::base::time;
    use changelog_core::OrganizationId;

    fn entry(organization: Option<OrganizationId>, fingerprint: &str) -> Entry {
        Entry {
            // Nothing was ever learned of it.
            url: "http://entry.invalid".to_owned(),
            organization,
            key_fingerprint: fingerprint.to_owned(),
            idempotency_key: String::new(),
            kept_at: time::now(),
            cause: Cause::Unavailable,
            reason: String::new(),
            draft: None,
            id: None,
            patch: None,
        }
    }

    #[test]
    fn an_entry_is_sent_under_its_own_organization_or_its_own_key_only() {
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
            let found = claim(&entry(of, fingerprint), &owner, organization);
            assert_eq!(found, expected, "{of:?} {fingerprint} {organization:?}");
        }
    }
}
