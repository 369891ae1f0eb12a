//! The nouns as rows of cells, for CSV and for lists of ids.

use std::fmt::Display;

use changelog_core::{Change, ChangeCreated, Host, Service};
use serde::Serialize;

/// Something that is listed.
pub(crate) trait Record: Serialize {
    /// What a person calls it.
    const KIND: &'static str;
    /// The names of its cells.
    const COLUMNS: &'static [&'static str];
    /// Returns its id.
    fn id(&self) -> String;
    /// Returns one cell a column, empty where there is no value.
    fn cells(&self) -> Vec<String>;
}

impl Record for Change {
    const KIND: &'static str = "change";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "title",
        "description",
        "risk_level",
        "status",
        "impact",
        "service_id",
        "service",
        "host_id",
        "host",
        "tags",
        "links",
        "scheduled_for",
        "occurred_at",
        "organization_id",
        "created_at",
        "updated_at",
    ];

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        let service = self.service.as_ref();
        let host = self.host_ref.as_ref();
        let links = self
            .links
            .iter()
            .map(|link| format!("{}={}", link.label, link.url));
        vec![
            self.id.to_string(),
            self.title.clone(),
            or_empty(self.description.as_ref()),
            self.risk_level.to_string(),
            self.status.to_string(),
            or_empty(self.impact.as_ref()),
            or_empty(service.map(|service| service.id)),
            or_empty(service.map(|service| &service.name)),
            or_empty(host.map(|host| host.id)),
            or_empty(host.map(|host| &host.hostname)),
            self.tags.join(";"),
            links.collect::<Vec<_>>().join(";"),
            or_empty(self.scheduled_for),
            self.occurred_at.to_string(),
            self.organization_id.to_string(),
            self.created_at.to_string(),
            self.updated_at.to_string(),
        ]
    }
}

impl Record for ChangeCreated {
    const KIND: &'static str = "change";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "title",
        "risk_level",
        "status",
        "organization_id",
        "created_at",
    ];

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.title.clone(),
            self.risk_level.to_string(),
            self.status.to_string(),
            self.organization_id.to_string(),
            self.created_at.to_string(),
        ]
    }
}

impl Record for Service {
    const KIND: &'static str = "service";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "name",
        "description",
        "color",
        "organization_id",
        "created_at",
    ];

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.name.clone(),
            or_empty(self.description.as_ref()),
            self.color.clone(),
            self.organization_id.to_string(),
            self.created_at.to_string(),
        ]
    }
}

impl Record for Host {
    const KIND: &'static str = "host";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "hostname",
        "fqdn",
        "ip_address",
        "os",
        "platform",
        "environment",
        "roles",
        "description",
        "organization_id",
        "created_at",
    ];

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.hostname.clone(),
            or_empty(self.fqdn.as_ref()),
            or_empty(self.ip_address.as_ref()),
            or_empty(self.os.as_ref()),
            self.platform.to_string(),
            or_empty(self.environment.as_ref()),
            self.roles.join(";"),
            or_empty(self.description.as_ref()),
            self.organization_id.to_string(),
            self.created_at.to_string(),
        ]
    }
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Keeps a spreadsheet from taking a cell for a formula: whoever writes a
/// title must not run something at whoever opens the export.
pub(crate) fn guarded(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{cell}")
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_disarmed() {
        for (cell, expected) in [
            (
                "=HYPERLINK(\"http://evil\")",
                "'=HYPERLINK(\"http://evil\")",
            ),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\tx", "'\tx"),
            ("Deploy = 1", "Deploy = 1"),
            ("", ""),
        ] {
            assert_eq!(guarded(cell.to_owned()), expected);
        }
    }

    #[test]
    fn every_column_has_its_cell() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
            "name": "payments", "description": null, "color": "#fff",
            "organization_id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
            "created_at": "2026-11-21T08:30:00.000Z",
        }))
        .unwrap();
        assert_eq!(service.cells().len(), Service::COLUMNS.len());
        let change = super::super::table::tests::change("Deploy");
        assert_eq!(change.cells().len(), Change::COLUMNS.len());
    }
}
