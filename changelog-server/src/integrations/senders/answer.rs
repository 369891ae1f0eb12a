//! What follows from the answer of a receiver.

use std::time::Duration;

use changelog_core::Timestamp;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::Value;

use crate::integrations::http::{ReceiverResponse, SendError};
use crate::integrations::message::Verdict;

/// What became of a message, before secrets are masked.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) status: Option<u16>,
    pub(super) answer: Option<ReceiverResponse>,
    pub(super) reference: Option<Value>,
}

impl Outcome {
    fn without_answer(verdict: Verdict) -> Self {
        Self {
            verdict,
            status: None,
            answer: None,
            reference: None,
        }
    }

    /// The message cannot be sent.
    pub(super) fn refused(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::without_answer(Verdict::Refused { reason })
    }

    /// The connection cannot send before a person has changed it.
    pub(super) fn disabled(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::without_answer(Verdict::Disabled { reason })
    }

    /// The receiver need not know of the event.
    pub(super) fn nothing_to_send() -> Self {
        Self::without_answer(Verdict::Delivered)
    }

    /// No answer came.
    pub(super) fn failed(error: &SendError) -> Self {
        let reason = error.to_string();
        Self::without_answer(if error.is_permanent() {
            Verdict::Disabled { reason }
        } else {
            let after = None;
            Verdict::Retry { reason, after }
        })
    }

    /// An answer came.
    pub(super) fn answered(verdict: Verdict, response: ReceiverResponse) -> Self {
        Self {
            verdict,
            status: Some(response.status.as_u16()),
            answer: Some(response),
            reference: None,
        }
    }
}

/// What follows from a status that the receiver's protocol gives no meaning of its own.
pub(super) fn by_status(response: &ReceiverResponse, now: Timestamp) -> Verdict {
    let status = response.status;
    if status.is_success() {
        return Verdict::Delivered;
    }
    if status == StatusCode::GONE {
        let reason = "The receiver answered that it is gone (410). Check its address, and turn \
                      the connection on again."
            .to_owned();
        return Verdict::Disabled { reason };
    }
    let reason = if status.is_redirection() {
        format!(
            "The receiver answered {status}: redirects are not followed. Enter the address that \
             it redirects to."
        )
    } else {
        format!("The receiver answered {status}.")
    };
    let after = retry_after(response, now);
    Verdict::Retry { reason, after }
}

/// The receiver will never accept this message: sending it again is useless, and others
/// may be accepted.
pub(super) fn refused_message(receiver: &str) -> Verdict {
    let reason = format!("{receiver} does not accept this message.");
    Verdict::Refused { reason }
}

/// The receiver does not accept this message before a person has done something; it may accept
/// others.
pub(super) fn refused_because(reason: &str) -> Verdict {
    let reason = reason.to_owned();
    Verdict::Refused { reason }
}

/// The receiver accepts nothing before a person has done something.
pub(super) fn needs_person(reason: &str) -> Verdict {
    let reason = reason.to_owned();
    Verdict::Disabled { reason }
}

/// Returns the time that the receiver asks to wait: seconds, or until a date.
pub(super) fn retry_after(response: &ReceiverResponse, now: Timestamp) -> Option<Duration> {
    let value = response.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    Some(if let Ok(seconds) = value.parse() {
        Duration::from_secs(seconds)
    } else {
        let until = Timestamp::from(httpdate::parse_http_date(value).ok()?);
        let millis = until.millis().saturating_sub(now.millis()).max(0);
        Duration::from_millis(millis.unsigned_abs())
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn response(status: u16, retry_after: Option<&str>) -> ReceiverResponse {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().expect("a header"));
        }
        ReceiverResponse {
            status: StatusCode::from_u16(status).expect("a status"),
            headers,
            body: Vec::new(),
            is_cut: false,
        }
    }

    fn now() -> Timestamp {
        "2026-11-21T08:30:00Z".parse().expect("a time")
    }

    #[test]
    fn only_2xx_is_success_and_410_disables() {
        let verdict = |status| by_status(&response(status, None), now());
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(verdict(status), Verdict::Delivered);
        }
        for status in [301, 302, 307, 400, 401, 404, 408, 429, 500, 502, 503, 504] {
            let retried = matches!(verdict(status), Verdict::Retry { after: None, .. });
            assert!(retried, "{status}");
        }
        assert!(matches!(verdict(410), Verdict::Disabled { .. }));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (value, seconds) in [
            ("30", Some(30)),
            (" 0 ", Some(0)),
            ("Sat, 21 Nov 2026 08:31:00 GMT", Some(60)),
            ("Sat, 21 Nov 2026 08:29:00 GMT", Some(0)),
            ("999999999999", Some(999_999_999_999)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(251_607_050_999)),
            ("-1", None),
            ("soon", None),
            ("99999999999999999999999", None),
        ] {
            let response = response(429, Some(value));
            let wait = retry_after(&response, now());
            assert_eq!(wait, seconds.map(Duration::from_secs), "{value}");
        }
    }
}
