//! The columns of the tables for people.

use std::collections::BTreeSet;

use changelog_core::{
    Change, ChangeCreated, Environment, HistoryEntry, Host, RiskLevel, Service, Status, Suspect,
    Timestamp,
};
use comfy_table::Color;

use super::detail::names;
use super::fields::{Record, reasons};
pub(crate) use super::fitted::{Cell, Kind};
use crate::base::text::{one_line, shorten};
use crate::base::time::{duration, relative};

/// The space after a column, in columns of the terminal.
pub(crate) const GAP: u16 = 2;
/// The most characters of an author's name.
const MAX_AUTHOR_CHARS: usize = 16;

/// A column of a table of records.
pub(crate) struct Column<T> {
    /// The name for `--columns`; in capitals, the header.
    pub(crate) name: &'static str,
    pub(super) kind: Kind,
    cell: CellOf<T>,
}

type CellOf<T> = Box<dyn Fn(&T, &Context<'_, T>) -> Cell>;

/// What a cell depends on in addition to its record.
pub(crate) struct Context<'a, T> {
    /// All records of the table.
    pub(crate) rows: &'a [T],
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

/// Returns the names of the columns of all kinds of records, in alphabetical order.
pub(crate) fn all_column_names() -> BTreeSet<String> {
    fn names<T: Record>() -> impl Iterator<Item = String> {
        columns::<T>()
            .into_iter()
            .map(|column| column.name.to_owned())
    }
    names::<Change>()
        .chain(names::<Suspect>())
        .chain(names::<Service>())
        .chain(names::<Host>())
        .chain(names::<HistoryEntry>())
        .chain(names::<ChangeCreated>())
        .chain(SPOOL_COLUMNS.map(str::to_owned))
        .chain(PROFILE_COLUMNS.map(str::to_owned))
        .collect()
}

/// The columns that only `chlog auth list` has.
const PROFILE_COLUMNS: [&str; 4] = ["active", "is_active", "key", "profile"];

/// The columns that only `chlog spool status` has.
const SPOOL_COLUMNS: [&str; 7] = [
    "kept",
    "kept_at",
    "key_fingerprint",
    "organization",
    "reason",
    "state",
    "url",
];

/// Returns the time that says when a change happens: for a planned one the scheduled
/// time, if it has one.
pub(crate) fn shown_time(change: &Change) -> Timestamp {
    let scheduled = change
        .scheduled_for
        .filter(|_| change.status == Status::Planned);
    scheduled.unwrap_or(change.effective_at())
}

/// The columns of `chlog list`.
pub(crate) const CHANGES: [&str; 10] = [
    "id", "when", "risk", "status", "title", "env", "service", "host", "by", "tags",
];
/// The columns of `chlog upcoming`.
pub(crate) const UPCOMING: [&str; 9] = [
    "id",
    "scheduled",
    "risk",
    "title",
    "env",
    "service",
    "host",
    "by",
    "tags",
];

/// Returns the columns of changes.
pub(super) fn of_changes() -> Vec<Column<Change>> {
    vec![
        Column::new("id", Kind::Id, |change: &Change, _| {
            Cell::new(change.id.to_string())
        }),
        Column::new("when", Kind::Fixed, |change: &Change, context| {
            Cell::new(relative(shown_time(change), context.now))
        }),
        Column::new("scheduled", Kind::Fixed, |change: &Change, context| {
            scheduled(change, context.now)
        }),
        Column::new("risk", Kind::Fixed, |change: &Change, _| {
            risk(&change.risk_level)
        }),
        Column::new("status", Kind::Fixed, |change: &Change, _| status(change)),
        Column::new("title", Kind::Text, |change: &Change, _| {
            Cell::new(&change.title)
        }),
        Column::new("env", Kind::Side, |change: &Change, _| {
            environment(change.environment.as_ref())
        }),
        Column::new("service", Kind::Side, |change: &Change, _| {
            let services = change.all_services();
            let service = services.first().map_or("", |service| &*service.name);
            Cell::new(match services.len() {
                0 | 1 => service.to_owned(),
                count => format!("{service} +{}", count - 1),
            })
        }),
        Column::new("host", Kind::Side, |change: &Change, _| {
            let host = change.host_ref.as_ref();
            Cell::new(host.map_or("", |host| &*host.hostname))
        }),
        Column::new("by", Kind::Side, |change: &Change, _| {
            let author = change.created_by.as_ref();
            let author = author.map_or("", |author| &*author.name);
            Cell::new(shorten(author, MAX_AUTHOR_CHARS))
        }),
        Column::new("tags", Kind::Side, |change: &Change, _| {
            Cell::new(change.tags.join(", "))
        }),
        Column::new("duration", Kind::Fixed, |change: &Change, _| {
            let lasted = change.duration().and_then(|lasted| lasted.to_std().ok());
            Cell::new(lasted.map(duration).unwrap_or_default())
        }),
    ]
}

fn scheduled(change: &Change, now: Timestamp) -> Cell {
    let Some(at) = change.scheduled_for else {
        return Cell::default();
    };
    if at >= now || change.status != Status::Planned {
        return Cell::new(relative(at, now));
    }
    let ago = relative(at, now);
    Cell::new(format!("overdue {}", ago.trim_end_matches(" ago"))).color(Color::DarkRed)
}

fn risk(risk: &RiskLevel) -> Cell {
    Cell::new(risk.as_str()).color(risk_color(risk))
}

fn status(change: &Change) -> Cell {
    Cell::new(change.status_label()).color(status_color(&change.status))
}

fn environment(environment: Option<&Environment>) -> Cell {
    Cell::new(environment.map(Environment::as_str).unwrap_or_default())
}

/// The columns of `chlog around`.
pub(crate) const SUSPECTS: [&str; 8] = [
    "id", "score", "risk", "title", "reasons", "status", "service", "host",
];

/// Returns the columns of suspects: the score, the reasons, and those of their changes.
pub(super) fn of_suspects() -> Vec<Column<Suspect>> {
    let mut columns = vec![
        Column::new("score", Kind::Fixed, |suspect: &Suspect, _| {
            Cell::new(suspect.score.to_string())
        }),
        Column::new("reasons", Kind::Wrapped, |suspect: &Suspect, _| {
            Cell::new(reasons(suspect, ", "))
        }),
    ];
    for column in of_changes() {
        let kind = match column.name {
            "status" => Kind::Side,
            _ => column.kind,
        };
        columns.push(Column::new(
            column.name,
            kind,
            move |suspect: &Suspect, context| {
                let context = Context {
                    rows: &[],
                    now: context.now,
                };
                column.cell(&suspect.change, &context)
            },
        ));
    }
    columns
}

/// The columns of `chlog service list`.
pub(crate) const SERVICES: [&str; 6] = [
    "name",
    "description",
    "color",
    "depends_on",
    "created",
    "id",
];

/// Returns the columns of services.
pub(super) fn of_services() -> Vec<Column<Service>> {
    vec![
        Column::new("name", Kind::Text, |service: &Service, _| {
            Cell::new(&service.name)
        }),
        Column::new("description", Kind::Side, |service: &Service, _| {
            Cell::new(service.description.as_deref().unwrap_or_default())
        }),
        Column::new("color", Kind::Side, |service: &Service, _| {
            Cell::new(&service.color)
        }),
        Column::new("depends_on", Kind::Side, |service: &Service, context| {
            Cell::new(names(context.rows, &service.depends_on).join(", "))
        }),
        Column::new("created", Kind::Side, |service: &Service, context| {
            Cell::new(relative(service.created_at, context.now))
        }),
        Column::new("id", Kind::Whole, |service: &Service, _| {
            Cell::new(service.id.to_string())
        }),
    ]
}

/// The columns of `chlog host list`.
pub(crate) const HOSTS: [&str; 7] = [
    "hostname", "env", "address", "platform", "os", "roles", "id",
];

/// Returns the columns of hosts.
pub(super) fn of_hosts() -> Vec<Column<Host>> {
    vec![
        Column::new("hostname", Kind::Text, |host: &Host, _| {
            Cell::new(&host.hostname)
        }),
        Column::new("env", Kind::Side, |host: &Host, _| {
            environment(host.environment.as_ref())
        }),
        Column::new("address", Kind::Side, |host: &Host, _| {
            Cell::new(host.ip_address.as_deref().unwrap_or_default())
        }),
        Column::new("platform", Kind::Side, |host: &Host, _| {
            Cell::new(host.platform.as_str())
        }),
        Column::new("os", Kind::Side, |host: &Host, _| {
            Cell::new(host.os.as_deref().unwrap_or_default())
        }),
        Column::new("roles", Kind::Side, |host: &Host, _| {
            Cell::new(host.roles.join(", "))
        }),
        Column::new("id", Kind::Whole, |host: &Host, _| {
            Cell::new(host.id.to_string())
        }),
    ]
}

/// Returns a cell of a drawn table that is safe to print.
pub(crate) fn text(text: &str) -> comfy_table::Cell {
    comfy_table::Cell::new(one_line(text))
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
    use super::super::fitted::{self, FittedColumn};
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

    /// Draws a table of changes.
    fn drawn(changes: &[Change], names: &[&str], width: Option<u16>) -> String {
        let context = Context {
            rows: changes,
            now: NOW.parse().unwrap(),
        };
        let known = columns::<Change>();
        let columns = names.iter().map(|name| {
            let column = known.iter().find(|column| column.name == *name).unwrap();
            let cells = changes.iter().map(|change| column.cell(change, &context));
            FittedColumn {
                header: column.header(),
                kind: column.kind,
                cells: cells.collect(),
            }
        });
        plain(&fitted::draw(columns.collect(), width, false).text)
    }

    #[test]
    fn eighty_columns_show_id_time_risk_status_and_title() {
        let title = "Replace the certificate of every balancer in the second region by hand";
        let text = drawn(
            &[change("Deploy api 2.3"), change(title)],
            &CHANGES,
            Some(80),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "ID        WHEN    RISK  STATUS       TITLE",
                "018f4e9a  3m ago  high  in progress  Deploy api 2.3",
                "018f4e9a  3m ago  high  in progress  Replace the certificate of every balancer…",
            ]
        );
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        let text = drawn(&[change("Deploy")], &CHANGES, Some(200));
        assert_eq!(text.lines().count(), 2, "{text}");
        for word in [
            "staging",
            "payments +1",
            "web-1",
            "a-pipeline-with…",
            "terraform, prod",
        ] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_planned_change_whose_time_has_passed_is_overdue() {
        let planned = |at: &str| {
            let mut change = change("Deploy");
            change.status = Status::Planned;
            change.scheduled_for = at.parse().ok();
            change
        };
        let changes = [
            planned("2026-11-21T06:00:00.000Z"),
            planned("2026-11-21T09:40:00.000Z"),
        ];
        let text = drawn(&changes, &UPCOMING, Some(200));
        assert!(text.contains("  overdue 2h  "), "{text}");
        assert!(text.contains("  in 1h "), "{text}");
    }

    #[test]
    fn a_duration_is_a_column_of_its_own() {
        let mut change = change("Deploy");
        change.ended_at = "2026-11-21T08:31:30.000Z".parse().ok();
        let text = drawn(&[change], &["title", "duration", "risk_level"], Some(80));
        assert_eq!(
            text,
            "TITLE   DURATION    RISK LEVEL\nDeploy  1 min 30 s  high"
        );
    }

    #[test]
    fn every_usual_column_exists() {
        fn check<T: Record>(usual: &[&str]) {
            let known: Vec<&str> = columns::<T>().iter().map(|column| column.name).collect();
            for name in usual {
                assert!(known.contains(name), "{name} of {known:?}");
            }
        }
        check::<Change>(&CHANGES);
        check::<Change>(&UPCOMING);
        check::<Suspect>(&SUSPECTS);
        check::<Service>(&SERVICES);
        check::<Host>(&HOSTS);
    }

    #[test]
    fn control_characters_are_escaped() {
        let text = drawn(&[change("a\u{1b}[31mb\nc")], &CHANGES, Some(120));
        assert!(text.contains("a<U+001B>[31mb c"), "{text}");
    }
}
