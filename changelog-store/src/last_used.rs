//! When keys and sessions were last used, written for many of them by one statement.

use std::collections::BTreeMap;

use changelog_core::{ApiKeyId, Timestamp, WorkloadId};
use sqlx::types::Uuid;

use super::engine::{Dialect, Script, Value, run_script};
use super::sessions::MAX_CLOCK_SKEW;
use super::{Database, StoreError};

/// A use in the future was recorded while a clock was wrong.
const KEYS: [&str; 2] = [
    "UPDATE api_keys SET last_used_at = used.column2 FROM (",
    ") AS used WHERE api_keys.id = used.column1 AND (api_keys.last_used_at IS NULL \
     OR api_keys.last_used_at < used.column2 OR api_keys.last_used_at > used.column3)",
];

const WORKLOADS: [&str; 2] = [
    "UPDATE workloads SET last_used_at = used.column2 FROM (",
    ") AS used WHERE workloads.id = used.column1 AND (workloads.last_used_at IS NULL \
     OR workloads.last_used_at < used.column2 OR workloads.last_used_at > used.column3)",
];

const REFUSALS: [&str; 2] = [
    "UPDATE workloads SET refused_at = refused.column2, refused_reason = refused.column3 FROM (",
    ") AS refused WHERE workloads.id = refused.column1",
];

const SESSIONS: [&str; 2] = [
    "UPDATE sessions SET last_seen_at = used.column2 FROM (",
    ") AS used WHERE sessions.token_hash = used.column1 AND sessions.last_seen_at < used.column2",
];

/// The last uses of keys and sessions. In the order of their ids, so that servers that
/// write the same rows do not wait for each other in a circle.
#[derive(Debug, Default)]
pub struct LastUses {
    /// When each key was used.
    pub keys: BTreeMap<ApiKeyId, Timestamp>,
    /// When each workload identity was used.
    pub workloads: BTreeMap<WorkloadId, Timestamp>,
    /// When a token nearly fitted each workload identity, and why it did not.
    pub refusals: BTreeMap<WorkloadId, (Timestamp, String)>,
    /// When each session was used, by the hash of its token.
    pub sessions: BTreeMap<Vec<u8>, Timestamp>,
}

impl LastUses {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.workloads.is_empty()
            && self.refusals.is_empty()
            && self.sessions.is_empty()
    }

    /// Adds earlier uses.
    pub fn add_earlier(&mut self, earlier: Self) {
        for (key, at) in earlier.keys {
            self.keys.entry(key).or_insert(at);
        }
        for (workload, at) in earlier.workloads {
            self.workloads.entry(workload).or_insert(at);
        }
        for (workload, refusal) in earlier.refusals {
            self.refusals.entry(workload).or_insert(refusal);
        }
        for (session, at) in earlier.sessions {
            self.sessions.entry(session).or_insert(at);
        }
    }
}

impl Database {
    /// Records when keys and sessions were last used.
    pub async fn record_last_uses(&self, uses: &LastUses) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        run_script!(tx, |DB| script::<DB>(uses))?;
        tx.commit().await
    }
}

fn script<DB: Dialect>(uses: &LastUses) -> Script<DB> {
    let mut script = Script::new();
    let row = |id: Uuid, at: Timestamp| -> [Value<'_>; 3] {
        let latest = at.plus(MAX_CLOCK_SKEW);
        [id.into(), at.millis().into(), latest.millis().into()]
    };
    let keys: Vec<_> = uses.keys.iter().map(|(key, at)| row(key.0, *at)).collect();
    script.insert(KEYS[0], &keys, KEYS[1]);
    let workloads = uses.workloads.iter();
    let workloads: Vec<_> = workloads.map(|(one, at)| row(one.0, *at)).collect();
    script.insert(WORKLOADS[0], &workloads, WORKLOADS[1]);
    let refusals: Vec<[Value<'_>; 3]> = uses
        .refusals
        .iter()
        .map(|(one, (at, reason))| [one.0.into(), at.millis().into(), reason.as_str().into()])
        .collect();
    script.insert(REFUSALS[0], &refusals, REFUSALS[1]);
    let sessions: Vec<[Value<'_>; 2]> = uses
        .sessions
        .iter()
        .map(|(session, at)| [session.as_slice().into(), at.millis().into()])
        .collect();
    script.insert(SESSIONS[0], &sessions, SESSIONS[1]);
    script
}
