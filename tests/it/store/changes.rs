//! Deleting, scheduled changes, and pages without counts.

use changelog_core::{ChangeFilter, ChangeId, RiskLevel};
use changelog_server::store::{Actor, ChangesJson};
use chrono::Utc;
use serde_json::{Value, json};
use sqlx::types::Uuid;

use super::{is_not_found, open, tenant};
use changelog_tests::database::{Db, fetch};
use changelog_tests::{Engine, TestApp, on_both};

on_both!(
    process:
    deleting_a_change_removes_everything_about_it,
    one_of_two_concurrent_deletes_finds_nothing,
    scheduled_changes_are_found,
    uncounted_pages_match_the_counted_list,
);

/// Returns all rows about changes, except for the activity log.
async fn stored_rows(app: &TestApp) -> Vec<String> {
    let mut db = Db::open(app.engine, &app.database).await;
    let mut all = Vec::new();
    let rows: Vec<(Uuid, i64, String, String, Option<i64>, String)> = fetch!(
        &mut db,
        sqlx::query_as(
            "SELECT organization_id, sort_key, risk_level, status, scheduled_for, document
             FROM changes ORDER BY sort_key, organization_id"
        )
    );
    all.extend(rows.iter().map(|row| format!("{row:?}")));
    let rows: Vec<(Uuid, String, i64)> = fetch!(
        &mut db,
        sqlx::query_as("SELECT organization_id, tag, sort_key FROM change_tags ORDER BY 1, 2, 3")
    );
    all.extend(rows.iter().map(|row| format!("{row:?}")));
    let rows: Vec<(Uuid, String, i64, i64, String, String, i64)> = fetch!(
        &mut db,
        sqlx::query_as(
            "SELECT organization_id, scope, span, start, risk_level, status, CAST(SUM(n) AS BIGINT)
             FROM change_counts GROUP BY 1, 2, 3, 4, 5, 6 HAVING SUM(n) <> 0
             ORDER BY 1, 2, 3, 4, 5, 6"
        )
    );
    all.extend(rows.iter().map(|row| format!("{row:?}")));
    let rows: Vec<(Uuid, i64, Uuid, i64, i64)> = fetch!(
        &mut db,
        sqlx::query_as(
            "SELECT organization_id, hour, service_id, CAST(SUM(n) AS BIGINT),
                CAST(SUM(undone) AS BIGINT)
             FROM change_hours GROUP BY 1, 2, 3 HAVING SUM(n) <> 0 OR SUM(undone) <> 0
             ORDER BY 1, 2, 3"
        )
    );
    all.extend(rows.iter().map(|row| format!("{row:?}")));
    let search = match app.engine {
        Engine::Sqlite => "SELECT doc, term FROM change_search_words ORDER BY term",
        Engine::Postgres => {
            "SELECT sort_key, CAST(words AS text) FROM change_search ORDER BY sort_key"
        }
    };
    let rows: Vec<(i64, String)> = fetch!(&mut db, sqlx::query_as(search));
    all.extend(rows.iter().map(|row| format!("{row:?}")));
    db.close().await;
    all
}

async fn deleting_a_change_removes_everything_about_it(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let host = key.host("web-1").await;
    let full = |title: &str, at: &str| {
        json!({
            "title": title, "service_id": service, "host_id": host, "tags": ["prod", "it's"],
            "risk_level": "high", "occurred_at": at, "scheduled_for": "2031-01-01T00:00:00Z",
        })
    };
    key.create(
        "/api/changes",
        full("Deploy one", "2026-01-02T03:04:05.678Z"),
    )
    .await;
    key.create("/api/changes", json!({ "title": "bare" })).await;
    let before = stored_rows(&app).await;

    let mut all = Vec::new();
    for body in [
        full("Deploy seldom", "2026-01-02T03:04:05.678Z"),
        full("Deploy another", "2025-06-07T00:00:00Z"),
        json!({ "title": "nothing else" }),
    ] {
        all.push(key.create("/api/changes", body).await);
    }
    // Updated since.
    let path = format!("/api/changes/{}", all[1]);
    key.update(
        &path,
        json!({ "title": "renamed", "status": "completed", "tags": ["new"], "host_id": null }),
    )
    .await;
    let expected: Vec<Value> = {
        let mut shown = Vec::new();
        for id in &all {
            shown.push(key.read(&format!("/api/changes/{id}")).await);
        }
        shown
    };
    assert_ne!(stored_rows(&app).await, before);

    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &app.second_organization().id).await;
    for (id, expected) in all.iter().zip(&expected) {
        let change: ChangeId = id.parse().expect("an id");
        let mut tx = store.begin().await.expect("a transaction");
        assert!(is_not_found(
            &tx.delete_change(theirs, &Actor::operator(), change, Utc::now())
                .await
        ));
        drop(tx);
        // Not deleted before the commit.
        let mut tx = store.begin().await.expect("a transaction");
        tx.delete_change(ours, &Actor::operator(), change, Utc::now())
            .await
            .expect("it exists");
        drop(tx);
        key.get(&format!("/api/changes/{id}")).await.is(200);
        let mut tx = store.begin().await.expect("a transaction");
        let deleted = tx
            .delete_change(ours, &Actor::operator(), change, Utc::now())
            .await
            .expect("it exists");
        assert_eq!(json!(deleted), *expected);
        assert!(is_not_found(
            &tx.delete_change(ours, &Actor::operator(), change, Utc::now())
                .await
        ));
        tx.commit().await.expect("a commit");
        key.get(&format!("/api/changes/{id}"))
            .await
            .problem(404, "not_found");
    }
    assert_eq!(stored_rows(&app).await, before);
    for (query, count) in [
        ("", 2),
        ("q=deploy", 1),
        ("q=seldom", 0),
        ("q=renamed", 0),
        ("tag=prod", 1),
        ("tag=new", 0),
        ("tag=prod&risk_level=high", 1),
        ("since=2025-01-01T00:00:00Z&until=2026-01-01T00:00:00Z", 0),
    ] {
        let list = key.body(&format!("/api/changes?{query}")).await;
        assert_eq!(list["count"], count, "{query}");
        let data = list["data"].as_array().expect("a list");
        assert_eq!(data.len(), count, "{query}");
    }
    // Later creates work.
    key.create(
        "/api/changes",
        full("Deploy next", "2026-01-02T03:04:05.678Z"),
    )
    .await;
    let list = key.body("/api/changes?q=deploy").await;
    assert_eq!(list["count"], 2);
    store.close().await;
}

async fn one_of_two_concurrent_deletes_finds_nothing(app: TestApp) {
    let key = app.key();
    let (store, tenant) = open(&app).await;
    for _ in 0..10 {
        let id: ChangeId = key.change("once").await.parse().expect("an id");
        let delete = async || {
            let mut tx = store.begin().await?;
            tx.delete_change(tenant, &Actor::operator(), id, Utc::now())
                .await?;
            tx.commit().await
        };
        let (one, other) = tokio::join!(delete(), delete());
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?}, {other:?}");
        assert!(is_not_found(&if one.is_ok() { other } else { one }));
    }
    let total = store
        .total(tenant, changelog_server::store::Scope::Organization)
        .await;
    assert_eq!(total.expect("the store responds"), 0);
    store.close().await;
}

async fn scheduled_changes_are_found(app: TestApp) {
    let key = app.key();
    let (store, tenant) = open(&app).await;
    let at = |hour: u32| format!("2031-05-06T{hour:02}:00:00.000Z");
    let mut ids = Vec::new();
    for hour in [7, 3, 5, 1] {
        let body = json!({ "title": format!("At {hour}"), "scheduled_for": at(hour) });
        ids.push(key.create("/api/changes", body).await);
    }
    let done = json!({ "title": "done", "scheduled_for": at(4), "status": "completed" });
    let done = key.create("/api/changes", done).await;
    key.change("whenever").await;
    let titles = async |limit: u64| {
        let found = store.upcoming_changes(tenant, limit).await;
        let found = found.expect("the store responds");
        let found = found.parse().expect("they are changes");
        let titles = found.into_iter().map(|change| change.title);
        titles.collect::<Vec<_>>()
    };
    assert_eq!(titles(9).await, ["At 1", "At 3", "At 5", "At 7"]);
    assert_eq!(titles(2).await, ["At 1", "At 3"]);
    for (id, patch) in [
        (&ids[0], json!({ "scheduled_for": at(2) })),
        (&ids[1], json!({ "scheduled_for": null })),
        (&ids[2], json!({ "status": "in_progress" })),
        (&done, json!({ "status": "planned" })),
    ] {
        key.update(&format!("/api/changes/{id}"), patch).await;
    }
    assert_eq!(titles(9).await, ["At 1", "At 7", "done"]);
    let mut tx = store.begin().await.expect("a transaction");
    let id = ids[3].parse().expect("an id");
    tx.delete_change(tenant, &Actor::operator(), id, Utc::now())
        .await
        .expect("it exists");
    tx.commit().await.expect("a commit");
    assert_eq!(titles(9).await, ["At 7", "done"]);
    let theirs = super::tenant(&store, &app.second_organization().id).await;
    let theirs = store.upcoming_changes(theirs, 9).await;
    assert_eq!(theirs.expect("the store responds").0, "");
    store.close().await;
}

async fn uncounted_pages_match_the_counted_list(app: TestApp) {
    let key = app.key();
    let risks = ["low", "medium", "high"];
    for number in 0..23 {
        let body = json!({
            "title": format!("Deploy {number}"), "risk_level": risks[number % 3],
            "tags": (number % 2 == 0).then_some(["even"]),
        });
        key.create("/api/changes", body).await;
    }
    let (store, tenant) = open(&app).await;
    for filter in [
        ChangeFilter::default(),
        ChangeFilter {
            risk_levels: vec![RiskLevel::High],
            ..ChangeFilter::default()
        },
        ChangeFilter {
            tags: vec!["even".to_owned()],
            ..ChangeFilter::default()
        },
        ChangeFilter {
            q: Some("deploy 1".to_owned()),
            ..ChangeFilter::default()
        },
    ] {
        let everything = ChangeFilter {
            per_page: 100,
            ..filter.clone()
        };
        let whole = store.changes(tenant, &everything).await;
        let whole = whole.expect("the store responds");
        let mut pieces = Vec::new();
        let mut page = ChangeFilter {
            per_page: 4,
            ..filter
        };
        loop {
            let json = store.changes_without_count(tenant, &page).await;
            let ChangesJson(json) = json.expect("the store responds");
            let Value::Array(changes) =
                serde_json::from_str(&format!("[{json}]")).expect("it is JSON")
            else {
                panic!("not a list: {json}");
            };
            let Some(last) = changes.last() else { break };
            page.before = Some(super::id::<ChangeId>(last).into());
            pieces.push(json);
        }
        assert!(pieces.len() > 1, "{page:?}");
        assert_eq!(pieces.join(","), whole.json.0, "{page:?}");
    }
    store.close().await;
}
