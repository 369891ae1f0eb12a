//! What many requests tell of, joined in memory: for imports of files.

use std::collections::{BTreeMap, BTreeSet};

use changelog_core::{SourceKind, Timestamp};

use crate::observation::{Call, CallProgress, Observation, Reading};
use crate::operation::{ObservedChange, Operation};
use crate::settings::Settings;

/// The operations that were told of.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By what the sender calls them, or by session and time of the first call.
    operations: BTreeMap<(String, i64), Operation>,
    /// The ids of the calls that were counted.
    calls: BTreeSet<String>,
}

impl History {
    /// Adds what a request tells of.
    pub fn add(&mut self, reading: Reading) {
        for observation in reading.observations {
            match observation {
                Observation::State(state) => {
                    let key = (state.key.clone(), 0);
                    match self.operations.get_mut(&key) {
                        Some(operation) => operation.add_state(*state),
                        None => {
                            self.operations.insert(key, (*state).into());
                        }
                    }
                }
                Observation::Call(call) => self.add_call(*call),
            }
        }
    }

    fn add_call(&mut self, call: Call) {
        if call.progress == CallProgress::Failed || !self.calls.insert(call.id.clone()) {
            return;
        }
        let session = call.session();
        let all = (session.clone(), i64::MIN)..=(session.clone(), i64::MAX);
        let mut sessions = self.operations.range_mut(all);
        if let Some((_, operation)) =
            sessions.find(|(_, operation)| operation.takes_call_at(call.at))
        {
            operation.add_call(call);
        } else {
            let key = (session, call.at.millis());
            self.operations.insert(key, call.into());
        }
    }

    /// Returns the changes that the operations are shown as. Sessions are over.
    pub fn changes(
        mut self,
        kind: &SourceKind,
        settings: &Settings,
        now: Timestamp,
    ) -> Vec<ObservedChange> {
        let operations = self.operations.values_mut();
        operations
            .map(|operation| {
                operation.close();
                operation.change(kind, settings, now)
            })
            .collect()
    }
}
