//! Shell completion: what is offered, and how long it takes.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpListener;

use crate::chlog::ChlogOutput;
use changelog_tests::{TestApp, on_one, programs};

on_one!(
    names_and_ids_are_completed,
    names_are_cached_for_a_while,
    names_of_a_profile_are_fetched_with_its_key,
    completion_errors_are_silent,
    a_variable_of_another_program_does_not_replace_a_command,
    bash_completes_after_an_equals_sign_and_the_command_to_run;
    process:
    a_hanging_or_dead_service_does_not_delay_completion,
);

/// The time limit of a completion.
const LIMIT: Duration = Duration::from_millis(300);

/// Requests completions as bash does, and returns them with the time that it took.
fn complete(mut command: assert_cmd::Command, line: &str) -> (Vec<String>, Duration) {
    let words: Vec<&str> = line.split(' ').collect();
    command
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n")
        .arg("--")
        .args(words);
    let begun = Instant::now();
    let output = ChlogOutput::of(&mut command).succeeds();
    let elapsed = begun.elapsed();
    assert_eq!(output.stderr, "", "{line}");
    // Flags are offered in addition to values of an argument.
    let is_flag = line.ends_with(' ');
    let found = output
        .stdout
        .lines()
        .filter(|one| !(is_flag && one.starts_with('-')));
    (found.map(str::to_owned).collect(), elapsed)
}

/// Requests completions until there are some: on a busy machine the first request may
/// only start the lookup.
fn complete_eventually(app: &TestApp, line: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (found, _) = complete(app.chlog(), line);
        if !found.is_empty() || Instant::now() > deadline {
            return found;
        }
    }
}

async fn names_and_ids_are_completed(app: TestApp) {
    let key = app.key();
    for name in ["payments", "parcels", "search"] {
        key.service(name).await;
    }
    key.host("web-1").await;
    let id = key.change("A change").await;
    for line in [
        "chlog list --service ",
        "chlog export --service ",
        "chlog service show ",
    ] {
        assert_eq!(
            complete_eventually(&app, line),
            ["parcels", "payments", "search"],
            "{line}"
        );
    }
    assert_eq!(
        complete_eventually(&app, "chlog log --service pa"),
        ["parcels", "payments"]
    );
    for line in [
        "chlog log --host ",
        "chlog host show w",
        "chlog update x --host web",
    ] {
        assert_eq!(complete_eventually(&app, line), ["web-1"], "{line}");
    }
    for verb in ["show", "update", "start", "done", "rollback"] {
        let found = complete_eventually(&app, &format!("chlog {verb} {}", &id[..4]));
        assert_eq!(found, [id.as_str()], "{verb}");
    }
    assert!(complete_eventually(&app, "chlog lis").contains(&"list".to_owned()));
    assert!(complete_eventually(&app, "chlog list --risk ").contains(&"high".to_owned()));
}

async fn names_of_a_profile_are_fetched_with_its_key(app: TestApp) {
    let other = app.second_organization();
    let url = app.url();
    let arguments = [
        "auth",
        "login",
        "--with-token",
        "--profile",
        "other",
        "--url",
        &url,
    ];
    let mut command = app.bare_chlog();
    ChlogOutput::of(command.args(arguments).write_stdin(other.key.as_str())).succeeds();
    for (key, name) in [(&app.organization.key, "payments"), (&other.key, "search")] {
        let service = json!({ "name": name });
        app.with_key(key).create("/api/services", service).await;
    }
    // The key of the environment is not sent to the server of the profile.
    let found = complete_eventually(&app, "chlog --profile other list --service ");
    assert_eq!(found, ["search"]);
    let found = complete_eventually(&app, "chlog list --service ");
    assert_eq!(found, ["payments"]);
}

async fn names_are_cached_for_a_while(app: TestApp) {
    let key = app.key();
    key.service("payments").await;
    let line = "chlog list --service ";
    assert_eq!(complete_eventually(&app, line), ["payments"]);
    let folder = app.folder().join("cache/chlog/names");
    let files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode = std::fs::metadata(&files[0])
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&files[0]).expect("a file");
    let name = files[0].display().to_string();
    assert!(!text.contains(&app.organization.key) && !name.contains(&app.organization.key));
    // Names are fetched again only when the cached ones are old.
    key.service("search").await;
    assert_eq!(complete_eventually(&app, line), ["payments"]);
    let mut cached: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let at = cached["services"]["at"].as_i64().expect("a time");
    cached["services"]["at"] = json!(at - 10 * 60 * 1000);
    std::fs::write(&files[0], cached.to_string()).expect("a file");
    let deadline = Instant::now() + Duration::from_secs(20);
    while complete_eventually(&app, line) != ["payments", "search"] {
        assert!(Instant::now() < deadline, "old names are still offered");
    }
    // Another key has names of another organization.
    let other = app.second_organization();
    let mut command = app.chlog();
    command.env("CHLOG_API_KEY", &other.key);
    assert_eq!(complete(command, line).0, [""; 0]);
}

async fn a_hanging_or_dead_service_does_not_delay_completion(app: TestApp) {
    // Accepts connections, and never responds.
    let hanging = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hanging = (hanging.local_addr().expect("an address"), hanging);
    let hanging_url = format!("http://{}", hanging.0);
    for url in [hanging_url.as_str(), "http://127.0.0.1:1", "http://[::1]:1"] {
        for line in ["chlog list --service ", "chlog log --host ", "chlog show "] {
            // The shortest of a few, because other tests run at the same time.
            let best = (0..4)
                .map(|_| {
                    let mut command = app.chlog();
                    command.env("CHLOG_URL", url);
                    let (found, elapsed) = complete(command, line);
                    assert_eq!(found, [""; 0]);
                    elapsed
                })
                .min()
                .expect("one of them");
            assert!(best < LIMIT, "{url} {line}: {best:?}");
        }
    }
    // Cached names are offered without the service.
    app.key().service("payments").await;
    let line = format!("chlog list --url {} --service ", app.url());
    assert_eq!(complete_eventually(&app, &line), ["payments"]);
    let folder = app.folder().join("cache/chlog/names");
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        let mut cached: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        cached["services"]["at"] = json!(0);
        std::fs::write(&path, cached.to_string()).expect("a file");
    }
    let mut app = app;
    app.server.kill9();
    assert_eq!(complete(app.chlog(), &line).0, ["payments"]);
}

async fn completion_errors_are_silent(app: TestApp) {
    let line = "chlog list --service ";
    let mut command = app.bare_chlog();
    assert_eq!(complete(command, line).0, [""; 0]);
    command = app.chlog();
    command.env("CHLOG_API_KEY", "chlog_mistyped");
    assert_eq!(complete(command, line).0, [""; 0]);
    let config = app.folder().join("config/chlog");
    std::fs::create_dir_all(&config).expect("a folder");
    std::fs::write(config.join("config.toml"), "ulr = 1").expect("a file");
    std::fs::write(config.join("credentials.toml"), "nonsense").expect("a file");
    assert_eq!(complete(app.chlog(), line).0, [""; 0]);
    // A cache that cannot be written.
    std::fs::remove_dir_all(&config).expect("a folder");
    std::fs::write(app.folder().join("cache"), "a file").expect("a file");
    assert_eq!(complete(app.chlog(), line).0, [""; 0]);
    let mut command = app.chlog();
    let output =
        ChlogOutput::of(command.env("COMPLETE", "tcsh").args(["--", "chlog", ""])).succeeds();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    // With the variable empty or 0, the command runs.
    for value in ["", "0"] {
        let output =
            ChlogOutput::of(app.chlog().env("COMPLETE", value).arg("--version")).succeeds();
        assert!(output.stdout.starts_with("chlog "), "{}", output.stdout);
    }
}

async fn a_variable_of_another_program_does_not_replace_a_command(app: TestApp) {
    for value in ["yes", "1", "bash"] {
        let mut command = app.chlog();
        command.env("COMPLETE", value);
        let output = ChlogOutput::of(command.args(["run", "--", "echo", "DEPLOYED"])).succeeds();
        assert_eq!(output.stdout, "DEPLOYED\n", "{value}");
    }
    let mut command = app.chlog();
    let script = ChlogOutput::of(command.env("COMPLETE", "/bin/bash")).succeeds();
    assert!(script.stdout.contains("_clap_complete_chlog"));
}

/// Completes a line with the script in a real bash, as Tab does.
fn complete_in_bash(app: &TestApp, words: &[&str]) -> String {
    let script = format!(
        "source <({chlog} completions bash | sed 's#\"chlog\" --#\"{chlog}\" --#'); \
         COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; \
         _clap_complete_chlog chlog \"${{!#}}\" x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        chlog = programs::chlog().display()
    );
    let chlog = app.chlog();
    let mut bash = assert_cmd::Command::new("bash");
    for (name, value) in chlog.get_envs() {
        if let Some(value) = value {
            bash.env(name, value);
        }
    }
    bash.current_dir(app.folder())
        .args(["-c", &script, "bash"])
        .args(words);
    ChlogOutput::of(&mut bash).stdout
}

async fn bash_completes_after_an_equals_sign_and_the_command_to_run(app: TestApp) {
    app.key().service("payments").await;
    complete_eventually(&app, "chlog list --service ");
    let found = complete_in_bash(&app, &["chlog", "list", "--service", "=", "pay"]);
    assert_eq!(found.trim(), "payments");
    let found = complete_in_bash(&app, &["chlog", "run", "--", "printen"]);
    assert_eq!(found.trim(), "printenv");
    std::fs::write(app.folder().join("notes.txt"), "").expect("a file");
    let found = complete_in_bash(&app, &["chlog", "run", "--", "cat", "note"]);
    assert_eq!(found.trim(), "notes.txt");
}
