//! The key that a change was recorded with, or the pipeline by whose token, and the
//! organization of it.
//!
//! The server is asked for the organization once. It is then remembered by URL
//! and key:
//!
//! ```text
//! $XDG_STATE_HOME/chlog/spool/keys/DIGEST   the id of the organization
//! ```

use std::fs;
use std::path::PathBuf;

use changelog_client::Client;
use changelog_core::OrganizationId;

use super::folder;
use crate::base::failure::Outcome;
use crate::base::private_fs;
use crate::base::text::sha256_hex;
use crate::environment::app::App;

/// The hexadecimal digits of a SHA-256 that identify a key. A key has 190
/// random bits, so it cannot be found from its digest.
const DIGEST_DIGITS: usize = 16;

/// A key at a URL, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) url: String,
    /// The first digits of the key's SHA-256.
    pub(crate) fingerprint: String,
}

impl Owner {
    /// Returns the owner of what this command records.
    pub(crate) fn of(app: &App) -> Outcome<Self> {
        let credential = app.required_credential()?;
        Ok(Self {
            url: app.url()?.value.clone(),
            fingerprint: sha256_hex(&credential.identity(), DIGEST_DIGITS),
        })
    }

    /// Returns the remembered organization.
    pub(crate) fn organization(&self) -> Option<OrganizationId> {
        fs::read_to_string(self.path()?).ok()?.trim().parse().ok()
    }

    /// Remembers the organization.
    pub(crate) fn remember(&self, organization: OrganizationId) {
        if self.organization() == Some(organization) {
            return;
        }
        if let Some(path) = self.path() {
            // On failure the server is asked again next time.
            let _ = private_fs::write(&path, organization.to_string().as_bytes());
        }
    }

    /// Fetches and remembers the organization.
    pub(crate) async fn fetch(&self, client: &Client) -> Outcome<OrganizationId> {
        let organization = client.key().await?.organization.id;
        self.remember(organization);
        Ok(organization)
    }

    fn path(&self) -> Option<PathBuf> {
        let url = self.url.trim().trim_end_matches('/');
        let name = sha256_hex(&format!("{url}\n{}", self.fingerprint), DIGEST_DIGITS);
        Some(folder::directory()?.join("keys").join(name))
    }
}
