//! `/hosts`

use std::ops::Range;

use changelog_core::{
    Action, ChangeFilter, Environment, Host, HostId, HostPatch, NewHost, Platform, list,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::catalog::{CatalogPage, ItemView, Listed, Order, Texts};
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::Section;
use crate::store::activity::Entry;
use crate::store::{ChartScope, Store, StoreError, Summary, Tenant, Tx};

pub(super) struct Hosts;

impl CatalogPage for Hosts {
    const TEXTS: Texts = Texts {
        section: Section::Hosts,
        path: "/hosts",
        noun: "host",
        heading: "Hosts",
        name_column: "Hostname",
        summary_column: "Platform",
        create_command: "chlog host create web-1",
        orders: &[Order::Name, Order::LastChanged],
    };

    const FIELDS: &'static [Field] = &[
        Field::new("hostname", FieldKind::Required, "Hostname")
            .hint("Must be unique (case-insensitive)."),
        Field::new(
            "environment",
            FieldKind::Choice {
                words: Environment::WORDS,
                none: Some("Not specified"),
            },
            "Environment",
        ),
        Field::new(
            "platform",
            FieldKind::Choice {
                words: Platform::WORDS,
                none: None,
            },
            "Platform",
        ),
        Field::new("fqdn", FieldKind::Optional, "FQDN"),
        Field::new("ip_address", FieldKind::Optional, "IP address").hint("IPv4 or IPv6."),
        Field::new("os", FieldKind::Optional, "OS"),
        Field::new("roles", FieldKind::List, "Roles").hint("Separated by commas."),
        Field::new("description", FieldKind::LongText, "Description"),
    ];

    type Id = HostId;
    type Item = Host;
    type New = NewHost;
    type Patch = HostPatch;

    async fn list(
        store: &Store,
        tenant: Tenant,
        listed: Listed<'_>,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Host>>, StoreError> {
        match listed {
            Listed::ByName { limit, offset } => store.host_page(tenant, limit, offset, days).await,
            Listed::Found(text) => store.hosts_found(tenant, text, days).await,
            // No index has the days of all hosts.
            Listed::MostChanged | Listed::LastChanged => {
                store.hosts_last_changed(tenant, days).await
            }
        }
    }

    fn defaults() -> Form {
        Form::default()
    }

    async fn get(store: &Store, tenant: Tenant, id: HostId) -> Result<Host, StoreError> {
        store.host(tenant, id).await
    }

    async fn create(
        tx: &mut Tx,
        tenant: Tenant,
        new: &NewHost,
        now: DateTime<Utc>,
    ) -> Result<Host, StoreError> {
        tx.insert_host(tenant, new, now).await
    }

    async fn update(
        tx: &mut Tx,
        tenant: Tenant,
        id: HostId,
        patch: &HostPatch,
    ) -> Result<(Host, Map<String, Value>), StoreError> {
        tx.update_host(tenant, id, patch).await
    }

    fn log_entry(action: Action, host: &Host, metadata: Map<String, Value>) -> Entry<'_> {
        Entry::of_host(action, host, metadata)
    }

    fn changes_of(id: HostId) -> (ChangeFilter, ChartScope) {
        let filter = ChangeFilter {
            host_id: Some(id),
            ..ChangeFilter::default()
        };
        (filter, ChartScope::Host(id))
    }

    fn view(host: Host) -> ItemView {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let environment = host.environment.as_ref().map(ToString::to_string);
        let form = Form::with_values([
            ("hostname", host.hostname.clone()),
            ("environment", text(&environment)),
            ("platform", host.platform.to_string()),
            ("fqdn", text(&host.fqdn)),
            ("ip_address", text(&host.ip_address)),
            ("os", text(&host.os)),
            ("roles", list::format(&host.roles)),
            ("description", text(&host.description)),
        ]);
        let roles = host.roles.join(", ");
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        ItemView {
            id: host.id.to_string(),
            color: None,
            summary: host.platform.to_string(),
            environment,
            facts: vec![
                ("Platform", host.platform.to_string()),
                ("FQDN", or_none(host.fqdn)),
                ("IP address", or_none(host.ip_address)),
                ("OS", or_none(host.os)),
                (
                    "Roles",
                    or_none(Some(roles).filter(|roles| !roles.is_empty())),
                ),
            ],
            related: Vec::new(),
            name: host.hostname,
            description: host.description,
            created_at: host.created_at,
            form,
        }
    }

    async fn complete(_: &Store, _: Tenant, _: HostId, _: &mut ItemView) -> Result<(), StoreError> {
        Ok(())
    }

    async fn with_ids(_: &Store, _: Tenant, form: &Form) -> Result<Form, StoreError> {
        Ok(form.clone())
    }
}
