//! The measured requests, as bytes that are prepared before the measurement where
//! possible.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::history::word;
use crate::text::{mix, pick};

/// The placeholder of a UUID in a request.
const KEY_PLACEHOLDER: &str = "########-####-####-####-############";
/// The placeholder of a word in a request.
const WORD_PLACEHOLDER: &str = "@@@@@@";

/// The expected status of work that may be refused.
pub(crate) const ANY_STATUS: u16 = 0;

type Write = Box<dyn Fn(u64, &mut Vec<u8>)>;

/// One kind of request, with its expected status.
pub(crate) struct Work {
    pub(crate) status: u16,
    make: Write,
}

impl Work {
    /// Returns work that is the same request each time.
    pub(crate) fn of(status: u16, request: Vec<u8>) -> Self {
        Self {
            status,
            make: Box::new(move |_, bytes| bytes.extend_from_slice(&request)),
        }
    }

    /// Returns work that lists a page of 25 changes.
    pub(crate) fn list(key: &str, query: &str) -> Self {
        let and = if query.is_empty() { "" } else { "&" };
        Self::of(
            200,
            get(key, &format!("/api/changes?per_page=25{and}{query}")),
        )
    }

    /// Returns work that reads one of these changes.
    pub(crate) fn get_any(key: &str, ids: &[String]) -> Self {
        let requests = ids.to_vec();
        let (before, after) = ("GET /api/changes/", rest_of_get(key));
        Self {
            status: 200,
            make: Box::new(move |random, bytes| {
                bytes.extend_from_slice(before.as_bytes());
                bytes.extend_from_slice(pick(&requests, random).as_bytes());
                bytes.extend_from_slice(after.as_bytes());
            }),
        }
    }

    /// Returns work that creates a change with one of these API keys, with an idempotency
    /// key like that of the SDK, and with words that are not searched for.
    pub(crate) fn create(keys: &[&str], service: Option<&str>) -> Self {
        let service = service.map_or(String::new(), |id| format!(r#","service_id":"{id}""#));
        let body = format!(
            r#"{{"title":"Roll out {WORD_PLACEHOLDER} to {WORD_PLACEHOLDER}","description":"The next version of {WORD_PLACEHOLDER}; the runbook says how to go back, and whom to ask.","risk_level":"medium","tags":["release"]{service}}}"#
        );
        let requests: Vec<Template> = keys
            .iter()
            .map(|key| {
                let head = format!("idempotency-key: {KEY_PLACEHOLDER}\r\n");
                Template::new(post(key, "/api/changes", &head, &body))
            })
            .collect();
        Self {
            status: 201,
            make: Box::new(move |random, bytes| pick(&requests, random).write(random, bytes)),
        }
    }

    /// Writes the next request.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        // A mixed counter: the same numbers in every run.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        (self.make)(mix(NEXT.fetch_add(1, Ordering::Relaxed)), bytes);
    }
}

/// A request with placeholders for an idempotency key and words.
struct Template {
    bytes: Vec<u8>,
    key: usize,
    words: Vec<usize>,
}

impl Template {
    fn new(bytes: Vec<u8>) -> Self {
        let positions = |placeholder: &str| -> Vec<usize> {
            let placeholder = placeholder.as_bytes();
            let starts = 0..=bytes.len() - placeholder.len();
            starts
                .filter(|start| bytes[*start..].starts_with(placeholder))
                .collect()
        };
        Self {
            key: positions(KEY_PLACEHOLDER).first().copied().unwrap_or(0),
            words: positions(WORD_PLACEHOLDER),
            bytes,
        }
    }

    fn write(&self, random: u64, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&self.bytes);
        let copy = &mut bytes[start..];
        Uuid::now_v7()
            .hyphenated()
            .encode_lower(&mut copy[self.key..]);
        let mut random = random;
        for position in &self.words {
            random = mix(random);
            copy[*position..][..WORD_PLACEHOLDER.len()].copy_from_slice(&word(random));
        }
    }
}

/// Returns the bytes of a request without a body.
pub(crate) fn get(key: &str, target: &str) -> Vec<u8> {
    format!("GET {target}{}", rest_of_get(key)).into_bytes()
}

fn rest_of_get(key: &str) -> String {
    format!(" HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\r\n")
}

/// Returns the bytes of a request with a body and additional header lines.
pub(crate) fn post(key: &str, target: &str, head: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{head}\r\n{body}"
    )
    .into_bytes()
}
