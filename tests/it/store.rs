//! The store, for what only pages of the dashboard use: a store on the same database as a
//! running service.

mod catalog;
mod changes;
mod counts;
mod days;
mod history;
mod idempotency;
mod invitations;
mod members;
pub(crate) mod placement;
mod sessions;

use std::net::{IpAddr, Ipv4Addr};

use changelog_core::{OrganizationId, Role, User, UserId};
use changelog_server::store::{Actor, Capacity, Purpose, Store, StoreError, Tenant};
use chrono::Utc;
use serde_json::Value;

use changelog_tests::TestApp;

/// Opens a store on the database of an app, and returns it with the organization.
pub(crate) async fn open(app: &TestApp) -> (Store, Tenant) {
    let (store, lock) = Store::open(&app.database, Purpose::Administer, Capacity::default())
        .await
        .expect("a connection");
    assert!(lock.is_none(), "the service has no lock");
    let tenant = tenant(&store, &app.organization.id).await;
    (store, tenant)
}

async fn tenant(store: &Store, organization: &str) -> Tenant {
    let found = store.organizations_named(organization).await;
    let found = found.expect("the store responds");
    let [(tenant, _)] = found.as_slice() else {
        panic!("{} organizations have this id", found.len());
    };
    *tenant
}

/// The address of actors.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

/// Returns the owner of the app as an actor.
fn owner(app: &TestApp) -> Actor {
    let organization = &app.organization;
    Actor::person(owner_id(app), &organization.owner_name, HERE)
}

fn owner_id(app: &TestApp) -> UserId {
    app.organization.owner_id.parse().expect("an id")
}

/// Creates a user who is a member.
async fn join(store: &Store, tenant: Tenant, name: &str, role: &Role) -> User {
    let mut tx = store.begin().await.expect("a transaction");
    let email = format!("{}@example.com", name.to_lowercase());
    let user = tx.insert_user(&email, name, "no hash", Utc::now()).await;
    let user = user.expect("the address is new");
    tx.insert_member(tenant, &Actor::operator(), &user, role, Utc::now())
        .await
        .expect("no member yet");
    tx.commit().await.expect("a commit");
    user
}

fn is_not_found<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound))
}

/// Returns the id in a JSON object.
fn id<T: std::str::FromStr>(value: &Value) -> T {
    let id = value["id"].as_str().and_then(|id| id.parse().ok());
    id.expect("an id")
}

fn organization_id(app: &TestApp) -> OrganizationId {
    app.organization.id.parse().expect("an id")
}
