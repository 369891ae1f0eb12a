//! Results on standard output: for people, for programs, and through pipes that
//! may be closed at any time. Nothing else prints there.

pub(crate) mod detail;
pub(crate) mod differences;
pub(crate) mod fields;
pub(crate) mod format;
pub(crate) mod history;
pub(crate) mod table;
pub(crate) mod watched;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anstream::AutoStream;
use changelog_core::text::printable;
use changelog_core::{Change, Data, Page};
use serde::Serialize;

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;
use fields::Record;
use format::Format;

/// Standard output in the chosen format.
pub(crate) struct Output {
    format: Format,
    /// Removes colours if `NO_COLOR` is set or it is not a terminal.
    out: BufWriter<AutoStream<Stdout>>,
    terminal: bool,
    /// The columns of the terminal; none when it is not one.
    width: Option<u16>,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
        let out = match format {
            Format::Table => anstream::stdout(),
            // Data has no colours; removing escape sequences would damage it.
            _ => AutoStream::always_ansi(io::stdout()),
        };
        Self {
            format,
            out: BufWriter::new(out),
            terminal,
            width: width.filter(|_| terminal),
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Writes text for people.
    pub(crate) fn text(&mut self, text: &str) -> Outcome {
        writeln!(self.out, "{}", text.trim_end_matches('\n'))
            .map_err(|error| write_failure(&error))?;
        self.flush()
    }

    /// Writes bytes as they are: completions, a manual page.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.out
            .write_all(bytes)
            .map_err(|error| write_failure(&error))?;
        self.flush()
    }

    /// Writes a value as JSON in any format.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome {
        let text = encode(value, true)?;
        self.text(&text)
    }

    /// Writes one record; for people, the text that `detail` returns.
    pub(crate) fn record<T: Record>(
        &mut self,
        record: &T,
        detail: impl FnOnce(&T) -> String,
    ) -> Outcome {
        match self.format {
            Format::Table => self.text(&detail(record)),
            Format::Json => self.json(&Data { data: record }),
            Format::Ndjson | Format::Csv | Format::Ids => {
                self.begin::<T>()?;
                self.next(record)?;
                self.flush()
            }
        }
    }

    /// Writes a whole list; for people, the table that `draw` returns for a width in
    /// columns.
    pub(crate) fn records<T: Record>(
        &mut self,
        records: Vec<T>,
        draw: impl FnOnce(&[T], Option<u16>) -> String,
    ) -> Outcome {
        match self.format {
            Format::Table if records.is_empty() => {
                note(&format!("there are no {}s", T::KIND));
                Ok(())
            }
            Format::Table => self.text(&draw(&records, self.width)),
            Format::Json => self.json(&Data { data: records }),
            Format::Ndjson | Format::Csv | Format::Ids => {
                self.begin::<T>()?;
                for record in &records {
                    self.next(record)?;
                }
                self.flush()
            }
        }
    }

    /// Writes a page of changes.
    pub(crate) fn page(&mut self, page: Page<Change>) -> Outcome {
        match self.format {
            Format::Table => self.changes(&page),
            Format::Json => self.json(&page),
            Format::Ndjson | Format::Csv | Format::Ids => {
                self.records(page.data, |_, _| String::new())
            }
        }
    }

    fn changes(&mut self, page: &Page<Change>) -> Outcome {
        if page.data.is_empty() {
            note(match page.count {
                0 => "no changes match",
                _ => "this page is past the last one",
            });
            return Ok(());
        }
        self.text(&table::changes(&page.data, self.width, time::now()))?;
        if self.terminal && page.page < page.total_pages {
            note(&format!(
                "page {} of {}, {} changes in all; -L {} --page {} shows the next page, --all shows everything",
                page.page,
                page.total_pages,
                page.count,
                page.per_page,
                page.page + 1
            ));
        }
        Ok(())
    }

    /// Begins a list of unknown length; not for tables.
    pub(crate) fn begin<T: Record>(&mut self) -> Outcome {
        match self.format {
            Format::Json => {
                write!(self.out, "{{\"data\": [").map_err(|error| write_failure(&error))
            }
            Format::Csv => {
                let columns = T::COLUMNS.iter().map(|name| (*name).to_owned()).collect();
                self.csv(columns)
            }
            Format::Table | Format::Ndjson | Format::Ids => Ok(()),
        }
    }

    /// Writes the next record of a list; not for tables.
    pub(crate) fn next<T: Record>(&mut self, record: &T) -> Outcome {
        match self.format {
            Format::Json | Format::Ndjson => {
                let text = encode(record, false)?;
                let end = if self.format == Format::Json {
                    ""
                } else {
                    "\n"
                };
                write!(self.out, "{text}{end}").map_err(|error| write_failure(&error))
            }
            Format::Csv => self.csv(record.cells()),
            Format::Table | Format::Ids => {
                writeln!(self.out, "{}", record.id()).map_err(|error| write_failure(&error))
            }
        }
    }

    /// Begins an endless list whose records are flushed one by one. A pipe gets
    /// NDJSON.
    pub(crate) fn begin_live<T: Record>(&mut self) -> Outcome {
        let is_piped = self.format == Format::Table && !self.terminal;
        if is_piped || self.format == Format::Json {
            *self = Self::new(Format::Ndjson);
        }
        self.begin::<T>()?;
        self.flush()
    }

    /// Writes the next record of an endless list; for people, the text that `line`
    /// returns.
    pub(crate) fn next_live<T: Record>(
        &mut self,
        record: &T,
        line: impl FnOnce(&T) -> String,
    ) -> Outcome {
        if self.format == Format::Table {
            return self.text(&line(record));
        }
        self.next(record)?;
        self.flush()
    }

    /// Separates two records of a list; only JSON needs it.
    pub(crate) fn separate(&mut self) -> Outcome {
        match self.format {
            Format::Json => self
                .out
                .write_all(b",\n")
                .map_err(|error| write_failure(&error)),
            _ => Ok(()),
        }
    }

    /// Ends a list. The JSON is that of a first page with `per_page` records of
    /// `count` in all.
    pub(crate) fn end(&mut self, per_page: u64, count: u64) -> Outcome {
        if self.format == Format::Json {
            let per_page = per_page.max(1);
            let pages = count.div_ceil(per_page);
            writeln!(
                self.out,
                "], \"count\": {count}, \"page\": 1, \"per_page\": {per_page}, \"total_pages\": {pages}}}"
            )
            .map_err(|error| write_failure(&error))?;
        }
        self.flush()
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| write_failure(&error))
    }

    fn csv(&mut self, cells: Vec<String>) -> Outcome {
        let terminal = self.terminal;
        let cells = cells.into_iter().map(|cell| {
            let cell = changelog_core::csv::guarded(cell);
            // A file gets the exact value, a terminal a safe one.
            if terminal {
                printable(&cell).into_owned()
            } else {
                cell
            }
        });
        let mut row = csv::Writer::from_writer(Vec::new());
        row.write_record(cells.collect::<Vec<_>>())
            .map_err(encode_failure)?;
        let row = row.into_inner().map_err(encode_failure)?;
        self.out
            .write_all(&row)
            .map_err(|error| write_failure(&error))
    }
}

/// Encodes a value as JSON that is safe to print on a terminal.
fn encode(value: &impl Serialize, pretty: bool) -> Outcome<String> {
    let text = if pretty {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    Ok(escaped(&text.map_err(encode_failure)?))
}

/// Escapes the characters that JSON allows and a terminal interprets. They occur
/// in strings only, so the value stays the same.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let is_unsafe = (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if is_unsafe {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(&mut out, format_args!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

fn write_failure(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::closed_pipe();
    }
    Failure::new(
        Exit::Other,
        format!("cannot write to standard output: {error}"),
    )
}

fn encode_failure(error: impl fmt::Display) -> Failure {
    Failure::new(Exit::Other, format!("cannot write the result: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_safe_for_a_terminal_and_keeps_its_value() {
        let value = serde_json::json!({"title": "a\u{9b}b\u{202e}c\u{7f}\n"});
        let text = encode(&value, true).unwrap();
        assert!(text.contains("a\\u009bb\\u202ec\\u007f\\n"), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(write_failure(&closed).exit, Exit::Done);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(write_failure(&full).exit, Exit::Other);
    }
}
