//! The distinct actors of the activity logs, and which of them this process has
//! already seen committed.
//!
//! Nearly every entry has an actor whose row exists. Leaving that actor out saves a
//! statement, and a lock on the row: PostgreSQL locks a row that an insert meets even
//! when nothing is to be updated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changelog_core::{Author, AuthorType};
use quick_cache::sync::Cache;
use sqlx::types::Uuid;

use super::engine::{Dialect, Script, Value};
use super::{Actor, Tenant};

/// The limit on actors that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// How long an actor is remembered: another process may have written another name
/// since.
const REMEMBERED_FOR: Duration = Duration::from_mins(10);

/// What identifies an actor: the organization, and the user's id or the name of the
/// API key.
type Key = (Tenant, String);

/// An actor that may have no row yet, or one with another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewActor {
    key: Key,
    person: Option<Uuid>,
    name: String,
}

impl NewActor {
    fn reference(&self) -> Option<String> {
        Some(reference(self.person?, &self.name))
    }
}

/// Returns the JSON by which changes show a person that recorded them.
pub(super) fn reference(person: Uuid, name: &str) -> String {
    let author = Author {
        kind: AuthorType::Person,
        name: name.to_owned(),
        id: person,
        verified: None,
    };
    serde_json::to_string(&author).unwrap_or_default()
}

/// The actors that this process has seen committed; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct KnownActors(Arc<Cache<Key, (String, Instant)>>);

impl Default for KnownActors {
    fn default() -> Self {
        Self(Arc::new(Cache::new(MAX_REMEMBERED)))
    }
}

impl KnownActors {
    /// Returns those that have to be written, each once and in the order of their
    /// keys, so that two transactions cannot deadlock.
    pub(super) fn unknown<'a>(
        &self,
        actors: impl Iterator<Item = (Tenant, &'a Actor)>,
    ) -> Vec<NewActor> {
        let mut distinct = BTreeMap::new();
        for (tenant, actor) in actors {
            let person = actor.person.map(|person| person.0);
            let key = person.map_or_else(|| actor.name.clone(), |person| person.to_string());
            let key = (tenant, key);
            if !self.has(&key, &actor.name) {
                let name = actor.name.clone();
                let order = (tenant.uuid(), key.1.clone());
                distinct.insert(order, NewActor { key, person, name });
            }
        }
        distinct.into_values().collect()
    }

    fn has(&self, key: &Key, name: &str) -> bool {
        self.0
            .get(key)
            .is_some_and(|(known, since)| known == name && since.elapsed() < REMEMBERED_FOR)
    }

    /// Remembers actors whose rows were committed.
    pub(super) fn add(&self, written: Vec<NewActor>) {
        let now = Instant::now();
        for NewActor { key, name, .. } in written {
            self.0.insert(key, (name, now));
        }
    }
}

/// Adds the statement that writes actors.
pub(super) fn push<DB: Dialect>(script: &mut Script<DB>, actors: &[NewActor]) {
    let references: Vec<Option<String>> = actors.iter().map(NewActor::reference).collect();
    let rows: Vec<[Value<'_>; 5]> = actors
        .iter()
        .zip(&references)
        .map(|(actor, reference)| {
            let (tenant, key) = &actor.key;
            [
                tenant.uuid().into(),
                key.as_str().into(),
                actor.person.into(),
                actor.name.as_str().into(),
                reference.as_deref().into(),
            ]
        })
        .collect();
    script.insert(
        "INSERT INTO activity_actors (organization_id, actor_key, actor_id, actor_name, reference) ",
        &rows,
        " ON CONFLICT (organization_id, actor_key) DO UPDATE SET actor_name = excluded.actor_name, \
         reference = excluded.reference WHERE activity_actors.actor_name <> excluded.actor_name",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_actors_are_written() {
        let tenant = |number| Tenant(Uuid::from_u128(number).into());
        let api_key = |name: &str| Actor {
            name: name.to_owned(),
            ..Actor::operator()
        };
        let person = |name: &str| Actor {
            person: Some(Uuid::from_u128(7).into()),
            ..api_key(name)
        };
        let known = KnownActors::default();
        let unknown = |actors: &[(u128, &Actor)]| {
            let actors = actors
                .iter()
                .map(|(number, actor)| (tenant(*number), *actor));
            known.unknown(actors)
        };
        let actor_names = |actors: &[NewActor]| -> Vec<String> {
            actors.iter().map(|actor| actor.name.clone()).collect()
        };
        let (ci, ada) = (api_key("ci"), person("Ada"));
        let first = unknown(&[(1, &ci), (1, &ada), (1, &ci)]);
        assert_eq!(actor_names(&first), ["Ada", "ci"]);
        // A transaction that fails adds nothing.
        assert_eq!(unknown(&[(1, &ci)]).len(), 1);
        known.add(first);
        assert!(unknown(&[(1, &ci), (1, &ada)]).is_empty());
        // The same name in another organization, and another name.
        assert_eq!(unknown(&[(2, &ci)]).len(), 1);
        let renamed = unknown(&[(1, &person("Ada L."))]);
        assert_eq!(actor_names(&renamed), ["Ada L."]);
        known.add(renamed);
        assert_eq!(unknown(&[(1, &ada)]).len(), 1);
    }
}
