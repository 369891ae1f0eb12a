//! The columns of each kind of record, for CSV and lists of ids.

use changelog_core::{Change, ChangeCreated, Host, Service, Suspect, csv};
use serde::Serialize;

use super::table::{self, Column};
use crate::base::text::or_empty;

/// A record that is listed.
pub(crate) trait Record: Serialize {
    /// The word for several of them in messages.
    const PLURAL: &'static str;
    /// The names of the columns.
    const COLUMNS: &'static [&'static str];
    fn id(&self) -> String;
    /// Returns one cell per column; an absent value is empty.
    fn cells(&self) -> Vec<String>;
    /// Returns the columns of its tables; those of CSV with other names are added.
    fn columns() -> Vec<Column<Self>>
    where
        Self: Sized,
    {
        Vec::new()
    }
}

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
        table::of_changes()
    }
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
        vec![
            self.score.to_string(),
            reasons(self, "; "),
            change.id.to_string(),
            change.title.clone(),
            change.risk_level.to_string(),
            change.status.to_string(),
            or_empty(change.service.as_ref().map(|service| &service.name)),
            or_empty(change.host_ref.as_ref().map(|host| &host.hostname)),
            change.occurred_at.to_string(),
        ]
    }

    fn columns() -> Vec<Column<Self>> {
        table::of_suspects()
    }
}

/// Joins the reasons of a suspect.
pub(super) fn reasons(suspect: &Suspect, separator: &str) -> String {
    let texts: Vec<&str> = suspect.reasons.iter().map(|reason| &*reason.text).collect();
    texts.join(separator)
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
    const PLURAL: &'static str = "services";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "name",
        "description",
        "color",
        "depends_on",
        "organization_id",
        "created_at",
    ];

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self) -> Vec<String> {
        let ids: Vec<String> = self.depends_on.iter().map(ToString::to_string).collect();
        vec![
            self.id.to_string(),
            self.name.clone(),
            or_empty(self.description.as_ref()),
            self.color.clone(),
            ids.join(";"),
            self.organization_id.to_string(),
            self.created_at.to_string(),
        ]
    }

    fn columns() -> Vec<Column<Self>> {
        table::of_services()
    }
}

impl Record for Host {
    const PLURAL: &'static str = "hosts";
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

    fn columns() -> Vec<Column<Self>> {
        table::of_hosts()
    }
}
