//! `/api/changes/annotations`: changes as annotations of graphs.

use serde_json::{Value, json};

use changelog_tests::{TestApp, assert_contains, on_both, text};

on_both!(
    changes_are_points_and_regions,
    neighbors_are_merged_and_older_ones_counted,
    invalid_parameters_are_refused,
);

const PATH: &str = "/api/changes/annotations";

/// Returns the annotations: the response has no envelope.
async fn annotations(app: &TestApp, query: &str) -> Vec<Value> {
    let response = app.key().get(&format!("{PATH}?{query}")).await;
    let Value::Array(all) = response.body(200) else {
        panic!("no array: {}", response.text);
    };
    all
}

async fn changes_are_points_and_regions(app: TestApp) {
    let key = app.key();
    let service = key.service("pay, ments").await;
    for change in [
        json!({
            "title": "Deploy <b>payments</b> & more", "status": "rolled_back",
            "outcome": "failed", "risk_level": "high", "environment": "prod",
            "service_id": service, "started_at": "2026-03-01T12:00:00Z",
            "ended_at": "2026-03-01T12:20:00Z",
        }),
        json!({ "title": "Flag", "status": "completed", "occurred_at": "2026-03-01T13:00:00Z" }),
        json!({ "title": "Tonight", "scheduled_for": "2099-03-01T12:00:00Z" }),
    ] {
        key.create("/api/changes", change).await;
    }
    let all = annotations(&app, "").await;
    assert_eq!(all.len(), 2, "{all:?}");
    let deploy = &all[0];
    assert_eq!(deploy["time"], 1_772_366_400_000_i64);
    assert_eq!(deploy["timeEnd"], 1_772_367_600_000_i64);
    assert_eq!(deploy["title"], "Deploy <b>payments</b> & more");
    assert_eq!(deploy["tags"], "high,failed,prod,pay  ments");
    let html = text(&deploy["text"]);
    assert_contains(&html, "Deploy &lt;b&gt;payments&lt;/b&gt; &amp; more</a>");
    assert_contains(&html, "high risk, failed, pay, ments, prod, by ");
    assert!(
        html.starts_with(&format!("<a href=\"{}/changes/", app.url())),
        "{html}"
    );
    assert_eq!(all[1]["title"], "Flag");
    assert_eq!(all[1].get("timeEnd"), None);

    // The filters of the list, and the two forms of times.
    for (query, expected) in [
        ("min_risk=medium", 1),
        ("environment=staging", 0),
        ("q=flag", 1),
        ("status=planned", 1),
        ("not_status=rolled_back", 1),
        ("active=false", 2),
        ("not_status=in_progress,completed,rolled_back", 1),
        ("from=1772370000000", 1),
        ("to=2026-03-01T13:00:00Z", 1),
        ("from=2026-03-01T12:00:00Z&to=1772370000001", 2),
    ] {
        assert_eq!(annotations(&app, query).await.len(), expected, "{query}");
    }
}

async fn neighbors_are_merged_and_older_ones_counted(app: TestApp) {
    let key = app.key();
    // 2,100 changes, one a minute: 100 more than are read.
    for part in 0..7 {
        let change = |number: i64| {
            let at = 1_772_366_400 + (part * 300 + number) * 60;
            let at = chrono::DateTime::from_timestamp(at, 0)
                .expect("a time")
                .to_rfc3339();
            json!({ "title": format!("Deploy {part} {number}"), "status": "completed", "occurred_at": at })
        };
        let changes: Vec<Value> = (0..300).map(change).collect();
        key.create_changes(changes).await;
    }
    let all = annotations(&app, "max=10").await;
    assert_eq!(all.len(), 11);
    assert_eq!(all[0]["title"], "100 earlier changes");
    let merged: i64 = all[1..]
        .iter()
        .map(|one| {
            let words = text(&one["title"]);
            words
                .split(' ')
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(1)
        })
        .sum();
    assert_eq!(merged, 2_000, "{all:?}");
    let few = annotations(&app, "from=1772366400000&to=1772367000000").await;
    assert_eq!(few.len(), 10);
    // The default maximum, and the newest 1,000 minutes.
    assert_eq!(annotations(&app, "").await.len(), 201);
}

async fn invalid_parameters_are_refused(app: TestApp) {
    let key = app.key();
    for query in [
        "from=soon",
        "to=-1",
        "max=0",
        "max=many",
        "since=2026-03-01T12:00:00Z",
        "page=2",
    ] {
        let refused = key.get(&format!("{PATH}?{query}")).await;
        refused.is(400);
        let name = query.split('=').next().unwrap_or_default();
        assert_contains(&refused.text, name);
    }
    app.anonymous().get(PATH).await.is(401);
}
