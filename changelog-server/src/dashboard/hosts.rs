//! `/hosts`

use changelog_core::{ChangeFilter, Environment, Host, HostId, Named, Platform, list};

use super::catalog::{CatalogPage, ItemView, Order, Texts};
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::Section;

impl CatalogPage for Host {
    const TEXTS: Texts = Texts {
        section: Section::Hosts,
        path: "/hosts",
        noun: Self::NOUN,
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

    fn changes_of(id: HostId) -> ChangeFilter {
        ChangeFilter {
            host_id: Some(id),
            ..ChangeFilter::default()
        }
    }

    fn view(self) -> ItemView {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let environment = self.environment.as_ref().map(ToString::to_string);
        let form = Form::with_values([
            ("hostname", self.hostname.clone()),
            ("environment", text(&environment)),
            ("platform", self.platform.to_string()),
            ("fqdn", text(&self.fqdn)),
            ("ip_address", text(&self.ip_address)),
            ("os", text(&self.os)),
            ("roles", list::format(&self.roles)),
            ("description", text(&self.description)),
        ]);
        let roles = self.roles.join(", ");
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        ItemView {
            id: self.id.to_string(),
            color: None,
            summary: self.platform.to_string(),
            environment,
            facts: vec![
                ("Platform", self.platform.to_string()),
                ("FQDN", or_none(self.fqdn)),
                ("IP address", or_none(self.ip_address)),
                ("OS", or_none(self.os)),
                (
                    "Roles",
                    or_none(Some(roles).filter(|roles| !roles.is_empty())),
                ),
            ],
            related: Vec::new(),
            name: self.hostname,
            description: self.description,
            created_at: self.created_at,
            form,
        }
    }
}
