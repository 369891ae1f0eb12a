//! `changelog-server backup`

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::{Failure, note, print, print_json};
use crate::config::Common;
use crate::store::{Capacity, Purpose, Store, partial_path};

/// How often progress is printed: to a terminal, and elsewhere, as in the log of a job.
const TO_TERMINAL: Duration = Duration::from_secs(1);
const ELSEWHERE: Duration = Duration::from_secs(30);

pub(super) async fn run(common: &Common, path: &Path) -> Result<(), Failure> {
    let (store, _) = Store::open(&common.database_url, Purpose::Copy, Capacity::default()).await?;
    let size = store.size().await?;
    let backup = store.backup(path);
    let bytes = tokio::select! {
        copied = backup => copied?,
        never = print_progress(path, size) => match never {},
    };
    if common.json {
        return print_json(&serde_json::json!({ "path": path, "bytes": bytes }));
    }
    print(&format!("wrote {} ({bytes} bytes)", path.display()))
}

/// Prints how much of the copy is written, for as long as this is polled.
async fn print_progress(path: &Path, size: u64) -> std::convert::Infallible {
    let period = if std::io::stderr().is_terminal() {
        TO_TERMINAL
    } else {
        ELSEWHERE
    };
    let partial = partial_path(path);
    let mut interval = interval_at(Instant::now() + period, period);
    loop {
        interval.tick().await;
        let written = partial.metadata().map_or(0, |copy| copy.len());
        // The copy is smaller than a database with free pages.
        let percent = written.saturating_mul(100) / size.max(1);
        let step = if percent < 99 {
            "copied"
        } else {
            "copied and is checking"
        };
        note(&format!("{step} {} % of {size} bytes", percent.min(100)));
    }
}
