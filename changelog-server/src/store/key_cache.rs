//! Whom API keys act for, remembered for one generation of the database: until
//! any process commits anything other than new rows. So a revocation holds from
//! the moment that it is committed, as if each request looked the key up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api_keys::{KeyHash, KeyOwner};
use super::engine::{Generation, Generations};

/// The most keys that are remembered; beyond that all are forgotten.
const MAX_KEYS: usize = 1_024;

/// A cache of keys.
#[derive(Debug)]
pub(super) struct KeyCache {
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
    pub(super) fn new(generations: Arc<Generations>) -> Self {
        Self {
            generations,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the generation now; `None` when it cannot be known.
    pub(super) fn generation(&self) -> Option<Generation> {
        self.generations.now()
    }

    /// Finds a key as it was in a generation.
    pub(super) fn get(&self, generation: Option<Generation>, hash: &KeyHash) -> Option<KeyOwner> {
        let known = self.lock();
        (generation.is_some() && known.generation == generation)
            .then(|| known.owners.get(hash).cloned())
            .flatten()
    }

    /// Remembers a key that was looked up in this generation or later. If it was
    /// later, this generation is over, and the key is never found in it.
    pub(super) fn put(&self, generation: Option<Generation>, hash: KeyHash, owner: KeyOwner) {
        let mut known = self.lock();
        if known.generation != generation || known.owners.len() >= MAX_KEYS {
            known.owners.clear();
            known.generation = generation;
        }
        known.owners.insert(hash, owner);
    }
}
