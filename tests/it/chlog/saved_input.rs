//! Messages that were typed are saved until they are recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use portable_pty::CommandBuilder;

use crate::chlog::run::{run_interactively, run_on_terminal, set_terminal_environment};
use crate::chlog::spool::title_counts;
use crate::chlog::{ChlogOutput, newest};
use changelog_tests::{TestApp, on_one, programs};

on_one!(
    edited_messages_are_saved_until_they_are_recorded,
    mistakes_are_found_before_the_editor_opens,
    pasted_lines_are_one_message,
    prompt_input_is_saved_after_an_interrupt,
    a_hyphen_is_standard_input,
);

/// Returns the saved messages.
fn saved_messages(app: &TestApp) -> Vec<PathBuf> {
    let folder = app.folder().join("state/chlog/drafts");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).collect()
}

/// Runs `chlog` with an editor that writes a message and exits with a code.
fn chlog_with_editor(app: &TestApp, text: &str, code: u8, arguments: &[&str]) -> ChlogOutput {
    let script = app.folder().join("editor.sh");
    let body = format!("printf '{text}' >\"$1\"; echo opened >>opened; exit {code}\n");
    fs::write(&script, body).expect("a file");
    let mut command = app.chlog();
    command.env("EDITOR", format!("sh {}", script.display()));
    ChlogOutput::of(command.args(arguments))
}

async fn edited_messages_are_saved_until_they_are_recorded(app: TestApp) {
    let text = "ab\\nten minutes of typing\\n";
    let output = chlog_with_editor(&app, text, 0, &["log", "-e"]).exits_with(6);
    let [path] = &saved_messages(&app)[..] else {
        panic!("{:?}", saved_messages(&app));
    };
    output.says(&path.display().to_string());
    output.says("--recover");
    let mode = fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stored = fs::read_to_string(path).expect("text");
    assert_eq!(stored, "ab\n\nten minutes of typing\n");
    // Recorded from the path, without the editor.
    let by_path = ["log", "-F", path.to_str().expect("a path")];
    ChlogOutput::of(app.chlog().args(by_path)).exits_with(6);

    // The editor opens with the saved message.
    let script = app.folder().join("corrects.sh");
    fs::write(&script, "sed -i 's/^ab$/Deploy/' \"$1\"\n").expect("a file");
    let mut command = app.chlog();
    command.env("EDITOR", format!("sh {}", script.display()));
    ChlogOutput::of(command.args(["log", "--recover", "-e"])).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy");
    assert_eq!(change["description"], "ten minutes of typing");
    assert_eq!(saved_messages(&app).len(), 0);
    ChlogOutput::of(app.chlog().args(["log", "--recover"])).exits_with(3);

    // An editor that fails after saving, and one that saves nothing.
    let good = "A good title\\nand more\\n";
    chlog_with_editor(&app, good, 3, &["log", "-e"]).exits_with(130);
    assert_eq!(saved_messages(&app).len(), 1);
    ChlogOutput::of(app.chlog().args(["log", "-e"]).env("EDITOR", "false")).exits_with(130);
    assert_eq!(saved_messages(&app).len(), 1);
    ChlogOutput::of(app.chlog().args(["log", "--recover"])).succeeds();
    assert_eq!(newest(&app).await["title"], "A good title");
    assert_eq!(saved_messages(&app).len(), 0);
    // If the service is unavailable, the change is spooled.
    let mut command = app.chlog();
    command.env("CHLOG_URL", "http://127.0.0.1:9");
    command.env(
        "EDITOR",
        format!("sh {}", app.folder().join("editor.sh").display()),
    );
    chlog_with_editor(&app, good, 0, &["log", "--help"]).succeeds();
    ChlogOutput::of(command.args(["log", "-e"])).succeeds();
    assert_eq!(saved_messages(&app).len(), 0);
}

async fn mistakes_are_found_before_the_editor_opens(app: TestApp) {
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let opened = app.folder().join("opened");
    let text = "A good title\\n";
    for (arguments, code) in [
        (&["log", "-e", "--service", "nope"][..], 3),
        (&["log", "-e", "--host", "nope"], 3),
        (&["log", "-e", "--tag", ""], 6),
        (&["log", "-e", "--strict", "--url", "http://127.0.0.1:9"], 7),
    ] {
        chlog_with_editor(&app, text, 0, arguments).exits_with(code);
        assert!(!opened.exists(), "{arguments:?}");
    }
    let mut command = app.chlog();
    let editor = format!("sh {}", app.folder().join("editor.sh").display());
    command.env("EDITOR", editor).env("CHLOG_API_KEY", &wrong);
    ChlogOutput::of(command.args(["log", "-e"])).exits_with(4);
    assert!(!opened.exists());
    chlog_with_editor(
        &app,
        text,
        0,
        &["log", "-e", "--service", "made", "--create-missing"],
    )
    .succeeds();
    assert!(opened.exists());
}

/// Returns a `chlog log` command to run on a terminal.
fn log_on_terminal(app: &TestApp, arguments: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(programs::chlog());
    command.arg("log");
    command.args(arguments);
    set_terminal_environment(&mut command, app, &app.url());
    command
}

async fn pasted_lines_are_one_message(app: TestApp) {
    let known = ["--risk", "low", "--status", "completed"];
    // A bracketed paste, and then the enter key.
    let pasted = b"\x1b[200~Deploy api\rsecond line\r\rfourth line\x1b[201~\r";
    let (seen, code) = run_on_terminal(log_on_terminal(&app, &known), pasted, "Title: ");
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&seen));
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy api");
    assert_eq!(change["description"], "second line\n\nfourth line");
    // Appended to a given description.
    let with = ["--risk", "low", "--status", "completed", "-m", "given"];
    let pasted = b"\x1b[200~Deploy web\rsecond line\x1b[201~\r";
    run_on_terminal(log_on_terminal(&app, &with), pasted, "Title: ");
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy web");
    assert_eq!(change["description"], "given\n\nsecond line");
    assert_eq!(title_counts(&app).await.len(), 2);
    assert_eq!(saved_messages(&app).len(), 0);
}

async fn prompt_input_is_saved_after_an_interrupt(app: TestApp) {
    let pasted = &b"\x1b[200~Deploy api\rsecond line\x1b[201~\r"[..];
    let inputs = [("Title: ", pasted), ("Risk:", b"\x03")];
    let (seen, code) = run_interactively(log_on_terminal(&app, &[]), &inputs);
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(code, 130, "{seen}");
    assert!(seen.contains("--recover"), "{seen}");
    assert!(title_counts(&app).await.is_empty());
    ChlogOutput::of(app.chlog().args(["log", "--recover"])).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy api");
    assert_eq!(change["description"], "second line");
    // Mistakes are reported before the prompts. Nothing is typed where chlog only reports and
    // exits: the interrupt could end it first, or find the terminal closed.
    let interrupt = [("There is no service", &b"\x03"[..])];
    for (arguments, inputs, code, message) in [
        (
            ["--service", "nope"],
            &interrupt[..],
            130,
            "There is no service",
        ),
        (["--tag", ""], &[], 6, "--tag"),
    ] {
        let (seen, found) = run_interactively(log_on_terminal(&app, &arguments), inputs);
        let seen = String::from_utf8_lossy(&seen);
        assert_eq!(found, code, "{seen}");
        assert!(seen.contains(message), "{seen}");
        assert!(!seen.contains("Title"), "{seen}");
    }
}

async fn a_hyphen_is_standard_input(app: TestApp) {
    let mut command = app.chlog();
    command.args(["log", "-"]);
    ChlogOutput::of(command.write_stdin("Deploy\n\nAll of it\n")).succeeds();
    let change = newest(&app).await;
    assert_eq!(change["title"], "Deploy");
    assert_eq!(change["description"], "All of it");
    // The help warns of scripts on standard input.
    let help = ChlogOutput::of(app.chlog().args(["log", "--help"])).succeeds();
    help.prints("bash -s");
}
