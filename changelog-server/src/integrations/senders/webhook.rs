//! Webhooks in the format of Standard Webhooks: signed POST requests of JSON.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use changelog_core::{
    Change, Differences, Event, EventKind, EventOfChange, EventOfIncident, Incident, SilentSource,
    Timestamp,
};
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::Serialize;

use super::answer::{self, Outcome};
use crate::integrations::http::{ReceiverClient, ReceiverRequest};
use crate::integrations::message::Message;
use crate::integrations::target::{SigningSecret, Target};

const SECRET_PREFIX: &str = "whsec_";
const PUBLIC_KEY_PREFIX: &str = "whpk_";
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The limit on a body: receivers may refuse longer ones.
pub const MAX_BODY_BYTES: usize = 20_000;

/// Returns a new secret to sign webhooks with.
pub fn new_signing_secret() -> String {
    let key = rand::random::<[u8; 32]>();
    format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode(key))
}

/// Returns a new seed of an ed25519 key, as base64.
pub fn new_ed25519_seed() -> String {
    BASE64_STANDARD.encode(rand::random::<[u8; 32]>())
}

/// Returns the public key of a seed, as receivers expect it: `whpk_` and base64. `None`
/// if the seed is not valid.
pub fn public_key(seed: &str) -> Option<String> {
    let pair = key_pair(seed)?;
    let key = BASE64_STANDARD.encode(pair.public_key());
    Some(format!("{PUBLIC_KEY_PREFIX}{key}"))
}

pub(super) async fn send(http: &ReceiverClient, message: &Message<'_>) -> Outcome {
    let id = format!("evt_{}", message.event.id().simple());
    let timestamp = message.now.millis().div_euclid(1_000).to_string();
    let body = body(message.event);
    let signed = [id.as_bytes(), timestamp.as_bytes(), &body].join(&b'.');
    let Some(signatures) = sign(message.target, message.now, &signed) else {
        return Outcome::disabled("The connection has no valid signing secret. Rotate it.");
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [(ID, id), (TIMESTAMP, timestamp), (SIGNATURE, signatures)] {
        // Base64, digits and letters.
        headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
    }
    let request = ReceiverRequest {
        method: Method::POST,
        url: &message.target.url,
        headers,
        body: Bytes::from(body),
    };
    match http.send(request).await {
        Ok(response) => Outcome::answered(answer::by_status(&response, message.now), response),
        Err(error) => Outcome::failed(&error),
    }
}

/// Returns the signatures of every secret that is valid, separated by spaces, or `None`
/// without any.
fn sign(target: &Target, now: Timestamp, signed: &[u8]) -> Option<String> {
    let is_valid = |secret: &&SigningSecret| secret.valid_until.is_none_or(|until| until > now);
    let secrets = target.signing_secrets.iter().filter(is_valid);
    let keys = secrets.filter_map(|secret| {
        let key = secret.secret.strip_prefix(SECRET_PREFIX)?;
        BASE64_STANDARD.decode(key).ok()
    });
    let mut signatures: Vec<String> = keys
        .map(|key| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            let tag = hmac::sign(&key, signed);
            format!("v1,{}", BASE64_STANDARD.encode(tag))
        })
        .collect();
    if let Some(pair) = target.ed25519_seed.as_deref().and_then(key_pair) {
        let signature = pair.sign(signed);
        signatures.push(format!("v1a,{}", BASE64_STANDARD.encode(signature)));
    }
    (!signatures.is_empty()).then(|| signatures.join(" "))
}

fn key_pair(seed: &str) -> Option<Ed25519KeyPair> {
    let seed = BASE64_STANDARD.decode(seed).ok()?;
    Ed25519KeyPair::from_seed_unchecked(&seed).ok()
}

/// The body of a webhook.
#[derive(Serialize)]
struct Envelope<'e, D> {
    #[serde(rename = "type")]
    kind: &'e EventKind,
    timestamp: Timestamp,
    data: D,
}

/// Which source fell silent or was heard again.
#[derive(Serialize)]
struct SourceData<'e> {
    source: &'e SilentSource,
}

/// Which incident was opened or resolved, or has suspects.
#[derive(Serialize)]
struct IncidentData {
    incident: Incident,
    /// Whether it was opened or ranked before.
    again: bool,
    /// The lists that were shortened.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    truncated: BTreeSet<&'static str>,
}

/// What happened.
#[derive(Serialize)]
struct Data {
    change: Change,
    #[serde(skip_serializing_if = "Differences::is_empty")]
    changes: Differences,
    /// The fields that were shortened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    truncated: Vec<String>,
}

/// Returns the body.
fn body(event: &Event) -> Vec<u8> {
    match event {
        Event::Change(event) => body_of_change(event),
        Event::Source(event) => Envelope {
            kind: &event.kind,
            timestamp: event.at,
            data: SourceData {
                source: &event.source,
            },
        }
        .json(),
        Event::Incident(event) => body_of_incident(event),
    }
}

/// Returns the body: at most [`MAX_BODY_BYTES`] of JSON. Lists whose ends are left out are named
/// in `truncated`.
fn body_of_incident(event: &EventOfIncident) -> Vec<u8> {
    let mut envelope = Envelope {
        kind: &event.kind,
        timestamp: event.at,
        data: IncidentData {
            incident: event.incident.clone(),
            again: event.again,
            truncated: BTreeSet::new(),
        },
    };
    while envelope.excess() > 0 {
        let IncidentData {
            incident,
            truncated,
            ..
        } = &mut envelope.data;
        let shortened = if incident.first_suspects.pop().is_some() {
            "first_suspects"
        } else if incident.suspects.pop().is_some() {
            "suspects"
        } else if incident.gaps.pop().is_some() {
            "gaps"
        } else {
            break;
        };
        truncated.insert(shortened);
    }
    envelope.json()
}

/// Returns the body: at most [`MAX_BODY_BYTES`] of JSON. What takes the most space and is
/// the least needed is shortened first, and listed in `truncated`.
fn body_of_change(event: &EventOfChange) -> Vec<u8> {
    let mut envelope = Envelope {
        kind: &event.kind,
        timestamp: event.at,
        data: Data {
            change: event.change.clone(),
            changes: event.changes.clone(),
            truncated: Vec::new(),
        },
    };
    let mut json = envelope.json();
    for shorten in [shorten_texts, drop_differences, drop_links, drop_names] {
        if json.len() <= MAX_BODY_BYTES {
            break;
        }
        shorten(&mut envelope);
        json = envelope.json();
    }
    json
}

impl<D: Serialize> Envelope<'_, D> {
    fn json(&self) -> Vec<u8> {
        // Fails for maps whose keys are not strings, which it does not have.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns by how many bytes the body is too long.
    fn excess(&self) -> usize {
        self.json().len().saturating_sub(MAX_BODY_BYTES)
    }
}

/// The bytes that naming a shortened field takes at most, for each field.
const NAME_BYTES: usize = 64;

/// Shortens the description and the impact.
fn shorten_texts(envelope: &mut Envelope<'_, Data>) {
    // The beginning of the description is worth more than the end of the impact.
    for (name, least_bytes) in [("description", 4_000), ("impact", 0), ("description", 0)] {
        let excess = envelope.excess();
        let data = &mut envelope.data;
        let field = match name {
            "description" => &mut data.change.description,
            _ => &mut data.change.impact,
        };
        let Some(text) = field.as_mut().filter(|_| excess > 0) else {
            continue;
        };
        let length = json_bytes(text);
        let fitting = length.saturating_sub(excess + NAME_BYTES).max(least_bytes);
        if fitting < length {
            *text = shortened(text, fitting);
            if !data.truncated.iter().any(|shortened| shortened == name) {
                data.truncated.push(name.to_owned());
            }
        }
    }
}

/// Leaves out what updates changed, the longest values first.
fn drop_differences(envelope: &mut Envelope<'_, Data>) {
    while envelope.excess() > 0 {
        let data = &mut envelope.data;
        let length =
            |name: &&String| serde_json::to_vec(&data.changes[*name]).map_or(0, |v| v.len());
        let Some(longest) = data.changes.keys().max_by_key(length).cloned() else {
            break;
        };
        data.changes.remove(&longest);
        data.truncated.push(format!("changes.{longest}"));
    }
}

/// Leaves out the last links.
fn drop_links(envelope: &mut Envelope<'_, Data>) {
    if envelope.excess() > 0 && !envelope.data.change.links.is_empty() {
        envelope.data.truncated.push("links".to_owned());
    }
    while envelope.excess() > 0 && envelope.data.change.links.pop().is_some() {}
}

/// Leaves out services, whose ids remain, and tags.
fn drop_names(envelope: &mut Envelope<'_, Data>) {
    let change = &mut envelope.data.change;
    change.services.clear();
    change.tags.clear();
    let names = ["services", "tags"].map(str::to_owned);
    envelope.data.truncated.extend(names);
}

/// Returns the length of a string in JSON, without quotation marks.
fn json_bytes(text: &str) -> usize {
    text.chars().map(json_bytes_of).sum()
}

fn json_bytes_of(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\t' | '\r' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// Returns the beginning of a string that has at most this many bytes in JSON.
fn shortened(text: &str, bytes: usize) -> String {
    let mut room = bytes.saturating_sub('…'.len_utf8());
    let fitting = text.chars().take_while(|c| {
        let length = json_bytes_of(*c);
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    });
    let mut start: String = fitting.collect();
    start.push('…');
    start
}
