//! The measured processes: building, starting, memory and usage.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::{Io, Stat, Status};

use crate::settings::Settings;
use crate::{Failure, text, watchdog};

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// Returns the program to measure: the configured one, or a release build.
pub(crate) fn program(settings: &Settings) -> Result<PathBuf, Failure> {
    if let Some(named) = &settings.server {
        return Ok(fs::canonicalize(named)
            .map_err(|error| format!("BENCH_SERVER {}: {error}", named.display()))?);
    }
    let bench = std::env::current_exe()?;
    let target = bench
        .ancestors()
        .nth(3)
        .ok_or("this program is not in target/<profile>/deps")?;
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
    /// Its address, such as `127.0.0.1:40001`.
    pub(crate) address: String,
    child: Child,
}

/// The usage of a process since its start.
pub(crate) struct Usage {
    /// The processor time of all its threads.
    pub(crate) processor: Duration,
    /// The bytes written to the disk.
    pub(crate) written: u64,
}

/// The memory of a process, in megabytes.
pub(crate) struct Memory {
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

impl Process {
    /// Starts a command with its standard error in a file, and waits until it prints its
    /// address.
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
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let log_text = fs::read_to_string(log)?;
            let listening = log_text.lines().find_map(|line| line.split_once(LISTENING));
            if let Some((_, address)) = listening
                && log_text.ends_with('\n')
            {
                address.trim().clone_into(&mut process.address);
                return Ok(process);
            }
            if Instant::now() > deadline || process.child.try_wait()?.is_some() {
                return Err(format!("a server does not start: {log_text}").into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Reads its memory.
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

    /// Reads its usage since the start.
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

    /// Reads a file of the process in /proc.
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
