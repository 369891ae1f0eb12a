//! Lists that are written record by record: of unknown length, or without an end.

use changelog_core::Page;
use serde_json::Value;

use super::format::Format;
use super::json::encode_failure;
use super::record::{Context, Record, columns};
use super::{HEADER, Output, find_column};
use crate::base::failure::{Outcome, note};
use crate::base::time;

/// A list that is being written.
#[derive(Default)]
pub(super) struct List {
    /// How many records have been written.
    count: u64,
    /// The records of a document that can only be written as a whole.
    rows: Vec<Value>,
}

impl Output {
    /// Begins a list of unknown length; not for tables.
    pub(crate) fn begin<T: Record>(&mut self) -> Outcome {
        self.list = List::default();
        match self.format {
            Format::Csv if self.columns.is_empty() => {
                self.csv(T::COLUMNS.iter().map(|name| (*name).to_owned()).collect())
            }
            Format::Csv => {
                let known = columns::<T>();
                let chosen = self.columns.iter();
                let names = chosen.filter_map(|name| find_column(&known, name));
                let names = names.map(|column| column.name.to_owned()).collect();
                self.csv(names)
            }
            _ => Ok(()),
        }
    }

    /// Writes the next record of a list; not for tables.
    pub(crate) fn next<T: Record>(&mut self, record: &T) -> Outcome {
        self.list.count += 1;
        match self.format {
            Format::Json if self.transform.is_none() => {
                let start = match self.list.count {
                    1 => "{\n  \"data\": [\n    ",
                    _ => ",\n    ",
                };
                let text = self.encode_record(record, true)?;
                self.write(&format!("{start}{}", text.replace('\n', "\n    ")))
            }
            Format::Json | Format::Yaml => {
                let row = serde_json::to_value(record).map_err(encode_failure)?;
                self.list.rows.push(row);
                Ok(())
            }
            Format::Ndjson => self.line(record),
            Format::Csv if self.columns.is_empty() => self.csv(record.cells()),
            Format::Csv => {
                let context = Context {
                    rows: &[],
                    now: time::now(),
                };
                let known = columns::<T>();
                let mut cells = Vec::new();
                for name in &self.columns {
                    if let Some(at) = T::COLUMNS.iter().position(|column| column == name) {
                        cells.push(record.cells().swap_remove(at));
                    } else if let Some(column) = find_column(&known, name) {
                        cells.push(column.cell(record, &context).text().to_owned());
                    }
                }
                self.csv(cells)
            }
            Format::Table | Format::Md | Format::Ids => self.write(&format!("{}\n", record.id())),
        }
    }

    /// Ends a list. The JSON is that of a first page with `per_page` records of
    /// `count` in all.
    pub(crate) fn end(&mut self, per_page: u64, count: u64) -> Outcome {
        let per_page = per_page.max(1);
        let pages = count.div_ceil(per_page);
        if self.format == Format::Json && self.transform.is_none() {
            let (start, end) = match self.list.count {
                0 => ("{\n  \"data\": [", ""),
                _ => ("", "\n  "),
            };
            self.write(&format!(
                "{start}{end}],\n  \"count\": {count},\n  \"page\": 1,\n  \"per_page\": {per_page},\n  \"total_pages\": {pages}\n}}\n"
            ))?;
        } else if self.is_document() {
            let page = Page {
                data: std::mem::take(&mut self.list.rows),
                count,
                page: 1,
                per_page,
                total_pages: pages,
            };
            self.document(&page)?;
        }
        self.flush()
    }

    /// Begins an endless list whose records are flushed one by one. A pipe gets
    /// NDJSON, unless the user has chosen a format.
    pub(crate) fn begin_live<T: Record>(&mut self) -> Outcome {
        let is_piped = self.format == Format::Table && !self.terminal;
        if (is_piped && !self.is_chosen) || self.is_document() {
            self.set_format(Format::Ndjson);
        }
        self.begin::<T>()?;
        self.flush()
    }

    /// Writes the line above an endless list on a terminal, and says that nothing is
    /// missing if nothing follows.
    pub(crate) fn live_header(&mut self, header: impl FnOnce(Option<u16>) -> String) -> Outcome {
        if self.terminal {
            note("watching for changes; press Ctrl-C to stop");
        }
        if self.format == Format::Table && self.terminal {
            let header = header(self.width());
            return self.text(&format!("{HEADER}{header}{HEADER:#}"));
        }
        Ok(())
    }

    /// Writes the next record of an endless list; for people, the text that `line`
    /// returns for the width of the terminal.
    pub(crate) fn next_live<T: Record>(
        &mut self,
        record: &T,
        line: impl FnOnce(&T, Option<u16>) -> String,
    ) -> Outcome {
        if self.format == Format::Table {
            let line = line(record, self.width());
            self.write(&format!("{line}\n"))?;
        } else {
            self.next(record)?;
        }
        self.flush()
    }
}
