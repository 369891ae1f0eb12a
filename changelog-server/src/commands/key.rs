//! `changelog-server key`

use changelog_core::{ApiKey, Input, NewApiKey, Timestamp};

use super::table::table;
use super::{Failure, now, open, organization, print, print_json};
use crate::config::{Common, Key};
use crate::store::{Actor, StoreError};

pub(super) async fn run(common: &Common, command: Key) -> Result<(), Failure> {
    match command {
        Key::Create {
            org,
            name,
            expires_at,
        } => {
            let new = NewApiKey { name, expires_at }.checked(now().into())?;
            let store = open(common).await?;
            let (tenant, organization) = organization(common, &store, &org).await?;
            let mut tx = store.begin().await?;
            let created = tx
                .insert_api_key(tenant, &Actor::operator(), &new, now())
                .await?;
            tx.commit().await?;
            if common.json {
                return print_json(&created);
            }
            print(&created.key)?;
            let note = format!(
                "the key {:?} of {:?} is shown only this once; its id is {}",
                created.name, organization.name, created.id
            );
            super::note(&note);
            if !organization.plan.includes_api() {
                super::note(&format!(
                    "the plan {} does not include the API: changelog-server org set-plan {} pro",
                    organization.plan, organization.id
                ));
            }
            Ok(())
        }
        Key::List { org } => {
            let store = open(common).await?;
            let (tenant, _) = organization(common, &store, &org).await?;
            let keys = store.api_keys(tenant).await?;
            if common.json {
                return print_json(&keys);
            }
            let now = now().into();
            let header = [
                "ID",
                "NAME",
                "KEY",
                "STATE",
                "CREATED",
                "LAST USED",
                "EXPIRES",
            ];
            print(&table(&header, keys.iter().map(|key| row(key, now))))
        }
        Key::Revoke { id } => {
            let store = open(common).await?;
            let (tenant, key) = match store.api_key(id).await {
                Err(StoreError::NotFound) => {
                    return Err(Failure::Usage(format!(
                        "there is no key with the id {id}; `changelog-server key list --org ORG` lists the keys"
                    )));
                }
                found => found?,
            };
            let mut tx = store.begin().await?;
            let was_valid = tx
                .revoke_api_key(tenant, &Actor::operator(), &key, now())
                .await?;
            tx.commit().await?;
            if common.json {
                return print_json(&store.api_key(id).await?.1);
            }
            let outcome = if was_valid {
                "was revoked"
            } else {
                "was already revoked"
            };
            print(&format!(
                "the key {:?} ({}) {outcome}",
                key.name, key.masked
            ))
        }
    }
}

fn row(key: &ApiKey, now: Timestamp) -> Vec<String> {
    let time = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
    let state = match key {
        ApiKey {
            revoked_at: Some(_),
            ..
        } => "revoked",
        ApiKey {
            expires_at: Some(at),
            ..
        } if *at <= now => "expired",
        _ => "valid",
    };
    vec![
        key.id.to_string(),
        key.name.clone(),
        key.masked.clone(),
        state.to_owned(),
        key.created_at.to_string(),
        time(key.last_used_at),
        time(key.expires_at),
    ]
}
