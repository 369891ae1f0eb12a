//! A record that is listed, and the columns of its tables and of CSV.

use changelog_core::Timestamp;
use serde::Serialize;

use super::fitted::{Cell, Kind};
use super::json::csv_cell;

/// A record that is listed.
pub(crate) trait Record: Serialize {
    /// The word for several of them in messages.
    const PLURAL: &'static str;
    /// The names of the columns of CSV.
    const COLUMNS: &'static [&'static str];

    fn id(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        csv_cell(&json["id"])
    }

    /// Returns one cell for each of [`Self::COLUMNS`], by default the members of its JSON;
    /// an absent value is empty.
    fn cells(&self) -> Vec<String> {
        let json = serde_json::to_value(self).unwrap_or_default();
        let cells = Self::COLUMNS.iter().map(|name| csv_cell(&json[*name]));
        cells.collect()
    }

    /// Returns the columns of its tables; those of CSV with other names are added.
    fn columns() -> Vec<Column<Self>>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Returns the names of the columns that a table has unless the user chooses others.
    fn usual() -> Vec<&'static str>
    where
        Self: Sized,
    {
        let columns = Self::columns();
        columns.iter().map(|column| column.name).collect()
    }
}

/// A column of a table of records.
pub(crate) struct Column<T> {
    /// The name for `--columns`; in capitals, the header.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    cell: CellOf<T>,
}

type CellOf<T> = Box<dyn Fn(&T, &Context<'_, T>) -> Cell>;

/// What a cell depends on in addition to its record.
pub(crate) struct Context<'a, T> {
    /// All records of the table.
    pub(super) rows: &'a [T],
    pub(crate) now: Timestamp,
}

impl<T: Record> Column<T> {
    pub(crate) fn new(
        name: &'static str,
        kind: Kind,
        cell: impl Fn(&T, &Context<'_, T>) -> Cell + 'static,
    ) -> Self {
        let cell = Box::new(cell);
        Self { name, kind, cell }
    }

    /// Returns the cell of a record.
    pub(super) fn cell(&self, record: &T, context: &Context<'_, T>) -> Cell {
        (self.cell)(record, context)
    }

    pub(super) fn header(&self) -> String {
        self.name.to_uppercase().replace('_', " ")
    }
}

/// Returns the columns that `--columns` can name: those of the table, then the other
/// ones of CSV.
pub(super) fn columns<T: Record>() -> Vec<Column<T>> {
    let mut columns = T::columns();
    for (index, name) in T::COLUMNS.iter().enumerate() {
        if !columns.iter().any(|column| column.name == *name) {
            columns.push(Column::new(name, Kind::Side, move |record: &T, _| {
                Cell::new(record.cells().swap_remove(index))
            }));
        }
    }
    columns
}

/// Returns the names of the columns that `--columns` can name.
pub(crate) fn column_names<T: Record>() -> Vec<&'static str> {
    let columns = columns::<T>();
    columns.iter().map(|column| column.name).collect()
}
