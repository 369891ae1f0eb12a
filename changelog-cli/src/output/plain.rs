//! Tables with everything in full: cells are wrapped, and nothing is cut or hidden.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use super::fitted::CELL_GAP;
use crate::base::text::one_line;

/// Returns a cell that is safe to print.
pub(crate) fn cell(text: &str) -> Cell {
    Cell::new(one_line(text))
}

/// Draws a table; without a width, cells are not wrapped.
pub(crate) fn draw<const COLUMNS: usize>(
    header: &[&str],
    rows: impl IntoIterator<Item = [Cell; COLUMNS]>,
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        // Standard output removes colors that are not wanted.
        .enforce_styling()
        .add_rows(rows);
    if !header.is_empty() {
        table.set_header(header.to_vec());
    }
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, CELL_GAP));
    }
    table.trim_fmt()
}
