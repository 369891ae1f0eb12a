//! Opens the key file that belongs to a database.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::open_target;
use crate::ingest::open_secret;
use crate::secrets::{Secrets, SecretsError};
use crate::sso::setup;
use crate::store::{OpenError, Store, StoreError, Tenant};

/// Why the key file cannot be used with a database.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file is the reason.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The database is the reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address of the database is the reason.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A command would make another key file than that of the server.
    #[error(
        "there is no key file {path}, and the server that serves this database has another one, \
         with which it could not read what this command stores: name that file by \
         --secrets-key-file, or by CHANGELOG_SECRETS_KEY_FILE as for the server"
    )]
    OfServer {
        /// The path at which there is no file.
        path: PathBuf,
    },
}

/// Who opens a key file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opener<'a> {
    /// A server.
    Server,
    /// A command about one organization, with the address of the database.
    Command { tenant: Tenant, address: &'a str },
}

/// What cannot be decrypted.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// `connection`, `source` or `identity provider`.
    pub(crate) noun: &'static str,
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) error: SecretsError,
}

/// Opens the key file of a database. If there is none, it is made, unless the database has
/// secrets that need the file which is missing, or a command would make it while a server has
/// another one. What is wrong is logged, and the connections
/// and sources concerned send and take nothing until it is corrected. A command about one
/// organization tries the secrets of this one only.
pub(crate) async fn open(
    store: &Store,
    path: &Path,
    opener: Opener<'_>,
) -> Result<Secrets, KeyFileError> {
    let secrets = Secrets::open_existing(path)?;
    let (unreadable, all) = match opener {
        Opener::Command { tenant, .. } if path.exists() => {
            let mut trial = Trial::new(store, &secrets);
            trial.connections(tenant).await?;
            trial.sources(tenant).await?;
            trial.provider(tenant).await?;
            if trial.all == 0 {
                // Another secret shows whether this is the key file of the database.
                trial.everyone(1).await?;
            }
            (trial.unreadable, trial.all)
        }
        _ => unreadable(store, &secrets).await?,
    };
    if all == 0 && !path.exists() {
        if let Opener::Command { address, .. } = opener
            && store.is_served(address)? == Some(true)
        {
            let path = path.to_owned();
            return Err(KeyFileError::OfServer { path });
        }
        return Ok(Secrets::open(path)?);
    }
    if let Some(Unreadable { error, .. }) = unreadable.first() {
        let of = |noun| unreadable.iter().filter(|one| one.noun == noun).count();
        tracing::error!(
            connections = of(CONNECTION),
            sources = of(SOURCE),
            identity_providers = of(PROVIDER),
            %error,
            "the secrets of connections, sources or identity providers cannot be decrypted; nothing \
             is sent to these connections, these sources refuse what is sent to them, and nobody \
             can sign in by these providers"
        );
    }
    if secrets.is_exposed() {
        tracing::warn!(path = %path.display(), "others than its owner may read the key file");
    }
    Ok(secrets)
}

const CONNECTION: &str = "connection";
const SOURCE: &str = "source";
const PROVIDER: &str = "identity provider";

/// Returns the connections, sources and identity providers of which the secrets cannot be decrypted, with the
/// reason, and the number of all secrets.
pub(crate) async fn unreadable(
    store: &Store,
    secrets: &Secrets,
) -> Result<(Vec<Unreadable>, usize), StoreError> {
    let mut trial = Trial::new(store, secrets);
    trial.everyone(usize::MAX).await?;
    Ok((trial.unreadable, trial.all))
}

/// Tries to decrypt secrets.
struct Trial<'s> {
    store: &'s Store,
    secrets: &'s Secrets,
    unreadable: Vec<Unreadable>,
    /// The number of secrets.
    all: usize,
}

impl<'s> Trial<'s> {
    fn new(store: &'s Store, secrets: &'s Secrets) -> Self {
        Self {
            store,
            secrets,
            unreadable: Vec::new(),
            all: 0,
        }
    }

    /// Tries the secrets of all organizations, until there were enough.
    async fn everyone(&mut self, enough: usize) -> Result<(), StoreError> {
        for tenant in self.store.tenants_with_receivers().await? {
            self.connections(tenant).await?;
            if self.all >= enough {
                return Ok(());
            }
        }
        for tenant in self.store.tenants_with_sources().await? {
            self.sources(tenant).await?;
            if self.all >= enough {
                return Ok(());
            }
        }
        for tenant in self.store.tenants_with_sso().await? {
            self.provider(tenant).await?;
        }
        Ok(())
    }

    async fn connections(&mut self, tenant: Tenant) -> Result<(), StoreError> {
        for connection in self.store.connections(tenant).await? {
            self.all += 1;
            if let Err(error) = open_target(self.secrets, tenant, &connection) {
                self.unreadable.push(Unreadable {
                    noun: CONNECTION,
                    id: connection.id.0,
                    name: connection.name,
                    error,
                });
            }
        }
        Ok(())
    }

    async fn sources(&mut self, tenant: Tenant) -> Result<(), StoreError> {
        for source in self.store.sources(tenant).await? {
            self.all += usize::from(source.secret.is_some());
            if let Err(error) = open_secret(self.secrets, &source) {
                self.unreadable.push(Unreadable {
                    noun: SOURCE,
                    id: source.id.0,
                    name: source.name,
                    error,
                });
            }
        }
        Ok(())
    }

    async fn provider(&mut self, tenant: Tenant) -> Result<(), StoreError> {
        let Some(provider) = self.store.sso_provider(tenant).await? else {
            return Ok(());
        };
        self.all += 1;
        if let Err(error) = setup::open_secret(self.secrets, &provider) {
            self.unreadable.push(Unreadable {
                noun: PROVIDER,
                id: tenant.id().0,
                name: provider.issuer,
                error,
            });
        }
        Ok(())
    }
}
