//! Results on standard output: for people, for programs, and through pipes that
//! may be closed at any time. Nothing else prints there.

mod catalog;
pub(crate) mod changes;
mod colors;
pub(crate) mod detail;
pub(crate) mod differences;
pub(crate) mod fitted;
pub(crate) mod flags;
pub(crate) mod format;
pub(crate) mod history;
pub(crate) mod incidents;
mod json;
mod lists;
mod pager;
pub(crate) mod plain;
pub(crate) mod post_mortem;
pub(crate) mod record;
mod transform;
pub(crate) mod watched;

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anstream::AutoStream;
use changelog_core::text::printable;
use changelog_core::{Change, Data, HistoryEntry, Page};
use serde::Serialize;
use serde_json::Value;

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::text::grouped;
use crate::base::{failure, time};
use fitted::FittedColumn;
use flags::OutputFlags;
use format::Format;
use json::{csv_cell, encode, encode_failure, escaped, reduced, reduced_document};
use lists::List;
use record::{Column, Context, Record, columns};
use transform::{Printed, Transform};

const HEADER: anstyle::Style = anstyle::Style::new().bold();

/// Standard output in the chosen format.
pub(crate) struct Output {
    format: Format,
    /// Whether the user has chosen the format.
    is_chosen: bool,
    /// The fields to which records are reduced; empty for all.
    fields: Vec<String>,
    /// The chosen columns; empty for the usual ones.
    columns: Vec<String>,
    transform: Option<Transform>,
    has_pager: bool,
    /// Removes colors if `NO_COLOR` is set or it is not a terminal.
    out: BufWriter<AutoStream<Stdout>>,
    terminal: bool,
    /// The columns and lines of the terminal; none when it is not one.
    size: Option<(u16, u16)>,
    list: List,
}

impl Output {
    /// Checks the flags before anything is sent.
    pub(crate) fn new(flags: &OutputFlags) -> Outcome<Self> {
        let transform = match (&flags.jq, &flags.template) {
            (Some(expression), _) => Some(Transform::jq(expression)?),
            (None, Some(template)) => Some(Transform::template(template)?),
            (None, None) => None,
        };
        let chosen = flags.chosen_format();
        let format = match (chosen, &transform) {
            (Some(format @ (Format::Json | Format::Ndjson)), Some(_)) => format,
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "--jq and --template work on JSON: use them alone or with --format ndjson",
                ));
            }
            (None, Some(_)) => Format::Json,
            (chosen, None) => chosen.unwrap_or_default(),
        };
        let columns = flags.columns();
        if !columns.is_empty() && !matches!(format, Format::Table | Format::Csv) {
            return Err(Failure::usage(
                "--columns works on tables and CSV; --json=FIELDS chooses the fields of JSON",
            ));
        }
        let mut output = Self::with_format(format);
        output.is_chosen = chosen.is_some();
        output.fields = flags.fields();
        output.columns = columns;
        output.transform = transform;
        output.has_pager = !flags.no_pager;
        Ok(output)
    }

    fn with_format(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        let size = terminal_size::terminal_size_of(io::stdout());
        let size = size.map(|(width, height)| (width.0, height.0));
        Self {
            format,
            is_chosen: false,
            fields: Vec::new(),
            columns: Vec::new(),
            transform: None,
            has_pager: true,
            out: BufWriter::new(stream(format)),
            terminal,
            size: size.filter(|_| terminal),
            list: List::default(),
        }
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns whether a list is written as one document with its counts.
    pub(crate) fn is_document(&self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    /// Changes the format, unless the user has chosen one.
    pub(crate) fn set_default_format(&mut self, format: Format) {
        if !self.is_chosen && self.transform.is_none() && self.columns.is_empty() {
            self.set_format(format);
        }
    }

    fn set_format(&mut self, format: Format) {
        self.format = format;
        self.out = BufWriter::new(stream(format));
    }

    /// Writes text for people; in a pager if it is longer than the terminal.
    pub(crate) fn text(&mut self, text: &str) -> Outcome {
        let text = text.trim_end_matches('\n');
        if let Some((width, height)) = self.size.filter(|_| self.has_pager)
            && pager::is_longer(text, width, height)
            && pager::show(text)
        {
            return Ok(());
        }
        self.write(&format!("{text}\n"))?;
        self.flush()
    }

    /// Writes bytes as they are: completions, a manual page.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.out
            .write_all(bytes)
            .map_err(|error| write_failure(&error))?;
        self.flush()
    }

    /// Writes a report that is not a list: as JSON, unless the user has chosen another
    /// format. It has no IDs.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome {
        match self.format {
            Format::Table | Format::Md | Format::Json | Format::Yaml => self.document(value),
            Format::Ndjson => self.line(value),
            Format::Csv => {
                let value = serde_json::to_value(value).map_err(encode_failure)?;
                let members: Vec<(String, Value)> = match value {
                    Value::Object(members) => members.into_iter().collect(),
                    other => vec![("value".to_owned(), other)],
                };
                let (names, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
                self.csv(names)?;
                self.csv(values.iter().map(csv_cell).collect())?;
                self.flush()
            }
            Format::Ids => Err(Failure::usage(
                "--format ids: the result of this command has no IDs",
            )),
        }
    }

    /// Writes a response of the API as it is, or the records in its `data`; nothing for a
    /// response without a body.
    pub(crate) fn response(&mut self, response: &Value) -> Outcome {
        if response.is_null() {
            return Ok(());
        }
        let records = match response.get("data") {
            Some(Value::Array(records)) => records.as_slice(),
            Some(record) => std::slice::from_ref(record),
            None => std::slice::from_ref(response),
        };
        match self.format {
            Format::Table | Format::Md | Format::Json | Format::Yaml | Format::Csv => {
                self.document(response)
            }
            Format::Ndjson => {
                for record in records {
                    self.line(record)?;
                }
                self.flush()
            }
            Format::Ids => {
                for id in records
                    .iter()
                    .filter_map(|record| record.get("id")?.as_str())
                {
                    self.write(&format!("{}\n", printable(id)))?;
                }
                self.flush()
            }
        }
    }

    /// Writes one record; for people, the text that `detail` returns.
    pub(crate) fn record<T: Record>(
        &mut self,
        record: &T,
        detail: impl FnOnce(&T) -> String,
    ) -> Outcome {
        match self.format {
            Format::Table if self.columns.is_empty() => self.text(&detail(record)),
            Format::Json | Format::Yaml => self.document(&Data { data: record }),
            _ => self.records(std::slice::from_ref(record)),
        }
    }

    /// Writes a whole list; for people, a table with the usual columns.
    pub(crate) fn records<T: Record>(&mut self, records: &[T]) -> Outcome {
        self.records_with(&T::usual(), records)
    }

    /// Writes a whole list; for people, a table with these columns.
    pub(crate) fn records_with<T: Record>(&mut self, usual: &[&str], records: &[T]) -> Outcome {
        match self.format {
            Format::Table if records.is_empty() => {
                self.note(&format!("no {}", T::PLURAL));
                Ok(())
            }
            Format::Table | Format::Md => self.table(records, usual),
            Format::Json | Format::Yaml => self.document(&Data { data: records }),
            Format::Ndjson | Format::Csv | Format::Ids => {
                self.begin::<T>()?;
                for record in records {
                    self.next(record)?;
                }
                self.flush()
            }
        }
    }

    /// Writes a page of changes.
    pub(crate) fn page(&mut self, page: &Page<Change>) -> Outcome {
        match self.format {
            Format::Table | Format::Md => self.changes(page),
            Format::Json | Format::Yaml => self.document(page),
            Format::Ndjson | Format::Csv | Format::Ids => self.records(&page.data),
        }
    }

    /// Writes the history of a change; for people, with everything in full.
    pub(crate) fn history(&mut self, entries: &[HistoryEntry]) -> Outcome {
        if self.format == Format::Table && self.columns.is_empty() {
            return self.text(&history::table(entries, self.width(), time::now()));
        }
        self.records(entries)
    }

    fn changes(&mut self, page: &Page<Change>) -> Outcome {
        if page.data.is_empty() {
            self.note(&match page.count {
                0 => "no changes match".to_owned(),
                _ => format!("no such page; the last page is {}", page.total_pages),
            });
            return Ok(());
        }
        self.table(&page.data, &Change::usual())?;
        if self.terminal && page.page < page.total_pages {
            self.note(&format!(
                "Showing {} of {} changes. Next page: --page {}; everything: --all",
                page.data.len(),
                grouped(page.count),
                page.page + 1
            ));
        }
        Ok(())
    }

    /// Writes a table with the chosen columns, or else with `usual` ones.
    fn table<T: Record>(&mut self, records: &[T], usual: &[&str]) -> Outcome {
        let context = Context {
            rows: records,
            now: time::now(),
        };
        let chosen: Vec<&str> = if self.columns.is_empty() {
            usual.to_vec()
        } else {
            self.columns.iter().map(String::as_str).collect()
        };
        let known = columns::<T>();
        let columns = chosen.iter().filter_map(|name| find_column(&known, name));
        let columns = columns.map(|column| FittedColumn {
            header: column.header(),
            kind: column.kind,
            cells: (records.iter().map(|record| column.cell(record, &context))).collect(),
        });
        let drawn = fitted::draw(columns.collect(), self.width(), !self.columns.is_empty());
        self.text(&drawn.text)?;
        if !drawn.hidden.is_empty() {
            let advice = if self.columns.is_empty() {
                "; --columns shows them"
            } else {
                ""
            };
            let hidden = drawn.hidden.join(", ");
            self.note(&format!("hidden at this width: {hidden}{advice}"));
        }
        Ok(())
    }

    /// Prints a note about the result on standard error, as wide as the terminal.
    pub(crate) fn note(&self, message: &str) {
        match self.width() {
            Some(width) => failure::note(&fitted::wrap(message, usize::from(width))),
            None => failure::note(message),
        }
    }

    /// Returns the width of the terminal; `None` if there is none.
    fn width(&self) -> Option<u16> {
        self.size.map(|(width, _)| width)
    }

    /// Writes text as it is.
    fn write(&mut self, text: &str) -> Outcome {
        let written = self.out.write_all(text.as_bytes());
        written.map_err(|error| write_failure(&error))
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| write_failure(&error))
    }

    /// Writes a value as one document.
    pub(crate) fn document(&mut self, value: &impl Serialize) -> Outcome {
        if let Some(transform) = &self.transform {
            let value = serde_json::to_value(value).map_err(encode_failure)?;
            let value = reduced_document(value, &self.fields);
            let printed = transform.apply(&value, self.terminal)?;
            let text = self.joined(printed);
            if text.is_empty() {
                return Ok(());
            }
            return self.text(&text);
        }
        let text = if self.format == Format::Yaml {
            // By way of a value, because `raw` numbers and enums are those of JSON.
            let value = serde_json::to_value(value).map_err(encode_failure)?;
            let text = serde_saphyr::to_string(&value).map_err(encode_failure)?;
            if self.terminal {
                printable(&text).into_owned()
            } else {
                text
            }
        } else if self.fields.is_empty() {
            encode(value, true)?
        } else {
            let value = serde_json::to_value(value).map_err(encode_failure)?;
            encode(&reduced_document(value, &self.fields), true)?
        };
        self.text(&text)
    }

    /// Writes a value as a document on a line of its own.
    fn line(&mut self, value: &impl Serialize) -> Outcome {
        let text = match &self.transform {
            Some(transform) => {
                let value = serde_json::to_value(value).map_err(encode_failure)?;
                let printed = transform.apply(&reduced(value, &self.fields), false)?;
                self.joined(printed)
            }
            None => self.encode_record(value, false)? + "\n",
        };
        self.write(&text)
    }

    /// Encodes a record with the chosen fields.
    fn encode_record(&self, record: &impl Serialize, pretty: bool) -> Outcome<String> {
        if self.fields.is_empty() {
            return encode(record, pretty);
        }
        let value = serde_json::to_value(record).map_err(encode_failure)?;
        encode(&reduced(value, &self.fields), pretty)
    }

    /// Returns what a transformation prints; safe on a terminal.
    fn joined(&self, printed: Vec<Printed>) -> String {
        let mut all = String::new();
        for one in printed {
            match one {
                Printed::Text(text) if self.terminal => all.push_str(&printable(&text)),
                Printed::Text(text) => all.push_str(&text),
                Printed::Json(json) => all.push_str(&escaped(&json)),
            }
            if !all.ends_with('\n') {
                all.push('\n');
            }
        }
        all
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

/// Returns standard output, which removes colors from texts only if they are not wanted.
fn stream(format: Format) -> AutoStream<Stdout> {
    match format {
        Format::Table => anstream::stdout(),
        // Data has no colors; removing escape sequences would damage it.
        _ => AutoStream::always_ansi(io::stdout()),
    }
}

/// Finds a column, and warns if these records do not have it.
fn find_column<'a, T: Record>(known: &'a [Column<T>], name: &str) -> Option<&'a Column<T>> {
    let found = known.iter().find(|column| column.name == name);
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|column| column.name).collect();
        warn(&flags::unknown("column", name, &names));
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(write_failure(&closed).exit, Exit::Done);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(write_failure(&full).exit, Exit::Other);
    }
}
