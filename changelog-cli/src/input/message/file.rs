//! A message from a file or a pipe.

use std::fs;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use super::Message;
use crate::base::failure::{Failure, Outcome, note};

/// The most that is read of a file or a pipe, in bytes. It is well above the
/// limit of a description, so that a longer text is reported with that limit.
const MAX_BYTES: u64 = 1024 * 1024;
/// How long a pipe may be silent before a note is printed.
const NOTE_AFTER: Duration = Duration::from_secs(2);

/// Explains that there is no title, and how to pass one.
pub(crate) fn no_title() -> Failure {
    Failure::usage("no title given")
        .line("pass it as the argument: chlog log \"Deploy api 2.3\"")
        .line(
            "or through a pipe, with the title on the first line: git log -1 --format=%B | chlog log -F -",
        )
        .line("or in a file: chlog log -F notes.txt")
        .line("or in an editor: chlog log -e")
}

/// Reads the text of a file; `-` is standard input.
pub(crate) async fn text_of(path: &Path) -> Outcome<String> {
    if path == Path::new("-") {
        return piped_text().await;
    }
    let text = fs::File::open(path).and_then(read);
    text.map_err(|error| Failure::unreadable(path, error))
}

/// Reads a message from a file; `-` is standard input.
pub(crate) async fn from_file(path: &Path) -> Outcome<Message> {
    if path == Path::new("-") {
        return from_pipe().await?.ok_or_else(no_title);
    }
    let message = Message::parse(&text_of(path).await?);
    if message.title.is_empty() {
        let name = path.display();
        return Err(Failure::usage(format!("{name} is empty")).hint("its first line is the title"));
    }
    Ok(message)
}

/// Reads a message from standard input, which the user did not name; none if it is
/// blank.
///
/// # Errors
/// Standard input is a file that another program has begun to read: most probably a
/// shell that runs the file as a script (`bash < script`). A script in a pipe cannot be
/// recognized.
pub(crate) async fn from_unnamed_pipe() -> Outcome<Option<Message>> {
    if is_script() {
        return Err(Failure::usage(
            "standard input is a file that another program is reading: a script?",
        )
        .line("pass the title as the argument, or redirect the input: < /dev/null")
        .hint("-F - reads standard input in any case"));
    }
    from_pipe().await
}

/// Returns whether standard input is most probably a script that a shell runs.
pub(crate) fn is_script() -> bool {
    is_partly_read(&io::stdin())
}

/// Returns whether an input is a file whose beginning has been read.
fn is_partly_read(input: &impl AsFd) -> bool {
    let file = input.as_fd().try_clone_to_owned().map(fs::File::from);
    // A pipe has no position.
    file.and_then(|mut file| file.stream_position())
        .is_ok_and(|position| position > 0)
}

/// Reads a message from standard input; none if it is blank.
async fn from_pipe() -> Outcome<Option<Message>> {
    let message = Message::parse(&piped_text().await?);
    Ok((!message.title.is_empty()).then_some(message))
}

/// Reads standard input to its end. In a CI run, standard input may be inherited and
/// never end, so that the command seems to hang; a note explains it.
async fn piped_text() -> Outcome<String> {
    let mut reading = tokio::task::spawn_blocking(|| read(io::stdin().lock()));
    let mut result = tokio::time::timeout(NOTE_AFTER, &mut reading).await;
    if result.is_err() {
        note("waiting for the title on standard input (or pass it as an argument)");
        result = Ok(reading.await);
    }
    result
        .map_err(io::Error::other)
        .and_then(|read| read.map_err(io::Error::other)?)
        .map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))
}

/// Reads at most [`MAX_BYTES`] of text.
pub(super) fn read(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("longer than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))?;
    // Some editors write a byte order mark.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_begun_is_recognized() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"chlog log\necho more\n").unwrap();
        assert!(is_partly_read(&file));
        io::Seek::rewind(&mut file).unwrap();
        assert!(!is_partly_read(&file));
        let (reader, _writer) = io::pipe().unwrap();
        assert!(!is_partly_read(&reader));
    }

    #[test]
    fn only_short_utf_8_texts_are_read() {
        assert_eq!(read("\u{feff}Deploy".as_bytes()).unwrap(), "Deploy");
        assert!(read(&[0xff, 0xfe][..]).is_err());
        assert!(read(io::repeat(b'x')).is_err());
    }
}
