//! Which events are sent, and what is in them.

use std::time::Duration;

use changelog_tests::database::{Db, fetch};
use changelog_tests::receivers::{Receiver, webhook};
use changelog_tests::{Server, TestApp, on_both, on_one};
use serde_json::json;

use super::{ALLOWED, allow_receivers, connect, connect_as};

on_both!(
    events_are_signed_and_in_order,
    filters_choose_events,
    an_import_notifies_only_on_request,
    organizations_without_receivers_have_no_events,
    receivers_of_private_networks_are_refused,
);

on_one!(process: proxies_of_the_environment_are_ignored);

async fn proxies_of_the_environment_are_ignored(mut app: TestApp) {
    let (receiver, proxy) = (Receiver::start().await, Receiver::start().await);
    let mut command = app.serve_command();
    command.args(ALLOWED);
    for variable in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env(variable, proxy.base());
        command.env(variable.to_uppercase(), proxy.base());
    }
    app.server.kill9();
    app.server = Server::start(command).await.expect("it starts");
    let hook = connect(&app, "hook", &receiver);
    app.key().change("Deploy").await;
    hook.newest(&app, |one| one["state"] == "delivered").await;
    assert_eq!(receiver.count(), 1);
    assert_eq!(proxy.connections(), 0);
}

async fn events_are_signed_and_in_order(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let key = app.key();
    let service = key.service("payments").await;
    let host = json!({ "hostname": "web-1", "environment": "prod" });
    let host = key.create("/api/hosts", host).await;
    let id = key
        .create(
            "/api/changes",
            json!({ "title": "Deploy", "risk_level": "high", "service_id": service,
                "host_id": host }),
        )
        .await;
    let path = format!("/api/changes/{id}");
    receiver.wait_for(1).await;
    // As it was at the event, with the names that reading it has.
    let created = webhook::check(&receiver.requests()[0], &hook.secret).expect("it is genuine");
    assert_eq!(created.change(), &key.read(&path).await);
    key.update(&path, json!({ "title": "Deploy 2" })).await;
    let reason = json!({ "status": "rolled_back", "reason": "it failed" });
    key.update(&path, reason).await;
    let last = key.read(&path).await;
    app.browser()
        .await
        .submit(&format!("/changes/{id}/delete"), &[])
        .await;
    let requests = receiver.wait_for(4).await;
    let events: Vec<_> = requests
        .iter()
        .map(|request| webhook::check(request, &hook.secret).expect("it is genuine"))
        .collect();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "change.created",
            "change.updated",
            "change.status_changed",
            "change.deleted"
        ]
    );
    let changes = |index: usize| &events[index].body["data"]["changes"];
    assert_eq!(
        changes(1)["title"],
        json!({ "from": "Deploy", "to": "Deploy 2" })
    );
    assert_eq!(
        changes(2)["status"],
        json!({ "from": "planned", "to": "rolled_back" })
    );
    assert_eq!(events[2].change(), &last);
    assert_eq!(events[3].change(), &last);
    let listed = hook.deliveries(&app);
    assert_eq!(listed.len(), 4);
    assert_eq!(listed[0]["event"], "change.deleted");
}

async fn filters_choose_events(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let key = app.key();
    let service = key.service("payments").await;
    let receiver = Receiver::start().await;
    let flags = ["--min-risk", "medium", "--service", "payments"];
    let hook = connect_as(&app, "webhook", "payments", &receiver.url(), &flags);
    for body in [
        json!({ "title": "low", "service_id": service }),
        json!({ "title": "without a service", "risk_level": "high" }),
        json!({ "title": "medium", "risk_level": "medium", "service_id": service }),
        json!({ "title": "high", "risk_level": "high", "service_id": service }),
    ] {
        key.create("/api/changes", body).await;
    }
    // The events of one connection may be sent at the same time.
    let mut titles: Vec<String> = receiver
        .wait_for(2)
        .await
        .iter()
        .map(|request| webhook::check(request, &hook.secret).expect("it is genuine"))
        .map(|event| {
            event.change()["title"]
                .as_str()
                .expect("a title")
                .to_owned()
        })
        .collect();
    titles.sort_unstable();
    assert_eq!(titles, ["high", "medium"]);
    assert_eq!(hook.deliveries(&app).len(), 2);
    // A deleted connection is sent nothing.
    app.admin(&["integration", "delete", &hook.id]);
    key.create(
        "/api/changes",
        json!({ "title": "later", "risk_level": "high", "service_id": service }),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.requests().len(), 2);
    let owner = app.browser().await;
    let entries = owner.get("/api/activity?resource=integration").await;
    let entries = entries.json()["items"].clone();
    let actions: Vec<_> = entries.as_array().expect("a list").iter().collect();
    assert_eq!(actions[0]["action"], "disconnected", "{actions:?}");
    assert_eq!(actions[1]["action"], "connected");
    assert!(!entries.to_string().contains("/receive"), "{entries}");
}

async fn an_import_notifies_only_on_request(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let file = app.folder().join("changes.ndjson");
    let write = |title: &str| {
        let line = json!({ "title": title, "occurred_at": "2026-01-02T03:04:05Z" });
        std::fs::write(&file, format!("{line}\n")).expect("a file");
    };
    let path = file.to_str().expect("a path").to_owned();
    write("silent");
    crate::chlog::chlog(&app, &["import", &path]).succeeds();
    write("told");
    crate::chlog::chlog(&app, &["import", &path, "--notify"]).succeeds();
    let requests = receiver.wait_for(1).await;
    let event = webhook::check(&requests[0], &hook.secret).expect("it is genuine");
    assert_eq!(event.change()["title"], "told");
    assert_eq!(hook.deliveries(&app).len(), 1);
}

async fn organizations_without_receivers_have_no_events(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let count = async |app: &TestApp| -> i64 {
        let mut db = Db::open(app.engine, &app.database).await;
        let rows: Vec<(i64,)> = fetch!(&mut db, sqlx::query_as("SELECT count(*) FROM events"));
        db.close().await;
        rows[0].0
    };
    app.key().change("before").await;
    assert_eq!(count(&app).await, 0);
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let other = app.second_organization();
    app.with_key(&other.key).change("elsewhere").await;
    app.key().change("after").await;
    receiver.wait_for(1).await;
    assert_eq!(count(&app).await, 1);
    assert_eq!(hook.deliveries(&app).len(), 1);
}

async fn receivers_of_private_networks_are_refused(mut app: TestApp) {
    let receiver = Receiver::start().await;
    let create = |url: &str| {
        let mut arguments = vec!["integration", "create", "--org", &app.organization.id];
        arguments.extend(["--kind", "webhook", "--name", url, "--url", url]);
        arguments.extend(["--allow-receivers", "10.0.0.0/8"]);
        let output = app.try_admin(&arguments, "");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), message)
    };
    for (url, named) in [
        (receiver.url().as_str(), "127.0.0.0/8 (loopback)"),
        ("https://2130706433/", "127.0.0.0/8 (loopback)"),
        ("https://localhost/", "loopback"),
        (
            "https://[fd00::1]/",
            "fd00::1 is not an address of the internet",
        ),
        (
            "http://1.1.1.1/",
            "1.1.1.1 would be reached without encryption",
        ),
    ] {
        let (code, message) = create(url);
        assert_eq!(code, Some(2), "{url}: {message}");
        let is_explained = message.contains("--allow-receivers") && message.contains(named);
        assert!(is_explained, "{url}: {message}");
    }
    let (code, message) = create("http://10.0.0.1/");
    assert!(code == Some(0) && !message.contains("warning"), "{message}");
    let (code, message) = create("https://receiver.invalid/");
    assert!(
        code == Some(0) && message.contains("not found"),
        "{message}"
    );
    let hook = connect(&app, "hook", &receiver);
    app.key().change("Deploy").await;
    let failed = hook
        .newest(&app, |one| {
            one["attempts"].as_i64() > Some(0) && one["reason"].is_string()
        })
        .await;
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(reason.contains("--allow-receivers"), "{reason}");
    assert_eq!(receiver.connections(), 0);
    // The operator allows it, and what is queued is sent.
    app.restart_with(&ALLOWED).await;
    app.admin(&[
        "integration",
        "replay",
        failed["id"].as_str().expect("an id"),
    ]);
    receiver.wait_for(1).await;
}
