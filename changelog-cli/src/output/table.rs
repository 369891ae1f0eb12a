//! Tables for people, no wider than their terminal.

use changelog_core::text::printable;
use changelog_core::{Change, Environment, Host, RiskLevel, Service, Status, Suspect, Timestamp};
use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets,
};

use super::fields::reasons;
use crate::base::time::relative;
use crate::commands::doctor::{Check, Verdict};
use crate::commands::spool::Waiting;

/// The characters of an id.
const ID_WIDTH: u16 = 36;
/// What a title needs to be readable beside other columns.
const MAIN_WIDTH: u16 = 40;
/// The widest that a column beside the title gets on a terminal.
const SIDE_WIDTH: u16 = 20;
/// The space behind a column.
const GAP: u16 = 2;

/// A table that is to be fitted to a terminal: some columns that must not
/// break, the main one (a title, a name), some beside it that can be left out,
/// and the ids.
struct Sheet {
    header: Vec<&'static str>,
    /// The number of the main column.
    main: usize,
    rows: Vec<(Vec<Cell>, String)>,
}

impl Sheet {
    /// Draws the sheet. Where it does not fit, each id stands beneath its title
    /// or name; columns beside it are left out when they are empty, or do not
    /// fit even so.
    fn draw(self, width: Option<u16>) -> String {
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
                natural[column].min(SIDE_WIDTH) + GAP
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
        let main = natural[self.main].min(MAIN_WIDTH) + GAP;
        let beside: u16 = sides.clone().map(needed).sum();
        let beneath = fixed + main + beside + ID_WIDTH + GAP > width;
        let mut room = width.saturating_sub(if beneath {
            fixed + ID_WIDTH + GAP
        } else {
            fixed + main + ID_WIDTH + GAP
        });
        if beneath {
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
        if !beneath {
            constrain(&mut table, id, ColumnConstraint::ContentWidth);
        }
        table.trim_fmt()
    }

    fn table(&self, ids_beneath: bool) -> Table {
        let mut table = Table::new();
        let header = self.header.iter().copied();
        let header = header.chain((!ids_beneath).then_some("ID"));
        let bold = |name| Cell::new(name).add_attribute(Attribute::Bold);
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            // Where colour is not wanted, standard output strips it.
            .enforce_styling()
            .set_header(Row::from(header.map(bold).collect::<Vec<_>>()));
        // Not the space behind a text, so that it can be cut off at the end of
        // a line.
        table.style_text_only();
        for (cells, id) in &self.rows {
            let mut cells = cells.clone();
            if ids_beneath {
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
        let service = change.service.as_ref().map(|service| &*service.name);
        let host = change.host_ref.as_ref().map(|host| &*host.hostname);
        let cells = vec![
            Cell::new(relative(change.occurred_at, now)),
            text(change.risk_level.as_str()).fg(risk_color(&change.risk_level)),
            text(change.status.as_str()).fg(status_color(&change.status)),
            text(&change.title),
            text(service.unwrap_or_default()),
            text(host.unwrap_or_default()),
            text(&change.tags.join(", ")),
        ];
        (cells, change.id.to_string())
    };
    let sheet = Sheet {
        header: vec!["WHEN", "RISK", "STATUS", "TITLE", "SERVICE", "HOST", "TAGS"],
        main: 3,
        rows: changes.iter().map(row).collect(),
    };
    sheet.draw(width)
}

/// Draws a table of what changed before a moment, with the reasons beside it.
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
    let sheet = Sheet {
        header: vec![
            "SCORE", "TITLE", "REASONS", "RISK", "STATUS", "SERVICE", "HOST",
        ],
        main: 1,
        rows: suspects.iter().map(row).collect(),
    };
    sheet.draw(width)
}

/// Draws a table of services.
pub(crate) fn services(services: &[Service], width: Option<u16>, now: Timestamp) -> String {
    let row = |service: &Service| {
        let cells = vec![
            text(&service.name),
            text(service.description.as_deref().unwrap_or_default()),
            text(&service.color),
            Cell::new(relative(service.created_at, now)),
        ];
        (cells, service.id.to_string())
    };
    let sheet = Sheet {
        header: vec!["NAME", "DESCRIPTION", "COLOR", "CREATED"],
        main: 0,
        rows: services.iter().map(row).collect(),
    };
    sheet.draw(width)
}

/// Draws a table of what waits for the service.
pub(crate) fn waiting(waiting: &[Waiting], width: Option<u16>, now: Timestamp) -> String {
    let row = |one: &Waiting| {
        let kept = one.kept_at.map(|at| relative(at, now));
        let cells = vec![
            Cell::new(kept.unwrap_or_default()),
            text(one.state),
            text(&one.title),
            text(&one.url),
            text(&one.owner()),
            text(&one.reason),
        ];
        (cells, one.id.clone())
    };
    let sheet = Sheet {
        header: vec![
            "KEPT",
            "STATE",
            "TITLE",
            "ADDRESS",
            "ORGANIZATION",
            "REASON",
        ],
        main: 2,
        rows: waiting.iter().map(row).collect(),
    };
    sheet.draw(width)
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
    let sheet = Sheet {
        header: vec!["HOSTNAME", "ENV", "ADDRESS", "PLATFORM", "OS", "ROLES"],
        main: 0,
        rows: hosts.iter().map(row).collect(),
    };
    sheet.draw(width)
}

/// Draws what `chlog doctor` found out, with the ways out beneath.
pub(crate) fn checks(checks: &[Check]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .enforce_styling();
    for check in checks {
        let color = match check.verdict {
            Verdict::Ok => Color::DarkGreen,
            Verdict::Warning => Color::DarkYellow,
            Verdict::Failed => Color::DarkRed,
        };
        let mut found = one_line(&check.found);
        if let Some(advice) = &check.advice {
            found = format!("{found}\n{}", one_line(advice));
        }
        table.add_row(vec![
            text(check.verdict.as_str()).fg(color),
            text(check.name),
            Cell::new(found),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table.trim_fmt()
}

fn text(text: &str) -> Cell {
    Cell::new(one_line(text))
}

/// Makes a text safe for one line of a terminal.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
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
            assert!(text.contains("3m ago") && text.contains("in_progress"));
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
        for word in ["payments", "web-1", "terraform, prod", ID] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_pipe_gets_one_line_a_change_however_long() {
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
        change.service = None;
        change.tags.clear();
        let text = plain(&super::changes(&[change], Some(200), NOW.parse().unwrap()));
        assert!(text.contains("HOST"), "{text}");
        assert!(
            !text.contains("SERVICE") && !text.contains("TAGS"),
            "{text}"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        let change = change("a\u{1b}[31mb\nc");
        let text = plain(&super::changes(
            std::slice::from_ref(&change),
            Some(120),
            NOW.parse().unwrap(),
        ));
        assert!(text.contains("a\\u{1b}[31mb c"), "{text}");
    }
}
