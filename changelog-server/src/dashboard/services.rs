//! `/services`

use changelog_core::{Action, ChangeFilter, NewService, Service, ServiceId, ServicePatch};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::catalog::{CatalogPage, ItemView, Texts};
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::format;
use crate::dashboard::parts::viewer::Section;
use crate::store::activity::Entry;
use crate::store::{Scope, Store, StoreError, Summary, Tenant, Tx};

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
        let form = Form::with_values([
            ("name", service.name.clone()),
            ("color", service.color.clone()),
            ("description", description.to_owned()),
        ]);
        ItemView {
            id: service.id.to_string(),
            summary: format::excerpt(description),
            name: service.name,
            facts: vec![("Color", service.color)],
            description: service.description,
            created_at: service.created_at,
            form,
        }
    }
}
