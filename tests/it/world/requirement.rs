//! Programs that tests use where they find them.

use std::path::PathBuf;

/// Names the programs whose absence fails a test instead of skipping it,
/// separated by commas.
const REQUIRE: &str = "CHANGELOG_TEST_REQUIRE";

/// Says plainly that a test is skipped, or fails it where `CHANGELOG_TEST_REQUIRE`
/// names the program.
#[track_caller]
pub(crate) fn missing(name: &str, what: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == name),
        "{what} not found, and {REQUIRE} names {name}"
    );
    println!("skipped: {what} not found");
    eprintln!("skipped: {what} not found");
}

/// Finds a program in the search path.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
