//! Fits a table to the width of a terminal: texts are cut, columns are hidden, and
//! identifiers are never cut.

use std::collections::HashSet;

use comfy_table::{Attribute, Cell as DrawnCell, Color, ContentArrangement, Row, Table, presets};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::base::text::one_line;

/// The space after a column, in columns of the terminal.
pub(super) const CELL_GAP: u16 = 2;
const GAP: usize = CELL_GAP as usize;
/// The width of the only text of a row before side columns are shown.
const TEXT_WIDTH: usize = 40;
/// The width of each of several texts before side columns are shown.
const SHARED_TEXT_WIDTH: usize = 30;
/// The minimum width of a column of text next to fixed columns, and of a side column that is
/// named with `--columns`.
const MIN_CUT_WIDTH: usize = 8;
/// The width that a side column has before the others get more.
const SIDE_WIDTH: usize = 20;
/// The fewest characters of a short id: its 12 digits that are a time in milliseconds, which no
/// other change has as a rule. Fewer are those of all changes of a minute, of which the table
/// has only some.
pub(super) const MIN_ID_CHARS: usize = 13;

/// How a column is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The ids of changes, as the shortest prefixes that are unique in the table and, as a
    /// rule, in the organization.
    Id,
    /// Short words without which a row says nothing, such as the time of what is scheduled:
    /// shown also where there is no room for text next to them.
    Needed,
    /// Short words that are shown as long as there is room for some text.
    Fixed,
    /// A title or another text; cut.
    Text,
    /// Text that is never cut; it wraps if it is long.
    Wrapped,
    /// Hidden before texts get narrow; cut.
    Side,
    /// Hidden before texts get narrow, and never cut.
    Whole,
}

/// A cell with text that is safe to print.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self {
            text: one_line(text.as_ref()),
            color: None,
        }
    }

    /// Returns the cell of a value that may be absent.
    pub(crate) fn of(text: Option<impl AsRef<str>>) -> Self {
        text.map(Self::new).unwrap_or_default()
    }

    pub(crate) fn color(mut self, color: Color) -> Self {
        self.color = Some(color);
        self
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A column of a table with the cells of all rows.
pub(super) struct FittedColumn {
    pub(super) header: String,
    pub(super) kind: Kind,
    pub(super) cells: Vec<Cell>,
}

impl FittedColumn {
    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.text.is_empty())
    }

    /// Returns the width that the column has if nothing is cut.
    fn width(&self) -> usize {
        let widest = self.cells.iter().map(|cell| cell.text.width()).max();
        widest.unwrap_or_default().max(self.header.width())
    }
}

/// A table as text, and the headers of the columns for which there was no room.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) text: String,
    pub(super) hidden: Vec<String>,
}

/// Draws a table for a terminal of `width` columns, or with everything in full if there
/// is no terminal. Columns that the user has chosen are cut rather than hidden.
pub(super) fn draw(mut columns: Vec<FittedColumn>, width: Option<u16>, is_chosen: bool) -> Drawn {
    if !is_chosen {
        columns.retain(|column| !column.is_empty());
    }
    let mut hidden = Vec::new();
    if let Some(width) = width {
        for column in columns.iter_mut().filter(|column| column.kind == Kind::Id) {
            shorten_ids(&mut column.cells);
        }
        let widths = widths(&columns, usize::from(width), is_chosen);
        let mut widths = widths.into_iter();
        columns.retain_mut(|column| {
            let Some(width) = widths.next().flatten() else {
                hidden.push(column.header.clone());
                return false;
            };
            for cell in &mut column.cells {
                cell.text = match column.kind {
                    Kind::Wrapped => wrap(&cell.text, width),
                    _ => cut(&cell.text, width),
                };
            }
            column.header = cut(&column.header, width);
            true
        });
    }
    Drawn {
        text: render(&columns),
        hidden,
    }
}

/// Returns the width of each column, or none where it is hidden.
fn widths(columns: &[FittedColumn], width: usize, is_chosen: bool) -> Vec<Option<usize>> {
    let natural: Vec<usize> = columns.iter().map(FittedColumn::width).collect();
    let is = |kind: Kind| {
        let indexes = (0..columns.len()).filter(move |at| columns[*at].kind == kind);
        indexes.collect::<Vec<usize>>()
    };
    let is_text = || {
        let mut texts = is(Kind::Text);
        texts.extend(is(Kind::Wrapped));
        texts
    };
    let (ids, fixed, texts) = (is(Kind::Id), is(Kind::Fixed), is_text());
    let mut widths: Vec<Option<usize>> = vec![None; columns.len()];
    // The last column has no gap after it.
    let mut room = width + GAP;
    for at in ids {
        widths[at] = Some(natural[at]);
        room = room.saturating_sub(natural[at] + GAP);
    }
    let texts_need = |least: usize| -> usize {
        let widths = texts.iter().map(|at| natural[*at].min(least) + GAP);
        widths.sum()
    };
    for at in is(Kind::Needed) {
        if natural[at] + GAP <= room {
            widths[at] = Some(natural[at]);
            room -= natural[at] + GAP;
        }
    }
    for at in fixed {
        if natural[at] + GAP + texts_need(MIN_CUT_WIDTH) <= room {
            widths[at] = Some(natural[at]);
            room -= natural[at] + GAP;
        }
    }
    let (text_width, side_width) = if is_chosen {
        (MIN_CUT_WIDTH, MIN_CUT_WIDTH)
    } else {
        (
            if texts.len() > 1 {
                SHARED_TEXT_WIDTH
            } else {
                TEXT_WIDTH
            },
            SIDE_WIDTH,
        )
    };
    let mut side_room = room.saturating_sub(texts_need(text_width));
    let mut growing = texts.clone();
    for at in 0..columns.len() {
        let least = match columns[at].kind {
            Kind::Side => natural[at].min(side_width),
            Kind::Whole => natural[at],
            _ => continue,
        };
        if least + GAP <= side_room {
            widths[at] = Some(least);
            side_room -= least + GAP;
            room -= least + GAP;
            growing.push(at);
        }
    }
    // Each text gets an equal share of the room; a short one leaves the rest of it.
    let mut texts = texts;
    texts.sort_by_key(|at| natural[*at]);
    for (nth, at) in texts.iter().enumerate() {
        let share = (room / (texts.len() - nth)).saturating_sub(GAP);
        let share = share.min(natural[*at]);
        if share > 0 {
            widths[*at] = Some(share);
            room = room.saturating_sub(share + GAP);
        }
    }
    for at in growing {
        if let Some(width) = &mut widths[at] {
            let more = (natural[at] - *width).min(room);
            *width += more;
            room -= more;
        }
    }
    widths
}

/// Cuts ids to the shortest length at which they differ.
fn shorten_ids(cells: &mut [Cell]) {
    let differ = |chars: usize| {
        let mut prefixes = HashSet::new();
        let mut ids = HashSet::new();
        cells.iter().all(|cell| {
            // A row may be there twice.
            !ids.insert(cell.text.as_str()) || prefixes.insert(prefix(&cell.text, chars))
        })
    };
    let longest = cells.iter().map(|cell| cell.text.chars().count()).max();
    let longest = longest.unwrap_or_default();
    let chars = (MIN_ID_CHARS..longest).find(|chars| differ(*chars));
    let chars = chars.unwrap_or(longest);
    for cell in cells {
        cell.text = prefix(&cell.text, chars).trim_end_matches('-').to_owned();
    }
}

/// Returns the first `chars` characters of an id.
pub(super) fn prefix(id: &str, chars: usize) -> &str {
    id.char_indices().nth(chars).map_or(id, |(at, _)| &id[..at])
}

/// Cuts a string to a width; `…` shows that it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let start: String = text
        .chars()
        .take_while(|c| {
            let needed = c.width().unwrap_or_default();
            let fits = needed <= room;
            room = room.saturating_sub(needed);
            fits
        })
        .collect();
    format!("{}…", start.trim_end())
}

/// Breaks a string into lines of a width, between words; a longer word is cut.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let word = cut(word, width);
        if used > 0 && used + 1 + word.width() <= width {
            wrapped.push(' ');
            used += 1;
        } else if used > 0 {
            wrapped.push('\n');
            used = 0;
        }
        used += word.width();
        wrapped.push_str(&word);
    }
    wrapped
}

fn render(columns: &[FittedColumn]) -> String {
    let mut table = Table::new();
    let bold = |header: &String| DrawnCell::new(header).add_attribute(Attribute::Bold);
    let header: Vec<DrawnCell> = columns.iter().map(|column| bold(&column.header)).collect();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        // Standard output removes colors that are not wanted.
        .enforce_styling()
        .set_header(Row::from(header));
    // Not the space after the text, so that it can be trimmed at the end of a line.
    table.style_text_only();
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        let cells = columns.iter().map(|column| {
            let cell = &column.cells[row];
            let drawn = DrawnCell::new(&cell.text);
            match cell.color {
                Some(color) => drawn.fg(color),
                None => drawn,
            }
        });
        table.add_row(cells.collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, CELL_GAP));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(header: &str, kind: Kind, cells: &[&str]) -> FittedColumn {
        FittedColumn {
            header: header.to_owned(),
            kind,
            cells: cells.iter().map(Cell::new).collect(),
        }
    }

    fn columns() -> Vec<FittedColumn> {
        vec![
            column(
                "ID",
                Kind::Id,
                &[
                    "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
                    "018f4e9a-7b2c-7d3e-9a51-2f6c8b7d1e90",
                ],
            ),
            column("RISK", Kind::Fixed, &["high", "low"]),
            column(
                "TITLE",
                Kind::Text,
                &[
                    "Replace the certificate of every balancer in the second region 数据库 by hand",
                    "Deploy",
                ],
            ),
            column("EMPTY", Kind::Side, &["", ""]),
            column("HOST", Kind::Side, &["web-1.example.com", ""]),
            column("TAGS", Kind::Side, &["terraform, prod, a, b, c, d", "x"]),
        ]
    }

    fn widest(text: &str) -> usize {
        let plain = anstream::adapter::strip_str(text).to_string();
        plain.lines().map(UnicodeWidthStr::width).max().unwrap()
    }

    #[test]
    fn a_table_fits_every_width_and_names_what_it_hides() {
        for width in 20..400 {
            let drawn = draw(columns(), Some(width), false);
            assert!(
                widest(&drawn.text) <= usize::from(width),
                "{width}: {drawn:?}"
            );
            assert_eq!(drawn.text.lines().count(), 3, "{drawn:?}");
            // Twelve digits are unique, and the rest is not shown.
            assert!(drawn.text.contains("018f4e9a-7b2c "), "{width}: {drawn:?}");
            for name in ["RISK", "HOST", "TAGS"] {
                let is_hidden = drawn.hidden.iter().any(|hidden| hidden == name);
                assert_ne!(drawn.text.contains(name), is_hidden, "{width}: {drawn:?}");
            }
            assert!(!drawn.text.contains("EMPTY"), "{drawn:?}");
            let chosen = draw(columns(), Some(width), true);
            assert!(widest(&chosen.text) <= usize::from(width), "{chosen:?}");
            assert!(chosen.hidden.len() <= drawn.hidden.len() + 1, "{chosen:?}");
        }
        let wide = draw(columns(), Some(400), false);
        assert!(wide.text.contains("a, b, c, d") && wide.text.contains("库 by hand"));
        assert!(wide.hidden.is_empty(), "{wide:?}");
        let narrow = draw(columns(), Some(80), false);
        assert_eq!(narrow.hidden, ["TAGS"], "{narrow:?}");
        assert!(draw(columns(), Some(80), true).hidden.is_empty());
    }

    #[test]
    fn a_pipe_gets_whole_ids_and_texts() {
        let drawn = draw(columns(), None, false);
        assert!(drawn.text.contains("018f4e9a-7b2c-7d3e-9a51-2f6c8b7d1e90"));
        assert!(drawn.text.contains("by hand") && drawn.hidden.is_empty());
    }

    #[test]
    fn two_texts_share_the_room() {
        let long = "a long text that goes on ".repeat(5);
        let columns = vec![
            column("TITLE", Kind::Text, &[&long]),
            column("REASONS", Kind::Text, &["short"]),
            column("SERVICE", Kind::Side, &["payments"]),
        ];
        let drawn = draw(columns, Some(60), false);
        assert!(drawn.text.contains("…  short    payments"), "{drawn:?}");
        assert!(widest(&drawn.text) <= 60, "{drawn:?}");
    }

    #[test]
    fn texts_are_cut_by_width() {
        assert_eq!(cut("数据库", 6), "数据库");
        assert_eq!(cut("数据库", 5), "数据…");
        assert_eq!(cut("数据库", 4), "数…");
        assert_eq!(cut("a b c", 3), "a…");
    }

    #[test]
    fn ids_have_the_digits_of_their_millisecond_and_as_many_as_differ() {
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        let mut cells = vec![Cell::new(id); 2];
        shorten_ids(&mut cells);
        assert_eq!(cells[1].text(), "018f4e9a-7b1c");
        let mut cells = [
            Cell::new(id),
            Cell::new("018f4e9a-7b1c-7d31-9a51-2f6c8b7d1e90"),
        ];
        shorten_ids(&mut cells);
        assert_eq!(cells[1].text(), "018f4e9a-7b1c-7d31");
    }

    #[test]
    fn what_is_needed_is_shown_before_other_words_and_next_to_little_text() {
        let columns = || {
            vec![
                column("ID", Kind::Id, &["018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90"]),
                column("RISK", Kind::Fixed, &["high"]),
                column("SCHEDULED", Kind::Needed, &["2099-01-01 08:30"]),
                column("TITLE", Kind::Text, &["Replace the certificates"]),
            ]
        };
        let drawn = draw(columns(), Some(40), false);
        assert!(
            drawn.text.contains("  2099-01-01 08:30  Replac…"),
            "{drawn:?}"
        );
        assert_eq!(drawn.hidden, ["RISK"]);
        for width in 20..100 {
            let drawn = draw(columns(), Some(width), false);
            assert!(widest(&drawn.text) <= usize::from(width), "{drawn:?}");
        }
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(
            wrap("8 minutes before, same service", 12),
            "8 minutes\nbefore, same\nservice"
        );
        assert_eq!(
            wrap("certificates of 数据库数据库", 8),
            "certifi…\nof\n数据库…"
        );
        assert_eq!(wrap("short", 12), "short");
        assert_eq!(wrap("", 12), "");
    }
}
