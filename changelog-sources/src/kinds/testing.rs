//! What the tests of the kinds share: they read requests and look at the changes.

use std::collections::BTreeMap;

use changelog_core::{SourceKind, Timestamp};

use super::read;
use crate::observation::{CallProgress, Observation, Reading, Unreadable};
use crate::operation::{ObservedChange, Operation};
use crate::received::{Headers, Received};
use crate::settings::Settings;

/// The time at which requests arrive: after everything that they tell of.
pub(crate) fn now() -> Timestamp {
    "2026-11-25T12:00:00.000Z".parse().unwrap()
}

/// Reads a request.
pub(crate) fn reading_of(
    kind: &SourceKind,
    settings: &Settings,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reading, Unreadable> {
    received(headers, body, |received| read(kind, received, settings))
}

/// Lets a function see a request.
pub(crate) fn received<T>(
    headers: &[(&str, &str)],
    body: &str,
    see: impl Fn(&Received<'_>) -> T,
) -> T {
    received_bytes(headers, body.as_bytes(), see)
}

/// Lets a function see a request with a body that need not be text.
pub(crate) fn received_bytes<T>(
    headers: &[(&str, &str)],
    body: &[u8],
    see: impl Fn(&Received<'_>) -> T,
) -> T {
    let headers: Headers = headers.iter().copied().collect();
    see(&Received {
        headers: &headers,
        body,
        at: now(),
    })
}

/// Reads requests in their order, and returns the changes that they are shown as, sorted by
/// what the sender calls them. Calls of one session are joined, and repeated ones are not
/// counted.
pub(crate) fn changes_of(
    kind: &SourceKind,
    settings: &Settings,
    requests: &[(Vec<(&str, &str)>, String)],
) -> Vec<ObservedChange> {
    let mut operations: BTreeMap<String, Operation> = BTreeMap::new();
    let mut calls = std::collections::BTreeSet::new();
    for (headers, body) in requests {
        let reading = reading_of(kind, settings, headers, body).unwrap();
        for observation in reading.observations {
            match observation {
                Observation::State(state) => match operations.get_mut(&state.key) {
                    Some(operation) => operation.add_state(*state),
                    None => {
                        operations.insert(state.key.clone(), (*state).into());
                    }
                },
                Observation::Call(call) if call.progress == CallProgress::Failed => {}
                Observation::Call(call) if !calls.insert(call.id.clone()) => {}
                Observation::Call(call) => {
                    let session = call.session();
                    let mut open = operations.iter_mut().filter(|(key, operation)| {
                        key.starts_with(&session) && operation.takes_call_at(call.at)
                    });
                    match open.next() {
                        Some((_, operation)) => operation.add_call(*call),
                        None => {
                            let key = format!("{session}/{}", call.at.millis());
                            operations.insert(key, (*call).into());
                        }
                    }
                }
            }
        }
    }
    for operation in operations.values_mut() {
        operation.close();
    }
    let change = |operation: &Operation| operation.change(kind, settings, now());
    operations.values().map(change).collect()
}
