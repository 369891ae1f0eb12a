//! `changelog-server user`

use changelog_core::{Credentials, FurtherNames, Input, Role, User as Person, UserId};
use serde_json::json;

use super::{Failure, now, open, organization, print, print_json, secret};
use crate::background::in_steps;
use crate::config::{Common, User};
use crate::format::counted;
use crate::passwords;
use crate::store::{Account, Actor, Store, StoreError, Tenant};

pub(super) async fn run(common: &Common, command: User) -> Result<(), Failure> {
    match command {
        User::SetPassword {
            email,
            org,
            password_file,
        } => {
            let password = secret::read(&password_file)?;
            set_password(common, email, password, org.as_deref()).await
        }
        User::Erase {
            org,
            email,
            id,
            also,
        } => erase(common, &org, (email.as_deref(), id), also).await,
    }
}

async fn set_password(
    common: &Common,
    email: String,
    password: String,
    org: Option<&str>,
) -> Result<(), Failure> {
    let credentials = Credentials { email, password }.checked(now().into())?;
    passwords::refuse_common(&credentials.password, &[&credentials.email])?;
    let store = open(common).await?;
    let (user, others) = account(common, &store, &credentials.email, org).await?;
    let like = others.iter().find(|other| other.has_password());
    let like = like.map(|other| other.password_hash.as_str());
    let hash = passwords::hash_now(&credentials.password, like);
    let mut tx = store.begin().await?;
    tx.set_password(user.id, &hash).await?;
    tx.commit().await?;
    if common.json {
        return print_json(&user);
    }
    print(&format!(
        "the password of {} was set; their sessions were ended",
        user.email
    ))
}

/// Erases a person, who is given by address or id, to the end.
async fn erase(
    common: &Common,
    org: &str,
    (email, id): (Option<&str>, Option<UserId>),
    also: FurtherNames,
) -> Result<(), Failure> {
    let store = open(common).await?;
    let (tenant, organization) = organization(common, &store, org).await?;
    let name = &organization.name;
    let person = match (id, email) {
        (Some(id), _) => id,
        (None, email) => {
            let email = email.unwrap_or_default();
            match store.people_by_email(tenant, email).await?.as_slice() {
                [person] => *person,
                [] => {
                    return Err(Failure::Usage(format!(
                        "{name:?} has and had no member with the address {email}; the activity \
                         log has the ids of people for --id"
                    )));
                }
                _ => {
                    return Err(Failure::Usage(format!(
                        "the address {email} has several accounts; choose one with --id, which \
                         the activity log has"
                    )));
                }
            }
        }
    };
    let operator = Actor::operator();
    let begun = store
        .erase_person(tenant, &operator, (&Role::Owner, person), also, now())
        .await;
    let run = match begun {
        Err(StoreError::NotFound) => {
            return Err(Failure::Usage(format!(
                "nobody with the id {person} is or was a member of {name:?}"
            )));
        }
        begun => begun?,
    };
    let run = in_steps(run, |run| store.erasure_step(run, now())).await?;
    if common.json {
        return print_json(&json!({ "pseudonym": run.pseudonym, "replaced": run.replaced }));
    }
    print(&format!(
        "the person is called \"{}\" now; a name was replaced in {}",
        run.pseudonym,
        counted(run.replaced, "record", "records"),
    ))
}

/// Returns the account of an address and the other accounts of that address. If
/// there are several, `org` chooses the one of its member.
async fn account(
    common: &Common,
    store: &Store,
    email: &str,
    org: Option<&str>,
) -> Result<(Person, Vec<Account>), Failure> {
    let wanted = match org {
        Some(org) => Some(organization(common, store, org).await?.0),
        None => None,
    };
    let mut found = Vec::new();
    let mut others = Vec::new();
    let mut names = Vec::new();
    for account in store.accounts(email).await? {
        let memberships = store.memberships(account.user.id).await?;
        let is_member = |tenant: Tenant| memberships.iter().any(|(id, ..)| *id == tenant.id());
        if wanted.is_none_or(is_member) {
            let of = memberships
                .iter()
                .map(|(id, name, _)| format!("{name} ({id})"));
            names.extend(of);
            found.push(account.user);
        } else {
            others.push(account);
        }
    }
    match found.len() {
        0 => Err(Failure::Usage(match org {
            Some(org) => format!("{org} has no member with the address {email}"),
            None => format!("there is no user with the address {email}"),
        })),
        1 => Ok((found.remove(0), others)),
        several => Err(Failure::Usage(format!(
            "the address {email} has {several} accounts, in the organizations {}; choose one \
             with --org",
            names.join(", ")
        ))),
    }
}
