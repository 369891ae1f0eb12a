//! The retry policy and the header `Retry-After`.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The shortest first delay before a stream connects again.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(250);
/// A lower bound of the longest delay before a stream connects again.
const MIN_LONGEST_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// How often, and after which delays, a request is retried.
///
/// Only [transient](crate::Error::is_transient) errors are retried: failed and
/// lost connections, timeouts, the status codes 429, 502, 503 and 504, and a 409
/// because the first request with the same idempotency key is still running.
///
/// The delay doubles from `min_delay` to `max_delay`. A random part of up to the
/// same length is added, so that clients do not retry at the same moment. If the
/// service sends a longer `Retry-After`, that is used. No retry starts after the
/// [total timeout](crate::ClientBuilder::total_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of retries of a request; 3 by default, 0 for none.
    pub max_retries: u32,
    /// The first delay, without its random part; 250 ms by default.
    pub min_delay: Duration,
    /// The longest delay, without its random part; 5 s by default.
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
    /// Sends each request once.
    pub const NEVER: Self = Self {
        max_retries: 0,
        min_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
    };

    /// Returns the delays of one request.
    pub(crate) fn delays(self) -> ExponentialBackoff {
        exponential(self.min_delay, self.max_delay)
            .with_max_times(self.max_retries as usize)
            .build()
    }

    /// Returns the delays of a stream that connects again, without an end. They
    /// have lower bounds, so that a policy of short delays does not load the
    /// service.
    pub(crate) fn reconnect_delays(self) -> ExponentialBackoff {
        exponential(
            self.min_delay.max(MIN_RECONNECT_DELAY),
            self.max_delay.max(MIN_LONGEST_RECONNECT_DELAY),
        )
        .without_max_times()
        .build()
    }
}

fn exponential(min_delay: Duration, max_delay: Duration) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(min_delay)
        .with_max_delay(max_delay)
}

/// Returns the delay that the header `Retry-After` asks for: whole seconds, or
/// until an HTTP date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A date in the past asks for no delay.
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_in_seconds_or_a_date() {
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
    fn delays_double_up_to_the_longest() {
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

    #[test]
    fn reconnect_delays_have_lower_bounds_and_no_end() {
        let delays: Vec<Duration> = RetryPolicy::NEVER.reconnect_delays().take(100).collect();
        assert_eq!(delays.len(), 100);
        assert!(delays[0] >= MIN_RECONNECT_DELAY, "{delays:?}");
        for delay in &delays[5..] {
            let range = MIN_LONGEST_RECONNECT_DELAY..=2 * MIN_LONGEST_RECONNECT_DELAY;
            assert!(range.contains(delay), "{delays:?}");
        }
    }
}
