//! `changelog-server restore`

use std::path::Path;

use super::{Failure, note, print, print_json};
use crate::config::Common;
use crate::store::restore;

/// Puts a backup in the place of the SQLite database, which is kept under another name.
pub(super) async fn run(common: &Common, backup: &Path) -> Result<(), Failure> {
    if !common.json {
        note(&format!("checking and copying {}", backup.display()));
    }
    let restored = restore(&common.database_url, backup, super::now()).await?;
    if common.json {
        return print_json(&restored);
    }
    print(&format!(
        "restored {} ({} bytes)",
        restored.path.display(),
        restored.bytes
    ))?;
    if let Some(kept) = &restored.replaced {
        print(&format!(
            "the database that was there is {}",
            kept.display()
        ))?;
    }
    note("the key of stored secrets is not part of a backup: restore its file too");
    Ok(())
}
