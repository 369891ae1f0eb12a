//! Services and hosts by the names that users give, found or created.

use changelog_client::{Client, Error, ErrorKind};
use changelog_core::text::closest;
use changelog_core::{Input, Named};
use inquire::Select;

use super::message::prompts::prompt_failure;
use crate::base::failure::{Exit, Failure, Outcome, note};
use crate::base::text::one_line;
use crate::base::time;

/// What to do about a name that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Fail.
    Refuse,
    /// Fail, with the hint that `--create-missing` would create it.
    Offer,
    /// Create it.
    Create,
    /// Print that it would be created.
    Announce,
}

impl Missing {
    /// Returns what a command does that has the flag `--create-missing`.
    pub(crate) fn of_flag(create_missing: bool) -> Self {
        if create_missing {
            Self::Create
        } else {
            Self::Offer
        }
    }

    /// Returns what the same command does with `--dry-run`.
    pub(crate) fn in_dry_run(self) -> Self {
        match self {
            Self::Create => Self::Announce,
            other => other,
        }
    }
}

/// Returns the id that a name or an id refers to; none if the name was only
/// announced.
pub(crate) async fn resolve<T: Named>(
    client: &Client,
    name: &str,
    missing: Missing,
) -> Outcome<Option<T::Id>> {
    if let Ok(id) = name.parse() {
        return Ok(Some(id));
    }
    match (pick(&client.catalog::<T>().list().await?, name), missing) {
        (Ok(found), _) => return Ok(Some(found.id())),
        (Err(failure), Missing::Refuse) => return Err(failure),
        (Err(failure), Missing::Offer) => {
            return Err(failure.hint("pass --create-missing to create it"));
        }
        (Err(_), Missing::Create | Missing::Announce) => {}
    }
    let new = T::named(name.to_owned()).checked(time::now())?;
    if missing == Missing::Announce {
        announce::<T>(name);
        return Ok(None);
    }
    create::<T>(client, new).await.map(|made| Some(made.id()))
}

/// Returns the ids that names or ids refer to, without those that were only announced.
pub(crate) async fn resolve_all<T: Named>(
    client: &Client,
    names: &[&str],
    missing: Missing,
) -> Outcome<Vec<T::Id>> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.extend(resolve::<T>(client, name, missing).await?);
    }
    Ok(ids)
}

/// Returns the id to filter by, if a name is given; the name must exist. An empty name
/// is refused: it is probably an empty variable of a script, and everything would match.
pub(crate) async fn resolve_filter<T: Named>(
    client: &Client,
    name: Option<&str>,
) -> Outcome<Option<T::Id>> {
    match (name, non_empty(name)) {
        (_, Some(name)) => resolve::<T>(client, name, Missing::Refuse).await,
        (Some(_), None) => Err(empty_filter(T::NOUN)),
        (None, None) => Ok(None),
    }
}

/// Returns the failure for an empty value of a flag that filters.
pub(crate) fn empty_filter(flag: &str) -> Failure {
    Failure::usage(format!("--{flag}: must not be empty"))
}

/// Finds what has a name.
pub(crate) async fn find<T: Named>(client: &Client, name: &str) -> Outcome<T> {
    let mut all = client.catalog::<T>().list().await?;
    let found = position(&all, name)?;
    Ok(all.swap_remove(found))
}

/// Creates a service or host, and prints that it did.
pub(crate) async fn create<T: Named>(client: &Client, new: T::New) -> Outcome<T> {
    let new = new.checked(time::now())?;
    let name = T::name_of(&new).to_owned();
    match client.catalog::<T>().create_from(new).await {
        Ok(made) => {
            note(&format!("created the {} {}", T::NOUN, made.name()));
            Ok(made)
        }
        // Another client created it at the same time.
        Err(Error::Api {
            kind: ErrorKind::Conflict,
            ..
        }) => find(client, &name).await,
        Err(error) => Err(error.into()),
    }
}

/// Prints that a service or host would be created.
pub(crate) fn announce<T: Named>(name: &str) {
    note(&format!("the {} {name} would be created", T::NOUN));
}

/// Returns the name if it is not empty: an empty name means "none".
pub(crate) fn non_empty(name: Option<&str>) -> Option<&str> {
    name.map(str::trim).filter(|name| !name.is_empty())
}

/// Returns the names that are not empty.
pub(crate) fn all_non_empty(names: Option<&[String]>) -> Vec<&str> {
    let names = names.unwrap_or_default().iter();
    names.filter_map(|name| non_empty(Some(name))).collect()
}

/// Picks what has a name or an id, or fails with the closest name as a suggestion.
pub(crate) fn pick<'a, T: Named>(all: &'a [T], name: &str) -> Outcome<&'a T> {
    position(all, name).map(|index| &all[index])
}

fn position<T: Named>(all: &[T], name: &str) -> Outcome<usize> {
    let name = name.trim();
    let id = name.parse().ok();
    let found = all
        .iter()
        .position(|one| one.name().eq_ignore_ascii_case(name) || Some(one.id()) == id);
    if let Some(index) = found {
        return Ok(index);
    }
    let message = unknown(T::NOUN, name, all.iter().map(Named::name));
    let kind = T::NOUN;
    Err(Failure::new(Exit::NotFound, message)
        .hint(format!("run `chlog {kind} list` to see all {kind}s")))
}

/// Returns the message for an unknown name, with the closest known one.
pub(crate) fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let suggestion = closest(name, known)
        .map(|known| format!("; did you mean {known}?"))
        .unwrap_or_default();
    format!("there is no {kind} {name:?}{suggestion}")
}

/// A name that does not exist, with the closest one that does.
pub(crate) struct Unknown {
    closest: Option<String>,
}

/// Returns whether a name does not exist.
pub(crate) async fn find_unknown<T: Named>(
    client: &Client,
    name: &str,
) -> Outcome<Option<Unknown>> {
    if name.parse::<T::Id>().is_ok() {
        return Ok(None);
    }
    let all = client.catalog::<T>().list().await?;
    if pick(&all, name).is_ok() {
        return Ok(None);
    }
    let closest = closest(name, all.iter().map(Named::name)).map(str::to_owned);
    Ok(Some(Unknown { closest }))
}

/// Lets the user decide about a name that does not exist; returns the name to use, if
/// any.
pub(crate) async fn settle<T: Named>(
    client: &Client,
    name: &str,
    unknown: Unknown,
) -> Outcome<Option<String>> {
    let kind = T::NOUN;
    let shown = one_line(name);
    let (create, without, cancel) = (
        format!("create the {kind} {shown}"),
        format!("record the change without this {kind}"),
        "cancel".to_owned(),
    );
    let used = unknown.closest.as_deref().map(one_line);
    let used = used.map(|closest| format!("use {closest}"));
    let choices = used.iter().chain([&create, &without, &cancel]).cloned();
    let chosen = Select::new(&format!("There is no {kind} {shown}:"), choices.collect())
        .prompt()
        .map_err(prompt_failure)?;
    if chosen == cancel {
        return Err(Failure::cancelled("cancelled; nothing was done"));
    }
    if chosen == without {
        return Ok(None);
    }
    if chosen == create {
        let made = self::create::<T>(client, T::named(name.to_owned())).await?;
        return Ok(Some(made.name().to_owned()));
    }
    Ok(unknown.closest)
}

#[cfg(test)]
mod tests {
    use changelog_core::Service;

    use super::*;

    fn services() -> Vec<Service> {
        let service = |name: &str| {
            serde_json::from_value(serde_json::json!({
                "id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90", "name": name,
                "description": null, "color": "#fff", "depends_on": [],
                "organization_id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
                "created_at": "2026-11-21T08:30:00.000Z",
            }))
            .unwrap()
        };
        vec![service("Payments"), service("web")]
    }

    #[test]
    fn names_are_found_in_any_case() {
        let services = services();
        let found = pick(&services, " payments ").unwrap();
        assert_eq!(found.name, "Payments");
        let id = found.id.to_string();
        assert_eq!(pick(&services, &id).unwrap().name, "Payments");
    }

    #[test]
    fn an_unknown_name_fails_with_a_suggestion() {
        let failure = pick(&services(), "paymnets").unwrap_err();
        assert_eq!(failure.exit, Exit::NotFound);
        assert!(format!("{failure:?}").contains("did you mean Payments?"));
    }

    #[test]
    fn an_empty_name_is_none() {
        assert_eq!(non_empty(Some(" ")), None);
        assert_eq!(non_empty(Some(" web ")), Some("web"));
        assert_eq!(non_empty(None), None);
    }
}
