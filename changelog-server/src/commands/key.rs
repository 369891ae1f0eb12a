//! `changelog-server key`

use changelog_core::{
    ApiKey, Input, NewApiKey, Organization, Permissions, Service, ServiceId, Timestamp,
};

use super::table::table;
use super::{Failure, now, open, organization, print, print_json};
use crate::config::{Common, CreateKey, Key};
use crate::store::{Actor, Store, StoreError, Tenant};

/// The heads of the columns with permissions.
pub(super) const PERMISSIONS: [&str; 3] = ["SCOPES", "RECORDS IN", "RECORDS FOR"];

pub(super) async fn run(common: &Common, command: Key) -> Result<(), Failure> {
    match command {
        Key::Create(args) => create(common, args).await,
        Key::List { org } => {
            let store = open(common).await?;
            let (tenant, _) = organization(common, &store, &org).await?;
            let keys = store.api_keys(tenant).await?;
            if common.json {
                return print_json(&keys);
            }
            let names = service_names(&store, tenant, keys.iter().map(|key| &key.permissions));
            let names = names.await?;
            let now = now().into();
            let [scopes, environments, services] = PERMISSIONS;
            let header = [
                "ID",
                "NAME",
                "KEY",
                "STATE",
                scopes,
                environments,
                services,
                "CREATED",
                "LAST USED",
                "EXPIRES",
            ];
            print(&table(
                &header,
                keys.iter().map(|key| row(key, &names, now)),
            ))
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

async fn create(common: &Common, args: CreateKey) -> Result<(), Failure> {
    let CreateKey {
        org,
        name,
        expires_at,
        scopes,
        environments,
        services,
    } = args;
    let mut permissions = Permissions {
        environments,
        ..Permissions::default()
    };
    if !scopes.is_empty() {
        permissions.scopes = scopes;
    }
    let store = open(common).await?;
    let (tenant, organization) = organization(common, &store, &org).await?;
    permissions.service_ids = service_ids(&store, tenant, &organization, services).await?;
    let new = NewApiKey {
        name,
        expires_at,
        permissions,
    };
    let new = new.checked(now().into())?;
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

/// Finds the services with these names.
pub(super) async fn service_ids(
    store: &Store,
    tenant: Tenant,
    organization: &Organization,
    names: Vec<String>,
) -> Result<Vec<ServiceId>, Failure> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let Some(service) = store.item_named::<Service>(tenant, &name).await? else {
            let message = format!("{:?} has no service named {name:?}", organization.name);
            return Err(Failure::Usage(message));
        };
        ids.push(service.id);
    }
    Ok(ids)
}

/// Returns the names of all services of an organization, if any of these permissions is limited
/// to some.
pub(super) async fn service_names(
    store: &Store,
    tenant: Tenant,
    mut all: impl Iterator<Item = &Permissions>,
) -> Result<Vec<(ServiceId, String)>, StoreError> {
    if all.any(|one| !one.service_ids.is_empty()) {
        store.item_names::<Service>(tenant).await
    } else {
        Ok(Vec::new())
    }
}

/// Returns the cells of [`PERMISSIONS`].
pub(super) fn permission_cells(
    permissions: &Permissions,
    names: &[(ServiceId, String)],
) -> [String; 3] {
    let any = |words: Vec<String>| {
        if words.is_empty() {
            "any".to_owned()
        } else {
            words.join(", ")
        }
    };
    let name = |id: &ServiceId| {
        let found = names.iter().find(|(known, _)| known == id);
        found.map_or_else(|| id.to_string(), |(_, name)| name.clone())
    };
    let Permissions {
        scopes,
        environments,
        service_ids,
    } = permissions;
    [
        any(scopes.iter().map(ToString::to_string).collect()),
        any(environments.iter().map(ToString::to_string).collect()),
        any(service_ids.iter().map(name).collect()),
    ]
}

fn row(key: &ApiKey, names: &[(ServiceId, String)], now: Timestamp) -> Vec<String> {
    let [scopes, environments, services] = permission_cells(&key.permissions, names);
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
        scopes,
        environments,
        services,
        key.created_at.to_string(),
        time(key.last_used_at),
        time(key.expires_at),
    ]
}
