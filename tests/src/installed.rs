//! Optional programs that tests use if they are installed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::programs;

/// The variable with the programs, separated by commas, whose absence fails a test
/// instead of skipping it.
const REQUIRE_VARIABLE: &str = "CHANGELOG_TEST_REQUIRE";

/// Reports that a test is skipped, or fails it if `CHANGELOG_TEST_REQUIRE` names the
/// program.
#[track_caller]
pub fn missing(name: &str, what: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == name),
        "{what} not found, and {REQUIRE_VARIABLE} names {name}"
    );
    eprintln!("skipped: {what} not found");
    let first = REPORTED
        .lock()
        .is_ok_and(|mut reported| reported.insert(what.to_owned()));
    if first {
        // `eprintln!` is not shown for passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: {what} not found");
    }
}

/// Finds a program in PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns the path of a tool that `.ci/run` installs into the target folder.
pub fn api_tool(name: &str) -> Option<PathBuf> {
    let target = programs::folder().parent().expect("the target folder");
    let tool = target.join("api-tools").join(name);
    if tool.exists() {
        return Some(tool);
    }
    missing(
        "api-tools",
        &format!("api-tools/{name} in the target folder"),
    );
    None
}
