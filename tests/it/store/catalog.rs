//! What the store knows about services and hosts besides their fields.

use changelog_core::{HostId, ServiceId, ServiceRef};
use changelog_server::store::{Dependencies, Store, Tenant};
use serde_json::json;

use super::{open, tenant};
use changelog_tests::{TestApp, on_both};

on_both!(
    process:
    dependencies_are_found_in_both_directions,
    many_dependents_are_cut,
    services_and_hosts_are_found_by_words,
    renaming_replaces_the_words,
    words_match_per_organization_and_limit,
);

/// Returns the names of services.
fn names(services: &[ServiceRef]) -> Vec<&str> {
    services.iter().map(|service| &*service.name).collect()
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(id: &str) -> T {
    id.parse().expect("an id")
}

async fn dependencies_are_found_in_both_directions(app: TestApp) {
    let key = app.key();
    let (store, ours) = open(&app).await;
    let mut ids = Vec::new();
    for name in ["mail", "Ledger", "payments", "shop"] {
        ids.push(key.service(name).await);
    }
    let [mail, ledger, payments, shop] = ids.as_slice() else {
        panic!("{ids:?}");
    };
    // A circle, and one that depends on two of it.
    for (id, depends_on) in [
        (payments, vec![mail, ledger]),
        (ledger, vec![payments]),
        (shop, vec![ledger, payments]),
        (mail, vec![payments]),
        // Replaced.
        (mail, vec![shop]),
    ] {
        let path = format!("/api/services/{id}");
        let list = json!({ "depends_on": depends_on });
        key.update(&path, list).await;
    }
    for (id, depends_on, needed_by) in [
        (payments, vec!["Ledger", "mail"], vec!["Ledger", "shop"]),
        (ledger, vec!["payments"], vec!["payments", "shop"]),
        (shop, vec!["Ledger", "payments"], vec!["mail"]),
        (mail, vec!["shop"], vec!["payments"]),
    ] {
        let found = store.dependencies_of(ours, parsed(id)).await;
        let found = found.expect("the store responds");
        assert_eq!(names(&found.depends_on), depends_on);
        assert_eq!(names(&found.needed_by), needed_by);
        assert!(found.needed_by.iter().all(|one| one.color == "#6366f1"));
    }
    let second = app.second_organization();
    let theirs = tenant(&store, &second.id).await;
    let found = store.dependencies_of(theirs, parsed(payments)).await;
    assert_eq!(found.expect("the store responds"), Dependencies::default());
}

/// Finds services and hosts by the beginning of a word.
async fn matches(store: &Store, tenant: Tenant, prefix: &str) -> (Vec<ServiceId>, Vec<HostId>) {
    let found = store.catalog_matches(tenant, prefix, 200).await;
    found.expect("the store responds")
}

async fn services_and_hosts_are_found_by_words(app: TestApp) {
    let key = app.key();
    let (store, ours) = open(&app).await;
    let create = async |name: &str| parsed::<ServiceId>(&key.service(name).await);
    let (payments, cafe) = (
        create("Payments API pay").await,
        create("Café-Überlauf").await,
    );
    let host = json!({ "hostname": "pay-1.eu.example.com" });
    let host: HostId = parsed(&key.create("/api/hosts", host).await);
    for (prefix, services, hosts) in [
        ("pay", vec![payments], vec![host]),
        ("paym", vec![payments], vec![]),
        ("payments", vec![payments], vec![]),
        ("api", vec![payments], vec![]),
        ("cafe", vec![cafe], vec![]),
        ("uberlauf", vec![cafe], vec![]),
        ("e", vec![], vec![host]),
        ("1", vec![], vec![host]),
        ("ents", vec![], vec![]),
        ("zebra", vec![], vec![]),
    ] {
        assert_eq!(
            matches(&store, ours, prefix).await,
            (services, hosts),
            "{prefix}"
        );
    }
}

async fn renaming_replaces_the_words(app: TestApp) {
    let key = app.key();
    let (store, ours) = open(&app).await;
    let service = key.service("blue green").await;
    let host = key.host("blue-green").await;
    let service_path = format!("/api/services/{service}");
    let host_path = format!("/api/hosts/{host}");
    for (path, patch) in [
        (&service_path, json!({ "name": "green red" })),
        (&host_path, json!({ "hostname": "green-red" })),
        // Without effect on the words.
        (&service_path, json!({ "name": "Green RED" })),
        (&host_path, json!({ "os": "blue" })),
    ] {
        key.update(path, patch).await;
        let found = (vec![parsed(&service)], vec![parsed(&host)]);
        assert_eq!(matches(&store, ours, "green").await, found);
    }
    assert_eq!(matches(&store, ours, "blue").await, (vec![], vec![]));
    let found = (vec![parsed(&service)], vec![parsed(&host)]);
    assert_eq!(matches(&store, ours, "red").await, found);
    // A name that is refused changes nothing.
    key.service("taken").await;
    let taken = key.patch(&service_path, json!({ "name": "taken" })).await;
    taken.problem(409, "conflict");
    assert_eq!(matches(&store, ours, "red").await, found);
    assert_eq!(matches(&store, ours, "taken").await.0.len(), 1);
}

async fn words_match_per_organization_and_limit(app: TestApp) {
    let second = app.second_organization();
    let (store, ours) = open(&app).await;
    let theirs = tenant(&store, &second.id).await;
    for key in [app.key(), app.with_key(&second.key)] {
        for number in 0..3 {
            let name = format!("worker {number}");
            key.service(&name).await;
            key.host(&name).await;
        }
    }
    let (services, hosts) = matches(&store, ours, "worker").await;
    let (others, other_hosts) = matches(&store, theirs, "worker").await;
    assert_eq!((services.len(), hosts.len()), (3, 3));
    assert_eq!((others.len(), other_hosts.len()), (3, 3));
    assert!(services.iter().all(|id| !others.contains(id)));
    assert!(hosts.iter().all(|id| !other_hosts.contains(id)));
    let (first, first_hosts) = store.catalog_matches(ours, "work", 2).await.expect("rows");
    assert_eq!(
        (first, first_hosts),
        (services[..2].to_vec(), hosts[..2].to_vec())
    );
}

async fn many_dependents_are_cut(app: TestApp) {
    let key = app.key();
    let (store, ours) = open(&app).await;
    let shared = key.service("shared").await;
    for number in 0..201 {
        let found = store.dependencies_of(ours, parsed(&shared)).await;
        let found = found.expect("the store responds");
        assert_eq!((found.needed_by.len(), found.has_more), (number, false));
        let new = json!({ "name": format!("user {number}"), "depends_on": [shared] });
        key.create("/api/services", new).await;
    }
    let found = store.dependencies_of(ours, parsed(&shared)).await;
    let found = found.expect("the store responds");
    assert_eq!((found.needed_by.len(), found.has_more), (200, true));
    assert!(!names(&found.needed_by).contains(&"user 200"));
}
