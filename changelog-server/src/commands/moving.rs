//! `changelog-server move`

use super::{Failure, note, print, print_json};
use crate::config::{Common, Move};
use crate::store::move_database;

/// Moves everything to another database, and prints what was compared.
pub(super) async fn run(common: &Common, addresses: &Move) -> Result<(), Failure> {
    let quiet = common.json;
    let progress = move |text: &str| {
        if !quiet {
            note(text);
        }
    };
    let moved = move_database(&addresses.from, &addresses.to, &progress).await?;
    if common.json {
        return print_json(&moved);
    }
    for table in &moved.tables {
        let digest = &table.digest[..16];
        print(&format!("{digest}  {:>10}  {}", table.rows, table.table))?;
    }
    print(&format!(
        "moved: {} tables have equal rows in both databases, and {} changes can be searched",
        moved.tables.len(),
        moved.indexed
    ))?;
    if !moved.problems.is_empty() {
        note(&format!(
            "both databases have {} problems: see `changelog-server check`",
            moved.problems.len()
        ));
    }
    note(
        "the file with the key of stored secrets is not moved: start the service with \
         --secrets-key-file and its path",
    );
    Ok(())
}
