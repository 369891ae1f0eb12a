//! Changes that could not be sent are spooled, and recorded once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::chlog::{ChlogOutput, Line, newest};
use changelog_tests::programs;
use changelog_tests::{FaultyProxy, ProxyMode, TestApp, assert_lacks, each, on_one};

on_one!(
    unsent_changes_are_spooled_without_the_key,
    later_commands_send_spooled_changes,
    refused_changes_are_moved_to_rejected,
    mistakes_are_not_spooled,
    concurrent_flushes_send_each_change_once,
    a_killed_flush_loses_and_duplicates_nothing,
    a_lost_response_duplicates_nothing,
    a_lost_response_to_an_update_duplicates_nothing,
    what_cannot_be_read_stays_queued,
    spooled_changes_are_sent_to_their_own_server,
    spooled_changes_are_deleted_on_request;
    process:
    a_hundred_concurrent_logs_survive_a_kill,
);

/// The failures after which a change is spooled.
pub(crate) const OUTAGES: [ProxyMode; 9] = [
    ProxyMode::Hanging,
    ProxyMode::InternalError,
    ProxyMode::TooManyRequests,
    ProxyMode::HtmlPage,
    ProxyMode::NotFound,
    ProxyMode::Redirect,
    ProxyMode::Forbidden,
    ProxyMode::NotHttp,
    ProxyMode::Closing,
];

/// Runs `chlog` through a proxy.
pub(crate) fn chlog_through(
    app: &TestApp,
    proxy: &FaultyProxy,
    line: &(impl Line + ?Sized),
) -> ChlogOutput {
    let mut command = app.chlog();
    ChlogOutput::of(command.env("CHLOG_URL", &proxy.url).args(line.words()))
}

pub(crate) fn spool_folder(app: &TestApp) -> PathBuf {
    app.folder().join("state/chlog/spool")
}

/// Returns the spooled files of a folder.
pub(crate) fn spooled_files(folder: &Path) -> Vec<PathBuf> {
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

/// Returns the number of changes per title.
pub(crate) async fn title_counts(app: &TestApp) -> BTreeMap<String, usize> {
    let mut title_counts = BTreeMap::new();
    for page in 1.. {
        let path = format!("/api/changes?per_page=100&page={page}");
        let list = app.key().body(&path).await;
        let changes = list["data"].as_array().expect("a list");
        if changes.is_empty() {
            break;
        }
        for change in changes {
            let title = change["title"].as_str().expect("a title").to_owned();
            *title_counts.entry(title).or_default() += 1;
        }
    }
    title_counts
}

/// Requires that there are this many changes, each with a title of its own.
async fn assert_sent_once(app: &TestApp, count: usize) {
    let title_counts = title_counts(app).await;
    assert_eq!(title_counts.len(), count);
    assert!(
        title_counts.values().all(|count| *count == 1),
        "{title_counts:?}"
    );
}

async fn unsent_changes_are_spooled_without_the_key(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    for (number, mode) in OUTAGES.into_iter().enumerate() {
        proxy.set_mode(mode);
        let title = format!("Deploy while {mode:?}");
        let mut strict = start(&app, &proxy, "log 'Not kept' --strict");
        let output = chlog_through(&app, &proxy, &format!("log '{title}' --risk high")).succeeds();
        assert!(
            output.stdout.ends_with(&format!("  queued  {title}\n")),
            "{mode:?}"
        );
        output.says("warning: ");
        output.says("saved for later in");
        assert_eq!(
            spooled_files(&spool_folder(&app)).len(),
            number + 1,
            "{mode:?}"
        );
        // Whether it is kept is seen in the number of files.
        assert_eq!(strict.wait().expect("an exit").code(), Some(7));
    }
    let files = spooled_files(&spool_folder(&app));
    assert_eq!(files.len(), OUTAGES.len());
    for file in &files {
        let mode = fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(file).expect("text");
        assert_lacks(&text, &app.organization.key);
        let entry: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(entry["url"], proxy.url);
        assert!(entry["draft"]["at"].is_string() && entry["idempotency_key"].is_string());
    }
    assert!(title_counts(&app).await.is_empty());

    let status = chlog_through(&app, &proxy, "spool status --json").succeeds();
    let status = status.json();
    let found = each(&status["data"], "state");
    let expected = OUTAGES.map(|mode| match mode {
        ProxyMode::HtmlPage
        | ProxyMode::NotFound
        | ProxyMode::Redirect
        | ProxyMode::Forbidden
        | ProxyMode::NotHttp => "unexpected_response",
        _ => "waiting",
    });
    assert_eq!(found, expected);

    // A failed flush loses nothing.
    chlog_through(&app, &proxy, "spool flush").exits_with(7);
    assert_eq!(spooled_files(&spool_folder(&app)), files);
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
    assert_sent_once(&app, OUTAGES.len()).await;
    let output = chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(output.stderr, "nothing queued\n");
}

async fn later_commands_send_spooled_changes(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let service = app.key().service("payments").await;
    for number in 0..3 {
        let title = format!("Kept {number}");
        chlog_through(&app, &proxy, &format!("log '{title}' --service Payments")).succeeds();
        // Changes of one millisecond have no order.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.set_mode(ProxyMode::Forward);
    let output = chlog_through(&app, &proxy, "log 'The first that gets through'").succeeds();
    assert_eq!(output.stderr, "sent 3 changes from the queue\n");
    output.prints("The first that gets through");
    let list = app.key().body("/api/changes").await;
    let all = list["data"].as_array().expect("a list");
    let in_order: Vec<_> = all.iter().map(|change| &change["title"]).collect();
    // Ordered by time of the change, not of arrival.
    assert_eq!(
        in_order,
        ["The first that gets through", "Kept 2", "Kept 1", "Kept 0"]
    );
    assert_eq!(all[1]["service"]["id"], service.as_str());
    let output = chlog_through(&app, &proxy, "list").succeeds();
    assert_eq!(output.stderr, "");
    // `run` sends spooled changes too.
    proxy.set_mode(ProxyMode::Closing);
    chlog_through(&app, &proxy, "log 'Before the run'").succeeds();
    proxy.set_mode(ProxyMode::Forward);
    let output = chlog_through(&app, &proxy, "run -- echo out").succeeds();
    assert_eq!(output.stdout, "out\n");
    assert_eq!(output.stderr, "sent 1 change from the queue\n");
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
}

async fn refused_changes_are_moved_to_rejected(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let arguments = ["log", "Of a service that is not there", "--service", "nope"];
    chlog_through(&app, &proxy, &arguments).succeeds();
    chlog_through(&app, &proxy, "log 'Of none'").succeeds();
    fs::write(spool_folder(&app).join("0-torn.json"), "{\"url\": ").expect("a file");
    proxy.set_mode(ProxyMode::Forward);
    let output = chlog_through(&app, &proxy, "spool flush").exits_with(6);
    output.says("the server rejected 1 change; could not read 1 queued change");
    output.says("a queued change is damaged, see ");
    assert_eq!(newest(&app).await["title"], "Of none");
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
    assert_eq!(spooled_files(&spool_folder(&app).join("rejected")).len(), 2);
    let output = chlog_through(&app, &proxy, "spool status").succeeds();
    output.prints("there is no service \"nope\"");
    output.prints("0-torn.json");
    output.prints("damaged");
    // A rejected change is not sent again.
    let output = chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(output.stderr, "nothing queued\n");
    chlog_through(&app, &proxy, "spool drop --rejected --yes").succeeds();
    let output = chlog_through(&app, &proxy, "spool status").succeeds();
    assert_eq!(output.stderr, "nothing queued\n");
}

async fn mistakes_are_not_spooled(app: TestApp) {
    let logged = |name: &str, value: &str, code: i32| {
        let mut command = app.chlog();
        ChlogOutput::of(command.env(name, value).args(["log", "A change"])).exits_with(code)
    };
    logged("CHLOG_API_KEY", "", 4);
    logged("CHLOG_URL", "", 2);
    logged("CHLOG_URL", "ftp://example.com", 2);
    app.chlog().args(["log", "x"]).assert().code(6);
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());

    // A refused key does not lose spooled changes.
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    chlog_through(&app, &proxy, "log 'It waits'").succeeds();
    proxy.set_mode(ProxyMode::Forward);
    let mut command = app.chlog();
    command.env("CHLOG_URL", &proxy.url);
    command.env("CHLOG_API_KEY", &wrong);
    ChlogOutput::of(command.args(["spool", "flush"])).exits_with(4);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 1);
}

async fn concurrent_flushes_send_each_change_once(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    spool(&app, &proxy, 20);
    proxy.set_mode(ProxyMode::Forward);
    let flushing: Vec<Child> = (0..4).map(|_| start(&app, &proxy, "spool flush")).collect();
    for mut child in flushing {
        assert!(child.wait().expect("an exit").success());
    }
    assert_sent_once(&app, 20).await;
}

async fn a_killed_flush_loses_and_duplicates_nothing(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    spool(&app, &proxy, 30);
    proxy.set_mode(ProxyMode::Forward);
    for round in 0..12 {
        let mut child = start(&app, &proxy, "spool flush");
        tokio::time::sleep(Duration::from_millis(4 * round + 10)).await;
        let _ = child.kill();
        let _ = child.wait();
    }
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_sent_once(&app, 30).await;
}

async fn a_lost_response_duplicates_nothing(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::DropResponses);
    for number in 0..3 {
        chlog_through(&app, &proxy, &["log", &format!("Change {number}")]).succeeds();
    }
    assert_eq!(title_counts(&app).await.len(), 3);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 3);
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_sent_once(&app, 3).await;
}

async fn a_lost_response_to_an_update_duplicates_nothing(app: TestApp) {
    let id = app.key().change("Rolled back twice?").await;
    let path = format!("/api/changes/{id}");
    app.key()
        .update(&path, json!({ "status": "in_progress" }))
        .await;
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::DropResponses);
    let reason = "The error rate doubled";
    for line in [
        vec!["note", &id, "Latency is back"],
        vec!["rollback", &id, "--reason", reason],
    ] {
        chlog_through(&app, &proxy, &line).succeeds();
    }
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 2);
    assert_eq!(app.key().read(&path).await["status"], "rolled_back");
    // The note reads the change first, whose answer was lost: as if it had come so far.
    let noted = json!({ "description": "Latency is back" });
    app.key().update(&path, noted).await;
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, "spool flush").succeeds();
    let change = app.key().read(&path).await;
    assert_eq!(change["description"], "Latency is back");
    assert_eq!(change["status"], "rolled_back");
    let history = app.key().read(&format!("{path}/history")).await;
    let reasons = each(&history["entries"], "reason");
    assert_eq!(
        reasons.iter().filter(|one| **one == reason).count(),
        1,
        "{history}"
    );
}

async fn what_cannot_be_read_stays_queued(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    chlog_through(&app, &proxy, &["log", "Queued by another user"]).succeeds();
    let files = spooled_files(&spool_folder(&app));
    let [file] = files.as_slice() else {
        panic!("{files:?}");
    };
    // A test that runs as root may read everything; nobody can read a folder as a file.
    let kept = file.with_extension("kept");
    fs::rename(file, &kept).expect("renamed");
    fs::create_dir(file).expect("a folder");
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, &["log", "Sent at once"])
        .succeeds()
        .says("a queued change stays in");
    // Nor does one of a killed command hold up others.
    let run = spool_folder(&app).join("runs").join("of-another-user.json");
    fs::create_dir_all(run.parent().expect("a folder")).expect("a folder");
    std::os::unix::fs::symlink(&run, &run).expect("a link to itself");
    let output = chlog_through(&app, &proxy, "spool flush").exits_with(6);
    output.says("of-another-user.json");
    output.says("could not read 1 queued change");
    fs::remove_file(run).expect("removed");
    fs::remove_dir(file).expect("removed");
    fs::rename(&kept, file).expect("renamed");
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(title_counts(&app).await.len(), 2);
}

async fn a_hundred_concurrent_logs_survive_a_kill(mut app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    let mut logging = Vec::new();
    for number in 0..100 {
        logging.push(start(&app, &proxy, &["log", &format!("Change {number}")]));
        if number == 30 {
            app.server.kill9();
        }
        if number == 60 {
            app.restart().await;
            proxy.set_service(&app.server.address);
        }
        // Eight at a time.
        if logging.len() > 8 {
            assert!(logging.remove(0).wait().expect("an exit").success());
        }
    }
    for mut child in logging {
        assert!(child.wait().expect("an exit").success());
    }
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
    assert_sent_once(&app, 100).await;
}

async fn spooled_changes_are_sent_to_their_own_server(app: TestApp) {
    let meant = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    let other = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    chlog_through(&app, &meant, "log 'Not for others'").succeeds();
    chlog_through(&app, &other, "list").succeeds();
    let output = chlog_through(&app, &other, "spool flush").succeeds();
    output.says("1 change queued for other server URLs");
    assert!(title_counts(&app).await.is_empty());
    meant.set_mode(ProxyMode::Forward);
    chlog_through(&app, &meant, "list").succeeds();
    assert_eq!(title_counts(&app).await.len(), 1);
}

async fn spooled_changes_are_deleted_on_request(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Closing);
    for number in 0..3 {
        chlog_through(&app, &proxy, &["log", &format!("Change {number}")]).succeeds();
    }
    let ids = chlog_through(&app, &proxy, "spool status --format ids").succeeds();
    let first = ids.stdout.lines().next().expect("an id");
    chlog_through(&app, &proxy, "spool drop").exits_with(2);
    chlog_through(&app, &proxy, "spool drop nothing").exits_with(3);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 3);
    chlog_through(&app, &proxy, &format!("spool drop {first}")).succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 2);
    // Without a terminal, all are deleted only with --yes.
    chlog_through(&app, &proxy, "spool drop --all").exits_with(2);
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 2);
    let all = ["spool", "drop", "--all", "--yes", "--json"];
    let output = chlog_through(&app, &proxy, &all).succeeds();
    assert_eq!(output.json(), json!({ "deleted": 2 }));
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
    // A relative home directory would be another spool in each working directory.
    let mut command = app.chlog();
    command.env("CHLOG_URL", &proxy.url).env("HOME", "relative");
    command.env_remove("XDG_STATE_HOME");
    ChlogOutput::of(command.args(["log", "Not here"])).exits_with(7);
    assert!(!app.folder().join("relative").exists());
    // If the spool is not writable, the lost change is printed.
    let mut command = app.chlog();
    command.env("CHLOG_URL", &proxy.url);
    command.env("CHLOG_SPOOL_DIR", "/proc/nowhere");
    let output = ChlogOutput::of(command.args(["log", "It is lost"])).exits_with(7);
    output.says("could not be saved for later");
    output.says("\"title\":\"It is lost\"");
}

/// Has some changes spooled at once: each command tries for seconds to send its own.
fn spool(app: &TestApp, proxy: &FaultyProxy, count: usize) {
    let titles = (0..count).map(|number| format!("Change {number}"));
    let all: Vec<Child> = titles
        .map(|title| start(app, proxy, &["log", &title]))
        .collect();
    for mut child in all {
        assert!(child.wait().expect("an exit").success());
    }
    assert_eq!(spooled_files(&spool_folder(app)).len(), count);
}

/// Starts `chlog` without waiting for it.
fn start(app: &TestApp, proxy: &FaultyProxy, line: &(impl Line + ?Sized)) -> Child {
    Command::new(programs::chlog())
        .args(line.words())
        .env_clear()
        .env("HOME", app.folder())
        .env("XDG_STATE_HOME", app.folder().join("state"))
        .env("XDG_CONFIG_HOME", app.folder().join("config"))
        .env("CHLOG_URL", &proxy.url)
        .env("CHLOG_API_KEY", &app.organization.key)
        .current_dir(app.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("chlog runs")
}
