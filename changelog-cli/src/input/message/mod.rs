//! Where the words of a change come from: the argument, a file, a pipe, an
//! editor, or the person at the terminal.

mod prompts;
mod sources;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use changelog_core::{RiskLevel, Status};

use crate::base::failure::{Exit, Failure, Outcome, note};

pub(crate) use prompts::{from_person, unanswered};
pub(crate) use sources::Typed;

/// The most that is read of a file or a pipe, in bytes; well above what a
/// description may have, so that the limit that is reported is that one.
const MAX_BYTES: u64 = 1024 * 1024;
/// How long a pipe may be silent before it is said that it is being read.
const SILENCE: Duration = Duration::from_secs(2);
/// What is below this line in an editor is not part of the change.
const SCISSORS: &str = "# ------------------------ >8 ------------------------";

/// A title, and what was said beyond it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) title: String,
    pub(crate) description: Option<String>,
    /// Only when a person was asked.
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) status: Option<Status>,
}

impl Words {
    /// Takes the first line as the title and the rest as the description.
    fn split(text: &str) -> Self {
        let text = text.trim();
        let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
        let rest = rest.trim();
        Self {
            title: title.trim_end().to_owned(),
            description: (!rest.is_empty()).then(|| rest.to_owned()),
            ..Self::default()
        }
    }
}

/// Tells whether there is a person to ask.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Says that there is no title, and how to give one.
pub(crate) fn no_title() -> Failure {
    Failure::usage("there is no title")
        .line("give it as the argument: chlog log \"Deploy api 2.3\"")
        .line(
            "or through a pipe, the first line the title: git log -1 --format=%B | chlog log -F -",
        )
        .line("or in a file: chlog log -F notes.txt")
        .line("or in an editor: chlog log -e")
}

/// Reads a file, or standard input when it is called `-`.
pub(crate) async fn from_file(path: &Path) -> Outcome<Words> {
    if path == Path::new("-") {
        return from_pipe().await?.ok_or_else(no_title);
    }
    let text = fs::File::open(path).and_then(read);
    let words = Words::split(&text.map_err(|error| unreadable(path, &error))?);
    if words.title.is_empty() {
        let name = path.display();
        return Err(Failure::usage(format!("{name} is empty")).hint("its first line is the title"));
    }
    Ok(words)
}

/// Reads standard input to its end; none when there are no words in it. In a
/// CI run it may be nothing at all, or something inherited that never ends; the
/// second is said aloud, since from outside it looks like a hanging command.
pub(crate) async fn from_pipe() -> Outcome<Option<Words>> {
    let mut reading = tokio::task::spawn_blocking(|| read(io::stdin().lock()));
    let mut result = tokio::time::timeout(SILENCE, &mut reading).await;
    if result.is_err() {
        note("reading the title from standard input; or give it as the argument");
        result = Ok(reading.await);
    }
    let text = result
        .map_err(io::Error::other)
        .and_then(|read| read.map_err(io::Error::other)?)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
    let words = Words::split(&text);
    Ok((!words.title.is_empty()).then_some(words))
}

fn read(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!(
            "it has more than {MAX_BYTES} bytes"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    // What some editors put before the first character.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// Opens an editor on what is known already.
pub(crate) fn from_editor(title: &str, description: Option<&str>) -> Outcome<(Words, Typed)> {
    let editor = editor().ok_or_else(|| {
        Failure::usage("it is not known which editor to open").hint("set VISUAL or EDITOR")
    })?;
    let offered = template(title, description);
    edit_text(&editor, &offered, Typed::new(&offered)?)
}

/// Takes the text that was kept last: in an editor, or as it is.
pub(crate) fn recovered(in_editor: bool) -> Outcome<(Words, Typed)> {
    let typed = Typed::last()?;
    let text = fs::File::open(typed.path()).and_then(read);
    let text = text.map_err(|error| unreadable(typed.path(), &error))?;
    let words = Words::split(edited(&text));
    let editor = editor().filter(|_| in_editor || somebody_is_there());
    let Some(editor) = editor else {
        return Ok((words, typed));
    };
    // Whatever it is that is saved: it was worth keeping.
    typed.write(&template(&words.title, words.description.as_deref()))?;
    edit_text(&editor, "", typed)
}

fn template(title: &str, description: Option<&str>) -> String {
    let description = description.unwrap_or_default();
    format!(
        "{title}\n\n{description}\n{SCISSORS}\n\
         # The first line is the title, the rest above this line the description.\n\
         # Without a title nothing is recorded.\n"
    )
}

/// Lets a person edit a text in its file.
fn edit_text(editor: &OsString, offered: &str, typed: Typed) -> Outcome<(Words, Typed)> {
    let failed = |error: io::Error| Failure::new(Exit::Other, format!("cannot edit: {error}"));
    let status = edit(editor, typed.path()).map_err(failed)?;
    let text = fs::File::open(typed.path()).and_then(read);
    let text = text.map_err(|error| unreadable(typed.path(), &error))?;
    let words = Words::split(edited(&text));
    let is_new = text != offered && !words.title.is_empty();
    if is_new {
        // Without the explanation, for whatever reads it later.
        let description = words.description.as_deref().unwrap_or_default();
        typed.write(&format!("{}\n\n{description}\n", words.title))?;
    }
    if !status.success() {
        let message = format!(
            "the editor {} ended with {status}; nothing was recorded",
            editor.display()
        );
        if !is_new {
            typed.discard();
        }
        // 126 and 127 are the shell's: there is no such editor. Any other
        // failure is how a person leaves an editor to call it off (`:cq`).
        return Err(match status.code() {
            Some(126 | 127) => Failure::new(Exit::Other, message),
            _ => Failure::cancelled(message),
        });
    }
    if words.title.is_empty() {
        typed.discard();
        return Err(Failure::cancelled(
            "the title is empty; nothing was recorded",
        ));
    }
    Ok((words, typed))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

fn editor() -> Option<OsString> {
    ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|editor| !editor.is_empty())
}

/// Runs an editor that may come with flags, such as `code --wait`.
#[cfg(unix)]
fn edit(editor: &OsString, path: &Path) -> io::Result<std::process::ExitStatus> {
    let mut script = editor.clone();
    script.push(" \"$1\"");
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg("chlog")
        .arg(path)
        .status()
}

#[cfg(not(unix))]
fn edit(editor: &OsString, path: &Path) -> io::Result<std::process::ExitStatus> {
    Command::new(editor).arg(path).status()
}

/// Returns what stands above the scissors.
fn edited(text: &str) -> &str {
    text.split_once(SCISSORS).map_or(text, |(above, _)| above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_title_and_the_rest_the_description() {
        for (text, title, description) in [
            ("Deploy", "Deploy", None),
            ("\n\n Deploy  \n\n\n", "Deploy", None),
            ("Deploy\n\nAll\n of it\n", "Deploy", Some("All\n of it")),
            ("Deploy\r\n\r\nAll\r\n", "Deploy", Some("All")),
            ("", "", None),
        ] {
            let words = Words::split(text);
            assert_eq!(words.title, title, "{text:?}");
            assert_eq!(words.description.as_deref(), description, "{text:?}");
        }
    }

    #[test]
    fn headings_above_the_scissors_are_kept() {
        let text = format!("Deploy\n\n# Why\nBecause\n{SCISSORS}\n# The first line is…\n");
        let words = Words::split(edited(&text));
        assert_eq!(words.description.as_deref(), Some("# Why\nBecause"));
    }

    #[test]
    fn what_is_read_is_bounded_and_text() {
        assert_eq!(read("\u{feff}Deploy".as_bytes()).unwrap(), "Deploy");
        assert!(read(&[0xff, 0xfe][..]).is_err());
        assert!(read(io::repeat(b'x')).is_err());
    }
}
