//! Checks webhooks as a receiver should do it: by the libraries of Standard Webhooks.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;
use standardwebhooks::Webhook;

use super::Received;

/// The limit of Standard Webhooks on a body.
const MAX_BODY_BYTES: usize = 20_000;

/// An event that was received and is genuine.
#[derive(Clone, Debug)]
pub struct WebhookEvent {
    /// `webhook-id`, the same in each attempt.
    pub id: String,
    /// The type, such as `change.created`.
    pub kind: String,
    /// The body.
    pub body: Value,
}

impl WebhookEvent {
    /// Returns the change of the event.
    pub fn change(&self) -> &Value {
        &self.body["data"]["change"]
    }

    /// Returns the id of the change.
    pub fn change_id(&self) -> &str {
        self.change()["id"].as_str().expect("an id")
    }

    /// Returns the id of the change or the source.
    fn subject_id(&self) -> &str {
        let data = &self.body["data"];
        let subject = data.get("change").unwrap_or(&data["source"]);
        subject["id"].as_str().expect("an id")
    }
}

/// Checks the signature by a secret, the headers and the envelope of a request.
/// `now` is the time of the service's clock in seconds since 1970, if it is not the
/// system's.
///
/// # Errors
/// What is wrong with it.
pub fn check(request: &Received, secret: &str) -> Result<WebhookEvent, String> {
    let webhook = Webhook::new(secret).map_err(|error| error.to_string())?;
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let [id, timestamp, signatures] = names.map(|name| request.header(name));
    // The library reads the system's clock, which the tests' clock is ahead of.
    let seconds: i64 = timestamp
        .parse()
        .map_err(|_| "no webhook-timestamp".to_owned())?;
    let expected = webhook
        .sign(id, seconds, &request.body)
        .map_err(|error| error.to_string())?;
    if !signatures.split(' ').any(|signature| signature == expected) {
        return Err(format!("{signatures} has no {expected}"));
    }
    if request.method != "POST"
        || !request
            .header("content-type")
            .starts_with("application/json")
    {
        return Err("not a POST of JSON".to_owned());
    }
    if request.body.len() > MAX_BODY_BYTES {
        return Err(format!("{} bytes", request.body.len()));
    }
    let is_id = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if id.is_empty() || !id.chars().all(is_id) {
        return Err(format!("webhook-id is {id}"));
    }
    let body = request.json();
    let kind = body["type"].as_str().unwrap_or_default().to_owned();
    let object = body.as_object().ok_or("not an object")?;
    let mut members: Vec<&str> = object.keys().map(String::as_str).collect();
    members.sort_unstable();
    let subject = kind.split('.').next().unwrap_or_default();
    let is_kind = ["change", "source", "incident"].contains(&subject)
        && kind.chars().all(|c| is_id(c) || c == '.');
    if members != ["data", "timestamp", "type"] || !is_kind || !body["data"][subject].is_object() {
        return Err(format!("the envelope is {body}"));
    }
    Ok(WebhookEvent {
        id: id.to_owned(),
        kind,
        body,
    })
}

/// Checks the signature `v1a` by a public key, `whpk_` and base64.
///
/// # Errors
/// What is wrong with it.
pub fn check_public_key(request: &Received, public_key: &str) -> Result<(), String> {
    let key = public_key.strip_prefix("whpk_").ok_or("no whpk_")?;
    let key = BASE64_STANDARD
        .decode(key)
        .map_err(|error| error.to_string())?;
    let [id, timestamp] = ["webhook-id", "webhook-timestamp"].map(|name| request.header(name));
    let signed = [id.as_bytes(), timestamp.as_bytes(), &request.body].join(&b'.');
    let signatures = request.header("webhook-signature").split(' ');
    let mut ed25519 = signatures.filter_map(|signature| signature.strip_prefix("v1a,"));
    let signature = ed25519.next().ok_or("no v1a")?;
    let signature = BASE64_STANDARD
        .decode(signature)
        .map_err(|error| error.to_string())?;
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(&signed, &signature)
        .map_err(|_| "v1a is wrong".to_owned())
}

/// Checks all requests by a secret, and returns the events without duplicates, in the
/// order in which they first arrived.
///
/// # Panics
/// If a request is wrong, or the events of a change or a source arrived in another order than they
/// happened in.
pub fn events(requests: &[Received], secret: &str) -> Vec<WebhookEvent> {
    let mut bodies: HashMap<String, Value> = HashMap::new();
    let mut latest: HashMap<String, String> = HashMap::new();
    let mut events = Vec::new();
    for request in requests {
        let event = check(request, secret).unwrap_or_else(|error| panic!("{error}"));
        if let Some(body) = bodies.get(&event.id) {
            assert_eq!(*body, event.body, "another body of {}", event.id);
            continue;
        }
        bodies.insert(event.id.clone(), event.body.clone());
        let at = event.body["timestamp"].as_str().expect("a time").to_owned();
        let before = latest.insert(event.subject_id().to_owned(), at.clone());
        assert!(before.is_none_or(|before| before <= at), "{:?}", event.body);
        events.push(event);
    }
    events
}
