//! `chlog run`: the command runs as without `chlog`, and its outcome is recorded.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use changelog_core::Timestamp;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;
use tokio::time::sleep;

use crate::chlog::spool::{OUTAGES, chlog_through, spool_folder, spooled_files, title_counts};
use crate::chlog::{ChlogOutput, Line, newest};
use changelog_tests::{
    FaultyProxy, ProxyMode, TestApp, assert_contains, assert_lacks, on_one, programs, signal, text,
};

on_one!(
    run_exits_with_the_code_of_the_command,
    nothing_is_recorded_if_the_command_was_not_run,
    terminal_output_is_unchanged,
    signals_reach_the_command_once,
    the_command_runs_when_the_service_fails,
    the_command_gets_its_change_id_and_not_the_key,
    invalid_values_are_cut_or_dropped,
    a_command_that_outlives_chlog_is_not_closed,
    a_nested_run_explains_the_missing_key,
    notes_on_a_running_change_are_kept,
    require_log_prevents_unrecorded_runs,
    mistakes_are_reported_and_do_not_stop_the_command,
    arguments_are_recorded_on_request_and_masked,
    an_unobserved_outcome_is_recorded_as_unknown,
);

/// How long to wait for a file on a busy machine.
const APPEAR_TIMEOUT: Duration = Duration::from_secs(20);

fn run(app: &TestApp, line: &(impl Line + ?Sized)) -> ChlogOutput {
    ChlogOutput::of(app.chlog().arg("run").args(line.words()))
}

async fn run_exits_with_the_code_of_the_command(app: TestApp) {
    for (arguments, code, status, risk, how) in [
        ("true", 0, "completed", "low", "Exit code 0, after"),
        ("sh -c 'exit 3'", 3, "rolled_back", "high", "Exit code 3"),
        (
            "--ok-codes 0,2 --risk medium -- sh -c 'exit 2'",
            2,
            "completed",
            "medium",
            "Exit code 2",
        ),
        (
            "--fail-risk medium -- sh -c 'exit 255'",
            255,
            "rolled_back",
            "medium",
            "Exit code 255",
        ),
        (
            "--risk high --fail-risk low -- false",
            1,
            "rolled_back",
            "high",
            "Exit code 1",
        ),
        (
            "sh -c 'kill -TERM $$'",
            143,
            "rolled_back",
            "high",
            "Ended by signal 15",
        ),
        (
            "no-such-command",
            127,
            "rolled_back",
            "high",
            "Could not be started",
        ),
        ("/etc/passwd", 126, "rolled_back", "high", "Could not be"),
    ] {
        let output = run(&app, arguments);
        assert_eq!(output.code, code, "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments:?}");
        let change = newest(&app).await;
        assert_eq!(change["status"], status, "{arguments:?}");
        let outcome = match status {
            "completed" => "succeeded",
            _ => "failed",
        };
        assert_eq!(change["outcome"], outcome, "{arguments:?}");
        assert_eq!(change["started_at"], change["occurred_at"]);
        assert!(text(&change["ended_at"]) >= text(&change["started_at"]));
        assert_eq!(change["risk_level"], risk, "{arguments:?}");
        let description = change["description"].as_str().expect("text");
        assert_contains(&description, how);
        assert_lacks(&description, "sh -c");
    }
    let arguments = "--title 'Deploy it' -m 'All of it' --tag a,b -- sh \
        -c 'echo out; echo err >&2'";
    let output = run(&app, arguments);
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy it");
    assert_eq!(change["tags"], serde_json::json!(["a", "b"]));
    let description = change["description"].as_str().expect("text");
    assert!(description.starts_with("All of it\n\nCommand: `sh`"));
}

async fn nothing_is_recorded_if_the_command_was_not_run(app: TestApp) {
    let before = title_counts(&app).await;
    run(&app, "--status completed -- true").exits_with(2);
    for help in ["--help", "-h"] {
        let output = run(&app, &format!("'{help}'")).succeeds();
        assert_lacks(&output.stdout, "--status");
    }
    run(&app, "--require-log --title x -- true").exits_with(6);
    run(&app, "--require-log --tag '' -- true").exits_with(6);
    run(&app, "--require-log --risk '' -- true").exits_with(2);
    run(&app, "").exits_with(2);
    assert_eq!(title_counts(&app).await, before);
}

/// Prints what depends on a terminal, reads a line, and exits with its own code.
const TERMINAL_SCRIPT: &str = r#"
printf '\033[31mred\033[0m\n'
for fd in 0 1 2; do if [ -t $fd ]; then echo "$fd is a terminal"; fi; done
stty size
echo to standard error >&2
printf 'your name? '
read -r name
printf '\r10%%\r100%%\n'
echo "hello $name"
exit 7
"#;

/// Runs a command on a terminal, types when `when` appears, and returns the output of the
/// terminal and the exit code.
pub(crate) fn run_on_terminal(command: CommandBuilder, input: &[u8], when: &str) -> (Vec<u8>, u32) {
    run_interactively(command, &[(when, input)])
}

/// Runs a command on a terminal with several inputs, each typed when its words appear
/// after the previous input.
pub(crate) fn run_interactively(
    mut command: CommandBuilder,
    inputs: &[(&str, &[u8])],
) -> (Vec<u8>, u32) {
    let size = PtySize {
        rows: 33,
        cols: 97,
        ..PtySize::default()
    };
    let pair = native_pty_system().openpty(size).expect("a terminal");
    command.env("TERM", "xterm-256color");
    let mut child = pair.slave.spawn_command(command).expect("it starts");
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().expect("a terminal");
    let mut writer = pair.master.take_writer().expect("a terminal");
    let mut seen = Vec::new();
    let mut inputs = inputs.iter().peekable();
    let mut from = 0;
    let mut buffer = [0; 4096];
    // Fails when the other side is closed.
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        seen.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&seen[from..]);
        if let Some((_, input)) = inputs.next_if(|(when, _)| text.contains(when)) {
            from = seen.len();
            writer.write_all(input).expect("it is read");
        }
    }
    let status = child.wait().expect("an exit");
    (seen, status.exit_code())
}

/// Returns a `chlog run` of a script to run on a terminal.
fn chlog_run_of(app: &TestApp, url: &str, script: &str) -> CommandBuilder {
    let mut command = CommandBuilder::new(programs::chlog());
    command.args(["run", "--", "sh", "-c", script]);
    set_terminal_environment(&mut command, app, url);
    command
}

pub(crate) fn set_terminal_environment(command: &mut CommandBuilder, app: &TestApp, url: &str) {
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", app.folder());
    command.env("XDG_STATE_HOME", app.folder().join("state"));
    command.env("CHLOG_URL", url);
    command.env("CHLOG_API_KEY", &app.organization.key);
    command.cwd(app.folder());
}

async fn terminal_output_is_unchanged(app: TestApp) {
    let mut bare = CommandBuilder::new("sh");
    bare.args(["-c", TERMINAL_SCRIPT]);
    set_terminal_environment(&mut bare, &app, "");
    let without = run_on_terminal(bare, b"Ada\n", "your name?");
    let text = String::from_utf8_lossy(&without.0);
    assert!(
        text.contains("2 is a terminal") && text.contains("hello Ada") && text.contains("33 97")
    );
    let with = chlog_run_of(&app, &app.url(), TERMINAL_SCRIPT);
    let with = run_on_terminal(with, b"Ada\n", "your name?");
    assert_eq!(with, without, "{}", String::from_utf8_lossy(&with.0));
    let change = newest(&app).await;
    assert_eq!(change["title"], "Run sh");
    assert_eq!(change["status"], "rolled_back");
}

/// Writes each signal to a file, and exits 1.2 s after the first one, or after 30 s without.
pub(crate) const SIGNAL_COUNTER: &str = r#"
for signal in INT TERM HUP USR1; do trap "echo $signal >>caught" $signal; done
echo ready >ready
echo ready
# A signal ends the sleep and not the script.
left=300
while [ $left -gt 0 ] && [ ! -e caught ]; do sleep 0.1; left=$((left - 1)); done
for tenth in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1; done
exit 5
"#;

async fn signals_reach_the_command_once(app: TestApp) {
    let caught = app.folder().join("caught");
    let ready = app.folder().join("ready");
    for name in ["TERM", "HUP", "INT", "USR1"] {
        let mut child = start(&app, &app.url(), &["sh", "-c", SIGNAL_COUNTER]);
        wait_for_file(&ready).await;
        signal(child.id(), name);
        let status = child.wait().expect("an exit");
        assert_eq!(status.code(), Some(5), "{name}");
        let text = fs::read_to_string(&caught).expect("it was caught");
        assert_eq!(text, format!("{name}\n"));
        assert_eq!(newest(&app).await["status"], "rolled_back");
        fs::remove_file(&caught).expect("it exists");
        fs::remove_file(&ready).expect("it exists");
    }
    // The terminal sends Ctrl-C to the whole process group.
    let command = chlog_run_of(&app, &app.url(), SIGNAL_COUNTER);
    let (_, code) = run_on_terminal(command, b"\x03", "ready");
    assert_eq!(code, 5);
    assert_eq!(fs::read_to_string(&caught).expect("it was caught"), "INT\n");
    // Ignored signals stay ignored.
    let mut nohup = Command::new("sh");
    let line = "trap '' HUP; exec \"$@\"";
    nohup.args(["-c", line, "sh"]).arg(programs::chlog());
    nohup.args(["run", "--", "sh", "-c", "kill -HUP $$; exit 6"]);
    let output = with_environment(nohup, &app, &app.url()).status();
    assert_eq!(output.expect("a result").code(), Some(6));
}

async fn the_command_runs_when_the_service_fails(app: TestApp) {
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::Forward);
    let command = ["run", "--", "sh", "-c", "echo out; echo err >&2; exit 4"];
    for (number, mode) in OUTAGES.into_iter().enumerate() {
        proxy.set_mode(mode);
        let began = Instant::now();
        let output = chlog_through(&app, &proxy, &command);
        assert_eq!(output.code, 4, "{mode:?}: {}", output.stderr);
        assert_eq!(output.stdout, "out\n", "{mode:?}");
        assert!(
            output.stderr.starts_with("err\n"),
            "{mode:?}: {}",
            output.stderr
        );
        assert!(
            output.stderr.contains("saved for later in"),
            "{mode:?}: {}",
            output.stderr
        );
        assert!(began.elapsed() < Duration::from_secs(15), "{mode:?}");
        assert_eq!(
            spooled_files(&spool_folder(&app)).len(),
            number + 1,
            "{mode:?}"
        );
    }
    // The service becomes unavailable while the command runs.
    proxy.set_mode(ProxyMode::Forward);
    let mut child = start(&app, &proxy.url, "sh -c 'echo x >ready; sleep 2'");
    wait_for_file(&app.folder().join("ready")).await;
    proxy.set_mode(ProxyMode::Closing);
    assert!(child.wait().expect("an exit").success());
    assert_eq!(newest(&app).await["status"], "in_progress");
    proxy.set_mode(ProxyMode::Forward);
    let flushed = chrono::Utc::now().timestamp_millis();
    chlog_through(&app, &proxy, "spool flush").succeeds();
    assert_eq!(spooled_files(&spool_folder(&app)), Vec::<PathBuf>::new());
    assert_eq!(
        spooled_files(&spool_folder(&app).join("runs")),
        Vec::<PathBuf>::new()
    );
    let list = app.key().body("/api/changes").await;
    assert_eq!(list["count"], OUTAGES.len() + 1);
    let all = list["data"].as_array().expect("a list");
    let is = |change: &Value, status: &str, outcome: &str| {
        // The end of the command, and not the time at which it was sent.
        let ended: Timestamp = text(&change["ended_at"]).parse().expect("a time");
        assert!(ended.millis() <= flushed, "{change}");
        change["status"] == status && change["outcome"] == outcome
    };
    assert!(is(&all[0], "completed", "succeeded"), "{list}");
    let failed = |one: &Value| is(one, "rolled_back", "failed");
    assert!(all[1..].iter().all(failed), "{list}");
}

async fn the_command_gets_its_change_id_and_not_the_key(app: TestApp) {
    let script = "printf %s \"$CHLOG_CHANGE_ID|$CHLOG_API_KEY|$CHLOG_API_KEY_FILE|$OTHER\"";
    let mut command = app.chlog();
    command.env("OTHER", "kept").env("CHLOG_API_KEY_FILE", "/x");
    let output = ChlogOutput::of(command.args(["run", "--", "sh", "-c", script])).succeeds();
    let change = newest(&app).await;
    let id = change["id"].as_str().expect("an id");
    assert_eq!(output.stdout, format!("{id}|||kept"));
    let output = run(&app, &format!("--pass-key -- sh -c '{script}'")).succeeds();
    output.prints(&app.organization.key);
    // The command may update its change; `run` sets the status.
    let script = format!(
        "'{}' update $CHLOG_CHANGE_ID --tag by-the-command",
        programs::chlog().display()
    );
    run(&app, &format!("--pass-key -- sh -c '{script}'")).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["tags"], serde_json::json!(["by-the-command"]));
    assert_eq!(change["status"], "completed");
}

async fn require_log_prevents_unrecorded_runs(app: TestApp) {
    let made = app.folder().join("made");
    let path = made.to_string_lossy().into_owned();
    let proxy = FaultyProxy::in_front_of(&app.server.address, ProxyMode::InternalError);
    let arguments = ["run", "--require-log", "--", "touch", &path];
    let output = chlog_through(&app, &proxy, &arguments).exits_with(7);
    assert_lacks(&output.stderr, "saved for later");
    assert!(!made.exists());
    let mut command = app.chlog();
    ChlogOutput::of(command.env("CHLOG_API_KEY", "").args(arguments)).exits_with(4);
    assert!(!made.exists());
    assert_eq!(spooled_files(&spool_folder(&app)).len(), 0);
    assert_eq!(spooled_files(&spool_folder(&app).join("runs")).len(), 0);
    proxy.set_mode(ProxyMode::Forward);
    chlog_through(&app, &proxy, &arguments).succeeds();
    assert!(made.exists());
    assert_eq!(newest(&app).await["status"], "completed");
}

async fn mistakes_are_reported_and_do_not_stop_the_command(app: TestApp) {
    let made = app.folder().join("made");
    let path = made.to_string_lossy().into_owned();
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    for (name, value, words, kept) in [
        ("CHLOG_URL", "", "no server URL is configured", 0),
        ("CHLOG_API_KEY", "", "there is no API key", 0),
        ("CHLOG_API_KEY", &wrong, "chlog auth", 1),
    ] {
        let mut command = app.chlog();
        let arguments = ["run", "--", "sh", "-c", "touch \"$1\"; exit 9", "sh", &path];
        let output = ChlogOutput::of(command.env(name, value).args(arguments));
        assert_eq!(output.code, 9, "{}", output.stderr);
        output.says("error: ");
        output.says(words);
        fs::remove_file(&made).expect("the command ran");
        assert_eq!(spooled_files(&spool_folder(&app)).len(), kept);
        assert_eq!(spooled_files(&spool_folder(&app).join("runs")).len(), 0);
    }
    // A rejected change is kept.
    let output = run(&app, "--service nope -- true");
    assert_eq!(output.code, 0);
    output.says("there is no service");
    assert_eq!(spooled_files(&spool_folder(&app).join("rejected")).len(), 1);
}

async fn invalid_values_are_cut_or_dropped(app: TestApp) {
    let long = "t".repeat(301);
    let branch = "b".repeat(101);
    let script = ["--", "sh", "-c", "exit 5"];
    for (flags, words, title, tags) in [
        (&["--tag", ""][..], "--tag \"\"", "Run sh", 0),
        (&["--title", &long], "cut to", &long[..299], 0),
        (&["--title", "x", "--tag", &branch], "cut to", "Run sh", 1),
        (&["--risk", "", "--link", "x"], "invalid value", "Run sh", 0),
    ] {
        let output = run(&app, &[flags, &script].concat());
        assert_eq!(output.code, 5, "{flags:?}: {}", output.stderr);
        output.says("chlog: warning: ");
        output.says(words);
        let change = newest(&app).await;
        assert!(text(&change["title"]).starts_with(title), "{change}");
        assert_eq!(change["tags"].as_array().map(Vec::len), Some(tags));
        assert_eq!(change["outcome"], "failed");
    }
}

async fn a_command_that_outlives_chlog_is_not_closed(app: TestApp) {
    let ready = app.folder().join("ready");
    let script = "echo $$ >ready; exec sleep 30";
    let mut child = start(&app, &app.url(), &format!("sh -c '{script}'"));
    wait_for_file(&ready).await;
    let pid = fs::read_to_string(&ready).expect("text");
    let command: u32 = pid.trim().parse().expect("a number");
    // Once the change exists, chlog knows its id and has stored the process.
    app.chlog().arg("list").assert().success();
    let _ = child.kill();
    let _ = child.wait();
    app.chlog().arg("list").assert().success();
    assert_eq!(newest(&app).await["status"], "in_progress");
    signal(command, "KILL");
    let began = Instant::now();
    while newest(&app).await["status"] == "in_progress" {
        assert!(began.elapsed() < APPEAR_TIMEOUT, "it is not closed");
        app.chlog().arg("list").assert().success();
    }
    let change = newest(&app).await;
    assert_eq!(change["outcome"], "unknown");
    // As for a run that failed.
    assert_eq!(change["risk_level"], "high");
    let runs = fs::read_dir(spool_folder(&app).join("runs")).expect("a folder");
    assert_eq!(runs.count(), 0);
}

async fn notes_on_a_running_change_are_kept(app: TestApp) {
    let (ready, go) = (app.folder().join("ready"), app.folder().join("go"));
    let script = "echo $CHLOG_CHANGE_ID >ready; until [ -e go ]; do sleep 0.02; done";
    let mut command = Command::new(programs::chlog());
    command.args(["run", "--description", "an intro", "--", "sh", "-c", script]);
    let mut child = with_environment(command, &app, &app.url())
        .spawn()
        .expect("chlog runs");
    wait_for_file(&ready).await;
    let id = fs::read_to_string(&ready).expect("text");
    let id = id.trim();
    let of = |arguments: &[&str]| ChlogOutput::of(app.chlog().args(arguments)).succeeds();
    of(&["note", id, "seen by Ada"]);
    fs::write(&go, "").expect("a file");
    assert!(child.wait().expect("an exit").success());
    let change = newest(&app).await;
    let description = text(&change["description"]);
    let expected = "an intro\n\nCommand: `sh`\n\nExit code 0, after ";
    assert!(description.starts_with(expected), "{description}");
    assert!(description.ends_with("\n\nseen by Ada"), "{description}");
    assert_lacks(&description, "is running");
    let last = of(&["show", "@last", "--format", "ids"]);
    assert_eq!(last.stdout.trim(), id);
}

async fn a_nested_run_explains_the_missing_key(app: TestApp) {
    let chlog = programs::chlog().display().to_string();
    let output = run(&app, &format!("-- '{chlog}' run -- true")).succeeds();
    output.says("--pass-key");
    let line = "chlog: error: this run will not be recorded: ";
    output.says(line);
}

async fn arguments_are_recorded_on_request_and_masked(app: TestApp) {
    let arguments = [
        "echo",
        "--password",
        "hunter2",
        "API_TOKEN=hunter2",
        "plain",
    ];
    let all = [&["--capture-args", "--"][..], &arguments].concat();
    run(&app, &all).succeeds();
    let description = newest(&app).await["description"].to_string();
    let masked = "echo --password *** API_TOKEN=*** plain";
    assert!(description.contains(masked));
    assert_eq!(newest(&app).await["title"], format!("Run {masked}"));
    run(&app, &arguments).succeeds();
    let description = newest(&app).await["description"].to_string();
    assert_lacks(&description, "plain");
}

async fn an_unobserved_outcome_is_recorded_as_unknown(app: TestApp) {
    let ready = app.folder().join("ready");
    let script = "echo $$ >ready; exec sleep 30";
    let mut child = start(&app, &app.url(), &format!("sh -c '{script}'"));
    wait_for_file(&ready).await;
    let command: u32 = fs::read_to_string(&ready)
        .expect("text")
        .trim()
        .parse()
        .expect("a number");
    // Other commands do not close a run that is in progress.
    app.chlog().arg("list").assert().success();
    assert_eq!(newest(&app).await["status"], "in_progress");
    let _ = child.kill();
    let _ = child.wait();
    signal(command, "KILL");
    // The next command, which may come much later, is not the end.
    let killed = chrono::Utc::now().timestamp_millis();
    sleep(Duration::from_millis(50)).await;
    app.chlog().arg("list").assert().success();
    let change = newest(&app).await;
    let ended: Timestamp = text(&change["ended_at"]).parse().expect("a time");
    assert!(ended.millis() <= killed, "{change}");
    assert_eq!(change["status"], "rolled_back");
    assert_eq!(change["outcome"], "unknown");
    let id = change["id"].as_str().expect("an id");
    let output = ChlogOutput::of(app.chlog().args(["show", id])).succeeds();
    output.prints("  outcome unknown\n");
    output.prints("Outcome unknown: chlog was killed");
}

/// Starts `chlog run` without waiting for it.
pub(crate) fn start(app: &TestApp, url: &str, line: &(impl Line + ?Sized)) -> Child {
    // A shell starts the tests in the background with SIGINT ignored.
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(programs::chlog());
    command.args(["run", "--"]).args(line.words());
    with_environment(command, app, url)
        .spawn()
        .expect("chlog runs")
}

/// Sets the environment of a command for an app.
fn with_environment(mut command: Command, app: &TestApp, url: &str) -> Command {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", app.folder())
        .env("XDG_STATE_HOME", app.folder().join("state"))
        .env("CHLOG_URL", url)
        .env("CHLOG_API_KEY", &app.organization.key)
        .current_dir(app.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits until a file is not empty.
pub(crate) async fn wait_for_file(path: &std::path::Path) {
    let began = Instant::now();
    while !fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        assert!(
            began.elapsed() < APPEAR_TIMEOUT,
            "{} does not appear",
            path.display()
        );
        sleep(Duration::from_millis(5)).await;
    }
}
