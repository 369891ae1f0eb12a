//! What waits belongs to an organization, and to nobody else; and what cannot be
//! sent to it is neither lost nor forgotten.

use std::fs;

use serde_json::{Value, json};

use crate::chlog::Said;
use crate::chlog::run::{appears, start};
use crate::chlog::spool::{spool, through, titles, waiting};
use changelog_tests::{FaultyProxy, Mode, TestApp, TestClient, each, on_one, signal, text};

on_one!(
    a_change_is_sent_only_under_a_key_of_its_organization,
    a_run_is_closed_only_under_a_key_of_its_organization,
    what_a_key_is_refused_is_kept_for_a_good_one,
    a_key_of_unknown_organization_is_replaced_explicitly,
    what_waits_elsewhere_is_remembered_and_readdressed,
    what_was_refused_is_put_back,
    a_runner_that_does_not_last_is_pointed_out,
);

/// Runs `chlog` through a gateway with a key.
fn with(app: &TestApp, gateway: &FaultyProxy, key: &str, arguments: &[&str]) -> Said {
    let mut command = app.chlog();
    command
        .env("CHLOG_URL", &gateway.url)
        .env("CHLOG_API_KEY", key);
    Said::of(command.args(arguments))
}

fn new_key(app: &TestApp) -> (String, String) {
    let made = app.create_key(&[]);
    (text(&made["id"]), text(&made["key"]))
}

async fn of_key(caller: &TestClient) -> Vec<String> {
    let list = caller.get("/api/changes").await.body(200);
    each(&list["data"], "title").into_iter().map(text).collect()
}

fn status(app: &TestApp, gateway: &FaultyProxy) -> Value {
    let said = through(app, gateway, &["spool", "status", "--json"]).done();
    said.json()["data"].take()
}

async fn a_change_is_sent_only_under_a_key_of_its_organization(app: TestApp) {
    let beta = app.second_organization();
    let of_beta = app.with_key(&beta.key);
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    let acme = app.organization.key.clone();
    let first = ["log", "Secret of Acme", "-m", "customer data of Acme"];
    with(&app, &gateway, &acme, &first).done();
    let rows = status(&app, &gateway);
    assert_eq!(rows[0]["organization"], Value::Null);
    let fingerprint = text(&rows[0]["key_fingerprint"]);
    assert!(fingerprint.len() == 16 && !acme.contains(&fingerprint));
    gateway.set(Mode::Open);
    // Not by the way, and not when asked to send everything.
    let said = with(&app, &gateway, &beta.key, &["list"]).done();
    assert!(!said.out.contains("Secret"), "{}", said.out);
    let said = with(&app, &gateway, &beta.key, &["spool", "flush"]).done();
    assert!(
        said.err.contains("1 change kept with another key"),
        "{}",
        said.err
    );
    assert_eq!(waiting(&spool(&app)).len(), 1);
    with(&app, &gateway, &acme, &["list"]).done();
    assert_eq!(waiting(&spool(&app)).len(), 0);
    assert_eq!(of_key(&app.key()).await, ["Secret of Acme"]);

    // The organization is known by now.
    gateway.set(Mode::Closing);
    with(&app, &gateway, &acme, &["log", "Second of Acme"]).done();
    gateway.set(Mode::Open);
    let rows = status(&app, &gateway);
    assert_eq!(rows[0]["organization"], app.organization.id.as_str());
    for arguments in [
        &["spool", "flush"][..],
        &["spool", "flush", "--adopt", "all"],
        &["spool", "flush", "--from", &gateway.url],
    ] {
        let said = with(&app, &gateway, &beta.key, arguments).done();
        assert!(
            said.err.contains("1 change kept for another organization"),
            "{}",
            said.err
        );
        with(&app, &gateway, &beta.key, &["log", "Of Beta"]).done();
        assert_eq!(waiting(&spool(&app)).len(), 1, "{arguments:?}");
    }
    assert_eq!(of_key(&of_beta).await, ["Of Beta"; 3]);
    // A key that took the place of the first is of the same organization.
    let (_, rotated) = new_key(&app);
    let said = with(&app, &gateway, &rotated, &["list"]).done();
    assert_eq!(said.err, "recorded 1 change that had been waiting\n");
    assert_eq!(titles(&app).await.len(), 2);
    assert_eq!(of_key(&of_beta).await.len(), 3);
}

async fn a_run_is_closed_only_under_a_key_of_its_organization(app: TestApp) {
    let beta = app.second_organization();
    let gateway = FaultyProxy::before(&app.server.address, Mode::Open);
    let ready = app.folder().join("ready");
    let script = "echo $$ >ready; exec sleep 30";
    let mut child = start(&app, &gateway.url, &["sh", "-c", script]);
    appears(&ready).await;
    let command = fs::read_to_string(&ready).expect("text");
    let _ = child.kill();
    let _ = child.wait();
    signal(command.trim(), "KILL");
    with(&app, &gateway, &beta.key, &["log", "Of Beta"]).done();
    let said = with(&app, &gateway, &beta.key, &["spool", "flush"]).done();
    assert!(
        said.err.contains("1 change kept for another organization"),
        "{}",
        said.err
    );
    let list = || async { app.key().get("/api/changes").await.body(200) };
    assert_eq!(each(&list().await["data"], "status"), ["in_progress"]);
    through(&app, &gateway, &["list"]).done();
    assert_eq!(each(&list().await["data"], "status"), ["rolled_back"]);
}

async fn what_a_key_is_refused_is_kept_for_a_good_one(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Open);
    let (id, key) = new_key(&app);
    with(&app, &gateway, &key, &["log", "While it is valid"]).done();
    app.admin(&["key", "revoke", &id]);
    let said = with(&app, &gateway, &key, &["run", "--", "sh", "-c", "exit 9"]);
    assert_eq!(said.code, 9, "{}", said.err);
    assert!(said.err.contains("is kept in"), "{}", said.err);
    let said = with(&app, &gateway, &key, &["log", "Over the weekend"]).ended(4);
    assert!(said.err.contains("is kept in"), "{}", said.err);
    with(&app, &gateway, &key, &["log", "Strict", "--strict"]).ended(4);
    let rows = status(&app, &gateway);
    assert_eq!(each(&rows, "state"), ["unauthorized", "unauthorized"]);
    assert!(rows.as_array().is_some_and(|rows| {
        rows.iter()
            .all(|row| row["organization"] == app.organization.id.as_str())
    }));
    // With the wrong key it is not lost by trying.
    with(&app, &gateway, &key, &["spool", "flush"]).ended(4);
    let said = through(&app, &gateway, &["list"]).done();
    assert_eq!(said.err, "recorded 2 changes that had been waiting\n");

    // The same where the plan does not include the API.
    let organization = app.organization.id.clone();
    app.admin(&["org", "set-plan", &organization, "free"]);
    through(&app, &gateway, &["log", "On the free plan"]).ended(4);
    let said = through(&app, &gateway, &["run", "--", "true"]);
    assert_eq!(said.code, 0, "{}", said.err);
    app.admin(&["org", "set-plan", &organization, "pro"]);
    through(&app, &gateway, &["list"]).done();
    let titles = titles(&app).await;
    let expected = json!({
        "On the free plan": 1, "Over the weekend": 1, "Run sh": 1, "Run true": 1,
        "While it is valid": 1,
    });
    assert_eq!(json!(titles), expected);
}

async fn a_key_of_unknown_organization_is_replaced_explicitly(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Open);
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let said = with(&app, &gateway, &wrong, &["log", "With a wrong key"]).ended(4);
    assert!(said.err.contains("--adopt"), "{}", said.err);
    through(&app, &gateway, &["list"]).done();
    let rows = status(&app, &gateway);
    assert_eq!(each(&rows, "state"), ["unauthorized"]);
    let said = through(&app, &gateway, &["spool", "retry"]).done();
    assert!(said.err.contains("put back 1 change"), "{}", said.err);
    let rows = status(&app, &gateway);
    assert_eq!(each(&rows, "state"), ["waiting"]);
    let said = through(&app, &gateway, &["spool", "flush"]).done();
    assert!(
        said.err.contains("1 change kept with another key"),
        "{}",
        said.err
    );
    assert!(titles(&app).await.is_empty());
    through(&app, &gateway, &["spool", "flush", "--adopt", "nothing"]).ended(3);
    let id = text(&rows[0]["id"]);
    through(&app, &gateway, &["spool", "flush", "--adopt", &id]).done();
    assert_eq!(titles(&app).await["With a wrong key"], 1);
    assert_eq!(waiting(&spool(&app)).len(), 0);
}

async fn what_waits_elsewhere_is_remembered_and_readdressed(app: TestApp) {
    let mistyped = FaultyProxy::before(&app.server.address, Mode::Closing);
    let right = FaultyProxy::before(&app.server.address, Mode::Open);
    through(&app, &mistyped, &["log", "To the wrong address"]).done();
    let kept = waiting(&spool(&app)).remove(0);
    let said = through(&app, &right, &["log", "Something else"]).done();
    assert_eq!(said.err, "");
    // The name of the file says since when: the second of 1970.
    let old = kept.with_file_name("00000000-03e8-7000-8000-000000000000.json");
    fs::rename(&kept, &old).expect("it is there");
    let said = through(&app, &right, &["log", "Something else"]).done();
    assert!(
        said.err
            .contains("1 change has been waiting for more than an hour"),
        "{}",
        said.err
    );
    // Once a day, whatever command it is.
    assert_eq!(
        through(&app, &right, &["log", "Something else"]).done().err,
        ""
    );
    let said = through(&app, &right, &["run", "--", "true"]);
    assert_eq!(said.err, "");

    // Under another key nobody knows whose it is.
    let (_, other) = new_key(&app);
    let flush = ["spool", "flush", "--from", &mistyped.url];
    let said = with(&app, &right, &other, &flush).done();
    assert!(
        said.err.contains("1 change kept with another key"),
        "{}",
        said.err
    );
    through(&app, &right, &["spool", "flush"]).done();
    assert_eq!(waiting(&spool(&app)).len(), 1);
    through(&app, &right, &flush).done();
    assert_eq!(waiting(&spool(&app)).len(), 0);
    assert_eq!(titles(&app).await["To the wrong address"], 1);
}

async fn what_was_refused_is_put_back(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    through(&app, &gateway, &["log", "Deploy", "--service", "later"]).done();
    gateway.set(Mode::Open);
    through(&app, &gateway, &["spool", "flush"]).ended(6);
    through(&app, &gateway, &["service", "create", "later"]).done();
    through(&app, &gateway, &["spool", "retry", "nothing"]).ended(3);
    through(&app, &gateway, &["spool", "retry"]).done();
    through(&app, &gateway, &["spool", "flush"]).done();
    assert_eq!(titles(&app).await["Deploy"], 1);
    assert_eq!(waiting(&spool(&app).join("rejected")).len(), 0);
}

async fn a_runner_that_does_not_last_is_pointed_out(app: TestApp) {
    let lasts = app.folder().join("lasts").display().to_string();
    let away = |variables: &[(&str, &str)]| {
        let mut command = app.chlog();
        command
            .env("CHLOG_URL", "http://127.0.0.1:9")
            .envs(variables.iter().copied());
        Said::of(command.args(["log", "Deploy"])).done().err
    };
    assert!(!away(&[]).contains("runner"));
    let said = away(&[("GITHUB_ACTIONS", "true")]);
    for words in ["CI runner", "--strict", "CHLOG_SPOOL_DIR"] {
        assert!(said.contains(words), "{said}");
    }
    let said = away(&[("GITHUB_ACTIONS", "true"), ("CHLOG_SPOOL_DIR", &lasts)]);
    assert!(said.contains(&lasts) && !said.contains("runner"), "{said}");
}
