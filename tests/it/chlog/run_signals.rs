//! A command gets each signal once, however it was sent: Terraform stops at once at a
//! second interrupt, and may lose its state.

use std::fs;

use portable_pty::CommandBuilder;

use crate::chlog::run::{SIGNAL_COUNTER, run_on_terminal, set_terminal_environment};
use crate::chlog::terraform_run::Module;
use changelog_tests::{TestApp, installed, on_sqlite, programs};

on_sqlite!(process:
    a_command_gets_each_signal_once,
    terraform_is_interrupted_once,
    job_control_works_through_run,
);

/// Ways to send TERM to a `chlog run`, whose process id is `$chlog`.
const DELIVERIES: [(&str, &str); 6] = [
    ("to chlog alone", "kill -TERM $chlog"),
    (
        "to the group",
        // The script is in the group too, and must continue.
        "trap '' TERM; kill -TERM 0",
    ),
    (
        "to each process, from the leaves",
        "kill -TERM $(leaves $chlog)",
    ),
    (
        "to each process, from the root, one by one",
        "for process in $(leaves $chlog | tac); do kill -TERM $process; done",
    ),
    (
        "to each process with the name of the command in its command line",
        "trap '' TERM; pkill -TERM -f -g 0 'sh counting.sh|terraform apply'",
    ),
    (
        "to the command alone",
        "kill -TERM $(cat /proc/$chlog/task/$chlog/children | cut -d ' ' -f 2)",
    ),
];

/// Starts `chlog`, sends the signal, and waits for the exit. The second child is the
/// command; the first one observes signals.
const SEND_SIGNAL: &str = r"
leaves() {
    for child in $(cat /proc/$1/task/*/children); do leaves $child; done
    echo $1
}
rm -f ready caught
COMMAND >output 2>&1 &
chlog=$!
until [ -s ready ]; do sleep 0.02; done
SEND || true
wait $chlog || wait $chlog || true
";

/// A resource that takes 2.5 s and ignores signals.
const SLOW_MODULE: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "trap '' INT TERM; echo ready; echo ready >ready; sleep 2.5"
  }
}
resource "terraform_data" "next" {
  depends_on = [terraform_data.slow]
}
"#;

/// Requires that Terraform was interrupted once and shut down gracefully.
#[track_caller]
fn assert_interrupted_once(output: &str, how: &str) {
    let count = output.matches("Interrupt received").count();
    assert_eq!(count, 1, "{how}: {output}");
    assert!(!output.contains("Two interrupts"), "{how}: {output}");
    assert!(
        output.contains("Gracefully shutting down"),
        "{how}: {output}"
    );
}

/// Runs a script in the folder of the app, with `chlog` in PATH, and returns its standard
/// error.
fn shell(app: &TestApp, script: &str) -> String {
    let chlog = programs::chlog();
    let mut path = chlog.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", script])
        .env_clear()
        .env("PATH", path)
        .env("HOME", app.folder())
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", &app.organization.key)
        .current_dir(app.folder());
    // Signals to the group must not reach the tests.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let output = changelog_tests::run(command, "");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn a_command_gets_each_signal_once(app: TestApp) {
    fs::write(app.folder().join("counting.sh"), SIGNAL_COUNTER).expect("a file");
    let caught = app.folder().join("caught");
    let run = "chlog run -- sh counting.sh";
    for (how, send) in DELIVERIES {
        let script = SEND_SIGNAL.replace("COMMAND", run).replace("SEND", send);
        let output = shell(&app, &script);
        let text = fs::read_to_string(&caught).unwrap_or_default();
        assert_eq!(text, "TERM\n", "{how}: {output}");
    }
    // `timeout` signals its child and then the whole group.
    for (signal, flags) in [("TERM", ""), ("INT", "-s INT"), ("TERM", "--foreground")] {
        let script = format!("rm -f ready caught; timeout {flags} 0.8 {run}");
        let output = shell(&app, &script);
        let text = fs::read_to_string(&caught).unwrap_or_default();
        assert_eq!(text, format!("{signal}\n"), "timeout {flags}: {output}");
    }
    // A signal that is sent twice arrives twice.
    let twice = "kill -TERM $chlog; sleep 0.7; kill -TERM $chlog";
    let script = SEND_SIGNAL.replace("COMMAND", run).replace("SEND", twice);
    shell(&app, &script);
    let text = fs::read_to_string(&caught).unwrap_or_default();
    assert_eq!(text, "TERM\nTERM\n");
}

async fn terraform_is_interrupted_once(app: TestApp) {
    let Some(module) = Module::initialized(&app, "interrupted", SLOW_MODULE) else {
        return;
    };
    let output = module.folder.join("output");
    let apply = "apply -auto-approve -no-color";
    for command in [
        format!("chlog run -- terraform {apply}"),
        format!("chlog terraform run -- {apply}"),
    ] {
        for (how, send) in &DELIVERIES[..5] {
            for signal in ["TERM", "INT"] {
                // A shell lets its background jobs ignore INT.
                let command = format!("env --default-signal=INT {command}");
                let script = SEND_SIGNAL
                    .replace("COMMAND", &command)
                    .replace("SEND", &send.replace("TERM", signal));
                module.shell(&script, &[], "");
                let text = fs::read_to_string(&output).expect("output");
                assert_interrupted_once(&text, &format!("{command}, {signal} {how}"));
            }
        }
        // `timeout` forwards TERM in the same way as when its time is over; the start
        // time of Terraform is unknown.
        let command_line = format!("timeout 60 {command}");
        let script = SEND_SIGNAL.replace("COMMAND", &command_line);
        module.shell(&script.replace("SEND", "kill -TERM $chlog"), &[], "");
        let text = fs::read_to_string(&output).expect("output");
        assert_interrupted_once(&text, &format!("timeout, {command}"));
        // The terminal sends Ctrl-C to the whole group. Terraform itself counts it twice
        // while it starts a process, so this waits for the output of the process.
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let mut command = CommandBuilder::new(programs::chlog());
        command.args(&words);
        set_terminal_environment(&mut command, &app, &app.url());
        command.env("CHECKPOINT_DISABLE", "1");
        command.cwd(&module.folder);
        let (seen, code) = run_on_terminal(command, b"\x03", "(local-exec): ready");
        assert_interrupted_once(&String::from_utf8_lossy(&seen), "Ctrl-C");
        assert_ne!(code, 0);
    }
}

/// The job control of the shell works: stopping and continuing, and a pager that reads
/// from the terminal.
async fn job_control_works_through_run(app: TestApp) {
    if installed::in_path("bash").is_none() {
        installed::missing("bash", "bash");
        return;
    }
    let chlog = programs::chlog();
    // The last command of the pipe reads from the terminal as a pager does; in the
    // background it would be stopped.
    let script = format!(
        "set -m; chlog() {{ '{}' \"$@\"; }}\n\
         chlog run -- sh -c 'echo from the command; sleep 0.3' | \
         {{ cat; printf 'press enter '; read -r key </dev/tty; echo \"the key was $key\"; }}\n\
         chlog run -- sh -c 'echo stops; kill -STOP 0; echo goes on' ; jobs; fg\n",
        chlog.display()
    );
    let mut command = CommandBuilder::new("bash");
    command.args(["--norc", "-c", &script]);
    set_terminal_environment(&mut command, &app, &app.url());
    let (seen, _) = run_on_terminal(command, b"q\n", "press enter");
    let seen = String::from_utf8_lossy(&seen);
    for words in ["from the command", "the key was q", "Stopped", "goes on"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
}
