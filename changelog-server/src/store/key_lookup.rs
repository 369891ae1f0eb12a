//! Whom API keys act for, found on every request.
//!
//! On SQLite what was found is remembered for one generation of the database:
//! until any process commits anything other than new rows. So a revocation holds
//! from the moment that it is committed, as if each request looked the key up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api_keys::{self, KeyHash, KeyOwner};
use super::database::Database;
use super::engine::{BatchLimits, Batcher, Generation, Generations, StoreError};

/// The most keys that are looked up by one statement.
const MAX_BATCH: usize = 64;
/// The most keys that are remembered; beyond that all are forgotten.
const MAX_CACHED_KEYS: usize = 1_024;

/// Finds keys.
#[derive(Clone, Debug)]
pub(super) struct KeyLookup {
    batcher: Batcher<(), KeyHash, Option<KeyOwner>>,
    /// On SQLite only.
    cache: Option<Arc<KeyCache>>,
}

impl KeyLookup {
    /// Makes a lookup; must be called within a tokio runtime.
    pub(super) fn new(database: &Database) -> Self {
        let generations = database.connections.sqlite.as_ref();
        let cache = generations.map(|sqlite| KeyCache::new(Arc::clone(&sqlite.generations)));
        let database = database.clone();
        Self {
            batcher: Batcher::new(
                BatchLimits {
                    batches: 1,
                    batches_per_lane: 1,
                    weight: MAX_BATCH,
                    mixes_lanes: false,
                },
                |_| 1,
                move |hashes| api_keys::owners(database.clone(), hashes),
            ),
            cache: cache.map(Arc::new),
        }
    }

    /// Finds whom a key acts for, as of now or later: a key revoked a moment
    /// ago, by any process, is found revoked.
    pub(super) async fn owner(&self, key: &str) -> Result<Option<KeyOwner>, StoreError> {
        let hash = api_keys::hash(key);
        let Some(cache) = &self.cache else {
            return self.batcher.read((), hash).await;
        };
        let generation = cache.generations.now();
        if let Some(owner) = cache.get(generation, &hash) {
            return Ok(Some(owner));
        }
        let owner = self.batcher.read((), hash.clone()).await?;
        if let Some(owner) = &owner {
            cache.put(generation, hash, owner.clone());
        }
        Ok(owner)
    }
}

#[derive(Debug)]
struct KeyCache {
    generations: Arc<Generations>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The generation in which the keys were looked up.
    generation: Option<Generation>,
    owners: HashMap<KeyHash, KeyOwner>,
}

impl KeyCache {
    fn new(generations: Arc<Generations>) -> Self {
        Self {
            generations,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a key as it was in a generation.
    fn get(&self, generation: Option<Generation>, hash: &KeyHash) -> Option<KeyOwner> {
        let known = self.lock();
        (generation.is_some() && known.generation == generation)
            .then(|| known.owners.get(hash).cloned())
            .flatten()
    }

    /// Remembers a key that was looked up in this generation or later. If it was
    /// later, this generation is over, and the key is never found in it.
    fn put(&self, generation: Option<Generation>, hash: KeyHash, owner: KeyOwner) {
        let mut known = self.lock();
        if known.generation != generation || known.owners.len() >= MAX_CACHED_KEYS {
            known.owners.clear();
            known.generation = generation;
        }
        known.owners.insert(hash, owner);
    }
}
