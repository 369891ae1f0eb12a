//! The ids of the services and hosts that an import names.

use std::collections::{BTreeMap, HashMap};

use changelog_client::Client;
use changelog_core::{Host, NewHost, NewService, Service};
use uuid::Uuid;

use super::{ImportRecord, Rejected};
use crate::base::failure::{Exit, Failure, Outcome};
use crate::input::names::{self, Missing, Named};

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

impl<T: Named<Id: From<Uuid>>> Ids<T> {
    async fn load(client: &Client) -> Outcome<Self> {
        let all = T::list(client).await?.into_iter();
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
            T::KIND,
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
        let mut unknown: Vec<String> = Vec::new();
        for ImportRecord { record, .. } in records {
            let is_allowed = record.is_export || missing != Missing::Offer;
            if let Some(name) = &record.service
                && !self.services.contains(name)
            {
                if !is_allowed {
                    unknown.push(self.services.unknown(name));
                }
                services.entry(folded(name)).or_insert_with(|| NewService {
                    name: name.clone(),
                    color: record.service_color.clone(),
                    ..NewService::default()
                });
            }
            if let Some(name) = &record.host
                && !self.hosts.contains(name)
            {
                if !is_allowed {
                    unknown.push(self.hosts.unknown(name));
                }
                hosts.entry(folded(name)).or_insert_with(|| NewHost {
                    hostname: name.clone(),
                    environment: record.host_environment.clone(),
                    ..NewHost::default()
                });
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            return Err(unknown_names(&unknown));
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
            if let Some(name) = &record.service {
                record.change.service_id = self.services.id(name);
            } else if let Some(id) = record.change.service_id
                && !self.services.has_id(id)
            {
                reasons.push(unknown_id(Service::KIND));
            }
            if let Some(name) = &record.host {
                record.change.host_id = self.hosts.id(name);
            } else if let Some(id) = record.change.host_id
                && !self.hosts.has_id(id)
            {
                reasons.push(unknown_id(Host::KIND));
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

fn unknown_names(unknown: &[String]) -> Failure {
    let failure = if let [only] = unknown {
        Failure::new(Exit::NotFound, only)
    } else {
        let message = format!("{} services and hosts do not exist", unknown.len());
        let listed = unknown.iter().take(MAX_LISTED_NAMES);
        listed.fold(Failure::new(Exit::NotFound, message), |failure, line| {
            failure.line(line)
        })
    };
    failure
        .line("nothing was imported")
        .hint("--create-missing creates them")
}

fn unknown_id(kind: &str) -> String {
    format!("{kind}_id: the organization has no {kind} with this id, and the line gives no name")
}
