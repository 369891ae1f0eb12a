//! `changelog-server user`

use changelog_core::{Credentials, Input, User as Person};

use super::{Failure, now, open, organization, print, print_json, secret};
use crate::config::{Common, User};
use crate::passwords;
use crate::store::{Account, Store, Tenant};

pub(super) async fn run(common: &Common, command: User) -> Result<(), Failure> {
    let User::SetPassword {
        email,
        org,
        password_file,
    } = command;
    let password = secret::read(&password_file)?;
    let credentials = Credentials { email, password }.checked(now().into())?;
    passwords::refuse_common(&credentials.password, &[&credentials.email])?;
    let store = open(common).await?;
    let (user, others) = account(common, &store, &credentials.email, org.as_deref()).await?;
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
