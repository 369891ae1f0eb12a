//! What `docs/guarantees.md` promises has the tests that it names.

use std::fs;
use std::path::Path;

#[test]
fn every_test_of_a_guarantee_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(folder.join("../docs/guarantees.md")).expect("a document");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter(|row| row.contains(".rs`"));
    let mut tests = 0;
    for row in rows {
        // In quotation: files, and then the functions that each of them has.
        let mut files: Vec<&str> = Vec::new();
        let mut is_function_next = false;
        for quoted in row.split('`').skip(1).step_by(2) {
            if Path::new(quoted).extension().is_some() {
                if is_function_next {
                    files.clear();
                    is_function_next = false;
                }
                files.push(quoted);
                continue;
            }
            if files.is_empty() {
                continue;
            }
            is_function_next = true;
            for file in &files {
                let source = fs::read_to_string(folder.join("it").join(file));
                let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
                let function = format!("fn {quoted}(");
                assert!(source.contains(&function), "{file} has no {quoted}");
                tests += 1;
            }
        }
    }
    assert!(tests >= 35, "only {tests} tests");
}
