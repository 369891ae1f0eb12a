//! The commands for services and hosts.

use serde_json::{Value, json};

use crate::chlog::chlog;
use changelog_tests::{TestApp, keys, on_one, shapes, text};

on_one!(services_and_hosts_are_managed, hosts_are_edited,);

async fn services_and_hosts_are_managed(app: TestApp) {
    let arguments = "service create payments --color '#0aF' --description 'Takes cards' --json";
    let service = chlog(&app, arguments).succeeds().json()["data"].take();
    assert_eq!(keys(&service), shapes::SERVICE);
    assert_eq!(service["name"], "payments");
    assert_eq!(service["color"], "#0aF");
    let arguments = "host create web-1 --fqdn web-1.example.com --ip-address 192.0.2.1 \
        --os 'Debian 12' --platform aws --environment prod --role web,cache --role edge \
        --description 'Behind the balancer' --json";
    let host = chlog(&app, arguments).succeeds().json()["data"].take();
    assert_eq!(keys(&host), shapes::HOST);
    assert_eq!(host["roles"], json!(["web", "cache", "edge"]));
    for (kind, record, name) in [("service", &service, "payments"), ("host", &host, "web-1")] {
        let id = text(&record["id"]);
        for given in [name, &name.to_uppercase(), &id] {
            let shown = chlog(&app, &format!("{kind} show '{given}' --json"))
                .succeeds()
                .json();
            assert_eq!(&shown["data"], record, "{kind} {given}");
        }
        let list = chlog(&app, &format!("{kind} list --json"))
            .succeeds()
            .json();
        assert_eq!(list, json!({ "data": [record] }));
        let ids = chlog(&app, &format!("{kind} list --format ids"))
            .succeeds()
            .stdout;
        assert_eq!(ids, format!("{id}\n"));
        let table = chlog(&app, &format!("{kind} list")).succeeds().stdout;
        assert!(table.contains(name) && table.contains(&id), "{table}");
        let shown = chlog(&app, &format!("{kind} show {name}"))
            .succeeds()
            .stdout;
        assert!(shown.contains(name) && shown.contains(&id), "{shown}");
        chlog(&app, &format!("{kind} create {name}")).exits_with(5);
        chlog(&app, &[kind, "create", &name.to_uppercase()]).exits_with(5);
        chlog(&app, &format!("{kind} create ''")).exits_with(6);
        chlog(&app, &format!("{kind} show nobody")).exits_with(3);
        let nowhere = uuid::Uuid::now_v7().to_string();
        chlog(&app, &format!("{kind} show {nowhere}")).exits_with(3);
    }
    chlog(&app, "service create other --color red").exits_with(6);
    chlog(&app, "host create other --ip-address nowhere").exits_with(6);
    chlog(&app, "host create other --platform cloud").exits_with(2);
}

async fn hosts_are_edited(app: TestApp) {
    let create = "host create web-1 --role api,db --os Debian";
    chlog(&app, create).succeeds();
    let update = |line: &str| chlog(&app, &format!("host update {line}"));
    let host = update(
        "WEB-1 --hostname web-2 --environment prod --role api,cache --remove-role db --clear os --json",
    );
    let host = host.succeeds().json()["data"].take();
    assert_eq!(host["hostname"], "web-2");
    assert_eq!(host["environment"], "prod");
    assert_eq!(host["os"], Value::Null);
    assert_eq!(host["roles"], json!(["api", "cache"]));
    let id = text(&host["id"]);
    let line = update(&format!("{id} --clear roles --platform aws")).succeeds();
    assert_eq!(line.stdout, format!("{id}  web-2\n"));
    let host = app.key().read(&format!("/api/hosts/{id}")).await;
    assert_eq!(host["roles"], json!([]));
    update("web-2").exits_with(2);
    update("web-2 --os x --clear os").exits_with(2);
    update("web-2 --ip nonsense").exits_with(6);
    update("web-1 --os x").exits_with(3);
}
