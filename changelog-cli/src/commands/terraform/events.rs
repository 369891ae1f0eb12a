//! Reading Terraform's events and printing them.

use std::io::{self, BufRead, Read, Write};

use anstream::adapter::strip_str;
use changelog_core::text::printable;

use crate::base::failure::{note, warn};
use crate::terraform::events::Events;
use crate::terraform::renderer::{Rendered, render};

/// The longest line that is read, in bytes; a longer one is ignored.
const MAX_LINE: u64 = 1024 * 1024;

/// Reads events line by line to the end, and calls `print` with each line.
pub(super) fn follow(mut from: impl BufRead, mut print: impl FnMut(&[u8])) -> Events {
    let mut events = Events::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) => return events,
            Ok(_) if !line.ends_with(b"\n") && line.len() as u64 >= MAX_LINE => {
                warn(&format!("skipped a line longer than {MAX_LINE} bytes"));
                if from.skip_until(b'\n').is_err() {
                    return events;
                }
            }
            Ok(_) => {
                events.read_line(&line);
                print(&line);
            }
            Err(error) => {
                warn(&format!("cannot read any further: {error}"));
                return events;
            }
        }
    }
}

/// Prints an event as text, and any other line as it is, on standard error. A
/// closed standard error must not end Terraform.
pub(super) fn print_on_stderr(line: &[u8]) {
    match render(line) {
        Rendered::Nothing => {}
        Rendered::Text(text) | Rendered::Error(text) => note(&strip_str(&text).to_string()),
        Rendered::NotAnEvent => {
            let _ = io::stderr().write_all(line);
        }
    }
}

/// Prints an event as text on the stream that Terraform would use.
pub(super) fn print_on_terminal(line: &[u8]) {
    // A closed standard output must not end Terraform.
    match render(line) {
        Rendered::Nothing => {}
        Rendered::Text(text) => {
            let _ = writeln!(io::stdout(), "{}", printable(&strip_str(&text).to_string()));
        }
        Rendered::Error(text) => note(&strip_str(&text).to_string()),
        Rendered::NotAnEvent => print_unchanged(line),
    }
}

/// Prints a line unchanged on standard output.
pub(super) fn print_unchanged(line: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(line).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terraform::events::RunFacts;
    use crate::terraform::summary::Ending;

    #[test]
    fn long_lines_are_ignored_and_the_rest_is_read() {
        let mut input = b"plain\n".to_vec();
        input.extend(vec![b'x'; 3 * 1024 * 1024]);
        input.extend(b"\n{\"type\": \"version\", \"terraform\": \"1.11.4\", \"@message\": \"v\"}");
        let mut lines = Vec::new();
        let events = follow(&input[..], |line| lines.push(line.to_vec()));
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], b"plain\n");
        assert!(events.any());
        let summary = events.finish(RunFacts::default());
        assert_eq!(summary.ending, Ending::Missing);
        assert_eq!(summary.version.as_deref(), Some("1.11.4"));
    }
}
