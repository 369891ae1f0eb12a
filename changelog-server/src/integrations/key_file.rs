//! Opens the key file that belongs to a database.

use std::path::Path;

use super::open_target;
use crate::secrets::{Secrets, SecretsError};
use crate::store::{Connection, Store, StoreError, Tenant};

/// Why the key file cannot be used with a database.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file is the reason.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The database is the reason.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens the key file of a database. If there is none, it is made, unless the database has
/// connections: their secrets need the file that is missing. What is wrong is logged, and
/// the connections concerned send nothing until it is corrected.
pub(crate) async fn open(store: &Store, path: &Path) -> Result<Secrets, KeyFileError> {
    let secrets = Secrets::open_existing(path)?;
    let (unreadable, all) = unreadable(store, &secrets).await?;
    if all == 0 && !path.exists() {
        return Ok(Secrets::open(path)?);
    }
    if let Some((_, _, error)) = unreadable.first() {
        let connections = unreadable.len();
        tracing::error!(
            connections,
            %error,
            "the secrets of connections cannot be decrypted; nothing is sent to them"
        );
    }
    if secrets.is_exposed() {
        tracing::warn!(path = %path.display(), "others than its owner may read the key file");
    }
    Ok(secrets)
}

/// Returns the connections of which the secrets cannot be decrypted, with the reason, and
/// the number of all.
pub(crate) async fn unreadable(
    store: &Store,
    secrets: &Secrets,
) -> Result<(Vec<(Tenant, Connection, SecretsError)>, usize), StoreError> {
    let mut unreadable = Vec::new();
    let mut all = 0;
    for tenant in store.tenants_with_receivers().await? {
        for connection in store.connections(tenant).await? {
            all += 1;
            if let Err(error) = open_target(secrets, tenant, &connection) {
                unreadable.push((tenant, connection, error));
            }
        }
    }
    Ok((unreadable, all))
}
