//! `/api/changes/around`: the window of time, and what is counted and compared in it.

use serde_json::{Value, json};

use super::changes_around::{AT, PATH, change, titles};
use changelog_tests::{TestApp, on_both, text};

on_both!(
    the_window_widens_until_something_of_weight_is_found,
    places_of_the_window_are_counted,
    places_next_to_a_burst_are_counted,
    related_changes_are_found_among_many,
);

async fn the_window_widens_until_something_of_weight_is_found(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    for (title, at, service) in [
        ("elsewhere", "2026-03-01T11:00:00Z", None),
        ("two days ago", "2026-02-27T12:00:00Z", Some(&service)),
    ] {
        let body = json!({
            "title": title, "occurred_at": at, "status": "completed", "service_id": service,
        });
        key.create("/api/changes", body).await;
    }
    let window = async |query: &str| {
        let around = key.body(&format!("{PATH}?{query}")).await;
        let minutes = around["window_minutes"].as_u64().expect("a number");
        let since = text(&around["since"]);
        (minutes, around["widened"] == true, since, titles(&around))
    };
    let named = |titles: &[&str]| -> Vec<String> {
        titles.iter().map(|title| (*title).to_owned()).collect()
    };
    for (query, minutes, widened, since, expected) in [
        (
            String::new(),
            1_440,
            false,
            "2026-02-28T12:00:00.000Z",
            &["elsewhere"][..],
        ),
        (
            format!("&service_id={service}"),
            4_320,
            true,
            "2026-02-26T12:00:00.000Z",
            &["two days ago", "elsewhere"],
        ),
        (
            "&q=disk".to_owned(),
            10_080,
            true,
            "2026-02-22T12:00:00.000Z",
            &["elsewhere", "two days ago"],
        ),
        (
            format!("&service_id={service}&window_minutes=60"),
            60,
            false,
            "2026-03-01T11:00:00.000Z",
            &["elsewhere"],
        ),
    ] {
        let found = window(&format!("at={AT}{query}")).await;
        let expected = (minutes, widened, since.to_owned(), named(expected));
        assert_eq!(found, expected, "{query}");
    }
    // Two days without any change.
    let (minutes, widened, ..) = window("at=2026-03-03T12:00:00Z").await;
    assert_eq!((minutes, widened), (4_320, true));
}

async fn places_of_the_window_are_counted(app: TestApp) {
    let key = app.key();
    let mut services = Vec::new();
    for number in 0..3 {
        let body = json!({ "name": format!("service {number}") });
        services.push(key.create("/api/services", body).await);
    }
    // Four days with 24 changes each.
    let environments = [Some("prod"), Some("dev"), None];
    let mut changes = Vec::new();
    for hour in 0..96 {
        let touched: Vec<&String> = (0..3)
            .filter(|number| hour % (number + 2) == 0)
            .map(|number| &services[number])
            .collect();
        changes.push(json!({
            "title": format!("hour {hour}"),
            "occurred_at": format!("2026-02-{}T{:02}:30:00Z", 24 + hour / 24, hour % 24),
            "status": if hour % 7 == 0 { "planned" } else { "completed" },
            "service_ids": touched,
            "environment": environments[hour % 3],
        }));
    }
    let created = key.post("/api/changes/bulk", json!({ "changes": changes }));
    created.await.is(201);
    // From within the second day to within the fourth; within a day; of all days.
    for (at, first, last) in [
        ("2026-02-27T06:00:00Z", 30, 77),
        ("2026-02-25T10:00:00Z", 26, 33),
        ("2026-02-28T00:00:00Z", 0, 95),
    ] {
        let minutes = (last - first + 1) * 60;
        let path = format!("{PATH}?at={at}&window_minutes={minutes}");
        let facets = key.body(&path).await["facets"].take();
        let happened = || (first..=last).filter(|hour| hour % 7 != 0);
        let mut expected: Vec<(usize, &String)> = (0..3)
            .map(|number| {
                let of_service = happened().filter(|hour| hour % (number + 2) == 0);
                (of_service.count(), &services[number])
            })
            .collect();
        expected.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let found = facets["services"].as_array().expect("a list");
        let found: Vec<(usize, String)> = found
            .iter()
            .map(|one| {
                let count = one["count"].as_u64().expect("a number");
                (
                    usize::try_from(count).expect("few"),
                    text(&one["service"]["id"]),
                )
            })
            .collect();
        let expected: Vec<(usize, String)> = expected
            .into_iter()
            .map(|(count, id)| (count, id.clone()))
            .collect();
        assert_eq!(found, expected, "{at}");
        let mut expected = [("prod", 0), ("dev", 1)].map(|(name, rest)| {
            let count = happened().filter(|hour| hour % 3 == rest).count();
            json!({ "environment": name, "count": count })
        });
        expected.sort_by_key(|one| std::cmp::Reverse(one["count"].as_u64()));
        assert_eq!(facets["environments"], json!(expected), "{at}");
    }
}

/// Counts are exact if a day at an end of the window has thousands of changes in one of
/// its parts, or in both.
async fn places_next_to_a_burst_are_counted(app: TestApp) {
    let key = app.key();
    let service = key.service("batch").await;
    let post = async |environment: &str, at: &str, count: usize| {
        let change = json!({
            "title": "Run a batch", "occurred_at": at, "status": "completed",
            "service_id": service, "environment": environment,
        });
        for first in (0..count).step_by(500) {
            let changes = vec![&change; (count - first).min(500)];
            let created = key.post("/api/changes/bulk", json!({ "changes": changes }));
            created.await.is(201);
        }
    };
    post("dev", "2026-02-24T12:00:00Z", 3).await;
    post("prod", "2026-02-25T01:00:00Z", 4_000).await;
    post("prod", "2026-02-25T01:10:00Z", 4_000).await;
    post("dev", "2026-02-25T10:00:00Z", 10).await;
    for (what, at, expected) in [
        (
            "the longer part has fewer",
            "2026-02-25T02:00:00Z",
            vec![("prod", 8_000), ("dev", 3)],
        ),
        (
            "the part that is left out has more",
            "2026-02-26T02:00:00Z",
            vec![("dev", 10)],
        ),
        (
            "both parts have many",
            "2026-02-25T01:05:00Z",
            vec![("prod", 4_000), ("dev", 3)],
        ),
    ] {
        let path = format!("{PATH}?at={at}&window_minutes=1440");
        let facets = key.body(&path).await["facets"].take();
        let sum: usize = expected.iter().map(|(_, count)| count).sum();
        assert_eq!(facets["services"][0]["count"], sum, "{what}");
        let expected: Vec<Value> = expected
            .into_iter()
            .map(|(name, count)| json!({ "environment": name, "count": count }))
            .collect();
        assert_eq!(facets["environments"], json!(expected), "{what}");
    }
}

/// In a window with more changes than are compared, the older ones that matter are
/// compared, too.
async fn related_changes_are_found_among_many(app: TestApp) {
    let key = app.key();
    let mut ids = Vec::new();
    for name in ["payments", "postgres", "search"] {
        ids.push(key.service(name).await);
    }
    let [payments, postgres, search] = &ids[..] else {
        unreachable!("three services");
    };
    let path = format!("/api/services/{payments}");
    key.update(&path, json!({ "depends_on": [postgres] })).await;
    let host = json!({ "hostname": "web-1", "environment": "test" });
    let host = key.create("/api/hosts", host).await;
    for (title, more) in [
        ("own", json!({ "service_id": payments })),
        ("touched", json!({ "service_ids": [search, payments] })),
        ("needed", json!({ "service_ids": [search, postgres] })),
        ("on the host", json!({ "host_id": host })),
        ("in the environment", json!({ "environment": "test" })),
        ("A long timeout", json!({})),
        (
            "undone",
            json!({ "status": "rolled_back", "ended_at": "2026-03-01T12:30:00Z" }),
        ),
        ("nothing", json!({})),
    ] {
        change(&key, title, "08:00", more).await;
    }
    let many: Vec<Value> = (0..500)
        .map(|number| {
            json!({
                "title": format!("one of many {number}"), "status": "completed",
                "occurred_at": "2026-03-01T09:00:00Z",
            })
        })
        .collect();
    // Planned changes do not use up the limits of what is compared.
    let planned: Vec<Value> = (0..250)
        .map(|number| {
            json!({
                "title": format!("Set a timeout {number}"), "status": "planned",
                "occurred_at": "2026-03-01T09:30:00Z", "service_ids": [search, payments],
                "host_id": host, "environment": "test",
            })
        })
        .collect();
    for changes in [many, planned] {
        let created = key.post("/api/changes/bulk", json!({ "changes": changes }));
        created.await.is(201);
    }
    let query =
        format!("{PATH}?at={AT}&service_id={payments}&host_id={host}&q=timeouts+time&limit=100");
    let around = key.body(&query).await;
    let found = titles(&around);
    for title in [
        "own",
        "touched",
        "needed",
        "on the host",
        "in the environment",
        "A long timeout",
        "undone",
    ] {
        assert!(found.contains(&title.to_owned()), "no {title}: {found:?}");
    }
    assert_eq!(found[0], "undone");
    assert_eq!(around["considered"], 507);
    assert_eq!(around["complete"], false);
    let all = key.get(&format!("{query}&window_minutes=180")).await;
    assert_eq!(all.body(200)["complete"], false);
    let none = key.body(&format!("{query}&window_minutes=179")).await;
    assert_eq!(none["considered"], 0);
    assert_eq!(none["complete"], true);
}
