//! Tables of results.

use changelog_core::text::printable;
use comfy_table::{ContentArrangement, Table};

/// The space after a column, in columns of the terminal.
const GAP: u16 = 2;

/// Lays out rows below a header, in the width of the terminal and as `chlog` does.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell).into_owned()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table.trim_fmt()
}
