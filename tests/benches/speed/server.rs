//! Processes that are measured: found or built, started, and what they use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::{Io, Stat, Status};

use crate::settings::Settings;
use crate::{Failure, text, watchdog};

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

/// What a process has used since it was started.
pub(crate) struct Usage {
    /// The time of all its threads on a processor.
    pub(crate) processor: Duration,
    /// How many bytes it made the system write to a disk.
    pub(crate) written: u64,
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

    /// Reads what it holds in memory.
    pub(crate) fn memory(&self) -> Result<Memory, Failure> {
        let status = self.proc::<Status>("status")?;
        let megabytes = |name: &str, kibibytes: Option<u64>| -> Result<f64, Failure> {
            let kibibytes =
                kibibytes.ok_or_else(|| format!("the system does not report {name}"))?;
            Ok(text::float(kibibytes) * 1024.0 / 1_000_000.0)
        };
        Ok(Memory {
            resident: megabytes("VmRSS", status.vmrss)?,
            peak: megabytes("VmHWM", status.vmhwm)?,
        })
    }

    /// Reads what it has used since it was started.
    pub(crate) fn usage(&self) -> Result<Usage, Failure> {
        let stat: Stat = self.proc("stat")?;
        let io: Io = self.proc("io")?;
        let ticks = text::float(stat.utime + stat.stime);
        let seconds = ticks / text::float(rustix::param::clock_ticks_per_second());
        Ok(Usage {
            processor: Duration::from_secs_f64(seconds),
            written: io.write_bytes,
        })
    }

    /// Reads one of the system's files on it.
    fn proc<F: FromRead>(&self, name: &str) -> Result<F, Failure> {
        Ok(F::from_file(format!("/proc/{}/{name}", self.child.id()))?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
