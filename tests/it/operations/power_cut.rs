//! What was answered is there when nothing but what was synced is left of the database, and
//! nothing is answered that could not be synced, or for which the disk had no room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use changelog_tests::{Server, TestApp, on_sqlite, run, try_send};
use serde_json::json;

use super::durability::{Load, assert_nothing_lost};

on_sqlite!(process:
    what_was_answered_survives_a_power_cut,
    what_cannot_be_synced_is_not_answered,
    what_a_full_disk_cannot_hold_is_not_answered,
);

/// The ends of the names of the files with what is recorded.
const FILES: [&str; 2] = ["", "-wal"];

/// A service whose database can lose its power.
struct Machine {
    app: TestApp,
    shim: PathBuf,
    /// While it exists, every fsync fails.
    fail: PathBuf,
    /// While it exists, the files of the database do not grow.
    full: PathBuf,
}

impl Machine {
    async fn start(mut app: TestApp) -> Self {
        // In order, so that everything is in one file.
        app.server.terminate();
        let status = app.server.wait_for_exit(Duration::from_secs(15)).await;
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        let shim = app.folder().join("power_cut.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/operations/power_cut.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        compile.arg(&shim).arg(source).arg("-ldl");
        let output = run(compile, "");
        assert!(output.status.success(), "{output:?}");
        let fail = app.folder().join("fail");
        let full = app.folder().join("full");
        let mut machine = Self {
            app,
            shim,
            fail,
            full,
        };
        machine.boot().await;
        machine
    }

    fn file(&self, end: &str) -> PathBuf {
        format!("{}{end}", self.app.file().display()).into()
    }

    /// Stops the service, and leaves only what was synced.
    fn cut_power(&mut self) {
        self.app.server.kill9();
        for end in FILES {
            let synced = self.file(&format!("{end}.synced"));
            if synced.exists() {
                fs::copy(&synced, self.file(end)).expect("a copy");
            } else if !end.is_empty() {
                let _ = fs::remove_file(self.file(end));
            }
        }
        let _ = fs::remove_file(self.file("-shm"));
    }

    async fn boot(&mut self) {
        // What is there now is on the disk.
        for end in FILES {
            let synced = self.file(&format!("{end}.synced"));
            let _ = fs::remove_file(&synced);
            let _ = fs::copy(self.file(end), synced);
        }
        let mut command = self.app.serve_command();
        command.env("LD_PRELOAD", &self.shim);
        command.env("FAIL_FSYNC", &self.fail);
        command.env("FULL_DISK", &self.full);
        let server = Server::start(command).await;
        self.app.server = server.unwrap_or_else(|log| panic!("it does not start: {log}"));
    }

    /// Creates a change, and returns the status of the answer.
    async fn create(&self, title: &str) -> u16 {
        let request = self.app.key().request("POST", "/api/changes");
        let answer = try_send(request.json(&json!({ "title": title }))).await;
        answer.expect("an answer").status
    }

    /// Creates changes until one is answered, and returns its title: the service recovers by
    /// itself.
    async fn recover(&self, title: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        for number in 0.. {
            let title = format!("{title} {number}");
            if self.create(&title).await == 201 {
                return title;
            }
            assert!(Instant::now() < deadline, "{}", self.app.server.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unreachable!("the deadline ends the loop")
    }
}

async fn what_was_answered_survives_a_power_cut(app: TestApp) {
    let mut machine = Machine::start(app).await;
    let mut answered = Vec::new();
    for round in 0..3 {
        let load = Load::start(&machine.app.key(), &format!("power cut {round}"));
        load.wait_for(40 + round * 20).await;
        machine.cut_power();
        answered.extend(load.finish().await);
        machine.boot().await;
        assert_nothing_lost(&machine.app, &answered).await;
    }
    assert!(answered.len() > 120);
}

async fn what_cannot_be_synced_is_not_answered(app: TestApp) {
    let mut machine = Machine::start(app).await;
    assert_eq!(machine.create("before").await, 201);
    let mut answered = vec!["before".to_owned()];
    fs::write(&machine.fail, "").expect("a file");
    for number in 0..5 {
        let status = machine.create(&format!("unsynced {number}")).await;
        assert_eq!(status, 503, "{}", machine.app.server.log());
    }
    fs::remove_file(&machine.fail).expect("it is removed");
    answered.push(machine.recover("after").await);
    machine.cut_power();
    machine.boot().await;
    assert_nothing_lost(&machine.app, &answered).await;
}

async fn what_a_full_disk_cannot_hold_is_not_answered(app: TestApp) {
    let mut machine = Machine::start(app).await;
    let mut answered = Vec::new();
    for round in 0..3 {
        // The log has grown, so that its first blocks can be overwritten after a checkpoint.
        for number in 0..20 {
            let title = format!("before {round} {number}");
            assert_eq!(machine.create(&title).await, 201);
            answered.push(title);
        }
        fs::write(&machine.full, "").expect("a file");
        let mut refused = 0;
        for number in 0..20 {
            let title = format!("full {round} {number}");
            match machine.create(&title).await {
                201 => answered.push(title),
                status => {
                    assert_eq!(status, 503, "{}", machine.app.server.log());
                    refused += 1;
                }
            }
            // Reading goes on.
            machine.app.key().get("/api/changes?q=before").await.is(200);
        }
        assert!(refused > 0, "nothing was refused");
        fs::remove_file(&machine.full).expect("it is removed");
        answered.push(machine.recover(&format!("after {round}")).await);
    }
    machine.cut_power();
    machine.boot().await;
    assert_nothing_lost(&machine.app, &answered).await;
    // What was refused is not there.
    let body = machine.app.key().body("/api/changes").await;
    assert_eq!(body["count"], answered.len());
}
