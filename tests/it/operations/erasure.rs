//! Erasing a person: the name and the address are nowhere in the database afterwards, and what
//! others have is not touched.

use std::time::Duration;

use changelog_core::Role;
use changelog_server::store::Actor;
use changelog_tests::database::{Db, fetch};
use changelog_tests::{Engine, TestApp, assert_contains, assert_lacks, on_both, text};
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::dashboard::{Person, join};
use crate::store::open;

on_both!(
    a_member_is_erased_by_an_owner,
    a_command_erases_who_has_left,
    an_erasure_is_continued_after_a_kill,
    a_repeated_erasure_replaces_what_the_first_has_not,
);

/// What is deleted by itself within 30 days, and is not rewritten.
const KEPT_SHORTLY: [&str; 4] = ["notifications", "events", "deliveries", "idempotency"];

/// Returns the tables that have a string in any column.
async fn tables_with(app: &TestApp, wanted: &str) -> Vec<String> {
    let mut db = Db::open(app.engine, &app.database).await;
    let (tables, row) = match app.engine {
        Engine::Sqlite => (
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'",
            "",
        ),
        Engine::Postgres => (
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
            "t::text",
        ),
    };
    let tables: Vec<(String,)> = fetch!(&mut db, sqlx::query_as(tables));
    assert!(tables.len() > 40, "{tables:?}");
    let mut found = Vec::new();
    for (table,) in tables {
        let mut row = row.to_owned();
        if app.engine == Engine::Sqlite {
            let columns = format!("SELECT name FROM pragma_table_info('{table}')");
            let columns: Vec<(String,)> = fetch!(&mut db, sqlx::query_as(AssertSqlSafe(columns)));
            let columns: Vec<String> = columns
                .iter()
                // Text with a zero byte would end there.
                .map(|(name,)| format!("iif(typeof({name}) = 'text', {name}, '')"))
                .collect();
            row = columns.join(" || '|' || ");
        }
        let rows = format!(
            "SELECT CAST(count(*) AS BIGINT) FROM {table} AS t \
             WHERE lower({row}) LIKE '%{}%'",
            wanted.to_lowercase()
        );
        let rows: Vec<(i64,)> = fetch!(&mut db, sqlx::query_as(AssertSqlSafe(rows)));
        if rows[0].0 > 0 {
            found.push(table);
        }
    }
    db.close().await;
    found
}

async fn assert_unknown(app: &TestApp, name: &str) {
    let mut tables = tables_with(app, name).await;
    tables.retain(|table| !KEPT_SHORTLY.contains(&table.as_str()));
    assert_eq!(tables, [""; 0], "{name}");
}

/// Waits until no erasure is under way.
async fn wait_until_erased(app: &TestApp) {
    let has_ended = "UPDATE erasures SET due_at = due_at WHERE organization_id = $1 \
                     AND due_at IS NULL";
    for _ in 0..600 {
        if app.update_own(has_ended).await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the erasure did not end");
}

/// Does everything by which a person gets into the records. Returns a change that the person
/// has recorded, and one that an API key recorded on their behalf.
async fn act(app: &TestApp, person: &Person) -> (String, String) {
    let by_hand = [("title", "Resize the pool"), ("risk_level", "high")];
    person.browser.submit("/changes", &by_hand).await;
    let key = app.key();
    let list = key.body("/api/changes?q=resize").await;
    let own = text(&list["data"][0]["id"]);
    let agent = json!({ "name": "claude", "mode": "interactive" });
    let body = json!({
        "title": "Deploy by an agent", "agent": agent, "on_behalf_of": person.email,
    });
    let claimed = key.create("/api/changes", body).await;
    let path = format!("/api/changes/{claimed}");
    key.update(&path, json!({ "on_behalf_of": "zoe-login" }))
        .await;
    key.update(&path, json!({ "on_behalf_of": "Zoë \"Z\"" }))
        .await;
    let service = key.service("payments").await;
    let incident = [("title", "Payments are slow"), ("service_id", &service)];
    person.browser.submit("/incidents", &incident).await;
    let incidents = key.body("/api/incidents").await;
    let incident = text(&incidents["data"][0]["id"]);
    let cause = [("change_id", own.as_str())];
    let path = format!("/incidents/{incident}/cause");
    person.browser.submit(&path, &cause).await;
    for (path, fields) in [
        ("/settings/api-keys", vec![("name", "Made by her")]),
        (
            "/settings/sources",
            vec![("kind", "generic"), ("name", "Made by her")],
        ),
        (
            "/settings/integrations",
            vec![
                ("kind", "webhook"),
                ("name", "Made by her"),
                ("url", "https://hooks.example.com/x"),
                ("events", "change.created"),
            ],
        ),
        (
            "/settings/members/invite",
            vec![("email", "new@example.org"), ("role", "viewer")],
        ),
    ] {
        let answer = person.browser.post_form(path, &fields).await;
        assert!(answer.status < 400, "{path}: {}", answer.text);
    }
    let view = [("name", "Hers"), ("query", "risk_level=high")];
    person.browser.submit("/views", &view).await;
    let seen = tables_with(app, "zoe").await;
    for table in ["users", "activity", "api_keys", "invitations", "sources"] {
        assert!(seen.contains(&table.to_owned()), "{table} of {seen:?}");
    }
    assert!(
        tables_with(app, "Zoë")
            .await
            .contains(&"changes".to_owned())
    );
    (own, claimed)
}

/// Checks what the records say of a person who was called Zoe.
async fn assert_erased(app: &TestApp, person: &Person, (own, claimed): &(String, String)) {
    let pseudonym = format!("Erased person {}", &person.id[28..]);
    for name in ["zoe", "Zoë", "zoe-login"] {
        assert_unknown(app, name).await;
    }
    let key = app.key();
    let own = key.body(&format!("/api/changes/{own}")).await["data"].clone();
    assert_eq!(own["created_by"]["name"], pseudonym.as_str());
    assert_eq!(own["created_by"]["id"], person.id.as_str());
    assert_eq!(own["title"], "Resize the pool");
    let path = format!("/api/changes/{claimed}");
    assert_eq!(
        key.body(&path).await["data"]["on_behalf_of"],
        pseudonym.as_str()
    );
    let history = key.body(&format!("{path}/history")).await.to_string();
    assert_contains(&history, &pseudonym);
    // They are one person still.
    for filter in [&person.id, &pseudonym] {
        let list = key
            .body(&format!(
                "/api/changes?created_by={}",
                filter.replace(' ', "+")
            ))
            .await;
        assert_eq!(list["count"], 1, "{filter}");
    }
    let owner = app.browser().await;
    let log = owner
        .body(&format!("/api/activity?actor_id={}", person.id))
        .await;
    let items = log["items"].as_array().expect("a list");
    assert!(items.len() >= 6, "{log}");
    assert!(
        items
            .iter()
            .all(|item| item["actor_name"] == pseudonym.as_str()),
        "{log}"
    );
    let incident = &key.body("/api/incidents").await["data"][0];
    assert_eq!(incident["created_by"]["name"], pseudonym.as_str());
    assert_eq!(incident["cause"]["marked_by"], pseudonym.as_str());
    let log = owner.page("/activity").await;
    assert_contains(&log, "erased the name of");
    assert_contains(&log, &pseudonym);
    // What it is compared with has not changed.
    assert_eq!(app.admin(&["check"])["problems"], json!([]));
}

async fn a_member_is_erased_by_an_owner(app: TestApp) {
    let owner = app.browser().await;
    let zoe = join(&app, &owner, "zoe", "admin").await;
    let other = join(&app, &owner, "zack", "admin").await;
    let done = act(&app, &zoe).await;
    let path = format!("/settings/members/{}/erase", zoe.id);
    let also = [("also", "zoe-login, Zoë \"Z\"")];
    // An admin may remove, but not erase.
    other.browser.post_form(&path, &also).await.is(403);
    let long = "a".repeat(255);
    let refused = owner.post_form(&path, &[("also", &long)]).await;
    refused.is(422);
    assert_contains(&refused.text, "names of at most 254 characters");
    // The last owner stays.
    let own = format!("/settings/members/{}/erase", app.organization.owner_id);
    owner.post_form(&own, &[]).await.is(409);
    let nobody = "/settings/members/018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90/erase";
    owner.post_form(nobody, &[]).await.is(404);

    owner.submit(&path, &also).await;
    assert_eq!(zoe.browser.get("/").await.status, 303);
    wait_until_erased(&app).await;
    assert_erased(&app, &zoe, &done).await;
    let members = owner.page("/settings/members").await;
    assert_lacks(&members, "zoe");
    assert_contains(&members, "zack");
    assert!(!tables_with(&app, "zack").await.is_empty());
    let deleted = deletion(&owner.body("/api/activity?resource=member").await);
    assert_eq!(deleted["actor_name"], "ada of Acme");
    assert_contains(&text(&deleted["resource_label"]), "Erased person");
    // The address may be invited again, and is another person then.
    let again = join(&app, &owner, "zoe", "viewer").await;
    assert_ne!(again.id, zoe.id);
}

/// Returns the entry that a person was erased.
fn deletion(log: &Value) -> Value {
    let items = log["items"].as_array().expect("a list");
    let entry = items.iter().find(|entry| entry["action"] == "deleted");
    entry.expect("an entry of the erasure").clone()
}

async fn a_command_erases_who_has_left(app: TestApp) {
    let owner = app.browser().await;
    let zoe = join(&app, &owner, "zoe", "admin").await;
    let done = act(&app, &zoe).await;
    let remove = format!("/settings/members/{}/remove", zoe.id);
    owner.submit(&remove, &[]).await;
    let org = ["user", "erase", "--org", &app.organization.id];
    let refused = |arguments: &[&str]| {
        let output = app.try_admin(&[&org[..], arguments].concat(), "");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_contains(&refused(&[]), "--email");
    let nobody = refused(&["--email", "nobody@example.org"]);
    assert_contains(&nobody, "has and had no member with the address");
    let unknown = refused(&["--id", "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"]);
    assert_contains(&unknown, "is or was a member");
    let also = ["--also", "zoe-login,Zoë \"Z\""];
    let by_email = ["--email", "ZOE@example.org"];
    let erased = app.admin(&[&org[..], &by_email, &also].concat());
    assert!(erased["replaced"].as_i64() >= Some(8), "{erased}");
    assert_erased(&app, &zoe, &done).await;
    // There is nothing left to replace.
    let again = app.admin(&[&org[..], &["--id", &zoe.id]].concat());
    assert_eq!(again["replaced"], 0);
    assert_eq!(again["pseudonym"], erased["pseudonym"]);
}

async fn an_erasure_is_continued_after_a_kill(mut app: TestApp) {
    let owner = app.browser().await;
    let zoe = join(&app, &owner, "zoe", "admin").await;
    let done = act(&app, &zoe).await;
    let change = json!({ "title": "One of many", "on_behalf_of": "zoe-login" });
    for _ in 0..8 {
        let body = json!({ "changes": vec![change.clone(); 500] });
        app.key().post("/api/changes/bulk", body).await.is(201);
    }
    let path = format!("/settings/members/{}/erase", zoe.id);
    owner
        .submit(&path, &[("also", "zoe-login, Zoë \"Z\"")])
        .await;
    let has_begun = "UPDATE erasures SET due_at = due_at WHERE organization_id = $1 AND stage > 0";
    while app.update_own(has_begun).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    app.server.kill9();
    app.restart().await;
    let is_due = "UPDATE erasures SET due_at = 0 WHERE organization_id = $1 AND due_at > 0";
    app.update_own(is_due).await;
    wait_until_erased(&app).await;
    assert_erased(&app, &zoe, &done).await;
}

async fn a_repeated_erasure_replaces_what_the_first_has_not(app: TestApp) {
    let owner = app.browser().await;
    let zoe = join(&app, &owner, "zoe", "admin").await;
    let done = act(&app, &zoe).await;
    let (store, tenant) = open(&app).await;
    let also = "zoe-login,Zoë \"Z\"".parse().expect("names");
    let id = zoe.id.parse().expect("an id");
    // No server goes on with it.
    let later = Utc::now() + TimeDelta::hours(1);
    let by = (&Role::Owner, id);
    let begun = store
        .erase_person(tenant, &Actor::operator(), by, also, later)
        .await;
    let mut run = begun.expect("a member");
    // The account and what it has made: nothing knows the name any more but this run.
    for _ in 0..2 {
        let step = store.erasure_step(run, later).await;
        run = step.expect("the store responds").expect("more to replace");
    }
    store.close().await;
    let org = ["user", "erase", "--org", &app.organization.id];
    app.admin(&[&org[..], &["--id", &zoe.id]].concat());
    assert_erased(&app, &zoe, &done).await;
}
