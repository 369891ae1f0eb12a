//! `/services`

use changelog_core::{Action, ChangeFilter, NewService, Service, ServiceId, ServicePatch, list};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::catalog::{CatalogPage, ItemView, Related, Texts};
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::Section;
use crate::dashboard::parts::{format, service_ids};
use crate::store::activity::Entry;
use crate::store::{Scope, Store, StoreError, Summary, Tenant, Tx};

/// The field with the services that a service depends on.
const DEPENDS_ON: &str = "depends_on";

pub(super) struct Services;

impl CatalogPage for Services {
    const TEXTS: Texts = Texts {
        section: Section::Services,
        path: "/services",
        noun: "service",
        heading: "Services",
        name_column: "Name",
        summary_column: "Description",
        create_command: "chlog service create payments",
    };

    const FIELDS: &'static [Field] = &[
        Field::new("name", FieldKind::Required, "Name")
            .hint("Must be unique; case does not matter."),
        Field::new("color", FieldKind::Optional, "Color").hint("#rgb or #rrggbb."),
        Field::new(DEPENDS_ON, FieldKind::List, "Depends on")
            .hint("Names or ids of services, separated by commas."),
        Field::new("description", FieldKind::LongText, "Description"),
    ];

    type Id = ServiceId;
    type Item = Service;
    type New = NewService;
    type Patch = ServicePatch;

    async fn list(
        store: &Store,
        tenant: Tenant,
        limit: u64,
        offset: u64,
    ) -> Result<Vec<Summary<Service>>, StoreError> {
        store.service_page(tenant, limit, offset).await
    }

    async fn get(store: &Store, tenant: Tenant, id: ServiceId) -> Result<Service, StoreError> {
        store.service(tenant, id).await
    }

    async fn create(
        tx: &mut Tx,
        tenant: Tenant,
        new: &NewService,
        now: DateTime<Utc>,
    ) -> Result<Service, StoreError> {
        tx.insert_service(tenant, new, now).await
    }

    async fn update(
        tx: &mut Tx,
        tenant: Tenant,
        id: ServiceId,
        patch: &ServicePatch,
    ) -> Result<(Service, Map<String, Value>), StoreError> {
        tx.update_service(tenant, id, patch).await
    }

    fn log_entry(action: Action, service: &Service, metadata: Map<String, Value>) -> Entry<'_> {
        Entry::of_service(action, service, metadata)
    }

    fn changes_of(id: ServiceId) -> (ChangeFilter, Scope<'static>) {
        let filter = ChangeFilter {
            service_id: Some(id),
            ..ChangeFilter::default()
        };
        (filter, Scope::Service(id))
    }

    fn view(service: Service) -> ItemView {
        let description = service.description.as_deref().unwrap_or_default();
        let ids: Vec<String> = service.depends_on.iter().map(ToString::to_string).collect();
        let form = Form::with_values([
            ("name", service.name.clone()),
            ("color", service.color.clone()),
            (DEPENDS_ON, list::format(&ids)),
            ("description", description.to_owned()),
        ]);
        ItemView {
            id: service.id.to_string(),
            summary: format::excerpt(description),
            name: service.name,
            facts: vec![("Color", service.color)],
            related: Vec::new(),
            description: service.description,
            created_at: service.created_at,
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

    async fn with_ids(store: &Store, tenant: Tenant, form: &Form) -> Result<Form, StoreError> {
        service_ids::resolve(store, tenant, form, DEPENDS_ON).await
    }
}
