//! `changelog-server workload`

use changelog_core::{Input, NewWorkload, Permissions, ServiceId, Workload, WorkloadId};
use serde_json::json;

use super::key::{PERMISSIONS, permission_cells, service_ids, service_names};
use super::table::table;
use super::{Failure, note, now, open, organization, print, print_json};
use crate::config::{AllowedReceivers, Common, CreateWorkload, WorkloadCommand};
use crate::integrations::http::ReceiverClient;
use crate::store::{Actor, MAX_WORKLOADS, Store, StoreError, new_id};

pub(super) async fn run(common: &Common, command: WorkloadCommand) -> Result<(), Failure> {
    let store = &open(common).await?;
    match command {
        WorkloadCommand::Create(args) => create(common, store, args).await,
        WorkloadCommand::List { org } => {
            let (tenant, _) = organization(common, store, &org).await?;
            let workloads = store.workloads(tenant).await?;
            if common.json {
                return print_json(&workloads);
            }
            let permissions = workloads.iter().map(|one| &one.permissions);
            let names = service_names(store, tenant, permissions).await?;
            let [scopes, environments, services] = PERMISSIONS;
            let header = [
                "ID",
                "NAME",
                "ISSUER",
                "AUDIENCE",
                "CLAIMS",
                scopes,
                environments,
                services,
                "LAST USED",
            ];
            print(&table(
                &header,
                workloads.iter().map(|one| row(one, &names)),
            ))
        }
        WorkloadCommand::Delete { id } => delete(common, store, id).await,
    }
}

async fn create(common: &Common, store: &Store, args: CreateWorkload) -> Result<(), Failure> {
    let (tenant, organization) = organization(common, store, &args.org).await?;
    let mut permissions = Permissions {
        environments: args.environments,
        service_ids: service_ids(store, tenant, &organization, args.services).await?,
        ..Permissions::default()
    };
    if !args.scopes.is_empty() {
        permissions.scopes = args.scopes;
    }
    let new = NewWorkload {
        name: args.name,
        issuer: args.issuer,
        audience: args.audience,
        claims: args.claims,
        permissions,
    };
    let new = new.checked(now().into())?;
    let name = new.name.clone();
    let issuer = new.issuer.clone();
    let id = WorkloadId(new_id(now()));
    let mut tx = store.begin().await?;
    let inserted = tx
        .insert_workload(
            tenant,
            &Actor::operator(),
            id,
            new,
            args.allow_insecure_issuer,
            now(),
        )
        .await
        .map_err(|error| match error {
            StoreError::Conflict => Failure::Usage(format!(
                "the organization has a workload identity named {name:?} already"
            )),
            error => error.into(),
        })?;
    let Some(workload) = inserted else {
        return Err(Failure::Usage(format!(
            "the organization has {MAX_WORKLOADS} workload identities, the most that it may have"
        )));
    };
    tx.commit().await?;
    if !args.allow_insecure_issuer {
        check_issuer(&issuer, args.receivers).await;
    }
    if common.json {
        return print_json(&json!({ "id": workload.id, "name": workload.name }));
    }
    print(&workload.id.to_string())?;
    if !organization.plan.includes_api() {
        note(&format!(
            "the plan {} does not include the API: changelog-server org set-plan {} pro",
            organization.plan, organization.id
        ));
    }
    Ok(())
}

async fn delete(common: &Common, store: &Store, id: WorkloadId) -> Result<(), Failure> {
    let (tenant, workload) = store.workload(id).await.map_err(|error| match error {
        StoreError::NotFound => Failure::Usage(format!(
            "there is no workload identity with the id {id}; `changelog-server workload list --org \
             ORG` lists them"
        )),
        error => error.into(),
    })?;
    let mut tx = store.begin().await?;
    tx.delete_workload(tenant, &Actor::operator(), &workload, now())
        .await?;
    tx.commit().await?;
    if common.json {
        return print_json(&json!({ "done": true }));
    }
    print(&format!("{:?} is deleted", workload.name))
}

/// Reports an issuer that the server may not ask for its keys. It is not refused: the server may
/// allow other networks than this command.
async fn check_issuer(issuer: &str, receivers: AllowedReceivers) {
    let client = ReceiverClient::new(receivers.networks);
    if let Ok(Some(reason)) = client.refusal(issuer).await {
        note(&format!(
            "saved, but the issuer is not asked for its keys, so no token is accepted: {reason}; \
             give --allow-receivers to this command and to `serve`, or for a trial make it with \
             --allow-insecure-issuer"
        ));
    }
}

fn row(workload: &Workload, names: &[(ServiceId, String)]) -> Vec<String> {
    let claims: Vec<String> = workload.claims.iter().map(ToString::to_string).collect();
    let [scopes, environments, services] = permission_cells(&workload.permissions, names);
    let last = workload.last_used_at.map(|at| at.to_string());
    vec![
        workload.id.to_string(),
        workload.name.clone(),
        workload.issuer.clone(),
        workload.audience.clone(),
        claims.join(", "),
        scopes,
        environments,
        services,
        last.unwrap_or_else(|| "never".to_owned()),
    ]
}
