//! What the tests of the kinds share: they read requests and look at the changes.

use changelog_core::{SourceKind, Timestamp};
use ring::hmac;
use serde_json::{Value, json};

use super::{handshake, read, request_id, verify};
use crate::alert::Alert;
use crate::history::History;
use crate::observation::{Observation, Reading, Unreadable};
use crate::operation::ObservedChange;
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
    let mut history = History::default();
    for (headers, body) in requests {
        history.add(reading_of(kind, settings, headers, body).unwrap());
    }
    history.changes(kind, settings, now())
}

/// Reads bodies in their order, as [`changes_of`] does, of which no secret may be shown.
pub(crate) fn changes_of_bodies(kind: &SourceKind, bodies: &[Value]) -> Vec<ObservedChange> {
    let requests: Vec<_> = bodies
        .iter()
        .map(|body| (vec![], body.to_string()))
        .collect();
    let changes = changes_of(kind, &Settings::default(), &requests);
    assert!(!format!("{changes:?}").contains("hunter2"));
    changes
}

/// Reads bodies from the first to the last and from the last to the first, beginning with
/// each of them, and all of them twice. Returns the changes, which must not depend on that.
pub(crate) fn changes_in_any_order(
    kind: &SourceKind,
    headers: &[(&str, &str)],
    bodies: &[Value],
) -> Vec<ObservedChange> {
    let read = |order: &[Value]| {
        let twice = order.iter().chain(order);
        let requests: Vec<_> = twice
            .map(|body| (headers.to_vec(), body.to_string()))
            .collect();
        changes_of(kind, &Settings::default(), &requests)
    };
    let mut order = bodies.to_vec();
    let changes = read(&order);
    for _ in 0..2 {
        for _ in 0..bodies.len() {
            order.rotate_left(1);
            assert_eq!(read(&order), changes, "{order:?}");
        }
        order.reverse();
    }
    changes
}

/// Returns the alerts of a request.
pub(crate) fn alerts_of(
    kind: &SourceKind,
    settings: &Settings,
    headers: &[(&str, &str)],
    body: &str,
) -> Vec<Alert> {
    let reading = reading_of(kind, settings, headers, body).unwrap();
    let alert = |observation| match observation {
        Observation::Alert(alert) => *alert,
        other => panic!("{other:?} is no alert"),
    };
    reading.observations.into_iter().map(alert).collect()
}

/// Returns why a request is no change.
pub(crate) fn ignored(kind: &SourceKind, headers: &[(&str, &str)], body: &Value) -> Vec<String> {
    let reading = reading_of(kind, &Settings::default(), headers, &body.to_string()).unwrap();
    assert_eq!(reading.observations, [], "{body}");
    reading.ignored
}

/// Returns what the sender calls a request.
pub(crate) fn id_of(kind: &SourceKind, headers: &[(&str, &str)], body: &Value) -> Option<String> {
    received(headers, &body.to_string(), |received| {
        request_id(kind, received)
    })
}

/// Reads what is no JSON, and a body in which each value in turn is of another type: nothing
/// may panic, and what becomes a change must be a valid one.
pub(crate) fn withstands_garbage(kind: &SourceKind, headers: &[(&str, &str)], body: &Value) {
    for garbage in ["", "{", "\u{0}", "null", "7", "\"text\"", "{}"] {
        let reading = reading_of(kind, &Settings::default(), headers, garbage);
        assert!(
            reading.is_err_and(|error| !error.0.is_empty()),
            "{garbage:?} was read"
        );
    }
    let mut pointers = Vec::new();
    collect_pointers(body, String::new(), &mut pointers);
    for pointer in pointers {
        for other in [
            json!(null),
            json!(-1.5e300),
            json!("%;:/@é"),
            json!([1]),
            json!({}),
        ] {
            let mut body = body.clone();
            *body.pointer_mut(&pointer).unwrap() = other;
            let body = body.to_string();
            received(headers, &body, |received| {
                let _ = (handshake(kind, received), request_id(kind, received));
            });
            if reading_of(kind, &Settings::default(), headers, &body).is_ok() {
                changes_of(kind, &Settings::default(), &[(headers.to_vec(), body)]);
            }
        }
    }
}

fn collect_pointers(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    let mut collect = |name: &str, value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        collect_pointers(value, format!("{pointer}/{name}"), pointers);
    };
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| collect(name, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| collect(&index.to_string(), value)),
        _ => {}
    }
    pointers.push(pointer);
}

/// The secret of a source.
pub(crate) const SECRET: &str = "the secret of a source";

/// Returns whether a request with this header proves its origin.
pub(crate) fn is_proven(kind: &SourceKind, headers: &[(&str, &str)], body: &str) -> bool {
    received(headers, body, |received| {
        verify(kind, Some(SECRET), received).is_ok()
    })
}

/// Signs as a sender does that has the secret.
pub(crate) fn signature(algorithm: hmac::Algorithm, signed: &str) -> hmac::Tag {
    hmac::sign(
        &hmac::Key::new(algorithm, SECRET.as_bytes()),
        signed.as_bytes(),
    )
}
