//! When to send a request again, and how long to wait before.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How often a request is sent again after a failure that may pass: no
/// connection, no answer in time, 429, 502, 503, 504, and the 409 that says
/// that the first request with the same idempotency key is still running.
///
/// The wait doubles from `min_delay` to `max_delay`, each with up to as much
/// again by chance, so that many clients do not return in step. A `Retry-After`
/// that asks for more is obeyed. Whatever is set here, the client's total
/// timeout ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many times a request is sent again at most; 3 by default, 0 for never.
    pub max_retries: u32,
    /// The first wait; 250 ms by default.
    pub min_delay: Duration,
    /// The longest wait that is not asked for by the service; 5 s by default.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            min_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Never sends a request twice.
    pub const NEVER: Self = Self {
        max_retries: 0,
        min_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
    };

    /// Returns the waits of one request, one after the other.
    pub(crate) fn delays(self) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(self.min_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(self.max_retries as usize)
            .build()
    }
}

impl RetryPolicy {
    /// Returns the waits of who comes again for as long as it takes: at least a
    /// quarter of a second, whatever is set.
    pub(crate) fn endless_delays(self) -> ExponentialBackoff {
        let min_delay = self.min_delay.max(Duration::from_millis(250));
        ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(min_delay)
            .with_max_delay(self.max_delay.max(Duration::from_secs(5)))
            .without_max_times()
            .build()
    }
}

/// Reads `Retry-After`: whole seconds, or an HTTP date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A date that has passed asks for no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (value, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            assert_eq!(
                retry_after(&headers, now),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn delays_grow_and_end() {
        let policy = RetryPolicy {
            max_retries: 4,
            min_delay: Duration::from_millis(100),
            max_delay: Duration::from_millis(300),
        };
        let delays: Vec<u128> = policy.delays().map(|d| d.as_millis()).collect();
        assert_eq!(delays.len(), 4);
        for (delay, least) in delays.iter().zip([100, 200, 300, 300]) {
            assert!((least..=2 * least).contains(delay), "{delays:?}");
        }
        assert_eq!(RetryPolicy::NEVER.delays().count(), 0);
    }
}
