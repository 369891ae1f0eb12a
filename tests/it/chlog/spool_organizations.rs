//! Spooled changes are sent only to their own organization, and are not lost when its key
//! is refused.

use std::fs;

use serde_json::{Value, json};

use crate::chlog::ChlogOutput;
use crate::chlog::run::{start, wait_for_file};
use crate::chlog::spool::{chlog_through, spool_folder, spooled_files, title_counts};
use changelog_tests::{
    FaultyProxy, ProxyMode, TestApp, TestClient, assert_contains, assert_lacks, each, on_one,
    signal, text,
};

on_one!(
    a_change_is_sent_only_under_a_key_of_its_organization,
    a_run_is_closed_only_under_a_key_of_its_organization,
    changes_refused_for_their_key_wait_for_a_valid_one,
    changes_of_an_unknown_key_are_adopted_explicitly,
    changes_for_another_server_can_be_redirected,
    rejected_changes_can_be_retried,
    ephemeral_ci_runners_get_a_warning,
);

/// Runs `chlog` through a proxy with a key.
fn chlog_with_key(
    app: &TestApp,
    proxy: &FaultyProxy,
    key: &str,
    arguments: &[&str],
) -> ChlogOutput {
    let mut command = app.chlog();
    command
        .env("CHLOG_URL", &proxy.url)
        .env("CHLOG_API_KEY", key);
    ChlogOutput::of(command.args(arguments))
}

fn new_key(app: &TestApp) -> (String, String) {
    let made = app.create_key(&[]);
    (text(&made["id"]), text(&made["key"]))
}

async fn titles_of(caller: &TestClient) -> Vec<String> {
    let list = caller.body("/api/changes").await;
    each(&list["data"], "title").into_iter().map(text).collect()
}

fn status(app: &TestApp, proxy: &FaultyProxy) -> Value {
    let output = chlog_through(app, proxy, "spool status --json").succeeds();
    output.json()["data"].take()
}

async fn a_change_is_sent_only_under_a_key_of_its_organization(app: TestApp) {
    let beta = app.second_organization();
    let of_beta = app.with_key(&beta.key);
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let acme = app.organization.key.clone();
    let first = ["log", "Secret of Acme", "-m", "customer data of Acme"];
    chlog_with_key(&app, &proxy, &acme, &first).succeeds();
    let rows = status(&app, &proxy);
    assert_eq!(rows[0]["organization"], Value::Null);
    let fingerprint = text(&rows[0]["key_fingerprint"]);
    assert!(fingerprint.len() == 16 && !acme.contains(&fingerprint));
    proxy.set_mode(ProxyMode::Forward);
    // Neither another command nor a flush sends it with another key.
    let output = chlog_with_key(&app, &proxy, &beta.key, &["list"]).succeeds();
    assert_lacks(&output.stdout, "Secret");
    let output = chlog_with_key(&app, &proxy, &beta.key, &["spool", "flush"]).succeeds();
    output.says("1 change queued with another key");
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 1);
    chlog_with_key(&app, &proxy, &acme, &["list"]).succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
    assert_eq!(titles_of(&app.key()).await, ["Secret of Acme"]);

    // The organization of the key is known now.
    proxy.set_mode(ProxyMode::Closing);
    chlog_with_key(&app, &proxy, &acme, &["log", "Second of Acme"]).succeeds();
    proxy.set_mode(ProxyMode::Forward);
    let rows = status(&app, &proxy);
    assert_eq!(rows[0]["organization"], app.organization.id.as_str());
    for arguments in [
        &["spool", "flush"][..],
        &["spool", "flush", "--adopt", "all"],
        &["spool", "flush", "--from", &proxy.url],
    ] {
        let output = chlog_with_key(&app, &proxy, &beta.key, arguments).succeeds();
        output.says("1 change queued for another organization");
        chlog_with_key(&app, &proxy, &beta.key, &["log", "Of Beta"]).succeeds();
        assert_eq!(spooled_files(&spool_folder(&app)).len(), 1, "{arguments:?}");
    }
    assert_eq!(titles_of(&of_beta).await, ["Of Beta"; 3]);
    // Another key of the same organization sends it.
    let (_, rotated) = new_key(&app);
    let output = chlog_with_key(&app, &proxy, &rotated, &["list"]).succeeds();
    assert_eq!(output.stderr, "sent 1 change from the queue\n");
    assert_eq!(title_counts(&app).await.len(), 2);
    assert_eq!(titles_of(&of_beta).await.len(), 3);
}

async fn a_run_is_closed_only_under_a_key_of_its_organization(app: TestApp) {
    let beta = app.second_organization();
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    let ready = app.folder().join("ready");
    let script = "echo $$ >ready; exec sleep 30";
    let mut child = start(&app, &proxy.url, &format!("sh -c '{script}'"));
    wait_for_file(&ready).await;
    let command = fs::read_to_string(&ready).expect("text");
    let _ = child.kill();
    let _ = child.wait();
    signal(command.trim(), "KILL");
    chlog_with_key(&app, &proxy, &beta.key, &["log", "Of Beta"]).succeeds();
    let output = chlog_with_key(&app, &proxy, &beta.key, &["spool", "flush"]).succeeds();
    output.says("1 change queued for another organization");
    let list = || async { app.key().body("/api/changes").await };
    assert_eq!(each(&list().await["data"], "status"), ["in_progress"]);
    chlog_through(&app, &proxy, "list").succeeds();
    assert_eq!(each(&list().await["data"], "status"), ["rolled_back"]);
}

async fn changes_refused_for_their_key_wait_for_a_valid_one(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    let (id, key) = new_key(&app);
    chlog_with_key(&app, &proxy, &key, &["log", "While it is valid"]).succeeds();
    app.admin(&["key", "revoke", &id]);
    let output = chlog_with_key(&app, &proxy, &key, &["run", "--", "sh", "-c", "exit 9"]);
    assert_eq!(output.code, 9, "{}", output.stderr);
    output.says("saved for later in");
    let output = chlog_with_key(&app, &proxy, &key, &["log", "Over the weekend"]).exits_with(4);
    output.says("saved for later in");
    chlog_with_key(&app, &proxy, &key, &["log", "Strict", "--strict"]).exits_with(4);
    let rows = status(&app, &proxy);
    assert_eq!(each(&rows, "state"), ["unauthorized", "unauthorized"]);
    assert!(rows.as_array().is_some_and(|rows| {
        rows.iter()
            .all(|row| row["organization"] == app.organization.id.as_str())
    }));
    // A flush with the refused key loses nothing.
    chlog_with_key(&app, &proxy, &key, &["spool", "flush"]).exits_with(4);
    let output = chlog_through(&app, &proxy, "list").succeeds();
    assert_eq!(output.stderr, "sent 2 changes from the queue\n");

    // The same on a plan without the API.
    let organization = app.organization.id.clone();
    app.admin(&["org", "set-plan", &organization, "free"]);
    chlog_through(&app, &proxy, "log 'On the free plan'").exits_with(4);
    let output = chlog_through(&app, &proxy, "run -- true");
    assert_eq!(output.code, 0, "{}", output.stderr);
    app.admin(&["org", "set-plan", &organization, "pro"]);
    chlog_through(&app, &proxy, "list").succeeds();
    let title_counts = title_counts(&app).await;
    let expected = json!({
        "On the free plan": 1, "Over the weekend": 1, "Run sh": 1, "Run true": 1,
        "While it is valid": 1,
    });
    assert_eq!(json!(title_counts), expected);
}

async fn changes_of_an_unknown_key_are_adopted_explicitly(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let output = chlog_with_key(&app, &proxy, &wrong, &["log", "With a wrong key"]).exits_with(4);
    output.says("--adopt");
    chlog_through(&app, &proxy, "list").succeeds();
    let rows = status(&app, &proxy);
    assert_eq!(each(&rows, "state"), ["unauthorized"]);
    let output = chlog_through(&app, &proxy, "spool retry").succeeds();
    output.says("queued 1 change again");
    let rows = status(&app, &proxy);
    assert_eq!(each(&rows, "state"), ["waiting"]);
    let output = chlog_through(&app, &proxy, "spool flush").succeeds();
    output.says("1 change queued with another key");
    assert!(title_counts(&app).await.is_empty());
    chlog_through(&app, &proxy, "spool flush --adopt nothing").exits_with(3);
    let id = text(&rows[0]["id"]);
    chlog_through(&app, &proxy, &format!("spool flush --adopt {id}")).succeeds();
    assert_eq!(title_counts(&app).await["With a wrong key"], 1);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
}

async fn changes_for_another_server_can_be_redirected(app: TestApp) {
    let mistyped = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let right = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    chlog_through(&app, &mistyped, "log 'To the wrong address'").succeeds();
    let kept = spooled_files(&spool_folder(&app)).remove(0);
    let output = chlog_through(&app, &right, "log 'Something else'").succeeds();
    assert_eq!(output.stderr, "");
    // The file name contains the time: here one second after 1970.
    let old = kept.with_file_name("00000000-03e8-7000-8000-000000000000.json");
    fs::rename(&kept, &old).expect("it exists");
    let output = chlog_through(&app, &right, "log 'Something else'").succeeds();
    output.says("1 change has been queued for more than an hour");
    // The reminder is printed once a day.
    assert_eq!(
        chlog_through(&app, &right, "log 'Something else'")
            .succeeds()
            .stderr,
        ""
    );
    let output = chlog_through(&app, &right, "run -- true");
    assert_eq!(output.stderr, "");

    // With another key, the organization is unknown.
    let (_, other) = new_key(&app);
    let flush = ["spool", "flush", "--from", &mistyped.url];
    let output = chlog_with_key(&app, &right, &other, &flush).succeeds();
    output.says("1 change queued with another key");
    chlog_through(&app, &right, "spool flush").succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 1);
    chlog_through(&app, &right, &flush).succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
    assert_eq!(title_counts(&app).await["To the wrong address"], 1);
}

async fn rejected_changes_can_be_retried(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    chlog_through(&app, &proxy, "log Deploy --service later").succeeds();
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, "spool flush").exits_with(6);
    chlog_through(&app, &proxy, "service create later").succeeds();
    chlog_through(&app, &proxy, "spool retry nothing").exits_with(3);
    chlog_through(&app, &proxy, "spool retry").succeeds();
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(title_counts(&app).await["Deploy"], 1);
    assert_eq!(spooled_files(&spool_folder(&app).join("rejected")).len(), 0);
}

async fn ephemeral_ci_runners_get_a_warning(app: TestApp) {
    let lasts = app.folder().join("lasts").display().to_string();
    let away = |variables: &[(&str, &str)]| {
        let mut command = app.chlog();
        command
            .env("CHLOG_URL", "http://127.0.0.1:9")
            .envs(variables.iter().copied());
        ChlogOutput::of(command.args(["log", "Deploy"]))
            .succeeds()
            .stderr
    };
    assert!(!away(&[]).contains("runner"));
    let output = away(&[("GITHUB_ACTIONS", "true")]);
    for words in ["CI runner", "--strict", "CHLOG_SPOOL_DIR"] {
        assert_contains(&output, words);
    }
    let output = away(&[("GITHUB_ACTIONS", "true"), ("CHLOG_SPOOL_DIR", &lasts)]);
    assert_contains(&output, &lasts);
    assert_lacks(&output, "runner");
}
