//! Whom keys and tokens act for, found on every request.
//!
//! On SQLite what was found is remembered for one generation of the database:
//! until any process commits anything other than new rows. So a revocation holds
//! from the moment that it is committed, as if each request looked the key up.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api_keys::{self, KeyHash, KeyOwner};
use super::database::Database;
use super::engine::{BatchLimits, Batcher, Generation, Generations, Results, StoreError};
use super::workloads::{self, Candidate, Lookup};

/// The most keys that are looked up by one statement.
const MAX_BATCH: usize = 64;
/// The most keys that are remembered; beyond that all are forgotten.
const MAX_CACHED_KEYS: usize = 1_024;

/// Finds the owners of keys, by the hash of a key.
pub(super) type KeyLookup = CachedLookup<KeyHash, KeyOwner>;
/// Finds the bindings that a token may fit, by what it claims.
pub(super) type WorkloadLookup = CachedLookup<Vec<Lookup>, Vec<Candidate>>;

impl KeyLookup {
    /// Makes a lookup; must be called within a tokio runtime.
    pub(super) fn of_keys(database: &Database) -> Self {
        Self::new(database, api_keys::owners)
    }
}

impl WorkloadLookup {
    /// Makes a lookup; must be called within a tokio runtime.
    pub(super) fn of_workloads(database: &Database) -> Self {
        Self::new(database, workloads::candidates)
    }
}

/// Finds what belongs to keys.
#[derive(Clone, Debug)]
pub(super) struct CachedLookup<K, V> {
    batcher: Batcher<(), K, Option<V>>,
    /// On SQLite only.
    cache: Option<Arc<Cache<K, V>>>,
}

impl<K, V> CachedLookup<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn new<F>(
        database: &Database,
        find: impl Fn(Database, Vec<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Results<Option<V>>> + Send + 'static,
    {
        let generations = database.connections.sqlite.as_ref();
        let cache = generations.map(|sqlite| Cache::new(Arc::clone(&sqlite.generations)));
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
                move |keys| find(database.clone(), keys),
            ),
            cache: cache.map(Arc::new),
        }
    }

    /// Finds what belongs to a key, as of now or later: a key revoked a moment
    /// ago, by any process, is found revoked.
    pub(super) async fn find(&self, key: K) -> Result<Option<V>, StoreError> {
        let Some(cache) = &self.cache else {
            return self.batcher.read((), key).await;
        };
        let generation = cache.generations.now();
        if let Some(value) = cache.get(generation, &key) {
            return Ok(Some(value));
        }
        let value = self.batcher.read((), key.clone()).await?;
        if let Some(value) = &value {
            cache.put(generation, key, value.clone());
        }
        Ok(value)
    }
}

#[derive(Debug)]
struct Cache<K, V> {
    generations: Arc<Generations>,
    known: Mutex<Known<K, V>>,
}

#[derive(Debug)]
struct Known<K, V> {
    /// The generation in which the keys were looked up.
    generation: Option<Generation>,
    values: HashMap<K, V>,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn new(generations: Arc<Generations>) -> Self {
        Self {
            generations,
            known: Mutex::new(Known {
                generation: None,
                values: HashMap::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known<K, V>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a key as it was in a generation.
    fn get(&self, generation: Option<Generation>, key: &K) -> Option<V> {
        let known = self.lock();
        (generation.is_some() && known.generation == generation)
            .then(|| known.values.get(key).cloned())
            .flatten()
    }

    /// Remembers a key that was looked up in this generation or later. If it was
    /// later, this generation is over, and the key is never found in it.
    fn put(&self, generation: Option<Generation>, key: K, value: V) {
        let mut known = self.lock();
        if known.generation != generation || known.values.len() >= MAX_CACHED_KEYS {
            known.values.clear();
            known.generation = generation;
        }
        known.values.insert(key, value);
    }
}
