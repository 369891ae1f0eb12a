//! `changelog-server check` and `status`.

use changelog_tests::database::{Db, execute};
use changelog_tests::{TestApp, assert_contains, each, on_both, on_sqlite, text};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

on_both!(
    process:
    a_database_in_use_is_sound,
    what_is_derived_is_repaired,
    what_cannot_be_rebuilt_is_reported,
    status_describes_the_installation,
);
on_sqlite!(process: a_repair_is_refused_while_a_server_runs);

/// Records changes of every kind that counts and search distinguish, updates some, and deletes
/// one.
async fn record_changes(app: &TestApp) {
    let key = app.key();
    let (first, second) = (key.service("payments").await, key.service("ledger").await);
    let host = key.host("web-1").await;
    let mut ids = Vec::new();
    for change in [
        json!({ "title": "Deploy the Straße, 2.0 (again)", "service_id": first, "host_id": host,
            "tags": ["release", "by-hand"], "environment": "prod", "risk_level": "high" }),
        json!({ "title": "Two services", "service_ids": [first, second], "tags": ["release"] }),
        json!({ "title": "Planned", "status": "planned", "scheduled_for": "2099-01-02T03:04:05Z" }),
        json!({ "title": "Earlier", "status": "completed", "started_at": "2026-01-02T03:04:05Z",
            "ended_at": "2026-01-02T04:04:05Z" }),
        json!({ "title": "Deleted", "tags": ["gone"] }),
    ] {
        ids.push(key.create("/api/changes", change).await);
    }
    let path = |id: &str| format!("/api/changes/{id}");
    key.update(
        &path(&ids[0]),
        json!({ "title": "Other words", "tags": ["b"] }),
    )
    .await;
    key.update(&path(&ids[1]), json!({ "service_ids": [second] }))
        .await;
    let moved = json!({ "started_at": "2026-02-03T04:05:06Z", "ended_at": "2026-02-03T05:05:06Z" });
    key.update(&path(&ids[3]), moved).await;
    let browser = app.browser().await;
    browser
        .submit(&format!("/changes/{}/delete", ids[4]), &[])
        .await;
    let form = [
        ("title", "By a person"),
        ("risk_level", "low"),
        ("status", "completed"),
    ];
    browser.submit("/changes", &form).await;
}

/// Runs `check`, and returns its exit code and what it prints.
fn check(app: &TestApp, flags: &[&str]) -> (Option<i32>, Value) {
    let arguments: Vec<&str> = ["check", "--json"]
        .into_iter()
        .chain(flags.iter().copied())
        .collect();
    let output = app.try_admin(&arguments, "");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

/// Runs statements directly in the database.
async fn damage(app: &TestApp, statements: &[&str]) {
    let mut db = Db::open(app.engine, &app.database).await;
    for statement in statements {
        execute!(&mut db, sqlx::query(AssertSqlSafe((*statement).to_owned())));
    }
    db.close().await;
}

async fn a_database_in_use_is_sound(app: TestApp) {
    record_changes(&app).await;
    let second = app.second_organization();
    app.with_key(&second.key).change("of others").await;
    let (code, report) = check(&app, &[]);
    assert_eq!((code, &report["problems"]), (Some(0), &json!([])));
    assert_eq!(
        (&report["organizations"], &report["changes"]),
        (&json!(2), &json!(6))
    );
}

async fn what_is_derived_is_repaired(mut app: TestApp) {
    record_changes(&app).await;
    app.server.kill9();
    damage(
        &app,
        &[
            "UPDATE change_counts SET n = n + 2 WHERE scope = 'organization' AND span = 0",
            "DELETE FROM change_counts WHERE scope LIKE 'service/%'",
            "UPDATE change_hours SET undone = undone + 1 WHERE hour = (SELECT min(hour) FROM change_hours)",
            "DELETE FROM change_hours WHERE hour = (SELECT max(hour) FROM change_hours)",
            "INSERT INTO change_hours (organization_id, hour, service_id, slot, n, undone)
                SELECT DISTINCT organization_id, 1, service_id, 0, 7, 0 FROM change_hours",
            "DELETE FROM catalog_words WHERE word = 'payments'",
            "UPDATE catalog_words SET word = 'wrong' WHERE word = 'ledger'",
            "DELETE FROM change_search",
        ],
    )
    .await;
    let (code, report) = check(&app, &[]);
    assert_eq!(code, Some(1), "{report}");
    let found: Vec<String> = each(&report["problems"], "check")
        .into_iter()
        .map(text)
        .collect();
    assert_eq!(found, ["counts", "counts", "names", "search"], "{report}");
    // The word that is missing, and another one in the place of a second.
    assert_eq!(report["problems"][2]["rows"], 3, "{report}");
    assert_eq!(report["problems"][3]["rows"], 5, "{report}");
    let (code, report) = check(&app, &["--repair"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(each(&report["problems"], "is_repaired"), [true; 4]);
    let (code, report) = check(&app, &[]);
    assert_eq!((code, &report["problems"]), (Some(0), &json!([])));
    app.restart().await;
    let key = app.key();
    assert_eq!(key.body("/api/changes").await["count"], 5);
    assert_eq!(key.body("/api/changes?q=other").await["count"], 1);
    assert_eq!(key.body("/api/changes?text=ledger").await["count"], 1);
    key.change("after the repair").await;
    assert_eq!(check(&app, &[]).1["problems"], json!([]));
}

async fn what_cannot_be_rebuilt_is_reported(mut app: TestApp) {
    record_changes(&app).await;
    app.server.kill9();
    damage(
        &app,
        &[
            "DELETE FROM activity WHERE resource_type = 'change' AND action = 'created' \
             AND resource_label = 'Planned'",
            "DELETE FROM change_tags WHERE tag = 'b'",
            "UPDATE changes SET title = 'Another one' WHERE title = 'Earlier'",
        ],
    )
    .await;
    for flags in [&[][..], &["--repair"]] {
        let (code, report) = check(&app, flags);
        assert_eq!(code, Some(1), "{report}");
        let found: Vec<String> = each(&report["problems"], "check")
            .into_iter()
            .map(text)
            .collect();
        assert_eq!(found, ["changes", "changes", "activity"], "{report}");
        assert_eq!(each(&report["problems"], "rows"), [1, 1, 1]);
    }
    let output = app.try_admin(&["check"], "");
    assert_contains(&String::from_utf8_lossy(&output.stderr), "not sound");
}

async fn a_repair_is_refused_while_a_server_runs(app: TestApp) {
    let output = app.try_admin(&["check", "--repair"], "");
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&String::from_utf8_lossy(&output.stderr), "is serving");
}

async fn status_describes_the_installation(mut app: TestApp) {
    record_changes(&app).await;
    app.second_organization();
    let is_sqlite = app.engine == changelog_tests::Engine::Sqlite;
    let status = app.admin(&["status"]);
    assert_eq!(status["version"], "0.1.0");
    assert_eq!(
        status["database"]["schema"]["found"],
        status["database"]["schema"]["needed"]
    );
    assert!(
        status["database"]["size_bytes"].as_u64() > Some(4096),
        "{status}"
    );
    let served = if is_sqlite { json!(true) } else { Value::Null };
    assert_eq!(status["database"]["is_served"], served);
    assert_eq!(
        each(&status["organizations"], "changes"),
        [5, 0],
        "{status}"
    );
    assert_eq!(status["organizations"][0]["name"], app.organization.name);
    let queues = each(&status["queues"], "name");
    assert_eq!(queues, ["events", "deliveries", "source_events", "mails"]);
    if is_sqlite {
        app.server.kill9();
        assert_eq!(app.admin(&["status"])["database"]["is_served"], false);
    }
}
