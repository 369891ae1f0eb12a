//! `changelog-server secrets`

use super::{Failure, open, print};
use crate::config::{Common, SecretsCommand};
use crate::integrations::{open_target, seal_target};

pub(super) async fn run(common: &Common, command: &SecretsCommand) -> Result<(), Failure> {
    let SecretsCommand::Rotate { secrets } = command;
    let store = open(common).await?;
    let secrets = secrets.open(&common.database_url)?;
    // Servers read the file again when they find a key that they do not know.
    secrets.add_key()?;
    let mut rotated = 0;
    for tenant in store.event_organizations().await? {
        for connection in store.connections(tenant).await? {
            // It may be changed meanwhile by a server, with the old key or with the new one.
            let mut connection = connection;
            while !secrets.is_current(&connection.target) {
                let target = open_target(&secrets, tenant, &connection)?;
                let encrypted = seal_target(&secrets, tenant, connection.id, &target)?;
                let mut tx = store.begin().await?;
                tx.replace_target(tenant, connection.id, &connection.target, &encrypted)
                    .await?;
                tx.commit().await?;
                rotated += 1;
                connection = store.connection(tenant, connection.id).await?;
            }
        }
    }
    secrets.remove_old_keys()?;
    print(&format!(
        "the secrets of {rotated} connections are encrypted by a new key, and the old one is deleted"
    ))
}
