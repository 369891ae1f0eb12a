//! Counts by day, the busiest services, and pages of services and hosts.

use std::collections::BTreeMap;

use changelog_core::{
    ChangeFilter, ChangeId, Host, HostId, MadeBy, RiskLevel, Service, ServiceId, Status, Timestamp,
};
use changelog_server::store::{Actor, ChartScope, HourCount, Scope, Store, Tenant};
use chrono::Utc;
use serde_json::json;

use super::{open, tenant};
use changelog_tests::{TestApp, on_both};

/// Numbers of days since 1970 that all changes of the tests lie in.
const ALL_DAYS: std::ops::Range<i64> = 0..1_000_000;

on_both!(
    process:
    what_was_made_by_hand_is_counted_by_day,
    changes_are_counted_by_day,
    a_change_is_counted_on_the_day_on_which_it_started,
    hours_have_each_change_once,
    the_busiest_services_are_found,
    a_year_that_is_remembered_follows_changes_of_the_past,
    the_busiest_of_many_are_remembered_without_their_names,
    services_and_hosts_have_summaries,
);

/// 2026-01-10, in days since 1970.
const DAY: i64 = 20_463;

fn moment(day: i64, millis: i64) -> String {
    Timestamp::from_millis((DAY + day) * 86_400_000 + millis).to_string()
}

/// Returns the counts of days as strings, such as `0 low completed 2`.
async fn delete(store: &Store, tenant: Tenant, id: ChangeId) {
    let mut tx = store.begin().await.expect("a transaction");
    tx.delete_change(tenant, &Actor::operator(), id, Utc::now())
        .await
        .expect("it exists");
    tx.commit().await.expect("a commit");
}

async fn days(
    store: &Store,
    tenant: Tenant,
    scope: ChartScope,
    days: std::ops::Range<i64>,
) -> Vec<String> {
    let starts: Vec<Timestamp> = (days.start..=days.end)
        .map(|day| Timestamp::from_millis((DAY + day) * 86_400_000))
        .collect();
    let counts = store.counts_between(tenant, scope, &starts).await;
    let mut lines = Vec::new();
    for (day, counts) in days.zip(counts.expect("the store responds")) {
        for risk_level in RiskLevel::ALL {
            for status in Status::ALL {
                let count = counts.of(risk_level, status);
                if count > 0 {
                    lines.push(format!("{day} {risk_level} {status} {count}"));
                }
            }
        }
    }
    lines.sort();
    lines
}

async fn what_was_made_by_hand_is_counted_by_day(app: TestApp) {
    let key = app.key();
    let mut ids = Vec::new();
    for (at, status, tags) in [
        (moment(0, 5), "in_progress", &["by-hand"][..]),
        (moment(1, 0), "completed", &["aws", "by-hand"]),
        (moment(1, 86_399_999), "planned", &["by-hand"]),
        (moment(2, 7), "completed", &["by-hand"]),
        (moment(2, 8), "completed", &["aws"]),
        (moment(3, 5), "rolled_back", &["by-hand"]),
    ] {
        let body = json!({ "title": "made", "occurred_at": at, "status": status, "tags": tags });
        ids.push(key.create("/api/changes", body).await);
    }
    let (store, tenant) = open(&app).await;
    let check = async |since: &str, until: Option<&str>, expected: [u64; 2]| {
        let mut filter = ChangeFilter {
            made_by: vec![MadeBy::Hand],
            since: since.parse().ok(),
            until: until.and_then(|until| until.parse().ok()),
            ..ChangeFilter::default()
        };
        for (statuses, expected) in [(&[][..], expected[0]), (&Status::ALL[1..], expected[1])] {
            filter.statuses = statuses.to_vec();
            let count = store.count_changes(tenant, &filter).await;
            assert_eq!(count.expect("the store responds"), expected, "{filter:?}");
            let list = store.changes(tenant, &filter).await.expect("the same");
            let listed = list.json.parse().expect("changes").len() as u64;
            assert_eq!((list.count, listed), (expected, expected), "{filter:?}");
        }
    };
    // What is in progress happens now.
    check(&moment(0, 0), None, [5, 4]).await;
    check(&moment(1, 0), None, [5, 4]).await;
    check(&moment(2, 8), None, [2, 2]).await;
    check(&moment(1, 0), Some(&moment(2, 0)), [2, 1]).await;
    check(&moment(1, 1), Some(&moment(2, 8)), [2, 1]).await;
    let patch = json!({ "tags": ["aws"] });
    key.update(&format!("/api/changes/{}", ids[1]), patch).await;
    check(&moment(0, 0), None, [4, 3]).await;
    store.close().await;
}

async fn changes_are_counted_by_day(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let host = key.host("web-1").await;
    let mut ids = Vec::new();
    for (at, risk, service, host) in [
        (moment(0, 0), "low", Some(&service), None),
        (moment(0, 86_399_999), "low", Some(&service), Some(&host)),
        (moment(1, 0), "high", None, Some(&host)),
        (moment(1, 1), "low", Some(&service), Some(&host)),
        (moment(3, 5), "medium", None, None),
    ] {
        let body = json!({
            "title": "counted", "occurred_at": at, "risk_level": risk, "service_id": service,
            "host_id": host, "tags": ["prod"], "status": "completed",
        });
        ids.push(key.create("/api/changes", body).await);
    }
    // A planned change has not happened.
    let planned = json!({
        "title": "planned", "occurred_at": moment(0, 5), "service_id": service, "host_id": host,
    });
    key.create("/api/changes", planned).await;
    let (store, tenant) = open(&app).await;
    let of_service = ChartScope::Service(service.parse().expect("an id"));
    let on_host = ChartScope::Host(host.parse().expect("an id"));
    assert_eq!(
        days(&store, tenant, ChartScope::Organization, -9..9).await,
        [
            "0 low completed 2",
            "1 high completed 1",
            "1 low completed 1",
            "3 medium completed 1"
        ]
    );
    assert_eq!(
        days(&store, tenant, of_service, 0..2).await,
        ["0 low completed 2", "1 low completed 1"]
    );
    assert_eq!(
        days(&store, tenant, of_service, 1..2).await,
        ["1 low completed 1"]
    );
    assert_eq!(
        days(&store, tenant, on_host, 0..9).await,
        [
            "0 low completed 1",
            "1 high completed 1",
            "1 low completed 1"
        ]
    );
    // After an update and a delete.
    let patch = json!({ "status": "in_progress", "risk_level": "high", "host_id": null });
    key.update(&format!("/api/changes/{}", ids[1]), patch).await;
    let mut tx = store.begin().await.expect("a transaction");
    let id: ChangeId = ids[3].parse().expect("an id");
    tx.delete_change(tenant, &Actor::operator(), id, Utc::now())
        .await
        .expect("it exists");
    tx.commit().await.expect("a commit");
    assert_eq!(
        days(&store, tenant, of_service, 0..9).await,
        ["0 high in_progress 1", "0 low completed 1"]
    );
    assert_eq!(
        days(&store, tenant, on_host, 0..9).await,
        ["1 high completed 1"]
    );
    // The planned one is counted, but by no day.
    for (scope, expected) in [
        (Scope::Organization, 5),
        (of_service.into(), 3),
        (on_host.into(), 2),
        (Scope::Tag("prod"), 4),
        (Scope::Tag("none"), 0),
    ] {
        let total = store
            .total(tenant, scope)
            .await
            .expect("the store responds");
        assert_eq!(total, expected, "{scope:?}");
    }
    let theirs = super::tenant(&store, &app.second_organization().id).await;
    assert_eq!(days(&store, theirs, of_service, -9..9).await, [""; 0]);
    assert_eq!(
        store
            .total(theirs, of_service.into())
            .await
            .expect("the store responds"),
        0
    );
    store.close().await;
}

async fn a_change_is_counted_on_the_day_on_which_it_started(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let planned = json!({ "title": "planned", "occurred_at": moment(0, 5), "service_id": service });
    let planned = key.create("/api/changes", planned).await;
    let (store, tenant) = open(&app).await;
    let of_service = ChartScope::Service(service.parse().expect("an id"));
    assert_eq!(days(&store, tenant, of_service, 0..9).await, [""; 0]);
    let patch = json!({ "status": "completed", "started_at": moment(4, 9) });
    key.update(&format!("/api/changes/{planned}"), patch).await;
    assert_eq!(
        days(&store, tenant, of_service, 4..5).await,
        ["4 low completed 1"]
    );
    let mut tx = store.begin().await.expect("a transaction");
    let id: ChangeId = planned.parse().expect("an id");
    tx.delete_change(tenant, &Actor::operator(), id, Utc::now())
        .await
        .expect("it exists");
    tx.commit().await.expect("a commit");
    assert_eq!(days(&store, tenant, of_service, 4..5).await, [""; 0]);
    store.close().await;
}

/// Returns counts of hours as strings, such as `2 payments 3-1`: the hour, the service, the
/// changes and how many of them were undone.
fn hours(counts: Vec<HourCount>, names: &BTreeMap<ServiceId, &str>) -> Vec<String> {
    let lines = counts.into_iter().map(|count| {
        let hour = (count.start - DAY * 86_400_000) / 3_600_000;
        let service = count.service.map_or("all", |id| names[&id]);
        format!("{hour} {service} {}-{}", count.changes, count.undone)
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

async fn hours_have_each_change_once(app: TestApp) {
    let key = app.key();
    let (payments, search) = (key.service("payments").await, key.service("search").await);
    let id = |text: &str| text.parse::<ServiceId>().expect("an id");
    let names = BTreeMap::from([(id(&payments), "payments"), (id(&search), "search")]);
    let mut ids = Vec::new();
    for (at, status, services) in [
        (0, "completed", json!([payments])),
        (3_599_999, "rolled_back", json!([payments, search])),
        (3_600_000, "in_progress", json!([search, payments])),
        (3_700_000, "completed", json!([])),
        (3_700_001, "planned", json!([search])),
    ] {
        let body = json!({
            "title": "counted", "occurred_at": moment(0, at), "service_ids": services,
            "status": status,
        });
        ids.push(key.create("/api/changes", body).await);
    }
    let (store, tenant) = open(&app).await;
    let first = DAY * 24;
    let check = async |all: &[&str], by_service: &[&str], busy: &[&str]| {
        let range = first..first + 48;
        let found = store.changes_by_hour(tenant, &range).await;
        assert_eq!(hours(found.expect("the store responds"), &names), all);
        let both: Vec<ServiceId> = names.keys().copied().collect();
        let found = store.changes_by_hour_and_service(tenant, &range, 1, &both);
        let found = found.await.expect("the store responds");
        assert_eq!(hours(found, &names), by_service);
        // The changes say the same.
        let millis = DAY * 86_400_000..(DAY + 2) * 86_400_000;
        let found = store.changes_by_part_and_service(tenant, millis, 3_600_000);
        let mut expected = [all, by_service].concat();
        expected.sort_unstable();
        let found = found.await.expect("the store responds");
        assert_eq!(hours(found, &names), expected);
        let found = store.busy_services(tenant, &range, 9).await;
        let found = found.expect("the store responds");
        let services: Vec<&str> = found.services.iter().map(|id| names[id]).collect();
        assert_eq!(
            (services.as_slice(), found.number),
            (busy, Some(busy.len() as u64))
        );
    };
    check(
        &["0 all 2-1", "1 all 2-0"],
        &["0 payments 2-1", "1 search 1-0"],
        &["payments", "search"],
    )
    .await;
    // Undone, moved to another hour, to another service, and no longer planned.
    for (index, patch) in [
        (0, json!({ "service_id": search })),
        (2, json!({ "status": "rolled_back" })),
        (
            3,
            json!({ "started_at": moment(1, 5), "ended_at": moment(1, 5) }),
        ),
        (
            4,
            json!({ "status": "completed", "started_at": moment(0, 3_700_001) }),
        ),
    ] {
        key.update(&format!("/api/changes/{}", ids[index]), patch)
            .await;
    }
    check(
        &["0 all 2-1", "1 all 2-1", "24 all 1-0"],
        &["0 payments 1-1", "0 search 1-0", "1 search 2-1"],
        &["search", "payments"],
    )
    .await;
    let (both_days, of_search) = (first..first + 48, [id(&search)]);
    let two = store.changes_by_hour_and_service(tenant, &both_days, 2, &of_search);
    let two = hours(two.await.expect("the store responds"), &names);
    assert_eq!(two, ["0 search 3-1"]);
    delete(&store, tenant, ids[1].parse().expect("an id")).await;
    check(
        &["0 all 1-0", "1 all 2-1", "24 all 1-0"],
        &["0 search 1-0", "1 search 2-1"],
        &["search"],
    )
    .await;
    let theirs = super::tenant(&store, &app.second_organization().id).await;
    let found = store.changes_by_hour(theirs, &(first..first + 48)).await;
    assert_eq!(found.expect("the store responds"), []);
    store.close().await;
}

async fn the_busiest_services_are_found(app: TestApp) {
    let key = app.key();
    let mut services = BTreeMap::new();
    for name in ["one", "two", "three", "none"] {
        let id = key.service(name).await;
        services.insert(name, id);
    }
    for (name, day, times) in [
        ("one", 0, 1),
        ("two", 0, 2),
        ("two", 1, 2),
        ("three", 1, 3),
        ("one", 2, 5),
    ] {
        for _ in 0..times {
            let body = json!({
                "title": "busy", "service_id": services[name], "occurred_at": moment(day, 7),
                "status": "completed",
            });
            key.create("/api/changes", body).await;
        }
    }
    let (store, ours) = open(&app).await;
    let busiest = async |days: std::ops::Range<i64>, limit| {
        let days = DAY + days.start..DAY + days.end;
        let found = store.busiest_services(ours, days, limit).await;
        let found: Vec<(Service, u64)> = found.expect("the store responds");
        let found = found.into_iter().map(|(service, n)| (service.name, n));
        found.collect::<Vec<_>>()
    };
    let named = |list: &[(&str, u64)]| {
        let list = list.iter().map(|(name, n)| ((*name).to_owned(), *n));
        list.collect::<Vec<_>>()
    };
    assert_eq!(
        busiest(0..2, 9).await,
        named(&[("two", 4), ("three", 3), ("one", 1)])
    );
    assert_eq!(busiest(0..2, 1).await, named(&[("two", 4)]));
    assert_eq!(busiest(0..3, 2).await, named(&[("one", 6), ("two", 4)]));
    assert_eq!(busiest(3..9, 9).await, []);
    let theirs = tenant(&store, &app.second_organization().id).await;
    let found = store.busiest_services(theirs, DAY..DAY + 9, 9).await;
    assert_eq!(found.expect("the store responds"), []);
    store.close().await;
}

/// The days of a history whose counts are remembered.
const MANY_DAYS: std::ops::Range<i64> = 0..120;

/// Records a service and a change of each kind on each of its days. Returns the ids of
/// service and changes.
async fn many_changes(app: &TestApp) -> (String, Vec<String>) {
    let key = app.key();
    let service = key.service("payments").await;
    let mut changes = Vec::new();
    for day in MANY_DAYS {
        for risk in ["low", "medium", "high"] {
            for status in ["in_progress", "completed", "rolled_back"] {
                changes.push(json!({
                    "title": "one of many", "occurred_at": moment(day, 7), "risk_level": risk,
                    "status": status, "service_id": service,
                }));
            }
        }
    }
    let mut ids = Vec::new();
    for changes in changes.chunks(500) {
        let body = json!({ "changes": changes });
        let answer = key.post("/api/changes/bulk", body).await;
        answer.is(201);
        let created = answer.json()["data"].as_array().cloned();
        let created = created.expect("a list").into_iter();
        ids.extend(created.map(|one| one["id"].as_str().expect("an id").to_owned()));
    }
    (service, ids)
}

async fn a_year_that_is_remembered_follows_changes_of_the_past(app: TestApp) {
    let key = app.key();
    let (service, ids) = many_changes(&app).await;
    let mut expected: Vec<String> = MANY_DAYS
        .flat_map(|day| ["low", "medium", "high"].map(|risk| format!("{day} {risk}")))
        .flat_map(|kind| {
            ["in_progress", "completed", "rolled_back"].map(|status| format!("{kind} {status} 1"))
        })
        .collect();
    expected.sort();
    let (store, tenant) = open(&app).await;
    let scope = ChartScope::Service(service.parse().expect("an id"));
    for _ in 0..2 {
        assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    }
    let mut replace = |old: &str, new: &str| {
        expected.retain(|line| line != old);
        expected.extend((!new.is_empty()).then(|| new.to_owned()));
        expected.sort();
        expected.clone()
    };

    // A change of the past ends, is deleted, or is recorded.
    let patch = json!({ "status": "completed" });
    key.update(&format!("/api/changes/{}", ids[0]), patch).await;
    replace("0 low in_progress 1", "0 low completed 2");
    let expected = replace("0 low completed 1", "");
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    delete(&store, tenant, ids[2].parse().expect("an id")).await;
    let expected = replace("0 low rolled_back 1", "");
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    let late = json!({
        "title": "late", "occurred_at": moment(50, 9), "risk_level": "high",
        "status": "completed", "service_id": service,
    });
    key.create("/api/changes", late).await;
    let expected = replace("50 high completed 1", "50 high completed 2");
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    // One of the newest day ends, or is moved to it from the past.
    let patch = json!({ "status": "completed" });
    let newest = &ids[119 * 9];
    key.update(&format!("/api/changes/{newest}"), patch).await;
    replace("119 low in_progress 1", "119 low completed 2");
    let expected = replace("119 low completed 1", "");
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    let patch = json!({ "started_at": moment(118, 9) });
    key.update(&format!("/api/changes/{}", ids[9]), patch).await;
    replace("1 low in_progress 1", "118 low in_progress 2");
    let expected = replace("118 low in_progress 1", "");
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);

    // One that is moved within the past leaves the sums as they were, so that a process
    // that remembers them shows it later, and another one at once.
    let patch = json!({ "started_at": moment(6, 9) });
    key.update(&format!("/api/changes/{}", ids[5 * 9]), patch)
        .await;
    assert_eq!(days(&store, tenant, scope, MANY_DAYS).await, expected);
    replace("5 low in_progress 1", "6 low in_progress 2");
    let expected = replace("6 low in_progress 1", "");
    let (other, _) = open(&app).await;
    assert_eq!(days(&other, tenant, scope, MANY_DAYS).await, expected);
    other.close().await;
    store.close().await;
}

async fn the_busiest_of_many_are_remembered_without_their_names(app: TestApp) {
    let key = app.key();
    let (service, _) = many_changes(&app).await;
    let ((store, tenant), (other, _)) = (open(&app).await, open(&app).await);
    let busiest = async |store: &Store, days: std::ops::Range<i64>| {
        let days = DAY + days.start..DAY + days.end;
        let found = store.busiest_services(tenant, days, 5).await;
        let mut found = found.expect("the store responds").into_iter();
        found.next().map(|(service, n)| (service.name, n))
    };
    let named = |name: &str, n| Some((name.to_owned(), n));
    assert_eq!(busiest(&store, MANY_DAYS).await, named("payments", 1_080));
    assert_eq!(busiest(&store, 0..3).await, named("payments", 27));
    let again = json!({
        "title": "again", "occurred_at": moment(1, 9), "status": "completed",
        "service_id": service,
    });
    key.create("/api/changes", again).await;
    key.update(
        &format!("/api/services/{service}"),
        json!({ "name": "pay" }),
    )
    .await;
    assert_eq!(busiest(&store, MANY_DAYS).await, named("pay", 1_080));
    assert_eq!(busiest(&store, 0..3).await, named("pay", 28));
    assert_eq!(busiest(&other, MANY_DAYS).await, named("pay", 1_081));
    other.close().await;
    store.close().await;
}

#[expect(clippy::too_many_lines, reason = "a story")]
async fn services_and_hosts_have_summaries(app: TestApp) {
    let key = app.key();
    let (store, tenant) = open(&app).await;
    let service_page = async |limit, offset| {
        let page = store
            .item_page::<Service>(tenant, limit, offset, ALL_DAYS)
            .await;
        page.expect("the store responds")
    };
    let host_page = async |limit, offset| {
        let page = store
            .item_page::<Host>(tenant, limit, offset, ALL_DAYS)
            .await;
        page.expect("the store responds")
    };
    let empty = service_page(5, 0).await;
    assert_eq!(empty, []);
    let mut services = Vec::new();
    let mut hosts = Vec::new();
    for name in ["Delta", "alpha", "Bravo", "charlie"] {
        services.push(key.service(name).await);
        hosts.push(key.host(name).await);
    }
    let mut newest = String::new();
    for (day, service, host) in [(2, 1, 0), (5, 1, 0), (3, 1, 2), (4, 2, 0)] {
        let body = json!({
            "title": "summed up", "service_id": services[service], "host_id": hosts[host],
            "occurred_at": moment(day, 11), "status": "completed",
        });
        let id = key.create("/api/changes", body).await;
        if day == 5 {
            newest = id;
        }
    }
    let newest: ChangeId = newest.parse().expect("an id");
    let at = |day| moment(day, 11).parse::<Timestamp>().expect("a time");
    let page = service_page(9, 0).await;
    let seen: Vec<_> = page
        .iter()
        .map(|one| {
            (
                one.item.name.as_str(),
                one.changes,
                one.last.map(|last| last.1),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("alpha", 3, Some(at(5))),
            ("Bravo", 1, Some(at(4))),
            ("charlie", 0, None),
            ("Delta", 0, None),
        ]
    );
    assert_eq!(page[0].last, Some((newest, at(5))));
    let all = store
        .items::<Service>(tenant)
        .await
        .expect("the store responds");
    let ids = |services: &[Service]| {
        services
            .iter()
            .map(|one| one.id)
            .collect::<Vec<ServiceId>>()
    };
    let records: Vec<Service> = page.iter().map(|one| one.item.clone()).collect();
    assert_eq!(ids(&records), ids(&all));
    assert_eq!(records, all);
    let some = service_page(2, 1).await;
    assert_eq!(some, page[1..3]);

    let page = host_page(9, 0).await;
    let seen: Vec<_> = page
        .iter()
        .map(|one| {
            (
                one.item.hostname.as_str(),
                one.changes,
                one.last.map(|last| last.1),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("alpha", 0, None),
            ("Bravo", 1, Some(at(3))),
            ("charlie", 0, None),
            ("Delta", 3, Some(at(5))),
        ]
    );
    let all = store
        .items::<Host>(tenant)
        .await
        .expect("the store responds");
    let records: Vec<_> = page.iter().map(|one| one.item.clone()).collect();
    assert_eq!(records, all);
    let some = host_page(9, 3).await;
    assert_eq!(some, page[3..]);
    let _: HostId = some[0].item.id;

    // Without the newest change.
    delete(&store, tenant, newest).await;
    let page = service_page(1, 0).await;
    assert_eq!(page[0].changes, 2);
    assert_eq!(page[0].last.map(|last| last.1), Some(at(3)));
    store.close().await;
}
