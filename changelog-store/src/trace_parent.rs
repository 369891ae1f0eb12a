//! The trace that a request belongs to: the header `traceparent` of
//! [W3C Trace Context](https://www.w3.org/TR/trace-context/).
//!
//! The service records no spans of its own, so it passes the header on as it is: a receiver's
//! span continues the caller's.

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// The header.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A valid value of the header, of version 00.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceParent {
    trace_id: u128,
    parent_id: u64,
    flags: u8,
}

/// Why a text is not a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a traceparent must be 00-, 32 hex digits, -, 16 hex digits, -, 2 hex digits")]
pub struct InvalidTraceParent;

impl TraceParent {
    /// Reads the header of a request; `None` if it is missing, malformed or given twice, which
    /// the specification tells to ignore.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let trace = values.next()?.to_str().ok()?.parse().ok();
        trace.filter(|_| values.next().is_none())
    }

    /// Returns the header for requests to other systems.
    pub fn header(self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.to_string()).ok()
    }

    /// Returns the id of the trace, for the log.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace_id, parent_id, flags, rest @ ..] = &parts[..] else {
            return Err(InvalidTraceParent);
        };
        // Later versions may add parts, and are read like the first.
        let is_known = match *version {
            "00" => rest.is_empty(),
            "ff" => false,
            later => is_hex(later, 2),
        };
        let is_written = is_hex(trace_id, 32) && is_hex(parent_id, 16) && is_hex(flags, 2);
        if !is_known || !is_written {
            return Err(InvalidTraceParent);
        }
        let trace = Self {
            trace_id: u128::from_str_radix(trace_id, 16).map_err(|_| InvalidTraceParent)?,
            parent_id: u64::from_str_radix(parent_id, 16).map_err(|_| InvalidTraceParent)?,
            flags: u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceParent)?,
        };
        match trace {
            Self { trace_id: 0, .. } | Self { parent_id: 0, .. } => Err(InvalidTraceParent),
            trace => Ok(trace),
        }
    }
}

/// Returns whether a text has this many lower-case hexadecimal digits.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            parent_id,
            flags,
        } = self;
        write!(f, "00-{trace_id:032x}-{parent_id:016x}-{flags:02x}")
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<TraceParent> for String {
    fn from(trace: TraceParent) -> Self {
        trace.to_string()
    }
}

impl TryFrom<String> for TraceParent {
    type Error = InvalidTraceParent;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_header_is_passed_on_unchanged() {
        let trace: TraceParent = EXAMPLE.parse().unwrap();
        assert_eq!(trace.to_string(), EXAMPLE);
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        // A later version with more parts.
        let later = format!("01{}-more", &EXAMPLE[2..]);
        assert_eq!(later.parse(), Ok(trace));
    }

    #[test]
    fn other_headers_are_ignored() {
        for text in [
            String::new(),
            EXAMPLE.to_uppercase(),
            format!("{EXAMPLE}-more"),
            format!("ff{}", &EXAMPLE[2..]),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            EXAMPLE.replace("4bf9", "+bf9"),
            EXAMPLE.replace("-01", ""),
        ] {
            assert_eq!(
                text.parse::<TraceParent>(),
                Err(InvalidTraceParent),
                "{text}"
            );
        }
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            headers.append(TRACEPARENT, HeaderValue::from_static(EXAMPLE));
        }
        assert_eq!(TraceParent::of(&headers), None);
    }
}
