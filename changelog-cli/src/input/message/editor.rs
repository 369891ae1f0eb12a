//! A message from an editor.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::Message;
use super::file::read;
use super::saved::SavedText;
use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::prompting::is_interactive;

/// In an editor, the text below this line is not part of the change.
const SCISSORS: &str = "# ------------------------ >8 ------------------------";

/// Opens an editor with the known title and description.
pub(crate) fn from_editor(title: &str, description: Option<&str>) -> Outcome<(Message, SavedText)> {
    let editor = editor()
        .ok_or_else(|| Failure::usage("no editor is configured").hint("set VISUAL or EDITOR"))?;
    let template = template(title, description);
    edit_text(&editor, &template, SavedText::new(&template)?)
}

/// Returns the text that was saved last; opens it in an editor if asked to or if
/// there is a user.
pub(crate) fn recover(in_editor: bool) -> Outcome<(Message, SavedText)> {
    let saved = SavedText::last()?;
    let text = text_of(&saved)?;
    let message = Message::parse(above_scissors(&text));
    let editor = editor().filter(|_| in_editor || is_interactive());
    let Some(editor) = editor else {
        return Ok((message, saved));
    };
    // An empty template, so that even an unchanged text is kept.
    saved.write(&template(&message.title, message.description.as_deref()))?;
    edit_text(&editor, "", saved)
}

fn template(title: &str, description: Option<&str>) -> String {
    let description = description.unwrap_or_default();
    format!(
        "{title}\n\n{description}\n{SCISSORS}\n\
         # The first line is the title, the rest above this line the description.\n\
         # Without a title nothing is recorded.\n"
    )
}

/// Lets the user edit text in its file; `template` is the text without
/// input.
fn edit_text(editor: &OsString, template: &str, saved: SavedText) -> Outcome<(Message, SavedText)> {
    let failed = |error: io::Error| Failure::new(Exit::Other, format!("cannot edit: {error}"));
    let status = run_editor(editor, saved.path()).map_err(failed)?;
    let text = text_of(&saved)?;
    let message = Message::parse(above_scissors(&text));
    let is_new = text != template && !message.title.is_empty();
    if is_new {
        // Without the instructions.
        saved.write(&message.text())?;
    }
    if !status.success() {
        let message = format!(
            "the editor {} failed with {status}; nothing was recorded",
            editor.display()
        );
        if !is_new {
            saved.discard();
        }
        // 126 and 127 are from the shell: there is no such editor. Any other
        // code is how a user cancels (`:cq`).
        return Err(match status.code() {
            Some(126 | 127) => Failure::new(Exit::Other, message),
            _ => Failure::cancelled(message),
        });
    }
    if message.title.is_empty() {
        saved.discard();
        return Err(Failure::cancelled(
            "the title is empty; nothing was recorded",
        ));
    }
    Ok((message, saved))
}

fn text_of(saved: &SavedText) -> Outcome<String> {
    let text = fs::File::open(saved.path()).and_then(read);
    text.map_err(|error| Failure::unreadable(saved.path(), error))
}

fn editor() -> Option<OsString> {
    ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|editor| !editor.is_empty())
}

/// Runs an editor, which may have flags, such as `code --wait`.
fn run_editor(editor: &OsString, path: &Path) -> io::Result<std::process::ExitStatus> {
    let mut script = editor.clone();
    script.push(" \"$1\"");
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg("chlog")
        .arg(path)
        .status()
}

/// Returns the text above the scissors line.
fn above_scissors(text: &str) -> &str {
    text.split_once(SCISSORS).map_or(text, |(above, _)| above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_above_the_scissors_are_kept() {
        let text = format!("Deploy\n\n# Why\nBecause\n{SCISSORS}\n# The first line is…\n");
        let message = Message::parse(above_scissors(&text));
        assert_eq!(message.description.as_deref(), Some("# Why\nBecause"));
    }
}
