//! Services and hosts that people type into fields, by their names or their ids.

use changelog_core::text::{closest, composed};
use changelog_core::{Service, ViolationCode, Violations, list};

use super::form::Form;
use super::format;
use crate::store::{Store, StoreError, StoredItem, Tenant, existing};

/// The number of names that an unknown one is compared with.
const NAMES_COMPARED: u64 = 1_000;

/// Finds a service or host by its id or its name; an empty string names none.
pub(crate) async fn find<T: StoredItem>(
    store: &Store,
    tenant: Tenant,
    text: &str,
) -> Result<Option<T>, StoreError> {
    match text.parse() {
        Ok(id) => existing(store.item::<T>(tenant, id).await),
        Err(_) if !may_be_name(text) => Ok(None),
        Err(_) => store.item_named(tenant, &composed(text)).await,
    }
}

/// PostgreSQL does not accept NUL in a string.
fn may_be_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

/// Returns the messages that names do not exist, each with the name that may be meant.
async fn unknown<T: StoredItem>(
    store: &Store,
    tenant: Tenant,
    given: &[&str],
) -> Result<Vec<String>, StoreError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let names = store
        .item_names_from::<T>(tenant, "", NAMES_COMPARED)
        .await?;
    let message = |given: &&str| unknown_name(T::NOUN, given, &names);
    Ok(given.iter().map(message).collect())
}

/// Returns the message that a name does not exist, with the one of `names` that may be meant.
pub(crate) fn unknown_name(noun: &str, given: &str, names: &[String]) -> String {
    let folded: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let near = closest(given, folded.iter().map(String::as_str));
    let near = near.and_then(|near| folded.iter().position(|name| name == near));
    let given = format::visible(&format::excerpt(given));
    match near {
        Some(index) => format!(
            "No {noun} named \"{given}\". Did you mean {}?",
            format::visible(&names[index])
        ),
        None => format!("No {noun} named \"{given}\""),
    }
}

/// Returns the id of what has a name, and an id as it is; or else the message that nothing has it.
pub(crate) async fn id_of<T: StoredItem>(
    store: &Store,
    tenant: Tenant,
    text: &str,
) -> Result<Result<String, String>, StoreError> {
    if let Some(id) = find_id::<T>(store, tenant, text).await? {
        return Ok(Ok(id));
    }
    let messages = unknown::<T>(store, tenant, &[text]).await?;
    Ok(Err(messages.concat()))
}

async fn find_id<T: StoredItem>(
    store: &Store,
    tenant: Tenant,
    text: &str,
) -> Result<Option<String>, StoreError> {
    // Validation reports ids that do not exist.
    if uuid::Uuid::try_parse(text).is_ok() {
        return Ok(Some(text.to_owned()));
    }
    let found = find::<T>(store, tenant, text).await?;
    Ok(found.map(|item| item.id().to_string()))
}

/// Replaces the name in a field by its id. Reports a name that does not exist.
pub(crate) async fn resolve<T: StoredItem>(
    store: &Store,
    tenant: Tenant,
    form: &mut Form,
    field: &str,
) -> Result<(), StoreError> {
    let given = form.value(field).trim();
    if given.is_empty() {
        return Ok(());
    }
    let mut missing = Violations::default();
    match id_of::<T>(store, tenant, given).await? {
        Ok(id) => form.set(field, id),
        Err(message) => missing.add(format!("/{field}"), ViolationCode::NotFound, message),
    }
    Ok(missing.into_result(())?)
}

/// Replaces the names of services in a field by their ids. Reports those that do not exist.
/// Those after the first `limit` stay as they are, for validation to report their number.
pub(crate) async fn resolve_services(
    store: &Store,
    tenant: Tenant,
    form: &mut Form,
    field: &str,
    limit: usize,
) -> Result<(), StoreError> {
    let mut given = list::parse(form.value(field));
    if given.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<usize> = Vec::new();
    for (index, text) in given.iter_mut().enumerate().take(limit) {
        match find_id::<Service>(store, tenant, text).await? {
            Some(id) => *text = id,
            None => missing.push(index),
        }
    }
    let names: Vec<&str> = missing.iter().map(|index| &*given[*index]).collect();
    let messages = unknown::<Service>(store, tenant, &names).await?;
    let mut violations = Violations::default();
    for (index, message) in missing.into_iter().zip(messages) {
        let pointer = format!("/{field}/{index}");
        violations.add(pointer, ViolationCode::NotFound, message);
    }
    form.set(field, list::format(&given));
    Ok(violations.into_result(())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_have_a_suggestion() {
        let names = ["payments".to_owned(), "Search".to_owned()];
        for (given, expected) in [
            ("pay", "No service named \"pay\". Did you mean payments?"),
            (
                "serach",
                "No service named \"serach\". Did you mean Search?",
            ),
            ("kafka", "No service named \"kafka\""),
        ] {
            assert_eq!(unknown_name("service", given, &names), expected);
        }
    }
}
