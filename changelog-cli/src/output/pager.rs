//! Shows text that is longer than the terminal in a pager.

use std::env;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use anstream::AutoStream;
use anstream::ColorChoice;
use unicode_width::UnicodeWidthStr;

/// The pager if the environment names none: it keeps colors, leaves the text on the
/// screen, and ends by itself if all of it fits.
const DEFAULT_PAGER: &str = "less -FRX";

/// Returns whether a string does not fit on a terminal of this size.
pub(super) fn is_longer(text: &str, width: u16, height: u16) -> bool {
    let width = usize::from(width.max(1));
    let lines = text.lines().map(|line| {
        let plain = anstream::adapter::strip_str(line).to_string();
        plain.width().max(1).div_ceil(width)
    });
    // The prompt of the shell has a line of its own.
    lines.sum::<usize>() >= usize::from(height.max(1))
}

/// Shows a string until the user leaves the pager. Returns false if there is none, or it
/// cannot be started.
pub(super) fn show(text: &str) -> bool {
    let Some(words) = command() else {
        return false;
    };
    let mut pager = Command::new(&words[0]);
    pager.args(&words[1..]).stdin(Stdio::piped());
    if env::var_os("LESS").is_none() {
        pager.env("LESS", "FRX");
    }
    let Ok(mut pager) = pager.spawn() else {
        return false;
    };
    if let Some(input) = pager.stdin.take() {
        let text = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => anstream::adapter::strip_str(text).to_string(),
            _ => text.to_owned(),
        };
        let mut input = input;
        // The user may leave before the end.
        let _ = writeln!(input, "{text}");
    }
    // An error of the pager is on the terminal already.
    let _ = pager.wait();
    true
}

/// Returns the words of the pager's command line. None if the environment names an empty
/// one, or `cat`.
fn command() -> Option<Vec<String>> {
    let line = ["CHLOG_PAGER", "PAGER"]
        .into_iter()
        .find_map(|name| env::var(name).ok())
        .unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let words = shlex::split(&line)?;
    let program = words.first()?;
    (program != "cat").then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_the_terminal_wraps_count_as_several() {
        assert!(!is_longer("a\nb", 80, 3));
        assert!(is_longer("a\nb\nc", 80, 3));
        let long = format!("{}\nb", "x".repeat(81));
        assert!(is_longer(&long, 80, 3));
        assert!(!is_longer("\u{1b}[31mabc\u{1b}[0m\nb", 3, 3));
    }
}
