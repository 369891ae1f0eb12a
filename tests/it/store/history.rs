//! The history of a resource.

use changelog_core::{Action, Change, Host, HostId, ResourceType, Service, ServiceId};
use changelog_server::store::{Entry, StoredEntry};
use chrono::Utc;
use serde_json::{Map, json};

use super::{HERE, open, owner, tenant};
use changelog_tests::{TestApp, on_both};

on_both!(
    process:
    every_resource_has_a_history,
    a_history_is_limited,
);

fn actions_and_labels(entries: &[StoredEntry]) -> Vec<(&str, &str)> {
    entries
        .iter()
        .map(|StoredEntry { entry, .. }| (entry.action.as_str(), entry.resource_label.as_str()))
        .collect()
}

async fn every_resource_has_a_history(app: TestApp) {
    let key = app.key();
    // One of many changes with the same time.
    let many: Vec<_> = (0..50)
        .map(|n| json!({ "title": format!("change {n}"), "occurred_at": "2020-02-02T00:00:00Z" }))
        .collect();
    key.create_changes(many).await;
    let change = key.body("/api/changes?q=change+17").await["data"][0].clone();
    let change: Change = serde_json::from_value(change).expect("a change");
    for title in ["second name", "third name"] {
        key.update(
            &format!("/api/changes/{}", change.id),
            json!({ "title": title }),
        )
        .await;
    }
    key.change("another").await;
    let (store, ours) = open(&app).await;
    let mut tx = store.begin().await.expect("a transaction");
    tx.delete_change(ours, &owner(&app), change.id, Utc::now())
        .await
        .expect("it exists");
    tx.commit().await.expect("a commit");
    let history = store
        .history(ours, ResourceType::Change, change.id.0, change.created_at)
        .await
        .expect("the store responds");
    assert_eq!(
        actions_and_labels(&history),
        [
            ("deleted", "third name"),
            ("updated", "third name"),
            ("updated", "second name"),
            ("created", "change 17"),
        ]
    );
    let [deleted, .., created] = history.as_slice() else {
        panic!("not four entries");
    };
    assert_eq!(deleted.entry.actor_name, app.organization.owner_name);
    assert_eq!(deleted.address, Some(HERE.to_string()));
    assert_eq!(created.entry.actor_name, "API key: terraform");
    assert_eq!(created.address.as_deref(), Some("127.0.0.1"));
    // Neither for another resource type, nor for another organization.
    let theirs = tenant(&store, &app.second_organization().id).await;
    for (tenant, kind) in [(ours, ResourceType::Host), (theirs, ResourceType::Change)] {
        let history = store
            .history(tenant, kind, change.id.0, change.created_at)
            .await;
        assert_eq!(history.expect("the store responds"), []);
    }

    let service = key.service("payments").await;
    key.update(
        &format!("/api/services/{service}"),
        json!({ "color": "#fff" }),
    )
    .await;
    let service: ServiceId = service.parse().expect("an id");
    let service = store
        .item::<Service>(ours, service)
        .await
        .expect("it exists");
    let history = store
        .history(
            ours,
            ResourceType::Service,
            service.id.0,
            service.created_at,
        )
        .await;
    assert_eq!(
        actions_and_labels(&history.expect("the store responds")),
        [("updated", "payments"), ("created", "payments")]
    );
    let host = key.host("web-1").await;
    let host: HostId = host.parse().expect("an id");
    let host = store.item::<Host>(ours, host).await.expect("it exists");
    let history = store
        .history(ours, ResourceType::Host, host.id.0, host.created_at)
        .await;
    assert_eq!(
        actions_and_labels(&history.expect("the store responds")),
        [("created", "web-1")]
    );
    store.close().await;
}

async fn a_history_is_limited(app: TestApp) {
    let id = app.key().change("often").await;
    let change = app.key().read(&format!("/api/changes/{id}")).await;
    let change: Change = serde_json::from_value(change).expect("a change");
    let (store, tenant) = open(&app).await;
    let history = async || {
        let history = store.history(tenant, ResourceType::Change, change.id.0, change.created_at);
        history.await.expect("the store responds")
    };
    for (times, expected, last) in [
        (199, 200, "created"),
        (1, 201, "created"),
        (1, 201, "created"),
    ] {
        let mut tx = store.begin().await.expect("a transaction");
        for _ in 0..times {
            let entry = Entry {
                action: Action::Updated,
                resource_type: ResourceType::Change,
                resource_id: change.id.0,
                label: "often",
                metadata: Map::new(),
            };
            tx.record(tenant, &owner(&app), entry, Utc::now())
                .await
                .expect("it is recorded");
        }
        tx.commit().await.expect("a commit");
        let history = history().await;
        assert_eq!(history.len(), expected);
        assert_eq!(history[expected - 1].entry.action.as_str(), last);
        assert!(history.is_sorted_by(|one, next| one.entry.id > next.entry.id));
    }
    store.close().await;
}
