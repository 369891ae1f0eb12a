//! Whom keys act for, remembered for as long as nothing is committed to the
//! database, by whatever process: so a revocation holds from the moment that it
//! is committed, as if every request had asked.
//!
//! Recording changes does not touch keys. When the only transaction since the
//! last look was one of those, what is remembered stays good.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::api_keys::{KeyHash, KeyOwner};
use super::engine::version::{Version, Versions};

/// How many keys are remembered at most; beyond that all are forgotten.
const MOST: usize = 1_024;

/// A memory of keys.
#[derive(Debug)]
pub(crate) struct KeyCache {
    versions: Versions,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Of which version of the database this is known.
    version: Option<Version>,
    owners: HashMap<KeyHash, KeyOwner>,
}

impl KeyCache {
    pub(super) fn new(versions: Versions) -> Self {
        Self {
            versions,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the version of the database now.
    pub(super) fn version(&self) -> Option<Version> {
        self.versions.now()
    }

    /// Finds a key as it was at a version.
    pub(super) fn get(&self, version: Option<Version>, hash: &KeyHash) -> Option<KeyOwner> {
        let known = self.lock();
        (version.is_some() && known.version == version)
            .then(|| known.owners.get(hash).cloned())
            .flatten()
    }

    /// Remembers a key that was looked up at this version or later. Should it
    /// be later, the memory is of a version that is gone, and never used.
    pub(super) fn put(&self, version: Option<Version>, hash: KeyHash, owner: KeyOwner) {
        let mut known = self.lock();
        if known.version != version || known.owners.len() >= MOST {
            known.owners.clear();
            known.version = version;
        }
        known.owners.insert(hash, owner);
    }

    /// Notes that a transaction which touches no key was committed between two
    /// versions.
    pub(super) fn carry_on(&self, before: Option<Version>, after: Option<Version>) {
        let mut known = self.lock();
        if let (Some(before), Some(after)) = (before, after)
            && known.version == Some(before)
            && after.is_next_after(&before)
        {
            known.version = Some(after);
        }
    }
}
