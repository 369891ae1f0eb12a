//! What the disk costs, without anything of ours.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::Failure;
use crate::load::Taken;

const APPENDS: usize = 300;
const BLOCK: [u8; 8 * 1024] = [7; 8 * 1024];

/// Measures the fdatasync of an 8 KiB append to a file in this folder.
pub(crate) fn fsync(folder: &Path) -> Result<Taken, Failure> {
    let path = folder.join("fsync");
    let mut file = File::create(&path)?;
    let mut taken = Taken::default();
    let begun = Instant::now();
    for _ in 0..APPENDS {
        file.write_all(&BLOCK)?;
        let synced = Instant::now();
        file.sync_data()?;
        taken.add(synced.elapsed());
    }
    fs::remove_file(path)?;
    Ok(taken.within(begun.elapsed()))
}

/// Has everything written that waits for it.
pub(crate) fn settle() {
    // Where there is no such program the figures are only noisier.
    let _ = std::process::Command::new("sync").status();
}
