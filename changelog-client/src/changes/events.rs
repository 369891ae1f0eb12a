//! Parses server-sent events, as the HTML standard defines them.
//!
//! The field `retry` is ignored, because the retry policy of the client sets the
//! delays. Published crates were compared: `eventsource-stream` 0.2.3 panics on a
//! byte order mark, forgets the last id at an event without one, and collects
//! bytes without a limit.

use std::collections::VecDeque;
use std::mem;

/// The largest event, in bytes. The largest change has less than 256 KiB.
const MAX_EVENT: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// `message` if the service did not set it.
    pub(crate) name: String,
    pub(crate) data: String,
    /// The id of this event, or of the last one before it that had an id.
    pub(crate) id: String,
}

/// An event exceeds the size limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {MAX_EVENT} bytes")]
pub(crate) struct TooLarge;

/// Turns the bytes of a response into events, however the bytes are divided.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    /// The bytes of the line that has not ended.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed after it belongs
    /// to the same end of line.
    is_after_cr: bool,
    has_read_line: bool,
    /// The fields of the event that has not ended.
    name: String,
    data: String,
    last_id: String,
    complete: VecDeque<Event>,
}

impl EventParser {
    /// Adds bytes of the response.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        for &byte in bytes {
            match byte {
                b'\n' if self.is_after_cr => self.is_after_cr = false,
                b'\n' | b'\r' => {
                    self.is_after_cr = byte == b'\r';
                    self.end_line();
                }
                _ => {
                    self.is_after_cr = false;
                    if self.line.len() + self.data.len() >= MAX_EVENT {
                        return Err(TooLarge);
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.complete.pop_front()
    }

    fn end_line(&mut self) {
        let mut bytes = mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let is_first = !mem::replace(&mut self.has_read_line, true);
        let line = line
            .strip_prefix('\u{feff}')
            .filter(|_| is_first)
            .unwrap_or(&line);
        if line.is_empty() {
            self.end_event();
        } else {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.name),
                "data" => {
                    self.data.push_str(value);
                    self.data.push('\n');
                }
                "id" if !value.contains('\0') => value.clone_into(&mut self.last_id),
                // A comment has the field "".
                _ => {}
            }
        }
        // The next line uses the same memory.
        bytes.clear();
        self.line = bytes;
    }

    fn end_event(&mut self) {
        let name = mem::take(&mut self.name);
        let mut data = mem::take(&mut self.data);
        if data.pop().is_none() {
            return;
        }
        self.complete.push_back(Event {
            name: if name.is_empty() {
                "message".to_owned()
            } else {
                name
            },
            data,
            id: self.last_id.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str, id: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
            id: id.to_owned(),
        }
    }

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut parser = EventParser::default();
        for chunk in chunks {
            parser.push(chunk).unwrap();
        }
        std::iter::from_fn(|| parser.pop()).collect()
    }

    #[test]
    fn fields_become_events() {
        for (text, expected) in [
            (
                "id: 1\nevent: change\ndata: {}\n\n",
                vec![event("change", "{}", "1")],
            ),
            (
                "data:a\ndata:  b\ndata\n\n",
                vec![event("message", "a\n b\n", "")],
            ),
            (
                "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
                vec![
                    event("message", "a", "1"),
                    event("message", "b", "1"),
                    event("message", "c", ""),
                ],
            ),
            (
                "id: 1\nid: a\0b\ndata: a\n\n",
                vec![event("message", "a", "1")],
            ),
            (
                "data: a: b\nretry: 5\nother: x\n\n",
                vec![event("message", "a: b", "")],
            ),
            ("\u{feff}data: a\n\n", vec![event("message", "a", "")]),
            (": a comment\n\n:\n\n", vec![]),
            (
                "event: change\n\ndata: a\n\n",
                vec![event("message", "a", "")],
            ),
            ("data: not ended\n", vec![]),
            ("data:\n\n", vec![event("message", "", "")]),
        ] {
            assert_eq!(parse([text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn ends_of_lines_and_divisions_do_not_matter() {
        for end in ["\n", "\r\n", "\r"] {
            let text = [
                "\u{feff}id: 1",
                "event: change",
                "data: äö🚀",
                "data: b",
                "",
                ": c",
                "",
                "data: d",
                "",
                "",
            ]
            .join(end);
            let expected = [event("change", "äö🚀\nb", "1"), event("message", "d", "1")];
            for size in 1..text.len() {
                assert_eq!(
                    parse(text.as_bytes().chunks(size)),
                    expected,
                    "{end:?} {size}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        let events = parse([b"data: a\xffb\n\ndata: c\n\n".as_slice()]);
        assert_eq!(
            events,
            [
                event("message", "a\u{fffd}b", ""),
                event("message", "c", "")
            ]
        );
    }

    #[test]
    fn memory_is_limited() {
        let chunk = vec![b'x'; 64 * 1024];
        let mut parser = EventParser::default();
        let count = (0..MAX_EVENT)
            .take_while(|_| parser.push(&chunk).is_ok())
            .count();
        assert_eq!(count, MAX_EVENT / chunk.len(), "one line");

        let mut parser = EventParser::default();
        let line = [b"data: ", &*chunk, b"\n"].concat();
        let count = (0..MAX_EVENT)
            .take_while(|_| parser.push(&line).is_ok())
            .count();
        assert_eq!(count, MAX_EVENT / line.len(), "many lines");

        // Comments and other fields are not collected.
        let mut parser = EventParser::default();
        for _ in 0..=MAX_EVENT / chunk.len() {
            parser.push(b": ").unwrap();
            parser.push(&chunk).unwrap();
            parser.push(b"\n").unwrap();
        }
    }
}
