//! What was typed is never thrown away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use portable_pty::CommandBuilder;
use serde_json::json;

use crate::chlog::run::{converse, on_a_terminal, surround};
use crate::chlog::spool::titles;
use crate::chlog::{Said, newest};
use changelog_tests::{TestApp, on_one, programs};

on_one!(
    what_was_edited_is_kept_until_it_is_recorded,
    mistakes_are_found_before_anybody_writes,
    what_is_pasted_at_a_prompt_is_one_text,
    what_was_typed_at_a_prompt_is_kept,
    a_hyphen_is_standard_input,
);

/// The texts that are kept.
fn kept(app: &TestApp) -> Vec<PathBuf> {
    let folder = app.folder().join("state/chlog/drafts");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).collect()
}

/// Runs `chlog` with an editor that writes a text, and ends with a code.
fn edited(app: &TestApp, text: &str, code: u8, arguments: &[&str]) -> Said {
    let script = app.folder().join("editor.sh");
    let body = format!("printf '{text}' >\"$1\"; echo opened >>opened; exit {code}\n");
    fs::write(&script, body).expect("a file");
    let mut command = app.chlog();
    command.env("EDITOR", format!("sh {}", script.display()));
    Said::of(command.args(arguments))
}

async fn what_was_edited_is_kept_until_it_is_recorded(app: TestApp) {
    let text = "ab\\nten minutes of typing\\n";
    let said = edited(&app, text, 0, &["log", "-e"]).ended(6);
    let [path] = &kept(&app)[..] else {
        panic!("{:?}", kept(&app));
    };
    assert!(
        said.err.contains(&path.display().to_string()),
        "{}",
        said.err
    );
    assert!(said.err.contains("--recover"), "{}", said.err);
    let mode = fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stored = fs::read_to_string(path).expect("text");
    assert_eq!(stored, "ab\n\nten minutes of typing\n");
    // By its path, without the editor.
    let by_path = ["log", "-F", path.to_str().expect("a path")];
    Said::of(app.chlog().args(by_path)).ended(6);

    // Taken up in the editor, which has it.
    let script = app.folder().join("mends.sh");
    fs::write(&script, "sed -i 's/^ab$/Deploy/' \"$1\"\n").expect("a file");
    let mut command = app.chlog();
    command.env("EDITOR", format!("sh {}", script.display()));
    Said::of(command.args(["log", "--recover", "-e"])).done();
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["description"]),
        (&json!("Deploy"), &json!("ten minutes of typing"))
    );
    assert_eq!(kept(&app).len(), 0);
    Said::of(app.chlog().args(["log", "--recover"])).ended(3);

    // An editor that fails after it has saved, and one that nobody wrote in.
    let good = "A good title\\nand more\\n";
    edited(&app, good, 3, &["log", "-e"]).ended(130);
    assert_eq!(kept(&app).len(), 1);
    Said::of(app.chlog().args(["log", "-e"]).env("EDITOR", "false")).ended(130);
    assert_eq!(kept(&app).len(), 1);
    Said::of(app.chlog().args(["log", "--recover"])).done();
    assert_eq!(newest(&app).await["title"], "A good title");
    assert_eq!(kept(&app).len(), 0);
    // Where the service is away, the spool has it.
    let mut command = app.chlog();
    command.env("CHLOG_URL", "http://127.0.0.1:9");
    command.env(
        "EDITOR",
        format!("sh {}", app.folder().join("editor.sh").display()),
    );
    edited(&app, good, 0, &["log", "--help"]).done();
    Said::of(command.args(["log", "-e"])).done();
    assert_eq!(kept(&app).len(), 0);
}

async fn mistakes_are_found_before_anybody_writes(app: TestApp) {
    let wrong = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let opened = app.folder().join("opened");
    let text = "A good title\\n";
    for (arguments, code) in [
        (&["log", "-e", "--service", "nope"][..], 3),
        (&["log", "-e", "--host", "nope"], 3),
        (&["log", "-e", "--tag", ""], 6),
        (&["log", "-e", "--strict", "--url", "http://127.0.0.1:9"], 7),
    ] {
        edited(&app, text, 0, arguments).ended(code);
        assert!(!opened.exists(), "{arguments:?}");
    }
    let mut command = app.chlog();
    let editor = format!("sh {}", app.folder().join("editor.sh").display());
    command.env("EDITOR", editor).env("CHLOG_API_KEY", &wrong);
    Said::of(command.args(["log", "-e"])).ended(4);
    assert!(!opened.exists());
    edited(
        &app,
        text,
        0,
        &["log", "-e", "--service", "made", "--create-missing"],
    )
    .done();
    assert!(opened.exists());
}

/// `chlog log`, to be run under a terminal.
fn asked(app: &TestApp, arguments: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(programs::chlog());
    command.arg("log");
    command.args(arguments);
    surround(&mut command, app, &app.url());
    command
}

async fn what_is_pasted_at_a_prompt_is_one_text(app: TestApp) {
    let known = ["--risk", "low", "--status", "completed"];
    // As a terminal pastes it, and what is typed after it.
    let pasted = b"\x1b[200~Deploy api\rsecond line\r\rfourth line\x1b[201~\r";
    let (seen, code) = on_a_terminal(asked(&app, &known), pasted, "Title: ");
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&seen));
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["description"]),
        (&json!("Deploy api"), &json!("second line\n\nfourth line"))
    );
    // Beside a description that was given.
    let with = ["--risk", "low", "--status", "completed", "-m", "given"];
    let pasted = b"\x1b[200~Deploy web\rsecond line\x1b[201~\r";
    on_a_terminal(asked(&app, &with), pasted, "Title: ");
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["description"]),
        (&json!("Deploy web"), &json!("given\n\nsecond line"))
    );
    assert_eq!(titles(&app).await.len(), 2);
    assert_eq!(kept(&app).len(), 0);
}

async fn what_was_typed_at_a_prompt_is_kept(app: TestApp) {
    let pasted = &b"\x1b[200~Deploy api\rsecond line\x1b[201~\r"[..];
    let inputs = [("Title: ", pasted), ("Risk:", b"\x03")];
    let (seen, code) = converse(asked(&app, &[]), &inputs);
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(code, 130, "{seen}");
    assert!(seen.contains("--recover"), "{seen}");
    assert!(titles(&app).await.is_empty());
    Said::of(app.chlog().args(["log", "--recover"])).done();
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["description"]),
        (&json!("Deploy api"), &json!("second line"))
    );
    // What is wrong is said before anything is asked.
    let (seen, code) = on_a_terminal(asked(&app, &["--service", "nope"]), b"", "Title: ");
    let seen = String::from_utf8_lossy(&seen);
    assert_eq!(code, 3, "{seen}");
    assert!(!seen.contains("Title"), "{seen}");
}

async fn a_hyphen_is_standard_input(app: TestApp) {
    let mut command = app.chlog();
    command.args(["log", "-"]);
    Said::of(command.write_stdin("Deploy\n\nAll of it\n")).done();
    let change = newest(&app).await;
    assert_eq!(
        (&change["title"], &change["description"]),
        (&json!("Deploy"), &json!("All of it"))
    );
    // What a script's own text would become is said where it can be read.
    let help = Said::of(app.chlog().args(["log", "--help"])).done();
    assert!(help.out.contains("bash < script"), "{}", help.out);
}
