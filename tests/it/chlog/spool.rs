//! What the service did not answer to waits, and is recorded once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chlog::{Said, newest};
use changelog_tests::programs;
use changelog_tests::{FaultyProxy, Mode, TestApp, each, on_one};

on_one!(
    what_cannot_be_sent_is_kept_without_the_key,
    later_commands_send_what_waits,
    what_is_refused_is_set_aside,
    mistakes_are_not_kept,
    two_at_once_send_each_once,
    who_is_killed_while_sending_loses_and_doubles_nothing,
    an_answer_that_was_lost_doubles_nothing,
    what_waits_is_sent_where_it_was_meant_for,
    waiting_changes_are_deleted_on_request;
    process:
    a_hundred_at_once_while_the_service_dies_are_a_hundred,
);

/// Every way in which a service can be away.
pub(crate) const AWAY: [Mode; 9] = [
    Mode::Hanging,
    Mode::Failing,
    Mode::Crowded,
    Mode::Elsewhere,
    Mode::Backendless,
    Mode::Moved,
    Mode::Denied,
    Mode::Garbage,
    Mode::Closing,
];

/// Runs `chlog` through a gateway.
pub(crate) fn through(app: &TestApp, gateway: &FaultyProxy, arguments: &[&str]) -> Said {
    let mut command = app.chlog();
    Said::of(command.env("CHLOG_URL", &gateway.url).args(arguments))
}

pub(crate) fn spool(app: &TestApp) -> PathBuf {
    app.folder().join("state/chlog/spool")
}

/// The files that wait.
pub(crate) fn waiting(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = files.map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    files
}

/// How often there is a change of each title.
pub(crate) async fn titles(app: &TestApp) -> BTreeMap<String, usize> {
    let mut titles = BTreeMap::new();
    for page in 1.. {
        let path = format!("/api/changes?per_page=100&page={page}");
        let list = app.key().get(&path).await.body(200);
        let changes = list["data"].as_array().expect("a list");
        if changes.is_empty() {
            break;
        }
        for change in changes {
            let title = change["title"].as_str().expect("a title").to_owned();
            *titles.entry(title).or_default() += 1;
        }
    }
    titles
}

async fn what_cannot_be_sent_is_kept_without_the_key(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Open);
    for (number, mode) in AWAY.into_iter().enumerate() {
        gateway.set(mode);
        let title = format!("Deploy while {mode:?}");
        let said = through(&app, &gateway, &["log", &title, "--risk", "high"]).done();
        assert_eq!(said.out, "", "{mode:?}");
        assert!(said.err.contains("warning: ") && said.err.contains("is kept in"));
        assert_eq!(waiting(&spool(&app)).len(), number + 1, "{mode:?}");
        let strict = through(&app, &gateway, &["log", "Not kept", "--strict"]).ended(7);
        assert!(!strict.err.contains("is kept in"), "{}", strict.err);
    }
    let files = waiting(&spool(&app));
    assert_eq!(files.len(), AWAY.len());
    for file in &files {
        let mode = fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(file).expect("text");
        assert!(!text.contains(&app.organization.key), "{text}");
        let entry: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(entry["url"], gateway.url);
        assert!(entry["draft"]["at"].is_string() && entry["idempotency_key"].is_string());
    }
    assert!(titles(&app).await.is_empty());

    let status = through(&app, &gateway, &["spool", "status", "--json"]).done();
    let status = status.json();
    let found = each(&status["data"], "state");
    let expected = AWAY.map(|mode| match mode {
        Mode::Elsewhere | Mode::Backendless | Mode::Moved | Mode::Denied => "unexpected_response",
        _ => "waiting",
    });
    assert_eq!(found, expected);

    // It is still away: nothing is lost by trying.
    through(&app, &gateway, &["spool", "flush"]).ended(7);
    assert_eq!(waiting(&spool(&app)), files);
    gateway.set(Mode::Open);
    through(&app, &gateway, &["spool", "flush"]).done();
    assert_eq!(waiting(&spool(&app)), Vec::<PathBuf>::new());
    let titles = titles(&app).await;
    assert_eq!(titles.len(), AWAY.len());
    assert!(titles.values().all(|count| *count == 1), "{titles:?}");
    let said = through(&app, &gateway, &["spool", "flush"]).done();
    assert_eq!(said.err, "no changes are waiting\n");
}

async fn later_commands_send_what_waits(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    let service = app
        .key()
        .create("/api/services", json!({ "name": "payments" }))
        .await;
    for number in 0..3 {
        let title = format!("Kept {number}");
        through(&app, &gateway, &["log", &title, "--service", "Payments"]).done();
        // Two that happen in one millisecond have no order.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.set(Mode::Open);
    let said = through(&app, &gateway, &["log", "The first that gets through"]).done();
    assert_eq!(said.err, "recorded 3 changes that had been waiting\n");
    assert!(said.out.contains("The first that gets through"));
    let list = app.key().get("/api/changes").await.body(200);
    let all = list["data"].as_array().expect("a list");
    let in_order: Vec<_> = all.iter().map(|change| &change["title"]).collect();
    // By when they happened, not by when they came.
    assert_eq!(
        in_order,
        ["The first that gets through", "Kept 2", "Kept 1", "Kept 0"]
    );
    assert_eq!(all[1]["service"]["id"], service.as_str());
    let said = through(&app, &gateway, &["list"]).done();
    assert_eq!(said.err, "");
    // A pipeline may know no other command.
    gateway.set(Mode::Closing);
    through(&app, &gateway, &["log", "Before the run"]).done();
    gateway.set(Mode::Open);
    let said = through(&app, &gateway, &["run", "--", "echo", "out"]).done();
    assert_eq!(said.out, "out\n");
    assert_eq!(said.err, "recorded 1 change that had been waiting\n");
    assert_eq!(waiting(&spool(&app)), Vec::<PathBuf>::new());
}

async fn what_is_refused_is_set_aside(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    let arguments = ["log", "Of a service that is not there", "--service", "nope"];
    through(&app, &gateway, &arguments).done();
    through(&app, &gateway, &["log", "Of none"]).done();
    fs::write(spool(&app).join("0-torn.json"), "{\"url\": ").expect("a file");
    gateway.set(Mode::Open);
    let said = through(&app, &gateway, &["spool", "flush"]).ended(6);
    assert!(said.err.contains("rejected 2 changes"), "{}", said.err);
    assert_eq!(newest(&app).await["title"], "Of none");
    assert_eq!(waiting(&spool(&app)), Vec::<PathBuf>::new());
    assert_eq!(waiting(&spool(&app).join("rejected")).len(), 2);
    let said = through(&app, &gateway, &["spool", "status"]).done();
    assert!(
        said.out.contains("there is no service \"nope\""),
        "{}",
        said.out
    );
    assert!(said.out.contains("0-torn.json"), "{}", said.out);
    // It is not tried again.
    let said = through(&app, &gateway, &["spool", "flush"]).done();
    assert_eq!(said.err, "no changes are waiting\n");
    through(&app, &gateway, &["spool", "drop", "--rejected"]).done();
    let said = through(&app, &gateway, &["spool", "status"]).done();
    assert_eq!(said.err, "no changes are waiting\n");
}

async fn mistakes_are_not_kept(app: TestApp) {
    let logged = |name: &str, value: &str, code: i32| {
        let mut command = app.chlog();
        Said::of(command.env(name, value).args(["log", "A change"])).ended(code)
    };
    logged("CHLOG_API_KEY", "", 4);
    logged("CHLOG_URL", "", 2);
    logged("CHLOG_URL", "ftp://example.com", 2);
    app.chlog().args(["log", "x"]).assert().code(6);
    assert_eq!(waiting(&spool(&app)), Vec::<PathBuf>::new());

    // Nor does a key that is not accepted any more cost what waits.
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    through(&app, &gateway, &["log", "It waits"]).done();
    gateway.set(Mode::Open);
    let mut command = app.chlog();
    command.env("CHLOG_URL", &gateway.url);
    command.env("CHLOG_API_KEY", &wrong);
    Said::of(command.args(["spool", "flush"])).ended(4);
    assert_eq!(waiting(&spool(&app)).len(), 1);
}

async fn two_at_once_send_each_once(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    for number in 0..20 {
        through(&app, &gateway, &["log", &format!("Change {number}")]).done();
    }
    gateway.set(Mode::Open);
    let flushing: Vec<Child> = (0..4)
        .map(|_| start(&app, &gateway, &["spool", "flush"]))
        .collect();
    for mut child in flushing {
        assert!(child.wait().expect("it ends").success());
    }
    let titles = titles(&app).await;
    assert_eq!(titles.len(), 20);
    assert!(titles.values().all(|count| *count == 1), "{titles:?}");
}

async fn who_is_killed_while_sending_loses_and_doubles_nothing(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    for number in 0..30 {
        through(&app, &gateway, &["log", &format!("Change {number}")]).done();
    }
    gateway.set(Mode::Open);
    for round in 0..12 {
        let mut child = start(&app, &gateway, &["spool", "flush"]);
        tokio::time::sleep(Duration::from_millis(4 * round + 10)).await;
        let _ = child.kill();
        let _ = child.wait();
    }
    through(&app, &gateway, &["spool", "flush"]).done();
    let titles = titles(&app).await;
    assert_eq!(titles.len(), 30);
    assert!(titles.values().all(|count| *count == 1), "{titles:?}");
}

async fn an_answer_that_was_lost_doubles_nothing(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Deaf);
    for number in 0..3 {
        through(&app, &gateway, &["log", &format!("Change {number}")]).done();
    }
    assert_eq!(titles(&app).await.len(), 3);
    assert_eq!(waiting(&spool(&app)).len(), 3);
    gateway.set(Mode::Open);
    through(&app, &gateway, &["spool", "flush"]).done();
    let titles = titles(&app).await;
    assert_eq!(titles.len(), 3);
    assert!(titles.values().all(|count| *count == 1), "{titles:?}");
}

async fn a_hundred_at_once_while_the_service_dies_are_a_hundred(mut app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Open);
    let mut logging = Vec::new();
    for number in 0..100 {
        logging.push(start(&app, &gateway, &["log", &format!("Change {number}")]));
        if number == 30 {
            app.server.kill9();
        }
        if number == 60 {
            app.restart().await;
            gateway.lead_to(&app.server.address);
        }
        // Eight at a time, as fast as they go.
        if logging.len() > 8 {
            assert!(logging.remove(0).wait().expect("it ends").success());
        }
    }
    for mut child in logging {
        assert!(child.wait().expect("it ends").success());
    }
    through(&app, &gateway, &["spool", "flush"]).done();
    assert_eq!(waiting(&spool(&app)), Vec::<PathBuf>::new());
    let titles = titles(&app).await;
    assert_eq!(titles.len(), 100);
    assert!(titles.values().all(|count| *count == 1), "{titles:?}");
}

async fn what_waits_is_sent_where_it_was_meant_for(app: TestApp) {
    let meant = FaultyProxy::before(&app.server.address, Mode::Closing);
    let other = FaultyProxy::before(&app.server.address, Mode::Open);
    through(&app, &meant, &["log", "Not for others"]).done();
    through(&app, &other, &["list"]).done();
    let said = through(&app, &other, &["spool", "flush"]).done();
    assert!(
        said.err.contains("1 change kept for other server URLs"),
        "{}",
        said.err
    );
    assert!(titles(&app).await.is_empty());
    meant.set(Mode::Open);
    through(&app, &meant, &["list"]).done();
    assert_eq!(titles(&app).await.len(), 1);
}

async fn waiting_changes_are_deleted_on_request(app: TestApp) {
    let gateway = FaultyProxy::before(&app.server.address, Mode::Closing);
    for number in 0..3 {
        through(&app, &gateway, &["log", &format!("Change {number}")]).done();
    }
    let ids = through(&app, &gateway, &["spool", "status", "--format", "ids"]).done();
    let first = ids.out.lines().next().expect("an id");
    through(&app, &gateway, &["spool", "drop"]).ended(2);
    through(&app, &gateway, &["spool", "drop", "nothing"]).ended(3);
    assert_eq!(waiting(&spool(&app)).len(), 3);
    through(&app, &gateway, &["spool", "drop", first]).done();
    assert_eq!(waiting(&spool(&app)).len(), 2);
    through(&app, &gateway, &["spool", "drop", "--all"]).done();
    assert_eq!(waiting(&spool(&app)).len(), 0);
    // Where nothing can be kept, it is said what is lost.
    let mut command = app.chlog();
    command.env("CHLOG_URL", &gateway.url);
    command.env("CHLOG_SPOOL_DIR", "/proc/nowhere");
    let said = Said::of(command.args(["log", "It is lost"])).ended(7);
    assert!(
        said.err.contains("cannot be kept for later"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("\"title\":\"It is lost\""),
        "{}",
        said.err
    );
}

/// Starts `chlog` and does not wait for it.
fn start(app: &TestApp, gateway: &FaultyProxy, arguments: &[&str]) -> Child {
    Command::new(programs::chlog())
        .args(arguments)
        .env_clear()
        .env("HOME", app.folder())
        .env("XDG_STATE_HOME", app.folder().join("state"))
        .env("XDG_CONFIG_HOME", app.folder().join("config"))
        .env("CHLOG_URL", &gateway.url)
        .env("CHLOG_API_KEY", &app.organization.key)
        .current_dir(app.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("chlog runs")
}
