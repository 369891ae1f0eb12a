//! Completions of the command that `chlog run` starts: programs, then files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};

/// The variable with the index of the word that a shell completes.
const INDEX_VARIABLE: &str = "_CLAP_COMPLETE_INDEX";
/// How many programs are offered.
const MAX_PROGRAMS: usize = 200;

/// Completes the words of a command.
pub(crate) fn command_words() -> ArgValueCompleter {
    ArgValueCompleter::new(complete)
}

fn complete(current: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let index = std::env::var(INDEX_VARIABLE).ok();
    let index = index.and_then(|index| index.parse().ok());
    let is_path = current.to_string_lossy().contains('/');
    if is_program(&words, index.unwrap_or(words.len().saturating_sub(1))) && !is_path {
        let path = std::env::var_os("PATH").unwrap_or_default();
        return programs(&path, &current.to_string_lossy());
    }
    PathCompleter::any().complete(current)
}

/// Returns whether the word with this index is the program: the first one after `--` or
/// `run`.
fn is_program(words: &[String], index: usize) -> bool {
    let before = words.get(..index).unwrap_or(words);
    let start = before.iter().position(|word| word == "--");
    let start = start.or_else(|| before.iter().position(|word| word == "run"));
    start.is_none_or(|start| index == start + 1)
}

/// Returns the programs in a search path that begin with a prefix, in alphabetical order.
fn programs(path: &OsStr, prefix: &str) -> Vec<CompletionCandidate> {
    let mut names = BTreeSet::new();
    for folder in std::env::split_paths(path) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(prefix) && is_executable(&entry.path()) {
                names.insert(name);
            }
        }
    }
    let names = names.into_iter().take(MAX_PROGRAMS);
    names.map(CompletionCandidate::new).collect()
}

fn is_executable(path: &Path) -> bool {
    let found = path.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_a_program_and_the_others_are_files() {
        for (line, index, expected) in [
            ("chlog run -- ma", 3, true),
            ("chlog run --tag a -- make x", 6, false),
            ("chlog run ma", 2, true),
            ("chlog terraform run -- -chdir=x", 4, true),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(is_program(&words, index), expected, "{line}");
        }
    }

    #[test]
    fn only_executable_files_are_programs() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("make-it", 0o755), ("makefile", 0o644), ("other", 0o755)] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let found = programs(folder.path().as_os_str(), "make");
        let names: Vec<&OsStr> = found.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(names, ["make-it"]);
    }
}
