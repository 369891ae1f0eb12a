//! Where `chlog log` reads the title and the description, and what happens to them when
//! the change is not recorded.

use std::fs;

use portable_pty::CommandBuilder;
use serde_json::{Value, json};

use crate::chlog::run::{run_interactively, set_terminal_environment};
use crate::chlog::{ChlogOutput, Line, chlog, newest};
use changelog_tests::{TestApp, assert_contains, on_one, programs};

on_one!(
    a_title_of_several_lines_has_a_description,
    a_description_is_read_from_a_file_or_a_pipe,
    the_name_of_a_command_is_not_recorded,
    a_piped_message_is_kept_if_it_is_not_recorded,
    broken_rules_name_the_flags,
    unknown_names_are_decided_on_a_terminal,
    the_status_is_printed,
    a_script_on_standard_input_is_not_read,
);

/// The arrow key down, and the enter key.
const DOWN: &[u8] = b"\x1b[B\r";

fn piped(app: &TestApp, line: &(impl Line + ?Sized), input: &str) -> ChlogOutput {
    ChlogOutput::of(app.chlog().args(line.words()).write_stdin(input))
}

async fn message(app: &TestApp) -> (Value, Value) {
    let mut change = newest(app).await;
    (change["title"].take(), change["description"].take())
}

async fn a_title_of_several_lines_has_a_description(app: TestApp) {
    chlog(&app, &["log", "Deploy api\n\nFixes #7\nand #8\n"]).succeeds();
    let expected = (json!("Deploy api"), json!("Fixes #7\nand #8"));
    assert_eq!(message(&app).await, expected);
    chlog(&app, &["log", "Deploy web\n", "-m", "All of it"]).succeeds();
    let expected = (json!("Deploy web"), json!("All of it"));
    assert_eq!(message(&app).await, expected);
    chlog(&app, &["log", "Deploy api\nFixes #7", "-m", "All of it"]).exits_with(2);
    assert_eq!(message(&app).await, expected);
}

async fn a_description_is_read_from_a_file_or_a_pipe(app: TestApp) {
    let file = app.folder().join("notes.md");
    fs::write(&file, "# Why\n\nBecause\n").expect("a file");
    let path = file.to_str().expect("a path");
    let described = |text: &str| (json!("Deploy api"), json!(text));
    chlog(&app, &format!("log 'Deploy api' -F '{path}'")).succeeds();
    assert_eq!(message(&app).await, described("# Why\n\nBecause"));
    piped(&app, "log 'Deploy api' -F -", "One\n\nTwo\n").succeeds();
    assert_eq!(message(&app).await, described("One\n\nTwo"));
    piped(&app, "log 'Deploy api' -m -", "Three\n").succeeds();
    assert_eq!(message(&app).await, described("Three"));
    piped(&app, "update @last -m -", "Four\n").succeeds();
    assert_eq!(message(&app).await, described("Four"));
    for arguments in [
        &["log", "-m", "-"][..],
        &["log", "-", "-m", "-"],
        &["log", "Deploy api", "-m", "x", "-F", path],
    ] {
        piped(&app, arguments, "One\n").exits_with(2);
    }
    assert_eq!(message(&app).await, described("Four"));
}

async fn the_name_of_a_command_is_not_recorded(app: TestApp) {
    for (title, meant) in [
        ("help", "chlog log --help"),
        ("list", "chlog list"),
        ("ls", "chlog ls"),
    ] {
        let output = chlog(&app, &format!("log '{title}'")).exits_with(2);
        output.says(meant);
    }
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
    chlog(&app, "log 'list all hosts'").succeeds();
    piped(&app, "log -F -", "list").succeeds();
}

async fn a_piped_message_is_kept_if_it_is_not_recorded(app: TestApp) {
    let arguments = ["log", "-F", "-", "--service", "paymnets"];
    let output = piped(&app, &arguments, "Deploy api\n\nOutput of a job\n").exits_with(3);
    for part in ["paymnets", "--create-missing", "--recover"] {
        output.says(part);
    }
    chlog(&app, "log --recover").succeeds();
    let expected = (json!("Deploy api"), json!("Output of a job"));
    assert_eq!(message(&app).await, expected);
    chlog(&app, "log --recover").exits_with(3);
}

async fn broken_rules_name_the_flags(app: TestApp) {
    for (arguments, named) in [
        (&["--tag", ""][..], "--tag \"\": "),
        (&["--link", "foo=bar"], "--link \"foo=bar\": "),
        (&["--tag", "ok", "--agent", ":autonomous"], "--agent: "),
    ] {
        let output = chlog(&app, &[&["log", "Deploy api"], arguments].concat());
        let output = output.exits_with(6);
        output.says(named);
    }
    chlog(&app, "log 'Deploy api'").succeeds();
    let output = chlog(&app, "update @last --link foo=bar").exits_with(6);
    output.says("--link \"foo=bar\": ");
}

async fn unknown_names_are_decided_on_a_terminal(app: TestApp) {
    chlog(&app, "service create payments").succeeds();
    let on_terminal = |arguments: &[&str], inputs: &[(&str, &[u8])]| {
        let mut command = CommandBuilder::new(programs::chlog());
        command.arg("log");
        command.args(arguments);
        set_terminal_environment(&mut command, &app, &app.url());
        let (seen, code) = run_interactively(command, inputs);
        (String::from_utf8_lossy(&seen).into_owned(), code)
    };
    let arguments = ["Deploy payments", "--service", "paymnets"];
    let (seen, code) = on_terminal(&arguments, &[("There is no service", b"\r")]);
    assert_eq!(code, 0, "{seen}");
    assert_eq!(newest(&app).await["service"]["name"], "payments");
    let arguments = ["Deploy search", "--service", "payments,search"];
    let (seen, code) = on_terminal(&arguments, &[("There is no service", b"\r")]);
    assert_eq!(code, 0, "{seen}");
    let change = newest(&app).await;
    assert_eq!(change["services"][1]["name"], "search", "{change}");
    let arguments = ["Deploy web", "--host", "web-1"];
    let (seen, code) = on_terminal(&arguments, &[("There is no host", DOWN)]);
    assert_eq!(code, 0, "{seen}");
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy web");
    assert_eq!(change["host_ref"], Value::Null);
    // Without prompts, the command fails at once.
    let arguments = ["Deploy web", "--host", "web-1", "--no-input"];
    let (seen, code) = on_terminal(&arguments, &[]);
    assert_eq!(code, 3, "{seen}");
    assert_contains(&seen, "--create-missing");
    let (seen, code) = on_terminal(&["--no-input"], &[]);
    assert_eq!(code, 2, "{seen}");
}

async fn the_status_is_printed(app: TestApp) {
    for (arguments, status) in [
        ("log 'Move DNS'", "completed"),
        ("log 'Move DNS' --scheduled-for 'in 2h'", "planned"),
        ("log 'Move DNS' --status in-progress", "in progress"),
    ] {
        let output = chlog(&app, arguments).succeeds();
        output.prints(&format!("  {status}  Move DNS"));
    }
}

async fn a_script_on_standard_input_is_not_read(app: TestApp) {
    let script = app.folder().join("script.sh");
    let line = format!("{} log --risk high\n", programs::chlog().display());
    fs::write(&script, format!("{line}echo the rest runs\n")).expect("a file");
    let run = |redirect: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("bash {redirect}")]);
        command.env("CHLOG_URL", app.url());
        command.env("CHLOG_API_KEY", &app.organization.key);
        command.env("XDG_STATE_HOME", app.folder().join("state"));
        let output = command.output().expect("sh runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let path = script.to_str().expect("a path");
    let (stdout, stderr) = run(&format!("<{path}"));
    assert_eq!(stdout, "the rest runs\n", "{stderr}");
    assert_contains(&stderr, "a script?");
    assert_contains(&stderr, "-F -");
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
    // A file that nobody has begun is a message.
    fs::write(&script, "Deploy api\nAll of it\n").expect("a file");
    let mut command = app.chlog();
    command.arg("log").pipe_stdin(&script).expect("a file");
    ChlogOutput::of(&mut command).succeeds();
    assert_eq!(newest(&app).await["title"], "Deploy api");
    // What cannot be recognized is explained.
    let help = chlog(&app, "log --help").succeeds().stdout;
    assert_contains(&help, "bash -s");
    assert_contains(&help, "chlog log -F -");
}
