//! Where connections send is encrypted, and its key can be replaced.

use std::fs;
use std::path::{Path, PathBuf};

use changelog_tests::receivers::{Receiver, webhook};
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_both, on_sqlite};
use serde_json::Value;

use super::{ALLOWED, allow_receivers, connect, connect_as};

const INTEGRATIONS: &str = "/settings/integrations";

on_both!(
    keys_are_replaced_while_the_service_runs,
    a_secret_and_a_name_are_changed_at_the_same_time,
    nothing_is_given_up_without_the_key,
);
on_sqlite!(no_command_makes_another_key_file_than_the_server);

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder").flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.is_file())
        .collect()
}

async fn keys_are_replaced_while_the_service_runs(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let url = format!("{}/T0SECRET/B0SECRET", receiver.base());
    connect_as(&app, "slack", "chat", &url, &[]);
    let key_file = app.folder().join("secrets.key");
    let before = fs::read_to_string(&key_file).expect("a key");
    app.try_admin(&["secrets", "rotate"], "");
    let after = fs::read_to_string(&key_file).expect("a key");
    assert_ne!(before, after);
    assert_eq!(before.lines().count(), after.lines().count(), "{after}");
    app.key().change("Deploy").await;
    let requests = receiver.wait_for(2).await;
    let paths: Vec<&str> = requests.iter().map(|one| one.path.as_str()).collect();
    assert!(paths.contains(&"/T0SECRET/B0SECRET"), "{paths:?}");
    hook.newest(&app, |one| one["state"] == "delivered").await;
    // What the service encrypts now has the new key, too.
    app.try_admin(&["secrets", "rotate"], "");
    let later = format!("{}/later", receiver.base());
    let fields = [
        ("kind", "slack"),
        ("name", "Later"),
        ("url", &later),
        ("events", "change.created"),
    ];
    app.browser().await.submit(INTEGRATIONS, &fields).await;
    app.restart_with(&ALLOWED).await;
    app.key().change("Deploy again").await;
    let requests = receiver.wait_for(5).await;
    assert!(requests.iter().any(|one| one.path == "/later"));
    // Nothing of it is in the database.
    for path in files(app.folder()) {
        let bytes = fs::read(&path).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("B0SECRET"), "{}", path.display());
        assert!(!text.contains(&hook.secret), "{}", path.display());
    }
}

async fn a_secret_and_a_name_are_changed_at_the_same_time(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let owner = app.browser().await;
    let path = format!("{INTEGRATIONS}/{}", hook.id);
    let rotate_path = format!("{path}/rotate");
    for round in 0..20 {
        let name = format!("Round {round}");
        let fields = [("name", name.as_str()), ("events", "change.created")];
        let (rotated, saved) = tokio::join!(
            owner.post_form(&rotate_path, &[]),
            owner.post_form(&path, &fields)
        );
        rotated.is(200);
        saved.is(303);
        let (_, secret) = rotated
            .text
            .split_once("id=\"new-signing-secret\">")
            .expect("a secret");
        let (secret, _) = secret.split_once('<').expect("an end");
        assert_eq!(hook.shown(&app)["name"], name);
        app.key().change("Deploy").await;
        let requests = receiver.wait_for(round + 1).await;
        webhook::check(&requests[round], secret).expect("signed by the new secret");
    }
}

async fn no_command_makes_another_key_file_than_the_server(mut app: TestApp) {
    let org = app.organization.id.clone();
    let other = app.folder().join("other.key");
    let other = other.to_str().expect("a path");
    let create = [
        "source",
        "create",
        "--org",
        &org,
        "--kind",
        "generic",
        "--name",
        "Any",
        "--secret-file",
        "-",
        "--secrets-key-file",
        other,
    ];
    let refused = app.try_admin(&create, "secret");
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_contains(&error, "CHANGELOG_SECRETS_KEY_FILE");
    assert!(!Path::new(other).exists(), "{error}");
    // Without a server, the first command makes the file.
    app.server.kill9();
    app.admin_with(&create, "secret");
    assert!(Path::new(other).exists());
}

async fn nothing_is_given_up_without_the_key(mut app: TestApp) {
    let receiver = Receiver::start().await;
    let hook = connect(&app, "hook", &receiver);
    let (key_file, away) = (app.folder().join("secrets.key"), app.folder().join("away"));
    fs::rename(&key_file, &away).expect("a key");
    app.restart_with(&ALLOWED).await;
    app.key().change("Deploy").await;
    hook.newest(&app, |one| one["state"] == "pending").await;
    let page = format!("{INTEGRATIONS}/{}", hook.id);
    let owner = app.browser().await;
    let shown = owner.get(&page).await;
    shown.is(200);
    assert_contains(&shown.text, "lacks the key");
    for action in ["test", "rotate"] {
        let refused = owner.post_form(&format!("{page}/{action}"), &[]).await;
        refused.is(409);
        let text = &refused.text;
        assert_contains(&text, "lacks the key");
        assert_lacks(&text, "secrets.key");
    }
    assert!(
        !key_file.exists(),
        "another key would hide that this one is missing"
    );
    let rotated = app.try_admin(&["secrets", "rotate"], "");
    let error = String::from_utf8_lossy(&rotated.stderr);
    assert_contains(&error, "is missing");
    assert_contains(&error, &hook.id);
    let public = format!("/.well-known/changelog-webhook-keys/{}", hook.id);
    let refused = app.anonymous().get(&public).await;
    let problem = refused.problem(503, "unavailable");
    assert_contains(&problem.to_string(), "key file");
    assert_lacks(&problem.to_string(), "secrets.key");
    assert_eq!(hook.shown(&app)["disabled_reason"], Value::Null);
    assert_eq!(receiver.connections(), 0);
    // The file is read again when there is something to send.
    fs::rename(&away, &key_file).expect("a key");
    app.key().change("Deploy again").await;
    receiver.wait_for(2).await;
}
