//! `changelog-server workload`

use changelog_core::{Input, NewWorkload, Permissions, Workload, WorkloadId};
use serde_json::json;

use super::key::service_ids;
use super::table::table;
use super::{Failure, note, now, open, organization, print, print_json};
use crate::config::{Common, CreateWorkload, WorkloadCommand};
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
            let header = [
                "ID",
                "NAME",
                "ISSUER",
                "AUDIENCE",
                "CLAIMS",
                "SCOPES",
                "LAST USED",
            ];
            print(&table(&header, workloads.iter().map(row)))
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

fn row(workload: &Workload) -> Vec<String> {
    let joined = |words: Vec<String>| words.join(", ");
    let claims = workload.claims.iter().map(ToString::to_string);
    let scopes = workload.permissions.scopes.iter().map(ToString::to_string);
    let last = workload.last_used_at.map(|at| at.to_string());
    vec![
        workload.id.to_string(),
        workload.name.clone(),
        workload.issuer.clone(),
        workload.audience.clone(),
        joined(claims.collect()),
        joined(scopes.collect()),
        last.unwrap_or_else(|| "never".to_owned()),
    ]
}
