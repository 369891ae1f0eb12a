//! `/services`

use std::ops::Range;

use changelog_core::limits::MAX_DEPENDENCIES;
use changelog_core::service::DEFAULT_COLOR;
use changelog_core::{ChangeFilter, Named, Service, ServiceId, list};

use super::catalog::{CatalogPage, ItemView, Order, Related, Texts};
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::Section;
use crate::dashboard::parts::{format, named};
use crate::store::{Store, StoreError, Summary, Tenant};

/// The field with the services that a service depends on.
const DEPENDS_ON: &str = "depends_on";

impl CatalogPage for Service {
    const TEXTS: Texts = Texts {
        section: Section::Services,
        path: "/services",
        noun: Self::NOUN,
        heading: "Services",
        name_column: "Name",
        summary_column: "Description",
        create_command: "chlog service create payments",
        orders: &[Order::Name, Order::MostChanged, Order::LastChanged],
    };

    const FIELDS: &'static [Field] = &[
        Field::new("name", FieldKind::Required, "Name").hint("Must be unique (case-insensitive)."),
        Field::new("color", FieldKind::Color, "Color").hint("Of its dot in lists."),
        Field::new(DEPENDS_ON, FieldKind::List, "Depends on")
            .hint("Names or ids of services, separated by commas.")
            .completed_from("services"),
        Field::new("description", FieldKind::LongText, "Description"),
    ];

    async fn most_changed(
        store: &Store,
        tenant: Tenant,
        days: Range<i64>,
    ) -> Result<Vec<Summary<Self>>, StoreError> {
        store.services_most_changed(tenant, days).await
    }

    fn defaults() -> Form {
        Form::with_values([("color", DEFAULT_COLOR.to_owned())])
    }

    fn changes_of(id: ServiceId) -> ChangeFilter {
        ChangeFilter {
            service_id: Some(id),
            ..ChangeFilter::default()
        }
    }

    fn view(self) -> ItemView {
        let description = self.description.as_deref().unwrap_or_default();
        let ids: Vec<String> = self.depends_on.iter().map(ToString::to_string).collect();
        let form = Form::with_values([
            ("name", self.name.clone()),
            ("color", six_digits(&self.color)),
            (DEPENDS_ON, list::format(&ids)),
            ("description", description.to_owned()),
        ]);
        ItemView {
            id: self.id.to_string(),
            summary: format::excerpt(description),
            name: self.name,
            facts: Vec::new(),
            color: Some(self.color),
            environment: None,
            related: Vec::new(),
            description: self.description,
            created_at: self.created_at,
            form,
        }
    }

    async fn complete(
        store: &Store,
        tenant: Tenant,
        id: ServiceId,
        view: &mut ItemView,
    ) -> Result<(), StoreError> {
        let found = store.dependencies_of(tenant, id).await?;
        // The form has them in their order.
        let name_of = |id: &String| {
            let mut services = found.depends_on.iter();
            let service = services.find(|service| service.id.to_string() == *id);
            service.map_or_else(|| id.clone(), |service| service.name.clone())
        };
        let ids = list::parse(view.form.value(DEPENDS_ON));
        let names: Vec<String> = ids.iter().map(name_of).collect();
        view.form.set(DEPENDS_ON, list::format(&names));
        view.related = vec![
            Related {
                heading: "Depends on",
                services: found.depends_on,
                has_more: false,
            },
            Related {
                heading: "Needed by",
                services: found.needed_by,
                has_more: found.has_more,
            },
        ];
        Ok(())
    }

    fn service_id(id: ServiceId) -> Option<ServiceId> {
        Some(id)
    }

    async fn with_ids(store: &Store, tenant: Tenant, mut form: Form) -> Result<Form, StoreError> {
        let limit = MAX_DEPENDENCIES;
        named::resolve_services(store, tenant, &mut form, DEPENDS_ON, limit).await?;
        Ok(form)
    }
}

/// Returns a color as the input of a browser takes it: `#abc` is `#aabbcc`.
fn six_digits(color: &str) -> String {
    match color.strip_prefix('#') {
        Some(digits) if digits.len() == 3 => {
            let doubled = digits.chars().flat_map(|digit| [digit, digit]);
            std::iter::once('#').chain(doubled).collect()
        }
        _ => color.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn short_colors_are_expanded() {
        for (given, expected) in [("#0aF", "#00aaFF"), ("#6366f1", "#6366f1"), ("", "")] {
            assert_eq!(six_digits(given), expected);
        }
    }
}
