//! The latency of the disk alone.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::Failure;
use crate::load::Latencies;

const APPENDS: usize = 300;
const BLOCK: [u8; 8 * 1024] = [7; 8 * 1024];

/// Measures the fdatasync of an 8 KiB append to a file in this folder.
pub(crate) fn fsync(folder: &Path) -> Result<Latencies, Failure> {
    let path = folder.join("fsync");
    let mut file = File::create(&path)?;
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    for _ in 0..APPENDS {
        file.write_all(&BLOCK)?;
        let synced = Instant::now();
        file.sync_data()?;
        latencies.add(synced.elapsed());
    }
    fs::remove_file(path)?;
    Ok(latencies.within(begun.elapsed()))
}

/// Writes all buffered data to the disk.
pub(crate) fn settle() {
    // Without this program the figures are only less exact.
    let _ = std::process::Command::new("sync").status();
}
