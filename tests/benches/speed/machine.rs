//! Describes the machine on which the figures were measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use chrono::Utc;

use crate::text::time;
use crate::{Failure, disk, testbed};

/// Describes the machine and the programs.
pub(crate) fn describe(server: &Path) -> Result<String, Failure> {
    let cpu = find("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let cores = std::thread::available_parallelism()?;
    let kibibytes: f64 = find("/proc/meminfo", "MemTotal")
        .and_then(|text| text.strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0.0);
    let memory = kibibytes / 1024.0 / 1024.0;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let fsync = disk::fsync(testbed::folder()?.path())?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok(format!(
        "- machine: {cpu}, {cores} cores, {memory:.0} GiB, Linux {}\n\
         - fsync of an 8 KiB append: p50 {}, p99 {}\n\
         - date: {}\n\
         - {}\n\
         - {}",
        kernel.trim(),
        time(fsync.p50()),
        time(fsync.p99()),
        Utc::now().format("%Y-%m-%d %H:%M UTC"),
        version(Path::new(&rustc)),
        version(server),
    ))
}

/// Finds a line `name : value` in a file in /proc.
fn find(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    output.map_or_else(
        |error| format!("{}: {error}", program.display()),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
