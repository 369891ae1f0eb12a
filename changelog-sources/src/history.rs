//! What many requests tell of, joined in memory: for imports of files.

use std::collections::{BTreeMap, BTreeSet};

use changelog_core::{SourceKind, Timestamp};

use crate::observation::{Call, CallProgress, Observation, Reading, State};
use crate::operation::{ObservedChange, Operation};
use crate::settings::Settings;

/// What requests tell of.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Observation>);

impl History {
    /// Adds what a request tells of.
    pub fn add(&mut self, reading: Reading) {
        self.0.extend(reading.observations);
    }

    /// Returns the changes that this is shown as. Calls are joined in the order of their
    /// times, so that no session is split; states in the order of arrival, which does not
    /// matter. Sessions are over.
    pub fn changes(
        mut self,
        kind: &SourceKind,
        settings: &Settings,
        now: Timestamp,
    ) -> Vec<ObservedChange> {
        self.0.sort_by_key(|observation| match observation {
            Observation::State(_) | Observation::Alert(_) => None,
            Observation::Call(call) => Some(call.at),
        });
        let mut operations = Operations::default();
        for observation in self.0 {
            match observation {
                Observation::State(state) => operations.add_state(*state),
                Observation::Call(call) => operations.add_call(*call),
                // Incidents are not imported.
                Observation::Alert(_) => {}
            }
        }
        let operations = operations.known.values_mut();
        operations
            .map(|operation| {
                operation.close();
                operation.change(kind, settings, now)
            })
            .collect()
    }
}

#[derive(Default)]
struct Operations {
    /// By what the sender calls them, or by session and time of the first call.
    known: BTreeMap<(String, i64), Operation>,
    /// The ids of the calls that were counted.
    calls: BTreeSet<String>,
}

impl Operations {
    fn add_state(&mut self, state: State) {
        let key = (state.key.clone(), 0);
        match self.known.get_mut(&key) {
            Some(operation) => operation.add_state(state),
            None => {
                self.known.insert(key, state.into());
            }
        }
    }

    fn add_call(&mut self, call: Call) {
        if call.progress == CallProgress::Failed || !self.calls.insert(call.id.clone()) {
            return;
        }
        let session = call.session();
        let all = (session.clone(), i64::MIN)..=(session.clone(), i64::MAX);
        let mut sessions = self.known.range_mut(all);
        if let Some((_, operation)) =
            sessions.find(|(_, operation)| operation.takes_call_at(call.at))
        {
            operation.add_call(call);
        } else {
            let key = (session, call.at.millis());
            self.known.insert(key, call.into());
        }
    }
}
