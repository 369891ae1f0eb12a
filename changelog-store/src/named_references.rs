//! Services and hosts that a new change names instead of giving their ids.

use std::collections::HashMap;

use changelog_core::text::closest;
use changelog_core::{
    Host, HostId, Invalid, NewChange, Service, ServiceId, ViolationCode, Violations,
};

use super::{Database, StoreError, StoredItem, Tenant};

impl Database {
    /// Replaces the names of services and hosts in new changes by their ids. `pointer`
    /// returns where the change of an index is in the request.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the organization has nothing of a name.
    pub async fn resolve_names(
        &self,
        tenant: Tenant,
        changes: &mut [NewChange],
        pointer: impl Fn(usize) -> String,
    ) -> Result<(), StoreError> {
        let mut services: HashMap<String, Option<ServiceId>> = HashMap::new();
        let mut hosts: HashMap<String, Option<HostId>> = HashMap::new();
        let mut unknown_services = Vec::new();
        let mut unknown_hosts = Vec::new();
        for (index, change) in changes.iter_mut().enumerate() {
            if let Some(name) = change.service_name.take() {
                if !services.contains_key(&name) {
                    let found = self.item_named::<Service>(tenant, &name).await?;
                    services.insert(name.clone(), found.map(|service| service.id));
                }
                change.service_id = services.get(&name).copied().flatten();
                if change.service_id.is_none() {
                    unknown_services.push((format!("{}/service_name", pointer(index)), name));
                }
            }
            if let Some(name) = change.hostname.take() {
                if !hosts.contains_key(&name) {
                    let found = self.item_named::<Host>(tenant, &name).await?;
                    hosts.insert(name.clone(), found.map(|host| host.id));
                }
                change.host_id = hosts.get(&name).copied().flatten();
                if change.host_id.is_none() {
                    unknown_hosts.push((format!("{}/hostname", pointer(index)), name));
                }
            }
        }
        let mut unknown = Violations::default();
        if !unknown_services.is_empty() {
            let names = self.item_names::<Service>(tenant).await?;
            let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
            report(&mut unknown, "a service", unknown_services, &names);
        }
        if !unknown_hosts.is_empty() {
            let names = self.item_names::<Host>(tenant).await?;
            let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
            report(&mut unknown, "a host", unknown_hosts, &names);
        }
        Ok(unknown.into_result(())?)
    }
}

impl Database {
    /// Finds the id of a service or a host by its name; an id is taken as it is.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] at the pointer when the organization has nothing of the name.
    pub async fn id_named<T: StoredItem>(
        &self,
        tenant: Tenant,
        given: &str,
        pointer: &str,
    ) -> Result<T::Id, StoreError> {
        if let Ok(id) = given.parse() {
            return match self.item::<T>(tenant, id).await {
                Ok(item) => Ok(item.id()),
                Err(StoreError::NotFound) => {
                    let noun = T::NOUN;
                    let message = format!("must be a {noun} of the organization, got {given:?}");
                    Err(Invalid::one(pointer, ViolationCode::NotFound, message).into())
                }
                Err(error) => Err(error),
            };
        }
        // No name has NUL, and PostgreSQL rejects it.
        let found = if given.contains('\0') {
            None
        } else {
            self.item_named::<T>(tenant, given).await?
        };
        if let Some(item) = found {
            return Ok(item.id());
        }
        let names = self.item_names::<T>(tenant).await?;
        let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
        let mut unknown = Violations::default();
        let given = vec![(pointer.to_owned(), given.to_owned())];
        report(&mut unknown, &format!("a {}", T::NOUN), given, &names);
        match unknown.into_result(()) {
            Err(invalid) => Err(invalid.into()),
            Ok(()) => Err(StoreError::NotFound),
        }
    }
}

/// Reports names that the organization does not have, each with its pointer.
fn report(unknown: &mut Violations, kind: &str, given: Vec<(String, String)>, names: &[&str]) {
    for (pointer, name) in given {
        unknown.add_with(pointer, ViolationCode::NotFound, || {
            let near = closest(&name, names.iter().copied());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            format!("must be {kind} of the organization, which has none named {name:?}{hint}")
        });
    }
}
