//! Changes and suspects as tables and CSV show them.

use changelog_core::{Change, ChangeCreated, Environment, Status, Suspect, Timestamp, csv};
use comfy_table::Color;

use super::colors::{risk_color, status_color};
use super::fitted::{Cell, Kind};
use super::record::{Column, Context, Record};
use crate::base::text::shorten;
use crate::base::time::{duration, relative};

/// The most characters of an author's name.
const MAX_AUTHOR_CHARS: usize = 16;

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

impl Record for Change {
    const PLURAL: &'static str = "changes";
    const COLUMNS: &'static [&'static str] = &csv::COLUMNS;

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        csv::row(self)
    }

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("id", Kind::Id, |change: &Self, _| {
                Cell::new(change.id.to_string())
            }),
            Column::new("when", Kind::Fixed, |change: &Self, context| {
                Cell::new(relative(shown_time(change), context.now))
            }),
            Column::new("scheduled", Kind::Needed, |change: &Self, context| {
                scheduled(change, context.now)
            }),
            Column::new("risk", Kind::Fixed, |change: &Self, _| {
                Cell::new(change.risk_level.as_str()).color(risk_color(&change.risk_level))
            }),
            Column::new("status", Kind::Fixed, |change: &Self, _| {
                Cell::new(change.status_label()).color(status_color(&change.status))
            }),
            Column::new("title", Kind::Text, |change: &Self, _| {
                Cell::new(&change.title)
            }),
            Column::new("env", Kind::Side, |change: &Self, _| {
                Cell::of(change.environment.as_ref().map(Environment::as_str))
            }),
            Column::new("service", Kind::Side, |change: &Self, _| {
                let services = change.all_services();
                let service = services.first().map_or("", |service| &*service.name);
                Cell::new(match services.len() {
                    0 | 1 => service.to_owned(),
                    count => format!("{service} +{}", count - 1),
                })
            }),
            Column::new("host", Kind::Side, |change: &Self, _| {
                Cell::of(change.host_ref.as_ref().map(|host| &host.hostname))
            }),
            Column::new("by", Kind::Side, |change: &Self, _| {
                let author = change.created_by.as_ref();
                Cell::of(author.map(|author| shorten(&author.name, MAX_AUTHOR_CHARS)))
            }),
            Column::new("agent", Kind::Side, |change: &Self, _| {
                Cell::of(change.acted())
            }),
            Column::new("tags", Kind::Side, |change: &Self, _| {
                Cell::new(change.tags.join(", "))
            }),
            Column::new("duration", Kind::Fixed, |change: &Self, _| {
                let lasted = change.duration().and_then(|lasted| lasted.to_std().ok());
                Cell::of(lasted.map(duration))
            }),
        ]
    }

    fn usual() -> Vec<&'static str> {
        vec![
            "id", "when", "risk", "status", "title", "env", "service", "host", "by", "agent",
            "tags",
        ]
    }
}

/// Returns the time that says when a change happens: for a planned one the scheduled
/// time, if it has one.
pub(crate) fn shown_time(change: &Change) -> Timestamp {
    let scheduled = change
        .scheduled_for
        .filter(|_| change.status == Status::Planned);
    scheduled.unwrap_or(change.effective_at())
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

impl Record for ChangeCreated {
    const PLURAL: &'static str = "changes";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "title",
        "risk_level",
        "status",
        "organization_id",
        "created_at",
    ];
}

impl Record for Suspect {
    const PLURAL: &'static str = "changes";
    const COLUMNS: &'static [&'static str] = &[
        "score",
        "reasons",
        "id",
        "title",
        "risk_level",
        "status",
        "service",
        "host",
        "occurred_at",
    ];

    fn id(&self) -> String {
        self.change.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        let change = &self.change;
        let service = change.service.as_ref().map(|service| service.name.clone());
        let host = change.host_ref.as_ref().map(|host| host.hostname.clone());
        vec![
            self.score.to_string(),
            reasons(self, "; "),
            change.id.to_string(),
            change.title.clone(),
            change.risk_level.to_string(),
            change.status.to_string(),
            service.unwrap_or_default(),
            host.unwrap_or_default(),
            change.occurred_at.to_string(),
        ]
    }

    /// Returns the score, the reasons, and the columns of the changes.
    fn columns() -> Vec<Column<Self>> {
        let mut columns = vec![
            Column::new("score", Kind::Fixed, |suspect: &Self, _| {
                Cell::new(suspect.score.to_string())
            }),
            Column::new("reasons", Kind::Wrapped, |suspect: &Self, _| {
                Cell::new(reasons(suspect, ", "))
            }),
        ];
        for column in Change::columns() {
            let name = column.name;
            let kind = match name {
                "status" => Kind::Side,
                _ => column.kind,
            };
            let cell = move |suspect: &Self, context: &Context<'_, Self>| {
                let (rows, now) = (&[][..], context.now);
                column.cell(&suspect.change, &Context { rows, now })
            };
            columns.push(Column::new(name, kind, cell));
        }
        columns
    }

    fn usual() -> Vec<&'static str> {
        vec![
            "id", "score", "risk", "title", "reasons", "status", "service", "host", "agent",
        ]
    }
}

/// Joins the reasons of a suspect.
fn reasons(suspect: &Suspect, separator: &str) -> String {
    let texts: Vec<&str> = suspect.reasons.iter().map(|reason| &*reason.text).collect();
    texts.join(separator)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::fitted::{self, FittedColumn};
    use super::super::record::{column_names, columns};
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
        let changes = [change("Deploy api 2.3"), change(title)];
        let text = drawn(&changes, &Change::usual(), Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "ID             WHEN    RISK  STATUS       TITLE",
                "018f4e9a-7b1c  3m ago  high  in progress  Deploy api 2.3",
                "018f4e9a-7b1c  3m ago  high  in progress  Replace the certificate of every bala…",
            ]
        );
    }

    #[test]
    fn a_wide_terminal_shows_everything_and_escapes_control_characters() {
        let text = drawn(&[change("a\u{1b}[31mb\nc")], &Change::usual(), Some(200));
        assert_eq!(text.lines().count(), 2, "{text}");
        for word in [
            "a<U+001B>[31mb c",
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
        let mut far = planned("2099-01-01T00:00:00.000Z");
        far.title = "Replace the certificates".to_owned();
        let narrow = drawn(&[far], &UPCOMING, Some(40));
        assert!(narrow.contains("  2099-01-01"), "{narrow}");
        assert!(narrow.contains("  Replace"), "{narrow}");
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
        let changes = column_names::<Change>();
        for name in Change::usual().iter().chain(&UPCOMING) {
            assert!(changes.contains(name), "{name}");
        }
        let suspects = column_names::<Suspect>();
        for name in Suspect::usual() {
            assert!(suspects.contains(&name), "{name}");
        }
    }
}
