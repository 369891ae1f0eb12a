//! Names of services and hosts in a file, and their ids in the organization
//! that is imported to.

use std::collections::{BTreeMap, HashMap};

use changelog_client::{Client, Error, ErrorKind};
use changelog_core::text::closest;
use changelog_core::{Host, HostId, Input, NewHost, NewService, Service, ServiceId};
use uuid::Uuid;

use super::{Record, Rejected};
use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;
use crate::input::names::{Missing, Named};

/// How many names a refusal lists at most.
const MOST_NAMED: usize = 10;

/// The services and hosts of an organization by their names, which are one
/// whatever their ASCII case.
pub(crate) struct Names {
    services: HashMap<String, (String, ServiceId)>,
    hosts: HashMap<String, (String, HostId)>,
}

fn folded(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

impl Names {
    /// Asks for all names that there are.
    pub(crate) async fn ask(client: &Client) -> Outcome<Self> {
        let services = client.services().list().await?.into_iter();
        let hosts = client.hosts().list().await?.into_iter();
        Ok(Self {
            services: services
                .map(|service| (folded(&service.name), (service.name, service.id)))
                .collect(),
            hosts: hosts
                .map(|host| (folded(&host.hostname), (host.hostname, host.id)))
                .collect(),
        })
    }

    /// Makes the services and hosts that the records name and that are not
    /// there, or refuses to. What an export names was one elsewhere, and is made
    /// without being asked for; what somebody typed may be mistyped.
    pub(crate) async fn supply(
        &mut self,
        client: &Client,
        records: &[Record],
        missing: Missing,
    ) -> Outcome {
        let mut services: BTreeMap<String, NewService> = BTreeMap::new();
        let mut hosts: BTreeMap<String, NewHost> = BTreeMap::new();
        let mut refused: Vec<String> = Vec::new();
        for Record { record, .. } in records {
            let may_make = record.is_export || missing != Missing::Offer;
            if let Some(name) = &record.service
                && !self.services.contains_key(&folded(name))
            {
                if !may_make {
                    let known = self.services.values().map(|(name, _)| name.as_str());
                    refused.push(unknown(Service::KIND, name, known));
                }
                services.entry(folded(name)).or_insert_with(|| NewService {
                    name: name.clone(),
                    color: record.service_color.clone(),
                    ..NewService::default()
                });
            }
            if let Some(name) = &record.host
                && !self.hosts.contains_key(&folded(name))
            {
                if !may_make {
                    let known = self.hosts.values().map(|(name, _)| name.as_str());
                    refused.push(unknown(Host::KIND, name, known));
                }
                hosts.entry(folded(name)).or_insert_with(|| NewHost {
                    hostname: name.clone(),
                    environment: record.host_environment.clone(),
                    ..NewHost::default()
                });
            }
        }
        refused.sort_unstable();
        refused.dedup();
        if !refused.is_empty() {
            return Err(refusal(&refused));
        }
        let announced = missing == Missing::Announce;
        for (folded, new) in services {
            let name = new.name.clone();
            let id = if announced {
                note(&format!("the service {name} would be created"));
                Uuid::now_v7().into()
            } else {
                make_service(client, new).await?
            };
            self.services.insert(folded, (name, id));
        }
        for (folded, new) in hosts {
            let name = new.hostname.clone();
            let id = if announced {
                note(&format!("the host {name} would be created"));
                Uuid::now_v7().into()
            } else {
                make_host(client, new).await?
            };
            self.hosts.insert(folded, (name, id));
        }
        Ok(())
    }

    /// Gives the records the ids of what they name. An id without a name must be
    /// one of this organization.
    pub(crate) fn link(&self, records: &mut Vec<Record>) -> Vec<Rejected> {
        let mut rejected = Vec::new();
        records.retain_mut(|one| {
            let record = &mut one.record;
            let mut reasons = Vec::new();
            if let Some(name) = &record.service {
                record.change.service_id = self.services.get(&folded(name)).map(|(_, id)| *id);
            } else if let Some(id) = record.change.service_id
                && !self.services.values().any(|(_, known)| *known == id)
            {
                reasons.push(nameless(Service::KIND));
            }
            if let Some(name) = &record.host {
                record.change.host_id = self.hosts.get(&folded(name)).map(|(_, id)| *id);
            } else if let Some(id) = record.change.host_id
                && !self.hosts.values().any(|(_, known)| *known == id)
            {
                reasons.push(nameless(Host::KIND));
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

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let meant = closest(name, known)
        .map(|known| format!("; did you mean {known}?"))
        .unwrap_or_default();
    format!("there is no {kind} {name:?}{meant}")
}

fn refusal(refused: &[String]) -> Failure {
    let failure = if let [only] = refused {
        Failure::new(Exit::NotFound, only)
    } else {
        let message = format!("{} services and hosts are not there", refused.len());
        let listed = refused.iter().take(MOST_NAMED);
        listed.fold(Failure::new(Exit::NotFound, message), |failure, line| {
            failure.line(line)
        })
    };
    failure
        .line("nothing was imported")
        .hint("--create-missing makes them")
}

fn nameless(kind: &str) -> String {
    format!("{kind}_id: the organization has no such {kind}, and the line does not name it")
}

async fn make_service(client: &Client, new: NewService) -> Outcome<ServiceId> {
    let new = new.checked(time::now())?;
    let name = new.name.clone();
    match client.services().create_from(new).send().await {
        Ok(service) => {
            note(&format!("created the service {}", service.name));
            Ok(service.id)
        }
        // Somebody made it in the same moment.
        Err(Error::Api {
            kind: ErrorKind::Conflict,
            ..
        }) => {
            let all = client.services().list().await?;
            crate::input::names::pick(all, &name).map(|service| service.id)
        }
        Err(error) => Err(error.into()),
    }
}

async fn make_host(client: &Client, new: NewHost) -> Outcome<HostId> {
    let new = new.checked(time::now())?;
    let name = new.hostname.clone();
    match client.hosts().create_from(new).send().await {
        Ok(host) => {
            note(&format!("created the host {}", host.hostname));
            Ok(host.id)
        }
        // Somebody made it in the same moment.
        Err(Error::Api {
            kind: ErrorKind::Conflict,
            ..
        }) => {
            let all = client.hosts().list().await?;
            crate::input::names::pick(all, &name).map(|host| host.id)
        }
        Err(error) => Err(error.into()),
    }
}
