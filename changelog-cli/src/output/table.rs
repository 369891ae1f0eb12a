//! Tables and single records for people, no wider than their terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use changelog_core::text::printable;
use changelog_core::{Change, Environment, Host, RiskLevel, Service, Status, Timestamp};
use comfy_table::{
    Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets,
};

use crate::moment::relative;

/// The characters of an id.
const ID_WIDTH: u16 = 36;
/// What a title needs to be readable beside other columns.
const TITLE_WIDTH: u16 = 40;
/// The widest that a column beside the title gets on a terminal.
const SIDE_WIDTH: u16 = 20;
/// The space between two columns.
const GAP: u16 = 2;
const STRONG: Style = Style::new().bold();

/// Where things stand in the table of changes.
const TITLE: usize = 3;
const SIDES: [usize; 3] = [4, 5, 6];
const ID: usize = 7;

/// Draws a table of changes. Where the terminal is too narrow for a column of
/// ids, each id stands beneath its title; service, host and tags are left out
/// when they are empty or do not fit.
pub(crate) fn changes(changes: &[Change], width: Option<u16>, now: Timestamp) -> String {
    let table = changes_table(changes, false, now);
    let Some(width) = width else {
        return drawn(&hide_empty(table));
    };
    let natural = table.column_max_content_widths();
    let fixed: u16 = natural[..TITLE].iter().map(|column| column + GAP).sum();
    let title = natural[TITLE].min(TITLE_WIDTH);
    let beside = fixed + title + GAP + ID_WIDTH + GAP;
    let beneath = beside > width;
    let main = if beneath {
        fixed + ID_WIDTH.max(title) + GAP
    } else {
        beside
    };
    let mut room = width.saturating_sub(main);
    let mut table = hide_empty(changes_table(changes, beneath, now));
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    for index in SIDES {
        let needed = natural[index].min(SIDE_WIDTH) + GAP;
        let Some(column) = table.column_mut(index).filter(|column| !column.is_hidden()) else {
            continue;
        };
        if needed > room {
            column.set_constraint(ColumnConstraint::Hidden);
        } else {
            room -= needed;
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(needed)));
        }
    }
    // What must not break: a time, a word, an id.
    for index in 0..TITLE {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    if let Some(column) = table.column_mut(ID) {
        column.set_constraint(if beneath {
            ColumnConstraint::Hidden
        } else {
            ColumnConstraint::ContentWidth
        });
    }
    drawn(&table)
}

fn changes_table(changes: &[Change], ids_beneath: bool, now: Timestamp) -> Table {
    let mut table = table([
        "WHEN", "RISK", "STATUS", "TITLE", "SERVICE", "HOST", "TAGS", "ID",
    ]);
    for change in changes {
        let mut title = one_line(&change.title);
        if ids_beneath {
            title = format!("{title}\n{}", change.id);
        }
        let service = change.service.as_ref().map(|service| service.name.as_str());
        let host = change.host_ref.as_ref().map(|host| host.hostname.as_str());
        table.add_row([
            Cell::new(relative(change.occurred_at, now)),
            Cell::new(one_line(change.risk_level.as_str())).fg(risk_color(&change.risk_level)),
            Cell::new(one_line(change.status.as_str())).fg(status_color(&change.status)),
            Cell::new(title),
            Cell::new(one_line(service.unwrap_or_default())),
            Cell::new(one_line(host.unwrap_or_default())),
            Cell::new(one_line(&change.tags.join(", "))),
            Cell::new(change.id),
        ]);
    }
    table
}

/// Draws a table of services.
pub(crate) fn services(services: &[Service], width: Option<u16>, now: Timestamp) -> String {
    let mut table = table(["NAME", "DESCRIPTION", "COLOR", "CREATED", "ID"]);
    for service in services {
        table.add_row([
            Cell::new(one_line(&service.name)),
            Cell::new(one_line(service.description.as_deref().unwrap_or_default())),
            Cell::new(one_line(&service.color)),
            Cell::new(relative(service.created_at, now)),
            Cell::new(service.id),
        ]);
    }
    drawn(&fitted(hide_empty(table), width, 4))
}

/// Draws a table of hosts.
pub(crate) fn hosts(hosts: &[Host], width: Option<u16>) -> String {
    let mut table = table([
        "HOSTNAME", "ENV", "PLATFORM", "ADDRESS", "OS", "ROLES", "ID",
    ]);
    for host in hosts {
        let environment = host.environment.as_ref().map(Environment::as_str);
        table.add_row([
            Cell::new(one_line(&host.hostname)),
            Cell::new(one_line(environment.unwrap_or_default())),
            Cell::new(one_line(host.platform.as_str())),
            Cell::new(one_line(host.ip_address.as_deref().unwrap_or_default())),
            Cell::new(one_line(host.os.as_deref().unwrap_or_default())),
            Cell::new(one_line(&host.roles.join(", "))),
            Cell::new(host.id),
        ]);
    }
    drawn(&fitted(hide_empty(table), width, 6))
}

/// Starts a table without lines around it.
fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        // Where colour is not wanted, standard output strips it.
        .enforce_styling()
        .set_header(Row::from(
            header.map(|name| Cell::new(name).add_attribute(Attribute::Bold)),
        ));
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table
}

/// Hides the columns in which no row has anything.
fn hide_empty(mut table: Table) -> Table {
    let empty: Vec<bool> = (0..table.column_count())
        .map(|index| {
            table
                .column_cells_iter(index)
                .all(|cell| cell.is_none_or(|cell| cell.content().is_empty()))
        })
        .collect();
    for (column, empty) in table.column_iter_mut().zip(empty) {
        if empty {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    table
}

/// Wraps what does not fit the terminal, except in the column of ids.
fn fitted(mut table: Table, width: Option<u16>, id: usize) -> Table {
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        if let Some(column) = table.column_mut(id) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

fn drawn(table: &Table) -> String {
    table.trim_fmt()
}

/// Draws one change in full, with exact times.
pub(crate) fn change(change: &Change, now: Timestamp) -> String {
    let risk = colored(change.risk_level.as_str(), risk_color(&change.risk_level));
    let status = colored(change.status.as_str(), status_color(&change.status));
    let mut fields = vec![
        ("id", change.id.to_string()),
        ("risk", risk),
        ("status", status),
    ];
    if let Some(service) = &change.service {
        fields.push((
            "service",
            format!("{} ({})", one_line(&service.name), service.id),
        ));
    }
    if let Some(host) = &change.host_ref {
        let environment = host
            .environment
            .as_ref()
            .map(|one| format!("{}, ", one_line(one.as_str())))
            .unwrap_or_default();
        let name = one_line(&host.hostname);
        fields.push(("host", format!("{name} ({environment}{})", host.id)));
    }
    if !change.tags.is_empty() {
        fields.push(("tags", one_line(&change.tags.join(", "))));
    }
    if let Some(at) = change.scheduled_for {
        fields.push(("scheduled", exact(at, now)));
    }
    fields.push(("occurred", exact(change.occurred_at, now)));
    if change.created_at != change.occurred_at {
        fields.push(("recorded", exact(change.created_at, now)));
    }
    if change.updated_at != change.created_at {
        fields.push(("updated", exact(change.updated_at, now)));
    }
    for link in &change.links {
        fields.push((
            "link",
            format!("{}: {}", one_line(&link.label), one_line(&link.url)),
        ));
    }
    let mut text = titled(&change.title, &fields);
    section(&mut text, "Description", change.description.as_deref());
    section(&mut text, "Impact", change.impact.as_deref());
    text
}

/// Draws one service.
pub(crate) fn service(service: &Service, now: Timestamp) -> String {
    let fields = [
        ("id", service.id.to_string()),
        ("color", one_line(&service.color)),
        ("created", exact(service.created_at, now)),
    ];
    let mut text = titled(&service.name, &fields);
    section(&mut text, "Description", service.description.as_deref());
    text
}

/// Draws one host.
pub(crate) fn host(host: &Host, now: Timestamp) -> String {
    let mut fields = vec![("id", host.id.to_string())];
    let environment = host.environment.as_ref().map(Environment::as_str);
    let texts = [
        ("fqdn", host.fqdn.as_deref()),
        ("address", host.ip_address.as_deref()),
        ("os", host.os.as_deref()),
        ("platform", Some(host.platform.as_str())),
        ("environment", environment),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.push((name, one_line(value)));
        }
    }
    if !host.roles.is_empty() {
        fields.push(("roles", one_line(&host.roles.join(", "))));
    }
    fields.push(("created", exact(host.created_at, now)));
    let mut text = titled(&host.hostname, &fields);
    section(&mut text, "Description", host.description.as_deref());
    text
}

fn titled(title: &str, fields: &[(&str, String)]) -> String {
    let mut text = format!("{STRONG}{}{STRONG:#}\n", one_line(title));
    let widest = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<widest$}  {value}");
    }
    text
}

fn section(text: &mut String, heading: &str, content: Option<&str>) {
    if let Some(content) = content.filter(|content| !content.is_empty()) {
        let content = printable(content);
        let _ = writeln!(text, "\n{STRONG}{heading}{STRONG:#}\n{content}");
    }
}

fn exact(at: Timestamp, now: Timestamp) -> String {
    format!("{at} ({})", relative(at, now))
}

/// Makes a text safe for one line of a terminal.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

fn risk_color(risk: &RiskLevel) -> Color {
    match risk {
        RiskLevel::Low => Color::DarkGreen,
        RiskLevel::Medium => Color::DarkYellow,
        RiskLevel::High => Color::DarkRed,
        _ => Color::Reset,
    }
}

fn status_color(status: &Status) -> Color {
    match status {
        Status::Planned => Color::DarkBlue,
        Status::InProgress => Color::DarkCyan,
        Status::Completed => Color::DarkGreen,
        Status::RolledBack => Color::DarkRed,
        _ => Color::Reset,
    }
}

/// Colors a word outside of a table, as the tables do.
fn colored(word: &str, color: Color) -> String {
    let color = match color {
        Color::DarkGreen => AnsiColor::Green,
        Color::DarkYellow => AnsiColor::Yellow,
        Color::DarkRed => AnsiColor::Red,
        Color::DarkBlue => AnsiColor::Blue,
        Color::DarkCyan => AnsiColor::Cyan,
        _ => return one_line(word),
    };
    let style = color.on_default();
    format!("{style}{}{style:#}", one_line(word))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ID: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    const NOW: &str = "2026-11-21T08:33:00.000Z";

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

    fn plain(text: &str) -> String {
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
        let text = plain(&super::change(&change, NOW.parse().unwrap()));
        assert!(text.contains("a\\u{1b}[31mb c\n"), "{text}");
        assert!(text.contains("First line\nSecond\\u{1b}[2J\n"), "{text}");
    }

    #[test]
    fn a_change_in_full_has_exact_times() {
        let text = plain(&super::change(&change("Deploy"), NOW.parse().unwrap()));
        assert!(
            text.contains("occurred  2026-11-21T08:30:00.000Z (3m ago)"),
            "{text}"
        );
        assert!(text.contains("run: https://ci.example.com/1"), "{text}");
    }
}
