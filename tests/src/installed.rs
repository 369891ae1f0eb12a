//! Programs that tests use where they find them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

/// Names the programs whose absence fails a test instead of skipping it,
/// separated by commas.
const REQUIRE: &str = "CHANGELOG_TEST_REQUIRE";

/// Says plainly that a test is skipped, or fails it where `CHANGELOG_TEST_REQUIRE`
/// names the program.
#[track_caller]
pub fn missing(name: &str, what: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == name),
        "{what} not found, and {REQUIRE} names {name}"
    );
    eprintln!("skipped: {what} not found");
    let first = SAID
        .lock()
        .is_ok_and(|mut said| said.insert(what.to_owned()));
    if first {
        // Not by `eprintln!`, whose output a passing test keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: {what} not found");
    }
}

/// Finds a program in the search path.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
