//! Members and roles; an organization always has an owner.

use changelog_core::{Role, UserId};
use changelog_server::store::{Actor, NewSession, SignInMethod, Store, StoreError, Tenant};
use chrono::Utc;
use serde_json::json;

use super::{is_not_found, join, open, owner, owner_id, tenant};
use changelog_tests::{TestApp, on_both};

on_both!(
    process:
    only_permitted_roles_change_roles,
    only_permitted_roles_remove_members,
    the_last_owner_cannot_be_removed,
    concurrent_removals_leave_one_owner,
    organizations_and_users_can_be_renamed,
);

async fn set(
    store: &Store,
    tenant: Tenant,
    by: &Role,
    user: UserId,
    to: &Role,
) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.set_role(tenant, &Actor::operator(), by, user, to, Utc::now())
        .await?;
    tx.commit().await
}

async fn remove(store: &Store, tenant: Tenant, by: &Role, user: UserId) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.remove_member(tenant, &Actor::operator(), by, user, Utc::now())
        .await?;
    tx.commit().await
}

/// Returns the names and roles of members.
async fn members(store: &Store, tenant: Tenant) -> Vec<(String, Role)> {
    let members = store.members(tenant).await.expect("the store responds");
    let members = members.into_iter();
    members
        .map(|member| (member.user.name, member.role))
        .collect()
}

fn is_forbidden(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::Forbidden(_)))
}

async fn only_permitted_roles_change_roles(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let bob = join(&store, ours, "Bob", &Role::Member).await;
    for (by, to, allowed) in [
        (Role::Viewer, Role::Viewer, false),
        (Role::Member, Role::Viewer, false),
        (Role::Admin, Role::Owner, false),
        (Role::Admin, Role::Admin, true),
        (Role::Admin, Role::Viewer, true),
        (Role::Owner, Role::Owner, true),
        (Role::Admin, Role::Member, false),
        (Role::Admin, Role::Owner, false),
        (Role::Owner, Role::Member, true),
        (Role::Owner, Role::Member, true),
    ] {
        let before = members(&store, ours).await;
        let result = set(&store, ours, &by, bob.id, &to).await;
        assert_eq!(result.is_ok(), allowed, "{by} makes {to}: {result:?}");
        assert!(allowed || is_forbidden(&result), "{result:?}");
        let after = members(&store, ours).await;
        if allowed {
            assert_eq!(after[0], ("Bob".to_owned(), to));
        } else {
            assert_eq!(after, before);
        }
    }
    assert!(is_not_found(
        &set(&store, theirs, &Role::Owner, bob.id, &Role::Admin).await
    ));
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=member").await;
    let items = entries["items"].as_array().expect("a list");
    let changed: Vec<_> = items
        .iter()
        .filter(|entry| entry["action"] == "role_changed")
        .map(|entry| entry["metadata"]["changes"]["role"].clone())
        .collect();
    assert_eq!(
        changed,
        [
            json!({ "from": "owner", "to": "member" }),
            json!({ "from": "viewer", "to": "owner" }),
            json!({ "from": "admin", "to": "viewer" }),
            json!({ "from": "member", "to": "admin" }),
        ]
    );
    store.close().await;
}

async fn only_permitted_roles_remove_members(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let bob = join(&store, ours, "Bob", &Role::Member).await;
    let cleo = join(&store, ours, "Cleo", &Role::Owner).await;
    let mut tx = store.begin().await.expect("a transaction");
    tx.insert_member(theirs, &owner(&app), &bob, &Role::Viewer, Utc::now())
        .await
        .expect("no member yet");
    for (token, tenant) in [("here", ours), ("there", theirs)] {
        let new = NewSession {
            user: bob.id,
            tenant,
            method: SignInMethod::Password,
            provider_sid: None,
            user_agent: None,
        };
        tx.insert_session(token, new, Utc::now().into())
            .await
            .expect("a transaction");
    }
    tx.commit().await.expect("a commit");
    for by in [Role::Viewer, Role::Member] {
        assert!(is_forbidden(&remove(&store, ours, &by, bob.id).await));
    }
    assert!(is_forbidden(
        &remove(&store, ours, &Role::Admin, cleo.id).await
    ));
    assert_eq!(members(&store, ours).await.len(), 3);
    remove(&store, ours, &Role::Admin, bob.id)
        .await
        .expect("an admin may");
    assert!(is_not_found(
        &remove(&store, ours, &Role::Admin, bob.id).await
    ));
    remove(&store, ours, &Role::Owner, cleo.id)
        .await
        .expect("an owner may");
    assert_eq!(
        members(&store, ours).await,
        [(app.organization.owner_name.clone(), Role::Owner)]
    );
    // The session in this organization has ended, the other one has not.
    let session = async |token| {
        let found = store.session(token, Utc::now().into()).await;
        found
            .expect("the store responds")
            .map(|session| session.tenant)
    };
    assert_eq!(session("here").await, None);
    assert_eq!(session("there").await, Some(theirs));
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=member").await;
    let removed = &entries["items"][2];
    assert_eq!(removed["action"], "removed");
    assert_eq!(removed["resource_label"], "Bob");
    assert_eq!(removed["resource_id"], bob.id.to_string());
    assert_eq!(removed["metadata"]["role"], "member");
    store.close().await;
}

async fn the_last_owner_cannot_be_removed(app: TestApp) {
    let (store, ours) = open(&app).await;
    let ada = owner_id(&app);
    let bob = join(&store, ours, "Bob", &Role::Admin).await;
    let is_last = |result: Result<(), StoreError>| matches!(result, Err(StoreError::LastOwner));
    for to in [Role::Admin, Role::Member, Role::Viewer] {
        assert!(is_last(set(&store, ours, &Role::Owner, ada, &to).await));
    }
    assert!(is_last(remove(&store, ours, &Role::Owner, ada).await));
    set(&store, ours, &Role::Owner, ada, &Role::Owner)
        .await
        .expect("no change");
    set(&store, ours, &Role::Owner, bob.id, &Role::Owner)
        .await
        .expect("a second owner");
    set(&store, ours, &Role::Owner, ada, &Role::Member)
        .await
        .expect("an owner is left");
    assert!(is_last(remove(&store, ours, &Role::Owner, bob.id).await));
    store.close().await;
}

async fn concurrent_removals_leave_one_owner(app: TestApp) {
    let (store, ours) = open(&app).await;
    let ada = owner_id(&app);
    let bob = join(&store, ours, "Bob", &Role::Owner).await;
    let is_last = |result: &Result<(), StoreError>| matches!(result, Err(StoreError::LastOwner));
    for round in 0..20 {
        let (one, other) = if round % 2 == 0 {
            tokio::join!(
                set(&store, ours, &Role::Owner, ada, &Role::Admin),
                set(&store, ours, &Role::Owner, bob.id, &Role::Admin),
            )
        } else {
            tokio::join!(
                set(&store, ours, &Role::Owner, ada, &Role::Admin),
                remove(&store, ours, &Role::Owner, bob.id),
            )
        };
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?}, {other:?}");
        assert!(is_last(&one) || is_last(&other), "{one:?}, {other:?}");
        let members = members(&store, ours).await;
        let owners = members.iter().filter(|(_, role)| *role == Role::Owner);
        assert_eq!(owners.count(), 1, "{members:?}");
        // Both are owners again.
        if members.len() == 1 {
            let mut tx = store.begin().await.expect("a transaction");
            tx.insert_member(ours, &owner(&app), &bob, &Role::Owner, Utc::now())
                .await
                .expect("no member now");
            tx.commit().await.expect("a commit");
        }
        for user in [ada, bob.id] {
            set(&store, ours, &Role::Owner, user, &Role::Owner)
                .await
                .expect("two owners");
        }
    }
    store.close().await;
}

async fn organizations_and_users_can_be_renamed(app: TestApp) {
    let (store, ours) = open(&app).await;
    assert!(store.has_organizations().await.expect("the store responds"));
    let organization = store.organization(ours).await.expect("it exists");
    assert_eq!(organization.name, "Acme");
    assert_eq!(organization.id, ours.id());
    assert_eq!(organization.id, super::organization_id(&app));
    let mut tx = store.begin().await.expect("a transaction");
    tx.rename_organization(ours, "Acme & Co")
        .await
        .expect("permission");
    tx.rename_user(owner_id(&app), "Ada L.")
        .await
        .expect("permission");
    tx.commit().await.expect("a commit");
    let organization = store.organization(ours).await.expect("it exists");
    assert_eq!(organization.name, "Acme & Co");
    assert_eq!(
        members(&store, ours).await,
        [("Ada L.".to_owned(), Role::Owner)]
    );
    assert_eq!(
        store
            .memberships(owner_id(&app))
            .await
            .expect("the store responds"),
        [(ours.id(), "Acme & Co".to_owned(), Role::Owner)]
    );
    store.close().await;
}
