//! `changelog-server secrets`

use std::time::Duration;

use tokio::time::sleep;

use super::{Failure, open, print};
use crate::config::{Common, SecretsCommand};
use crate::ingest::setup::{open_secret, seal_secret};
use crate::integrations::{key_file, open_target, seal_target};
use crate::secrets::Secrets;
use crate::sso::setup;
use crate::store::{Store, StoreError};

/// The wait before secrets are looked for that a server has encrypted meanwhile by the old
/// key: longer than its transaction takes, unless the database is overloaded. A connection that
/// is made in such a moment must be given its secrets again.
const SERVERS_WAIT: Duration = Duration::from_secs(1);

pub(super) async fn run(common: &Common, command: &SecretsCommand) -> Result<(), Failure> {
    let SecretsCommand::Rotate { secrets } = command;
    let store = open(common).await?;
    let secrets = Secrets::open_existing(&secrets.path(&common.database_url))?;
    let (unreadable, _) = key_file::unreadable(&store, &secrets).await?;
    if let Some(first) = unreadable.first() {
        let names = unreadable
            .iter()
            .map(|one| format!("\n  {} {} ({})", one.noun, one.id, one.name));
        return Err(Failure::Usage(format!(
            "{}. Of these; delete them by `integration delete`, `source delete` or `sso remove`, or \
             rotate with the file that has their key:{}",
            first.error,
            names.collect::<String>()
        )));
    }
    // Servers read the file again when they encrypt, and when they find a key that they do
    // not know.
    secrets.add_key()?;
    let mut rotated = encrypt_again(&store, &secrets).await?;
    sleep(SERVERS_WAIT).await;
    rotated += encrypt_again(&store, &secrets).await?;
    secrets.remove_old_keys()?;
    print(&format!(
        "the secrets of {rotated} connections, sources and identity providers are encrypted by a new key, \
         and the old one is deleted"
    ))
}

/// Encrypts what is not encrypted by the first key, and returns the number of connections,
/// sources and identity providers.
async fn encrypt_again(store: &Store, secrets: &Secrets) -> Result<usize, Failure> {
    let mut rotated = 0;
    for tenant in store.tenants_with_receivers().await? {
        for connection in store.connections(tenant).await? {
            let mut tx = store.begin().await?;
            let connection = match tx.lock_connection(tenant, connection.id).await {
                Err(StoreError::NotFound) => continue,
                locked => locked?,
            };
            if !secrets.is_current(&connection.target) {
                let target = open_target(secrets, tenant, &connection)?;
                let encrypted = seal_target(secrets, tenant, connection.id, &target)?;
                tx.replace_target(tenant, connection.id, &encrypted).await?;
                tx.commit().await?;
                rotated += 1;
            }
        }
    }
    for tenant in store.tenants_with_sources().await? {
        for source in store.sources(tenant).await? {
            let former = source.secret.as_ref();
            if former.is_some_and(|secret| !secrets.is_current(secret))
                && let Some(secret) = open_secret(secrets, &source)?
            {
                let encrypted = seal_secret(secrets, tenant, source.id, &secret)?;
                rotated += usize::from(store.replace_secret(&source, &encrypted).await?);
            }
        }
    }
    for tenant in store.tenants_with_sso().await? {
        let Some(provider) = store.sso_provider(tenant).await? else {
            continue;
        };
        if !secrets.is_current(&provider.client_secret) {
            let secret = setup::open_secret(secrets, &provider)?;
            let encrypted = setup::seal_secret(secrets, tenant, &secret)?;
            rotated += usize::from(store.replace_sso_secret(&provider, &encrypted).await?);
        }
    }
    Ok(rotated)
}
