//! Tables for people that fit the width of their terminal.

use changelog_core::{Change, Environment, Host, RiskLevel, Service, Status, Suspect, Timestamp};
use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets,
};

use super::detail::names;
use super::fields::reasons;
use crate::base::text::{one_line, shorten};
use crate::base::time::relative;

/// The width of an id, in columns.
const ID_WIDTH: u16 = 36;
/// The width that the main column gets before others are shown, in columns.
const MIN_MAIN_WIDTH: u16 = 40;
/// The largest width of a column after the main one, in columns.
const MAX_SIDE_WIDTH: u16 = 20;
/// The most characters of an author's name.
const MAX_AUTHOR_CHARS: usize = 16;
/// The space after a column, in columns.
pub(crate) const GAP: u16 = 2;

/// A table that is fitted to a terminal: fixed columns that are never wrapped,
/// the main column (a title or name), side columns that can be hidden, and the
/// ids.
pub(crate) struct FittedTable {
    pub(crate) header: Vec<&'static str>,
    /// The index of the main column.
    pub(crate) main: usize,
    /// The cells of each row, and its id.
    pub(crate) rows: Vec<(Vec<Cell>, String)>,
}

impl FittedTable {
    /// Draws the table for a width in columns. If the table is too wide, each id
    /// is below its title or name. Side columns are hidden if they are empty or
    /// still do not fit.
    pub(crate) fn draw(self, width: Option<u16>) -> String {
        let id = self.header.len();
        let mut table = self.table(false);
        let natural = table.column_max_content_widths();
        let filled: Vec<bool> = (0..id)
            .map(|column| {
                let mut cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column));
                cells.any(|cell| !cell.content().is_empty())
            })
            .collect();
        let needed = |column: usize| {
            if filled[column] {
                natural[column].min(MAX_SIDE_WIDTH) + GAP
            } else {
                0
            }
        };
        let sides = self.main + 1..id;
        let Some(width) = width else {
            for column in sides.filter(|column| !filled[*column]) {
                constrain(&mut table, column, ColumnConstraint::Hidden);
            }
            return table.trim_fmt();
        };
        let fixed: u16 = natural[..self.main].iter().map(|column| column + GAP).sum();
        let main = natural[self.main].min(MIN_MAIN_WIDTH) + GAP;
        let side_width: u16 = sides.clone().map(needed).sum();
        let ids_below = fixed + main + side_width + ID_WIDTH + GAP > width;
        let mut room = width.saturating_sub(if ids_below {
            fixed + ID_WIDTH + GAP
        } else {
            fixed + main + ID_WIDTH + GAP
        });
        if ids_below {
            table = self.table(true);
        }
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        for column in 0..self.main {
            constrain(&mut table, column, ColumnConstraint::ContentWidth);
        }
        for column in sides {
            let constraint = if !filled[column] || needed(column) > room {
                ColumnConstraint::Hidden
            } else {
                room -= needed(column);
                ColumnConstraint::UpperBoundary(Width::Fixed(needed(column)))
            };
            constrain(&mut table, column, constraint);
        }
        if !ids_below {
            constrain(&mut table, id, ColumnConstraint::ContentWidth);
        }
        table.trim_fmt()
    }

    fn table(&self, ids_below: bool) -> Table {
        let mut table = Table::new();
        let header = self.header.iter().copied();
        let header = header.chain((!ids_below).then_some("ID"));
        let bold = |name| Cell::new(name).add_attribute(Attribute::Bold);
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            // Standard output removes colours that are not wanted.
            .enforce_styling()
            .set_header(Row::from(header.map(bold).collect::<Vec<_>>()));
        // Not the space after the text, so that it can be trimmed at the end of a
        // line.
        table.style_text_only();
        for (cells, id) in &self.rows {
            let mut cells = cells.clone();
            if ids_below {
                let main = cells[self.main].content();
                cells[self.main] = Cell::new(format!("{main}\n{id}"));
            } else {
                cells.push(Cell::new(id));
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        table
    }
}

fn constrain(table: &mut Table, column: usize, constraint: ColumnConstraint) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(constraint);
    }
}

/// Draws a table of changes.
pub(crate) fn changes(changes: &[Change], width: Option<u16>, now: Timestamp) -> String {
    let row = |change: &Change| {
        let mut cells = vec![
            Cell::new(relative(change.effective_at(), now)),
            text(change.risk_level.as_str()).fg(risk_color(&change.risk_level)),
            text(change.status_label()).fg(status_color(&change.status)),
            text(&change.title),
        ];
        cells.extend(side_cells(change));
        (cells, change.id.to_string())
    };
    let table = FittedTable {
        header: [&["WHEN", "RISK", "STATUS", "TITLE"], &SIDE_COLUMNS[..]].concat(),
        main: 3,
        rows: changes.iter().map(row).collect(),
    };
    table.draw(width)
}

/// Draws a table of planned changes that have a scheduled time.
pub(crate) fn upcoming(changes: &[Change], width: Option<u16>, now: Timestamp) -> String {
    let scheduled = |change: &Change| {
        let at = change.scheduled_for.unwrap_or(change.occurred_at);
        if at >= now {
            return Cell::new(relative(at, now));
        }
        let ago = relative(at, now);
        let overdue = format!("overdue {}", ago.trim_end_matches(" ago"));
        Cell::new(overdue).fg(Color::DarkRed)
    };
    let row = |change: &Change| {
        let mut cells = vec![
            scheduled(change),
            text(change.risk_level.as_str()).fg(risk_color(&change.risk_level)),
            text(&change.title),
        ];
        cells.extend(side_cells(change));
        (cells, change.id.to_string())
    };
    let table = FittedTable {
        header: [&["SCHEDULED", "RISK", "TITLE"], &SIDE_COLUMNS[..]].concat(),
        main: 2,
        rows: changes.iter().map(row).collect(),
    };
    table.draw(width)
}

/// The columns of a change after its title; a narrow terminal shows the first ones.
const SIDE_COLUMNS: [&str; 5] = ["ENV", "SERVICE", "HOST", "BY", "TAGS"];

/// Returns the cells of [`SIDE_COLUMNS`].
fn side_cells(change: &Change) -> [Cell; SIDE_COLUMNS.len()] {
    let environment = change.environment.as_ref().map(Environment::as_str);
    let services = change.all_services();
    let service = services.first().map_or("", |service| &*service.name);
    let service = match services.len() {
        0 | 1 => service.to_owned(),
        count => format!("{service} +{}", count - 1),
    };
    let host = change.host_ref.as_ref().map(|host| &*host.hostname);
    let author = change.created_by.as_ref().map(|author| &*author.name);
    [
        text(environment.unwrap_or_default()),
        text(&service),
        text(host.unwrap_or_default()),
        text(&shorten(author.unwrap_or_default(), MAX_AUTHOR_CHARS)),
        text(&change.tags.join(", ")),
    ]
}

/// Draws a table of suspects with their reasons.
pub(crate) fn suspects(suspects: &[Suspect], width: Option<u16>) -> String {
    let row = |suspect: &Suspect| {
        let change = &suspect.change;
        let service = change.service.as_ref().map(|service| &*service.name);
        let host = change.host_ref.as_ref().map(|host| &*host.hostname);
        let cells = vec![
            Cell::new(suspect.score),
            text(&change.title),
            text(&reasons(suspect, ", ")),
            text(change.risk_level.as_str()).fg(risk_color(&change.risk_level)),
            text(change.status.as_str()).fg(status_color(&change.status)),
            text(service.unwrap_or_default()),
            text(host.unwrap_or_default()),
        ];
        (cells, change.id.to_string())
    };
    let table = FittedTable {
        header: vec![
            "SCORE", "TITLE", "REASONS", "RISK", "STATUS", "SERVICE", "HOST",
        ],
        main: 1,
        rows: suspects.iter().map(row).collect(),
    };
    table.draw(width)
}

/// Draws a table of services.
pub(crate) fn services(services: &[Service], width: Option<u16>, now: Timestamp) -> String {
    let row = |service: &Service| {
        let cells = vec![
            text(&service.name),
            text(service.description.as_deref().unwrap_or_default()),
            text(&service.color),
            text(&names(services, &service.depends_on).join(", ")),
            Cell::new(relative(service.created_at, now)),
        ];
        (cells, service.id.to_string())
    };
    let table = FittedTable {
        header: vec!["NAME", "DESCRIPTION", "COLOR", "DEPENDS ON", "CREATED"],
        main: 0,
        rows: services.iter().map(row).collect(),
    };
    table.draw(width)
}

/// Draws a table of hosts.
pub(crate) fn hosts(hosts: &[Host], width: Option<u16>) -> String {
    let row = |host: &Host| {
        let environment = host.environment.as_ref().map(Environment::as_str);
        let cells = vec![
            text(&host.hostname),
            text(environment.unwrap_or_default()),
            text(host.ip_address.as_deref().unwrap_or_default()),
            text(host.platform.as_str()),
            text(host.os.as_deref().unwrap_or_default()),
            text(&host.roles.join(", ")),
        ];
        (cells, host.id.to_string())
    };
    let table = FittedTable {
        header: vec!["HOSTNAME", "ENV", "ADDRESS", "PLATFORM", "OS", "ROLES"],
        main: 0,
        rows: hosts.iter().map(row).collect(),
    };
    table.draw(width)
}

/// Returns a cell that is safe to print.
pub(crate) fn text(text: &str) -> Cell {
    Cell::new(one_line(text))
}

pub(super) fn risk_color(risk: &RiskLevel) -> Color {
    match risk {
        RiskLevel::Low => Color::DarkGreen,
        RiskLevel::Medium => Color::DarkYellow,
        RiskLevel::High => Color::DarkRed,
        _ => Color::Reset,
    }
}

pub(super) fn status_color(status: &Status) -> Color {
    match status {
        Status::Planned => Color::DarkBlue,
        Status::InProgress => Color::DarkCyan,
        Status::Completed => Color::DarkGreen,
        Status::RolledBack => Color::DarkRed,
        _ => Color::Reset,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    pub(crate) const NOW: &str = "2026-11-21T08:33:00.000Z";

    pub(crate) fn change(title: &str) -> Change {
        serde_json::from_value(serde_json::json!({
            "id": ID, "title": title, "description": "First line\nSecond\u{1b}[2J",
            "risk_level": "high", "status": "in_progress", "impact": null,
            "service": {"id": ID, "name": "payments", "color": "#fff"},
            "service_ids": [ID, ID], "environment": "staging",
            "services": [
                {"id": ID, "name": "payments", "color": "#fff"},
                {"id": ID, "name": "search", "color": "#fff"},
            ],
            "started_at": "2026-11-21T08:30:00.000Z",
            "created_by": {"type": "api_key", "name": "a-pipeline-with-a-name", "id": ID},
            "host_ref": {"id": ID, "hostname": "web-1", "environment": "prod"},
            "tags": ["terraform", "prod"],
            "links": [{"label": "run", "url": "https://ci.example.com/1"}],
            "scheduled_for": null, "occurred_at": "2026-11-21T08:30:00.000Z",
            "organization_id": ID, "created_at": "2026-11-21T08:30:00.000Z",
            "updated_at": "2026-11-21T08:30:00.000Z",
        }))
        .unwrap()
    }

    pub(crate) fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn a_table_fits_every_terminal_and_keeps_the_id_whole() {
        let changes = [
            change("Deploy api 2.3"),
            change("Replace the certificate of every balancer in the second region by hand"),
        ];
        for width in 65..220 {
            let text = plain(&super::changes(&changes, Some(width), NOW.parse().unwrap()));
            assert!(widest(&text) <= usize::from(width), "{width}:\n{text}");
            assert_eq!(text.matches(ID).count(), 2, "{width}:\n{text}");
            assert!(text.contains("3m ago") && text.contains("in progress"));
            // The first column after the title.
            assert_eq!(text.contains("ENV"), width >= 74, "{width}:\n{text}");
        }
    }

    #[test]
    fn a_wide_terminal_shows_everything_in_one_line() {
        let text = plain(&super::changes(
            &[change("Deploy")],
            Some(200),
            NOW.parse().unwrap(),
        ));
        assert_eq!(text.lines().count(), 2, "{text}");
        for word in [
            "staging",
            "payments +1",
            "web-1",
            "a-pipeline-with…",
            "terraform, prod",
            ID,
        ] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_pipe_gets_one_line_per_change() {
        let title = "long ".repeat(60);
        let text = plain(&super::changes(
            &[change(&title)],
            None,
            NOW.parse().unwrap(),
        ));
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn empty_columns_are_left_out() {
        let mut change = change("Deploy");
        change.set_services(Vec::new());
        change.tags.clear();
        let text = plain(&super::changes(&[change], Some(200), NOW.parse().unwrap()));
        assert!(text.contains("HOST"), "{text}");
        assert!(
            !text.contains("SERVICE") && !text.contains("TAGS"),
            "{text}"
        );
    }

    #[test]
    fn a_planned_change_whose_time_has_passed_is_overdue() {
        let mut late = change("Deploy");
        late.scheduled_for = "2026-11-21T06:00:00.000Z".parse().ok();
        let mut soon = change("Deploy");
        soon.scheduled_for = "2026-11-21T09:40:00.000Z".parse().ok();
        let text = super::upcoming(&[late, soon], Some(200), NOW.parse().unwrap());
        let text = plain(&text);
        assert!(text.contains("overdue 2h  "), "{text}");
        assert!(text.contains("\nin 1h "), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let change = change("a\u{1b}[31mb\nc");
        let text = plain(&super::changes(
            std::slice::from_ref(&change),
            Some(120),
            NOW.parse().unwrap(),
        ));
        assert!(text.contains("a\\u{1b}[31mb c"), "{text}");
    }
}
