//! Sessions, their organization, and the creators of keys.

use changelog_core::{NewApiKey, Permissions, Role, Timestamp};
use changelog_server::store::{NewSession, SignInMethod, Store};
use chrono::{TimeDelta, Utc};

use super::{is_not_found, join, open, owner, owner_id, tenant};
use changelog_tests::client::form;
use changelog_tests::database::{Db, execute};
use changelog_tests::{TestApp, on_both, send};

on_both!(
    process:
    the_sessions_of_a_person_are_listed,
    a_session_can_switch_organizations,
    a_key_names_its_creator,
);

async fn begin(store: &Store, app: &TestApp, token: &str, agent: Option<&str>, at: Timestamp) {
    let ours = tenant(store, &app.organization.id).await;
    let mut tx = store.begin().await.expect("a transaction");
    let new = NewSession {
        user: owner_id(app),
        tenant: ours,
        method: SignInMethod::Password,
        provider_sid: None,
        user_agent: agent,
    };
    tx.insert_session(token, new, at)
        .await
        .expect("a transaction");
    tx.commit().await.expect("a commit");
}

async fn the_sessions_of_a_person_are_listed(app: TestApp) {
    let (store, _) = open(&app).await;
    let ada = owner_id(&app);
    let now = Timestamp::from(Utc::now());
    let long = format!("{}\u{1f680}\u{1f680}", "x".repeat(199));
    let ago = |hours| now.plus(-TimeDelta::hours(hours));
    begin(&store, &app, "old", Some("Old/1.0\u{7}"), ago(3)).await;
    begin(&store, &app, "new", Some(&long), ago(1)).await;
    begin(&store, &app, "mute", None, ago(2)).await;
    begin(&store, &app, "ended", None, ago(24 * 7)).await;
    let sessions = store
        .sessions(ada, None, "mute", now)
        .await
        .expect("the store responds");
    let seen: Vec<_> = sessions
        .iter()
        .map(|one| (one.user_agent.as_deref(), one.is_current, one.created_at))
        .collect();
    let cut = format!("{}\u{1f680}", "x".repeat(199));
    assert_eq!(
        seen,
        [
            (Some(&*cut), false, ago(1)),
            (None, true, ago(2)),
            (Some("Old/1.0"), false, ago(3)),
        ]
    );
    assert!(sessions.iter().all(|one| one.organization_name == "Acme"));
    assert!(
        sessions
            .iter()
            .all(|one| one.last_seen_at == one.created_at)
    );

    // The session has the user agent of the browser.
    let fields = [
        ("email", app.organization.email.as_str()),
        ("password", app.organization.password.as_str()),
    ];
    let request = app.anonymous().request("POST", "/sign-in");
    let request = request.header("user-agent", "Netscape/4.0");
    send(form(request, &fields)).await.is(303);
    let later = Timestamp::from(Utc::now());
    let sessions = store
        .sessions(ada, None, "new", later)
        .await
        .expect("the store responds");
    assert_eq!(sessions[0].user_agent.as_deref(), Some("Netscape/4.0"));
    assert_eq!(sessions.len(), 4);

    let mut tx = store.begin().await.expect("a transaction");
    tx.end_other_sessions(ada, None, "new")
        .await
        .expect("permission");
    tx.commit().await.expect("a commit");
    let sessions = store
        .sessions(ada, None, "new", now)
        .await
        .expect("the store responds");
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].is_current);
    store.close().await;
}

async fn a_session_can_switch_organizations(app: TestApp) {
    let (store, ours) = open(&app).await;
    let second = app.second_organization();
    let theirs = tenant(&store, &second.id).await;
    let now = Timestamp::from(Utc::now());
    begin(&store, &app, "token", None, now).await;
    let ada = owner_id(&app);
    let bob = join(&store, theirs, "Bob", &Role::Member).await;
    let switch = async |token, user, to| {
        let mut tx = store.begin().await?;
        tx.switch_organization(token, user, to).await?;
        tx.commit().await
    };
    // Not a member, the session of another user, and no session.
    assert!(is_not_found(&switch("token", ada, theirs.id()).await));
    assert!(is_not_found(&switch("token", bob.id, theirs.id()).await));
    assert!(is_not_found(&switch("nothing", ada, ours.id()).await));
    let mut tx = store.begin().await.expect("a transaction");
    let known = store.accounts(&app.organization.email).await;
    let known = known.expect("the store responds").into_iter().next();
    let user = known.expect("it exists").user;
    tx.insert_member(theirs, &owner(&app), &user, &Role::Viewer, Utc::now())
        .await
        .expect("no member yet");
    tx.commit().await.expect("a commit");
    switch("token", ada, theirs.id())
        .await
        .expect("a member may");
    let session = store
        .session("token", now)
        .await
        .expect("the store responds");
    let session = session.expect("it is valid");
    assert_eq!(session.tenant, theirs);
    assert_eq!(session.organization_name, second.name);
    assert_eq!(session.person.role, Role::Viewer);
    store.close().await;
}

async fn a_key_names_its_creator(app: TestApp) {
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    let new = NewApiKey {
        name: "from a page".to_owned(),
        expires_at: None,
        permissions: Permissions::default(),
    };
    let mut tx = store.begin().await.expect("a transaction");
    let made = tx
        .insert_api_key(ours, &owner(&app), &new, Utc::now())
        .await
        .expect("a key");
    tx.commit().await.expect("a commit");
    let keys = store.api_keys(ours).await.expect("the store responds");
    let seen: Vec<_> = keys
        .iter()
        .map(|key| (key.name.as_str(), key.created_by.as_deref()))
        .collect();
    let name = app.organization.owner_name.as_str();
    assert_eq!(
        seen,
        [("terraform", Some("Operator")), ("from a page", Some(name))]
    );
    let found = store.api_key_of(ours, made.id).await.expect("it exists");
    assert_eq!(found, keys[1]);
    assert!(is_not_found(&store.api_key_of(theirs, made.id).await));
    // A key without a creator.
    let mut db = Db::open(app.engine, &app.database).await;
    execute!(
        &mut db,
        sqlx::query("UPDATE api_keys SET created_by = NULL")
    );
    db.close().await;
    let found = store.api_key_of(ours, made.id).await.expect("it exists");
    assert_eq!(found.created_by, None);
    store.close().await;
}
