//! Invitations.

use changelog_core::{Invitation, NewInvitation, Role, Timestamp};
use changelog_server::store::{Actor, Store, StoreError, Tenant};
use chrono::{DateTime, TimeDelta, Utc};

use super::{HERE, is_not_found, join, open, owner, tenant};
use changelog_tests::{TestApp, each, on_both};

on_both!(
    process:
    an_invitation_is_accepted_once,
    an_invitation_expires,
    a_later_invitation_replaces_an_earlier_one,
    an_invitation_can_be_withdrawn,
    members_cannot_be_invited_again,
);

fn new(email: &str, role: Role) -> NewInvitation {
    let email = email.to_owned();
    NewInvitation { email, role }
}

async fn invite(
    store: &Store,
    tenant: Tenant,
    actor: &Actor,
    new: &NewInvitation,
    token: &str,
    now: DateTime<Utc>,
) -> Result<Invitation, StoreError> {
    let mut tx = store.begin().await?;
    let invitation = tx.invite(tenant, actor, new, token, now).await?;
    tx.commit().await?;
    Ok(invitation)
}

async fn take(store: &Store, token: &str) -> Result<(Tenant, Invitation), StoreError> {
    let mut tx = store.begin().await?;
    let found = tx.take_invitation(token, Utc::now().into()).await?;
    tx.commit().await?;
    Ok(found)
}

async fn an_invitation_is_accepted_once(app: TestApp) {
    let (store, ours) = open(&app).await;
    for round in 0..10 {
        let (email, token) = (format!("Bob{round}@example.com"), format!("token {round}"));
        let new = new(&email, Role::Admin);
        let invited = invite(&store, ours, &owner(&app), &new, &token, Utc::now()).await;
        let invited = invited.expect("an invitation");
        assert_eq!(invited.email, email);
        assert_eq!(invited.role, Role::Admin);
        assert_eq!(invited.invited_by, app.organization.owner_name);
        assert_eq!(
            invited.expires_at,
            invited.created_at.plus(TimeDelta::hours(72))
        );
        assert_eq!(
            store.invitations(ours).await.expect("the store responds"),
            std::slice::from_ref(&invited)
        );
        let (tenant, name, shown) = store
            .invitation(&token, Utc::now().into())
            .await
            .expect("it is valid");
        assert_eq!((tenant, name, &shown), (ours, "Acme".to_owned(), &invited));
        // A rollback leaves the invitation.
        let mut tx = store.begin().await.expect("a transaction");
        let found = tx.take_invitation(&token, Utc::now().into()).await;
        assert_eq!(found.expect("it is valid"), (ours, invited.clone()));
        drop(tx);
        let (one, other) = tokio::join!(take(&store, &token), take(&store, &token));
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?}, {other:?}");
        let (found, refused) = if one.is_ok() {
            (one, other)
        } else {
            (other, one)
        };
        assert_eq!(found.expect("the invitation"), (ours, invited));
        assert!(is_not_found(&refused));
        assert!(is_not_found(&take(&store, &token).await));
        assert!(is_not_found(
            &store.invitation(&token, Utc::now().into()).await
        ));
        assert_eq!(
            store.invitations(ours).await.expect("the store responds"),
            []
        );
    }
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=member").await;
    let actions = each(&entries["items"], "action");
    let invited = actions.iter().filter(|action| **action == "invited");
    assert_eq!(invited.count(), 10);
    assert_eq!(entries["items"][1]["resource_label"], "Bob9@example.com");
    assert_eq!(entries["items"][1]["metadata"]["role"], "admin");
    store.close().await;
}

async fn an_invitation_expires(app: TestApp) {
    let (store, ours) = open(&app).await;
    let now = Utc::now();
    let bob = new("bob@example.com", Role::Member);
    let invited = invite(&store, ours, &owner(&app), &bob, "token", now).await;
    let invited = invited.expect("an invitation");
    let end = invited.expires_at.millis();
    for (at, valid) in [(end - 1, true), (end, false), (end + 1, false)] {
        let at = Timestamp::from_millis(at);
        let shown = store.invitation("token", at).await;
        assert_eq!(shown.is_ok(), valid, "{at}");
        let mut tx = store.begin().await.expect("a transaction");
        let found = tx.take_invitation("token", at).await;
        assert_eq!(found.is_ok(), valid, "{at}");
        assert!(valid || is_not_found(&found));
    }
    for (at, left) in [(end - 1, 1), (end, 1), (end + 1, 0)] {
        let purged = store.purge(Timestamp::from_millis(at)).await;
        purged.expect("a result");
        let found = store.invitations(ours).await.expect("the store responds");
        assert_eq!(found.len(), left, "{}", at - end);
    }
    store.close().await;
}

async fn a_later_invitation_replaces_an_earlier_one(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let actor = owner(&app);
    let now = Utc::now();
    let mut all = Vec::new();
    for (millis, tenant, email, role, token) in [
        (0, ours, "bob@example.com", Role::Member, "first"),
        (1, theirs, "bob@example.com", Role::Viewer, "theirs"),
        (2, ours, "BOB@example.com", Role::Viewer, "second"),
        (3, ours, "eve@example.com", Role::Viewer, "eve"),
    ] {
        let at = now + TimeDelta::milliseconds(millis);
        let made = invite(&store, tenant, &actor, &new(email, role), token, at).await;
        all.push(made.expect("an invitation"));
    }
    let found = store.invitations(ours).await.expect("the store responds");
    assert_eq!(found, [all[3].clone(), all[2].clone()]);
    assert_eq!(
        store.invitations(theirs).await.expect("the store responds"),
        [all[1].clone()]
    );
    assert!(is_not_found(&store.invitation("first", now.into()).await));
    assert!(is_not_found(&take(&store, "first").await));
    assert_eq!(
        take(&store, "second").await.expect("it is valid"),
        (ours, all[2].clone())
    );
    assert_eq!(
        take(&store, "theirs").await.expect("it is valid"),
        (theirs, all[1].clone())
    );
    store.close().await;
}

async fn an_invitation_can_be_withdrawn(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let actor = owner(&app);
    let bob = new("bob@example.com", Role::Member);
    let invited = invite(&store, ours, &actor, &bob, "token", Utc::now()).await;
    let id = invited.expect("an invitation").id;
    let withdraw = async |tenant| {
        let mut tx = store.begin().await?;
        tx.withdraw_invitation(tenant, &actor, id, Utc::now())
            .await?;
        tx.commit().await
    };
    assert!(is_not_found(&withdraw(theirs).await));
    withdraw(ours).await.expect("it exists");
    assert!(is_not_found(&withdraw(ours).await));
    assert!(is_not_found(&take(&store, "token").await));
    let browser = app.browser().await;
    let entries = browser.body("/api/activity?resource=member").await;
    let entry = &entries["items"][1];
    assert_eq!(entry["action"], "removed");
    assert_eq!(entry["resource_label"], "bob@example.com");
    assert_eq!(entry["metadata"]["invitation"], "withdrawn");
    store.close().await;
}

async fn members_cannot_be_invited_again(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let bob = join(&store, ours, "Bob", &Role::Member).await;
    let again = new("BOB@example.com", Role::Admin);
    let actor = owner(&app);
    let refused = invite(&store, ours, &actor, &again, "ours", Utc::now()).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
    // In another organization the user is no member, and may join.
    let invited = invite(&store, theirs, &actor, &again, "theirs", Utc::now()).await;
    invited.expect("an invitation");
    let mut tx = store.begin().await.expect("a transaction");
    let (tenant, invitation) = tx
        .take_invitation("theirs", Utc::now().into())
        .await
        .expect("it is valid");
    let itself = Actor::person(bob.id, &bob.name, HERE);
    tx.insert_member(tenant, &itself, &bob, &invitation.role, Utc::now())
        .await
        .expect("no member yet");
    let twice = tx
        .insert_member(tenant, &itself, &bob, &invitation.role, Utc::now())
        .await;
    assert!(matches!(twice, Err(StoreError::Conflict)), "{twice:?}");
    tx.commit().await.expect("a commit");
    let joined = store.memberships(bob.id).await.expect("the store responds");
    let joined: Vec<_> = joined
        .iter()
        .map(|(_, name, role)| (name.as_str(), role.as_str()))
        .collect();
    assert_eq!(joined, [("Acme", "member"), ("Umbrella", "admin")]);
    store.close().await;
}
