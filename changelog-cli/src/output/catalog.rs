//! Services and hosts as tables and CSV show them.

use changelog_core::{Environment, Host, Service, ServiceId};

use super::fitted::{Cell, Kind};
use super::record::{Column, Record};
use crate::base::time::relative;

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

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("name", Kind::Text, |service: &Self, _| {
                Cell::new(&service.name)
            }),
            Column::new("description", Kind::Side, |service: &Self, _| {
                Cell::of(service.description.as_ref())
            }),
            Column::new("color", Kind::Side, |service: &Self, _| {
                Cell::new(&service.color)
            }),
            Column::new("depends_on", Kind::Side, |service: &Self, context| {
                Cell::new(names(context.rows, &service.depends_on).join(", "))
            }),
            Column::new("created", Kind::Side, |service: &Self, context| {
                Cell::new(relative(service.created_at, context.now))
            }),
            Column::new("id", Kind::Whole, |service: &Self, _| {
                Cell::new(service.id.to_string())
            }),
        ]
    }
}

/// Returns the names of services, or an id where the service is not among `all`.
pub(super) fn names(all: &[Service], ids: &[ServiceId]) -> Vec<String> {
    let name = |id: &ServiceId| {
        let found = all.iter().find(|service| service.id == *id);
        found.map_or_else(|| id.to_string(), |service| service.name.clone())
    };
    ids.iter().map(name).collect()
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

    fn columns() -> Vec<Column<Self>> {
        vec![
            Column::new("hostname", Kind::Text, |host: &Self, _| {
                Cell::new(&host.hostname)
            }),
            Column::new("env", Kind::Side, |host: &Self, _| {
                Cell::of(host.environment.as_ref().map(Environment::as_str))
            }),
            Column::new("address", Kind::Side, |host: &Self, _| {
                Cell::of(host.ip_address.as_ref())
            }),
            Column::new("platform", Kind::Side, |host: &Self, _| {
                Cell::new(host.platform.as_str())
            }),
            Column::new("os", Kind::Side, |host: &Self, _| {
                Cell::of(host.os.as_ref())
            }),
            Column::new("roles", Kind::Side, |host: &Self, _| {
                Cell::new(host.roles.join(", "))
            }),
            Column::new("id", Kind::Whole, |host: &Self, _| {
                Cell::new(host.id.to_string())
            }),
        ]
    }
}
