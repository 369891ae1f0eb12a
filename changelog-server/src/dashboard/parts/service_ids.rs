//! Fields of forms that take several services.

use std::collections::HashMap;

use changelog_core::text::composed;
use changelog_core::{ServiceId, ViolationCode, Violations, list};

use super::form::Form;
use super::format;
use crate::store::{Store, StoreError, Tenant};

/// Replaces names of services in a field by their ids. Reports those that do not exist.
pub(crate) async fn resolve(
    store: &Store,
    tenant: Tenant,
    form: &Form,
    field: &'static str,
) -> Result<Form, StoreError> {
    let mut given = list::parse(form.value(field));
    let is_id = |text: &String| text.parse::<ServiceId>().is_ok();
    let mut form = form.clone();
    if given.iter().all(is_id) {
        return Ok(form);
    }
    let services = store.service_names(tenant).await?;
    let folded = |name: &str| composed(name).to_ascii_lowercase();
    let services = services.iter().map(|(id, name)| (folded(name), id));
    let services: HashMap<String, &ServiceId> = services.collect();
    let mut unknown = Violations::default();
    for (index, text) in given.iter_mut().enumerate() {
        if let Some(id) = services.get(&folded(text)) {
            *text = id.to_string();
        } else if !is_id(text) {
            let pointer = format!("/{field}/{index}");
            let message = format!("there is no service {}", format::excerpt(text));
            unknown.add(pointer, ViolationCode::NotFound, message);
        }
    }
    form.set(field, list::format(&given));
    Ok(unknown.into_result(form)?)
}
