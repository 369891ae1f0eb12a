//! What waits belongs to an organization, and to nobody else; and what cannot be
//! sent to it is neither lost nor forgotten.

use std::fs;

use serde_json::{Value, json};

use crate::chlog::Said;
use crate::chlog::run::{appears, start};
use crate::chlog::spool::{spool, through, titles, waiting};
use crate::world::{Caller, Gateway, Mode, World, each, on_both, signal, text};

on_both!(
    a_change_is_sent_only_under_a_key_of_its_organization,
    a_run_is_closed_only_under_a_key_of_its_organization,
    what_a_key_is_refused_is_kept_for_a_good_one,
    a_key_of_unknown_organization_is_replaced_explicitly,
    what_waits_elsewhere_is_remembered_and_readdressed,
    what_was_refused_is_put_back,
    a_runner_that_does_not_last_is_pointed_out,
);

/// Runs `chlog` through a gateway with a key.
fn with(world: &World, gateway: &Gateway, key: &str, arguments: &[&str]) -> Said {
    let mut command = world.chlog();
    command
        .env("CHLOG_URL", &gateway.url)
        .env("CHLOG_API_KEY", key);
    Said::of(command.args(arguments))
}

fn new_key(world: &World) -> (String, String) {
    let made = world.create_key(&[]);
    (text(&made["id"]), text(&made["key"]))
}

async fn of_key(caller: &Caller) -> Vec<String> {
    let list = caller.get("/api/changes").await.body(200);
    each(&list["data"], "title").into_iter().map(text).collect()
}

fn status(world: &World, gateway: &Gateway) -> Value {
    let said = through(world, gateway, &["spool", "status", "--json"]).done();
    said.json()["data"].take()
}

async fn a_change_is_sent_only_under_a_key_of_its_organization(world: World) {
    let beta = world.second_organization();
    let of_beta = world.with_key(&beta.key);
    let gateway = Gateway::before(&world.server.address, Mode::Closing);
    let acme = world.organization.key.clone();
    let first = ["log", "Secret of Acme", "-m", "customer data of Acme"];
    with(&world, &gateway, &acme, &first).done();
    let rows = status(&world, &gateway);
    assert_eq!(rows[0]["organization"], Value::Null);
    let fingerprint = text(&rows[0]["key_fingerprint"]);
    assert!(fingerprint.len() == 16 && !acme.contains(&fingerprint));
    gateway.set(Mode::Open);
    // Not by the way, and not when asked to send everything.
    let said = with(&world, &gateway, &beta.key, &["list"]).done();
    assert!(!said.out.contains("Secret"), "{}", said.out);
    let said = with(&world, &gateway, &beta.key, &["spool", "flush"]).done();
    assert!(said.err.contains("1 kept with another key"), "{}", said.err);
    assert_eq!(waiting(&spool(&world)).len(), 1);
    with(&world, &gateway, &acme, &["list"]).done();
    assert_eq!(waiting(&spool(&world)).len(), 0);
    assert_eq!(of_key(&world.key()).await, ["Secret of Acme"]);

    // The organization is known by now.
    gateway.set(Mode::Closing);
    with(&world, &gateway, &acme, &["log", "Second of Acme"]).done();
    gateway.set(Mode::Open);
    let rows = status(&world, &gateway);
    assert_eq!(rows[0]["organization"], world.organization.id.as_str());
    for arguments in [
        &["spool", "flush"][..],
        &["spool", "flush", "--adopt", "all"],
        &["spool", "flush", "--from", &gateway.url],
    ] {
        let said = with(&world, &gateway, &beta.key, arguments).done();
        assert!(
            said.err.contains("1 for another organization"),
            "{}",
            said.err
        );
        with(&world, &gateway, &beta.key, &["log", "Of Beta"]).done();
        assert_eq!(waiting(&spool(&world)).len(), 1, "{arguments:?}");
    }
    assert_eq!(of_key(&of_beta).await, ["Of Beta"; 3]);
    // A key that took the place of the first is of the same organization.
    let (_, rotated) = new_key(&world);
    let said = with(&world, &gateway, &rotated, &["list"]).done();
    assert_eq!(said.err, "recorded now what had waited: 1\n");
    assert_eq!(titles(&world).await.len(), 2);
    assert_eq!(of_key(&of_beta).await.len(), 3);
}

async fn a_run_is_closed_only_under_a_key_of_its_organization(world: World) {
    let beta = world.second_organization();
    let gateway = Gateway::before(&world.server.address, Mode::Open);
    let ready = world.folder().join("ready");
    let script = "echo $$ >ready; exec sleep 30";
    let mut child = start(&world, &gateway.url, &["sh", "-c", script]);
    appears(&ready).await;
    let command = fs::read_to_string(&ready).expect("text");
    let _ = child.kill();
    let _ = child.wait();
    signal(command.trim(), "KILL");
    with(&world, &gateway, &beta.key, &["log", "Of Beta"]).done();
    let said = with(&world, &gateway, &beta.key, &["spool", "flush"]).done();
    assert!(
        said.err.contains("1 for another organization"),
        "{}",
        said.err
    );
    let list = || async { world.key().get("/api/changes").await.body(200) };
    assert_eq!(each(&list().await["data"], "status"), ["in_progress"]);
    through(&world, &gateway, &["list"]).done();
    assert_eq!(each(&list().await["data"], "status"), ["rolled_back"]);
}

async fn what_a_key_is_refused_is_kept_for_a_good_one(world: World) {
    let gateway = Gateway::before(&world.server.address, Mode::Open);
    let (id, key) = new_key(&world);
    with(&world, &gateway, &key, &["log", "While it is valid"]).done();
    world.admin(&["key", "revoke", &id]);
    let said = with(&world, &gateway, &key, &["run", "--", "sh", "-c", "exit 9"]);
    assert_eq!(said.code, 9, "{}", said.err);
    assert!(said.err.contains("is kept in"), "{}", said.err);
    let said = with(&world, &gateway, &key, &["log", "Over the weekend"]).ended(4);
    assert!(said.err.contains("is kept in"), "{}", said.err);
    with(&world, &gateway, &key, &["log", "Strict", "--strict"]).ended(4);
    let rows = status(&world, &gateway);
    assert_eq!(each(&rows, "state"), ["unauthorized", "unauthorized"]);
    assert!(rows.as_array().is_some_and(|rows| {
        rows.iter()
            .all(|row| row["organization"] == world.organization.id.as_str())
    }));
    // With the wrong key it is not lost by trying.
    with(&world, &gateway, &key, &["spool", "flush"]).ended(4);
    let said = through(&world, &gateway, &["list"]).done();
    assert_eq!(said.err, "recorded now what had waited: 2\n");

    // The same where the plan does not include the API.
    let organization = world.organization.id.clone();
    world.admin(&["org", "set-plan", &organization, "free"]);
    through(&world, &gateway, &["log", "On the free plan"]).ended(4);
    let said = through(&world, &gateway, &["run", "--", "true"]);
    assert_eq!(said.code, 0, "{}", said.err);
    world.admin(&["org", "set-plan", &organization, "pro"]);
    through(&world, &gateway, &["list"]).done();
    let titles = titles(&world).await;
    let expected = json!({
        "On the free plan": 1, "Over the weekend": 1, "Run sh": 1, "Run true": 1,
        "While it is valid": 1,
    });
    assert_eq!(json!(titles), expected);
}

async fn a_key_of_unknown_organization_is_replaced_explicitly(world: World) {
    let gateway = Gateway::before(&world.server.address, Mode::Open);
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let said = with(&world, &gateway, &wrong, &["log", "With a wrong key"]).ended(4);
    assert!(said.err.contains("--adopt"), "{}", said.err);
    through(&world, &gateway, &["list"]).done();
    let rows = status(&world, &gateway);
    assert_eq!(each(&rows, "state"), ["unauthorized"]);
    let said = through(&world, &gateway, &["spool", "retry"]).done();
    assert!(said.err.contains("put back: 1"), "{}", said.err);
    let rows = status(&world, &gateway);
    assert_eq!(each(&rows, "state"), ["waiting"]);
    let said = through(&world, &gateway, &["spool", "flush"]).done();
    assert!(said.err.contains("1 kept with another key"), "{}", said.err);
    assert!(titles(&world).await.is_empty());
    through(&world, &gateway, &["spool", "flush", "--adopt", "nothing"]).ended(3);
    let id = text(&rows[0]["id"]);
    through(&world, &gateway, &["spool", "flush", "--adopt", &id]).done();
    assert_eq!(titles(&world).await["With a wrong key"], 1);
    assert_eq!(waiting(&spool(&world)).len(), 0);
}

async fn what_waits_elsewhere_is_remembered_and_readdressed(world: World) {
    let mistyped = Gateway::before(&world.server.address, Mode::Closing);
    let right = Gateway::before(&world.server.address, Mode::Open);
    through(&world, &mistyped, &["log", "To the wrong address"]).done();
    let kept = waiting(&spool(&world)).remove(0);
    let said = through(&world, &right, &["log", "Something else"]).done();
    assert_eq!(said.err, "");
    // The name of the file says since when: the second of 1970.
    let old = kept.with_file_name("00000000-03e8-7000-8000-000000000000.json");
    fs::rename(&kept, &old).expect("it is there");
    let said = through(&world, &right, &["log", "Something else"]).done();
    assert!(
        said.err
            .contains("1 change has waited for more than an hour"),
        "{}",
        said.err
    );
    // Once a day, whatever command it is.
    assert_eq!(
        through(&world, &right, &["log", "Something else"])
            .done()
            .err,
        ""
    );
    let said = through(&world, &right, &["run", "--", "true"]);
    assert_eq!(said.err, "");

    // Under another key nobody knows whose it is.
    let (_, other) = new_key(&world);
    let flush = ["spool", "flush", "--from", &mistyped.url];
    let said = with(&world, &right, &other, &flush).done();
    assert!(said.err.contains("1 kept with another key"), "{}", said.err);
    through(&world, &right, &["spool", "flush"]).done();
    assert_eq!(waiting(&spool(&world)).len(), 1);
    through(&world, &right, &flush).done();
    assert_eq!(waiting(&spool(&world)).len(), 0);
    assert_eq!(titles(&world).await["To the wrong address"], 1);
}

async fn what_was_refused_is_put_back(world: World) {
    let gateway = Gateway::before(&world.server.address, Mode::Closing);
    through(&world, &gateway, &["log", "Deploy", "--service", "later"]).done();
    gateway.set(Mode::Open);
    through(&world, &gateway, &["spool", "flush"]).ended(6);
    through(&world, &gateway, &["service", "create", "later"]).done();
    through(&world, &gateway, &["spool", "retry", "nothing"]).ended(3);
    through(&world, &gateway, &["spool", "retry"]).done();
    through(&world, &gateway, &["spool", "flush"]).done();
    assert_eq!(titles(&world).await["Deploy"], 1);
    assert_eq!(waiting(&spool(&world).join("refused")).len(), 0);
}

async fn a_runner_that_does_not_last_is_pointed_out(world: World) {
    let lasts = world.folder().join("lasts").display().to_string();
    let away = |variables: &[(&str, &str)]| {
        let mut command = world.chlog();
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
