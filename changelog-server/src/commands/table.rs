//! Tables of results.

use changelog_core::text::printable;
use comfy_table::{ContentArrangement, Table};

/// Lays out rows below a header, in the width of the terminal.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell).into_owned()));
    }
    table.to_string()
}
