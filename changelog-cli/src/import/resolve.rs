//! The ids of the services and hosts that an import names.

use std::collections::{BTreeMap, HashMap, HashSet};

use changelog_client::Client;
use changelog_core::{Host, ImportedChange, Named, NewHost, NewService, Service, ServiceId};
use uuid::Uuid;

use super::{ImportRecord, Rejected};
use crate::base::failure::{Exit, Failure, Outcome};
use crate::input::names::{self, Missing};

/// How many unknown names a failure lists.
const MAX_LISTED_NAMES: usize = 10;

/// The services and hosts of an organization.
pub(crate) struct Names {
    services: Ids<Service>,
    hosts: Ids<Host>,
}

/// The names and ids of one kind, by the name in lower case.
struct Ids<T: Named>(HashMap<String, (String, T::Id)>);

/// The inputs for the names that do not exist, by the name in lower case.
type MissingInputs<T> = BTreeMap<String, <T as Named>::New>;

impl<T: Named> Ids<T> {
    async fn load(client: &Client) -> Outcome<Self> {
        let all = client.catalog::<T>().list().await?.into_iter();
        let all = all.map(|one| (folded(one.name()), (one.name().to_owned(), one.id())));
        Ok(Self(all.collect()))
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(&folded(name))
    }

    fn id(&self, name: &str) -> Option<T::Id> {
        self.0.get(&folded(name)).map(|(_, id)| *id)
    }

    fn has_id(&self, id: T::Id) -> bool {
        self.0.values().any(|(_, known)| *known == id)
    }

    fn unknown(&self, name: &str) -> String {
        names::unknown(
            T::NOUN,
            name,
            self.0.values().map(|(name, _)| name.as_str()),
        )
    }

    /// Creates what is missing; in a dry run, prints what would be created and
    /// makes up ids for the checks that follow.
    async fn create(
        &mut self,
        client: &Client,
        missing: MissingInputs<T>,
        dry_run: bool,
    ) -> Outcome {
        for (key, new) in missing {
            let name = T::name_of(&new).to_owned();
            let id = if dry_run {
                names::announce::<T>(&name);
                Uuid::now_v7().into()
            } else {
                names::create::<T>(client, new).await?.id()
            };
            self.0.insert(key, (name, id));
        }
        Ok(())
    }
}

fn folded(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

impl Names {
    /// Fetches all names of the organization.
    pub(crate) async fn load(client: &Client) -> Outcome<Self> {
        Ok(Self {
            services: Ids::load(client).await?,
            hosts: Ids::load(client).await?,
        })
    }

    /// Creates the services and hosts that the records name and that do not
    /// exist, or fails. What an export names existed elsewhere and is created
    /// in any case; a name that a user wrote may be mistyped.
    pub(crate) async fn create_missing(
        &mut self,
        client: &Client,
        records: &[ImportRecord],
        missing: Missing,
        dry_run: bool,
    ) -> Outcome {
        let mut services = MissingInputs::<Service>::new();
        let mut hosts = MissingInputs::<Host>::new();
        // The first line that has each of these names.
        let mut unknown: BTreeMap<String, u64> = BTreeMap::new();
        let mut add_unknown = |name: String, line: u64| {
            let first = unknown.entry(name).or_insert(line);
            *first = line.min(*first);
        };
        for ImportRecord { record, line, .. } in records {
            let is_allowed = record.exported_by.is_some() || missing != Missing::Offer;
            let first = record
                .service
                .iter()
                .map(|name| (name, &record.service_color));
            let more = record.more_services.iter().map(|name| (name, &None));
            for (name, color) in first.chain(more) {
                if self.services.contains(name) {
                    continue;
                }
                if !is_allowed {
                    add_unknown(self.services.unknown(name), *line);
                }
                let new = services.entry(folded(name)).or_insert_with(|| NewService {
                    name: name.clone(),
                    ..NewService::default()
                });
                // Only the first service of a line has its color.
                new.color = new.color.take().or_else(|| color.clone());
            }
            if let Some(name) = &record.host
                && !self.hosts.contains(name)
            {
                if !is_allowed {
                    add_unknown(self.hosts.unknown(name), *line);
                }
                hosts.entry(folded(name)).or_insert_with(|| NewHost {
                    hostname: name.clone(),
                    environment: record.host_environment.clone(),
                    ..NewHost::default()
                });
            }
        }
        if !unknown.is_empty() {
            return Err(unknown_names(unknown));
        }
        self.services.create(client, services, dry_run).await?;
        self.hosts.create(client, hosts, dry_run).await
    }

    /// Sets the ids of what the records name. An id without a name must exist in
    /// this organization. Removes and returns the records that break this rule.
    pub(crate) fn set_ids(&self, records: &mut Vec<ImportRecord>) -> Vec<Rejected> {
        let mut rejected = Vec::new();
        records.retain_mut(|one| {
            let record = &mut one.record;
            let mut reasons = Vec::new();
            match self.service_ids(record) {
                Ok(ids) => {
                    record.change.service_id = ids.first().copied();
                    record.change.service_ids = if ids.len() > 1 { ids } else { Vec::new() };
                }
                Err(reason) => reasons.push(reason),
            }
            if let Some(name) = &record.host {
                record.change.host_id = self.hosts.id(name);
            } else if let Some(id) = record.change.host_id
                && !self.hosts.has_id(id)
            {
                reasons.push(unknown_id(Host::NOUN, "host_id"));
            }
            if reasons.is_empty() {
                return true;
            }
            rejected.push(one.rejected(reasons));
            false
        });
        rejected
    }
}

impl Names {
    /// Returns the ids of the services of a record: of those that it names, or else those
    /// that it has, or the broken rule.
    fn service_ids(&self, record: &ImportedChange) -> Result<Vec<ServiceId>, String> {
        let ids = record.change.all_service_ids();
        let names: Vec<&String> = record.service.iter().chain(&record.more_services).collect();
        let mut found: Vec<ServiceId> = Vec::new();
        for name in &names {
            found.extend(self.services.id(name));
        }
        // Ids after those of the names, and all of them without names.
        for id in ids.into_iter().skip(names.len()) {
            if !self.services.has_id(id) {
                let field = if record.change.service_ids.is_empty() {
                    "service_id"
                } else {
                    "service_ids"
                };
                return Err(unknown_id(Service::NOUN, field));
            }
            found.push(id);
        }
        let mut known = HashSet::new();
        found.retain(|id| known.insert(*id));
        Ok(found)
    }
}

/// Returns the failure for names that do not exist, each with the first line that has it.
fn unknown_names(unknown: BTreeMap<String, u64>) -> Failure {
    let mut unknown: Vec<(u64, String)> = unknown
        .into_iter()
        .map(|(name, line)| (line, format!("line {line}: {name}")))
        .collect();
    unknown.sort_unstable();
    let failure = if let [(_, only)] = unknown.as_slice() {
        Failure::new(Exit::NotFound, only)
    } else {
        let message = format!("{} services or hosts do not exist", unknown.len());
        let listed = unknown.iter().take(MAX_LISTED_NAMES);
        listed.fold(
            Failure::new(Exit::NotFound, message),
            |failure, (_, line)| failure.line(line),
        )
    };
    failure
        .line("nothing was imported")
        .hint("pass --create-missing to create them")
}

fn unknown_id(kind: &str, field: &str) -> String {
    format!("{field}: the organization has no {kind} with this id, and the line gives no name")
}
