//! `changelog-server org`

use changelog_core::{Input, NewOrganization, Organization, OwnerInput, RetentionMonths, User};
use serde_json::json;

use super::table::table;
use super::{Failure, now, open, organization, print, print_json, secret};
use crate::config::{Common, KeepFor, Org};
use crate::format::counted;
use crate::passwords;
use crate::store::{Account, Actor, Capacity, Purpose, Retention, Store, StoreError, Tenant};

pub(super) async fn run(common: &Common, command: Org) -> Result<(), Failure> {
    match command {
        Org::Create {
            name,
            plan,
            owner_email,
            owner_name,
            owner_password_file,
        } => {
            let new = NewOrganization { name, plan }.checked(now().into())?;
            let owner = match (owner_email, owner_name, owner_password_file) {
                (Some(email), Some(name), Some(path)) => Some(OwnerInput {
                    email,
                    name,
                    password: secret::read(&path)?,
                }),
                _ => None,
            };
            let (store, _) =
                Store::open(&common.database_url, Purpose::Create, Capacity::default()).await?;
            let (_, organization, owner) = create(&store, &new, owner).await?;
            if common.json {
                return print_json(&json!({ "organization": organization, "owner": owner }));
            }
            let Organization { id, name, plan, .. } = organization;
            print(&format!(
                "created the organization {name:?} with the plan {plan}, id {id}"
            ))?;
            if let Some(owner) = owner {
                print(&format!("owner: {} ({})", owner.name, owner.email))?;
            }
            print(&format!(
                "next: changelog-server key create --org {id} --name NAME"
            ))
        }
        Org::List => {
            let organizations = open(common).await?.organizations().await?;
            if common.json {
                return print_json(&organizations);
            }
            let row = |organization: &Organization| {
                let Organization {
                    id,
                    name,
                    plan,
                    created_at,
                } = organization;
                vec![
                    id.to_string(),
                    name.clone(),
                    plan.to_string(),
                    created_at.to_string(),
                ]
            };
            print(&table(
                &["ID", "NAME", "PLAN", "CREATED"],
                organizations.iter().map(row),
            ))
        }
        Org::Retention {
            org,
            months,
            dry_run,
        } => retention(common, &org, months, dry_run).await,
        Org::SetPlan { org, plan } => {
            let store = open(common).await?;
            let (tenant, found) = organization(common, &store, &org).await?;
            let mut tx = store.begin().await?;
            tx.set_plan(tenant, &plan).await?;
            tx.commit().await?;
            let updated = Organization { plan, ..found };
            if common.json {
                return print_json(&updated);
            }
            print(&format!(
                "the plan of {:?} is now {}",
                updated.name, updated.plan
            ))
        }
    }
}

/// Shows for how many months an organization keeps its records, and sets it unless this is a
/// trial.
async fn retention(
    common: &Common,
    org: &str,
    wanted: Option<KeepFor>,
    dry_run: bool,
) -> Result<(), Failure> {
    let store = open(common).await?;
    let (tenant, found) = organization(common, &store, org).await?;
    let mut kept = store.retention(tenant).await?;
    let now = now();
    if let Some(KeepFor(months)) = wanted
        && !dry_run
    {
        let mut tx = store.begin_for(tenant).await?;
        let operator = Actor::operator();
        kept = tx
            .set_retention(tenant, &operator, &found.name, months, now)
            .await?;
        tx.commit().await?;
    }
    let set = kept.map(|kept| kept.months);
    let months = wanted.map_or(set, |KeepFor(months)| months);
    let preview = match months {
        Some(months) => Some(store.retention_preview(tenant, months, now.into()).await?),
        None => None,
    };
    if common.json {
        return print_json(&json!({
            "months": set.map(RetentionMonths::get),
            "is_running": kept.is_some_and(|kept| kept.is_running),
            "next_run_at": kept.filter(|kept| !kept.is_running).map(|kept| kept.due_at),
            "older": preview.map(|older| json!({
                "than": older.cutoff,
                "changes": older.changes,
                "incidents": older.incidents,
            })),
        }));
    }
    let name = &found.name;
    print(&match kept {
        Some(Retention {
            months,
            is_running: true,
            ..
        }) => format!(
            "{name:?} keeps what it has recorded for {months}; what is older is being deleted now"
        ),
        Some(Retention { months, due_at, .. }) => format!(
            "{name:?} keeps what it has recorded for {months}; what is older is deleted \
             daily, next from {due_at} on"
        ),
        None => format!("{name:?} keeps what it has recorded forever"),
    })?;
    let Some((months, older)) = months.zip(preview) else {
        return Ok(());
    };
    print(&format!(
        "older than {months} now, from before {}: {}, {}{}, and the activity of that time",
        older.cutoff,
        counted(older.changes, "change", "changes"),
        counted(older.incidents, "resolved incident", "resolved incidents"),
        if older.has_more_incidents() {
            " or more"
        } else {
            ""
        },
    ))
}

/// Creates an organization, with its owner if one is given.
pub(super) async fn create(
    store: &Store,
    new: &NewOrganization,
    owner: Option<OwnerInput>,
) -> Result<(Tenant, Organization, Option<User>), Failure> {
    let now = now();
    let owner = owner.map(|owner| owner.checked(now.into())).transpose()?;
    if let Some(owner) = &owner {
        passwords::refuse_common(&owner.password, &[&owner.email, &owner.name, &new.name])?;
    }
    let others = match &owner {
        Some(owner) => store.accounts(&owner.email).await?,
        None => Vec::new(),
    };
    let like = others.into_iter().find(Account::has_password);
    let like = like.map(|other| other.password_hash);
    let hash = owner
        .as_ref()
        .map(|owner| passwords::hash_now(&owner.password, like.as_deref()));
    let with_hash = owner.as_ref().zip(hash.as_deref());
    let mut tx = store.begin().await?;
    let (tenant, organization, user) = match tx.create_organization(new, with_hash, now).await {
        Err(StoreError::Conflict) => {
            let email = owner.map(|owner| owner.email).unwrap_or_default();
            return Err(Failure::Usage(format!(
                "a person with the address {email} already exists; nothing was created"
            )));
        }
        created => created?,
    };
    tx.commit().await?;
    Ok((tenant, organization, user))
}
