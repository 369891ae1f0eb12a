//! Compares `chlog log` with `curl`: both create a change in the same local service,
//! alternately, and the time from the start of the process to its exit is measured.
//!
//! `cargo bench -p changelog-tests --bench command` prints the table.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The number of measured runs of each command, after the warm-up.
const RUNS: usize = 200;
const WARM_UP: usize = 20;
/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    changelog_tests::bench::main(run)
}

fn run() -> Result<(), Failure> {
    let programs = programs()?;
    let folder = tempfile::tempdir()?;
    let service = Service::start(&programs, folder.path())?;
    let body = r#"{"title":"Deploy api 2.3","status":"completed","tags":["deploy"]}"#;
    let key = format!("x-api-key: {}", service.key);
    let url = format!("{}/api/changes", service.url);
    let curl = || {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-f", "-X", "POST", "-H", &key, "-d", body]);
        command.args(["-H", "content-type: application/json", &url]);
        command
    };
    let chlog = |arguments: &[&str]| {
        let mut command = Command::new(programs.join("chlog"));
        command.args(arguments);
        command.current_dir(folder.path()).env_clear();
        command.env("HOME", folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("CHLOG_URL", &service.url);
        command.env("CHLOG_API_KEY", &service.key);
        command
    };
    let log = [
        "log",
        "Deploy api 2.3",
        "--status",
        "completed",
        "--tag",
        "deploy",
    ];
    let run = ["run", "--", "true"];
    let mut durations: [Vec<Duration>; 4] = Default::default();
    for round in 0..WARM_UP + RUNS {
        let commands = [curl(), chlog(&log), chlog(&run), Command::new("true")];
        for (durations, command) in durations.iter_mut().zip(commands) {
            let duration = time(command)?;
            if round >= WARM_UP {
                durations.push(duration);
            }
        }
    }
    let names = ["curl, a POST", "chlog log", "chlog run -- true", "true"];
    let mut out = std::io::stdout().lock();
    writeln!(out, "| Command | p50 | p95 |\n|---|---|---|")?;
    for (name, durations) in names.into_iter().zip(&mut durations) {
        durations.sort();
        let at = |percent: usize| durations[durations.len() * percent / 100].as_secs_f64() * 1000.0;
        writeln!(out, "| `{name}` | {:.1} ms | {:.1} ms |", at(50), at(95))?;
    }
    Ok(())
}

/// Builds both programs and returns where they are.
fn programs() -> Result<PathBuf, Failure> {
    let bench = std::env::current_exe()?;
    let target = bench.ancestors().nth(3).ok_or("no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "-p", "changelog-server"])
        .args(["-p", "changelog-cli", "--target-dir"])
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status()?;
    if !status.success() {
        return Err("the programs do not build".into());
    }
    Ok(target.join("release"))
}

/// A service on SQLite with an organization; killed when dropped.
struct Service {
    child: Child,
    url: String,
    key: String,
}

impl Service {
    fn start(programs: &Path, folder: &Path) -> Result<Self, Failure> {
        let database = format!("sqlite://{}/changelog.db", folder.display());
        let server = |arguments: &[&str]| {
            let mut command = Command::new(programs.join("changelog-server"));
            command.args(arguments).args(["--database-url", &database]);
            command
        };
        let admin = |arguments: &[&str]| -> Result<serde_json::Value, Failure> {
            let output = server(arguments).arg("--json").output()?;
            Ok(serde_json::from_slice(&output.stdout)?)
        };
        let created = admin(&["org", "create", "--name", "Bench", "--plan", "pro"])?;
        let id = created["organization"]["id"].as_str().ok_or("no id")?;
        let key = admin(&["key", "create", "--org", id, "--name", "bench"])?;
        let log = folder.join("log");
        let child = server(&["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut service = Self {
            child,
            url: String::new(),
            key: key["key"].as_str().ok_or("no key")?.to_owned(),
        };
        let began = Instant::now();
        while service.url.is_empty() {
            let log_text = fs::read_to_string(&log)?;
            let listening = log_text
                .lines()
                .find_map(|line| line.strip_prefix("listening on "));
            if let Some(url) = listening.filter(|_| log_text.ends_with('\n')) {
                url.trim().clone_into(&mut service.url);
            } else if began.elapsed() > START_TIMEOUT || service.child.try_wait()?.is_some() {
                return Err(format!("the server does not start: {log_text}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command, which must succeed, and returns its duration.
fn time(mut command: Command) -> Result<Duration, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    let duration = began.elapsed();
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    Ok(duration)
}
