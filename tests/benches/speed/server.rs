//! Processes that are measured: found or built, started, asked for their memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::settings::Settings;
use crate::{Failure, watchdog};

/// How long a server may take until it listens.
const START: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// Returns the program to measure: the one that is named, or the release build
/// of these sources.
pub(crate) fn program(settings: &Settings) -> Result<PathBuf, Failure> {
    if let Some(named) = &settings.server {
        return Ok(fs::canonicalize(named)
            .map_err(|error| format!("BENCH_SERVER {}: {error}", named.display()))?);
    }
    let bench = std::env::current_exe()?;
    let target = bench
        .ancestors()
        .nth(3)
        .ok_or("this program does not lie in target/<profile>/deps")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--locked",
            "-p",
            "changelog-server",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status()?;
    if !status.success() {
        return Err("the server does not build".into());
    }
    Ok(target.join("release/changelog-server"))
}

/// A server in a process of its own; killed when dropped.
pub(crate) struct Process {
    /// Where it listens: `127.0.0.1:40001`.
    pub(crate) address: String,
    child: Child,
}

/// What a process holds, in megabytes.
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

impl Process {
    /// Starts a command, its standard error going to a file, and waits until it
    /// says there where it listens.
    pub(crate) async fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(log)?)
            .spawn()?;
        watchdog::server(child.id());
        let mut process = Self {
            address: String::new(),
            child,
        };
        let deadline = Instant::now() + START;
        loop {
            let said = fs::read_to_string(log)?;
            let listening = said.lines().find_map(|line| line.split_once(LISTENING));
            if let Some((_, address)) = listening
                && said.ends_with('\n')
            {
                address.trim().clone_into(&mut process.address);
                return Ok(process);
            }
            if Instant::now() > deadline || process.child.try_wait()?.is_some() {
                return Err(format!("a server does not start: {said}").into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn memory(&self) -> Result<Memory, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let megabytes = |name: &str| -> Result<f64, Failure> {
            let kibibytes: f64 = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))
                .ok_or_else(|| format!("the system does not say {name}"))?
                .parse()?;
            Ok(kibibytes * 1024.0 / 1_000_000.0)
        };
        Ok(Memory {
            resident: megabytes("VmRSS:")?,
            peak: megabytes("VmHWM:")?,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
