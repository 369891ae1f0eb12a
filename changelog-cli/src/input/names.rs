//! Names that people use for services and hosts, and the ids that the service
//! uses for them.

use changelog_client::{Client, Error, ErrorKind};
use changelog_core::text::closest;
use changelog_core::{Host, HostId, Input, NewHost, NewService, Service, ServiceId};

use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::time;

/// What to do about a name that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Refuse it.
    Refuse,
    /// Refuse it, and say that `--create-missing` would make it.
    Offer,
    /// Make it.
    Create,
    /// Say that it would be made.
    Announce,
}

/// What has a name that is unique without regard to ASCII case.
pub(crate) trait Named {
    /// What a person calls such a thing.
    const KIND: &'static str;
    /// Returns its name.
    fn name(&self) -> &str;
}

impl Named for Service {
    const KIND: &'static str = "service";
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Host {
    const KIND: &'static str = "host";
    fn name(&self) -> &str {
        &self.hostname
    }
}

/// Returns the id of the service that is named, or given by its id; none if it
/// was only announced.
pub(crate) async fn service(
    client: &Client,
    name: &str,
    missing: Missing,
) -> Outcome<Option<ServiceId>> {
    if let Ok(id) = name.parse() {
        return Ok(Some(id));
    }
    match (pick(client.services().list().await?, name), missing) {
        (Ok(service), _) => return Ok(Some(service.id)),
        (Err(failure), Missing::Refuse) => return Err(failure),
        (Err(failure), Missing::Offer) => return Err(offer(failure)),
        (Err(_), Missing::Create | Missing::Announce) => {}
    }
    let new = NewService {
        name: name.to_owned(),
        ..NewService::default()
    }
    .checked(time::now())?;
    if missing == Missing::Announce {
        note(&format!("the service {name} would be created"));
        return Ok(None);
    }
    match client.services().create_from(new).send().await {
        Ok(service) => {
            note(&format!("created the service {}", service.name));
            Ok(Some(service.id))
        }
        // Somebody made it in the same moment.
        Err(Error::Api {
            kind: ErrorKind::Conflict,
            ..
        }) => pick(client.services().list().await?, name).map(|service| Some(service.id)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the id of the host that is named, or given by its id; none if it
/// was only announced.
pub(crate) async fn host(client: &Client, name: &str, missing: Missing) -> Outcome<Option<HostId>> {
    if let Ok(id) = name.parse() {
        return Ok(Some(id));
    }
    match (pick(client.hosts().list().await?, name), missing) {
        (Ok(host), _) => return Ok(Some(host.id)),
        (Err(failure), Missing::Refuse) => return Err(failure),
        (Err(failure), Missing::Offer) => return Err(offer(failure)),
        (Err(_), Missing::Create | Missing::Announce) => {}
    }
    let new = NewHost {
        hostname: name.to_owned(),
        ..NewHost::default()
    }
    .checked(time::now())?;
    if missing == Missing::Announce {
        note(&format!("the host {name} would be created"));
        return Ok(None);
    }
    match client.hosts().create_from(new).send().await {
        Ok(host) => {
            note(&format!("created the host {}", host.hostname));
            Ok(Some(host.id))
        }
        // Somebody made it in the same moment.
        Err(Error::Api {
            kind: ErrorKind::Conflict,
            ..
        }) => pick(client.hosts().list().await?, name).map(|host| Some(host.id)),
        Err(error) => Err(error.into()),
    }
}

/// Picks what is named out of all there is, or says that it is not there and
/// what may have been meant.
pub(crate) fn pick<T: Named>(mut all: Vec<T>, name: &str) -> Outcome<T> {
    let name = name.trim();
    let found = all
        .iter()
        .position(|one| one.name().eq_ignore_ascii_case(name));
    if let Some(index) = found {
        return Ok(all.swap_remove(index));
    }
    let kind = T::KIND;
    let meant = closest(name, all.iter().map(Named::name))
        .map(|known| format!("; did you mean {known}?"))
        .unwrap_or_default();
    Err(Failure::new(
        Exit::NotFound,
        format!("there is no {kind} {name:?}{meant}"),
    )
    .hint(format!("`chlog {kind} list` shows them all")))
}

fn offer(failure: Failure) -> Failure {
    failure.hint("--create-missing makes it")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(&'static str);

    impl Named for Thing {
        const KIND: &'static str = "thing";
        fn name(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        let found = pick(vec![Thing("Payments"), Thing("web")], " payments ");
        assert_eq!(found.ok().map(|thing| thing.0), Some("Payments"));
    }

    #[test]
    fn a_miss_says_what_may_have_been_meant() {
        let Err(failure) = pick(vec![Thing("payments"), Thing("web")], "paymnets") else {
            panic!("paymnets was found");
        };
        assert_eq!(failure.exit, Exit::NotFound);
        assert!(format!("{failure:?}").contains("did you mean payments?"));
    }
}
