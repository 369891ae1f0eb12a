//! The process, by the names that Prometheus' own clients use. Only on Linux.

use std::time::Duration;

use procfs_core::FromRead;
use procfs_core::process::Status;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::current::Current;

/// Returns the values of this process.
pub(super) fn current(started_at: f64) -> Current {
    let mut current = Current::with_prefix("process");
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = Duration::new(
        u64::try_from(used.tv_sec).unwrap_or_default(),
        u32::try_from(used.tv_nsec).unwrap_or_default(),
    );
    current.total_seconds("cpu_seconds", "Processor time that was used", used);
    current.seconds(
        "start_time_seconds",
        "When the process was started, in seconds since 1970",
        started_at,
    );
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        current.number("max_fds", "The limit on open files", limit);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let files = u64::try_from(files.count()).unwrap_or(u64::MAX);
        current.number("open_fds", "Open files and connections", files);
    }
    if let Ok(status) = Status::from_file("/proc/self/status") {
        let bytes = |kibibytes: u64| kibibytes.saturating_mul(1024);
        if let Some(resident) = status.vmrss {
            let help = "Memory that the process has";
            current.number("resident_memory_bytes", help, bytes(resident));
        }
        if let Some(size) = status.vmsize {
            let help = "Addresses that the process has";
            current.number("virtual_memory_bytes", help, bytes(size));
        }
        current.number("threads", "Threads", status.threads);
    }
    current
}
