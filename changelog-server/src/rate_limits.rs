//! Rate limits of clients, users and API keys.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use changelog_core::{ApiKeyId, UserId};
use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::store::network_of;

type KeyLimiter = RateLimiter<
    ApiKeyId,
    DefaultKeyedStateStore<ApiKeyId>,
    DefaultClock,
    StateInformationMiddleware,
>;

/// Sign-ins of one client (see [`network_of`]): a burst, then one every two seconds.
const SIGN_IN_BURST: u32 = 60;
const SIGN_IN_PERIOD: Duration = Duration::from_secs(2);
/// Invitations by one person: a burst, then one a minute.
const INVITATION_BURST: u32 = 30;
const INVITATION_PERIOD: Duration = Duration::from_mins(1);
/// Tests of connections by one person: a burst, then one every ten seconds. Each sends
/// requests to an address that the person chose.
const CONNECTION_TEST_BURST: u32 = 20;
const CONNECTION_TEST_PERIOD: Duration = Duration::from_secs(10);
/// Public keys of webhooks that one client reads: a burst, then one a second.
const PUBLIC_KEY_BURST: u32 = 100;
const PUBLIC_KEY_PERIOD: Duration = Duration::from_secs(1);
/// Requests of one client with a well-formed key that does not exist: a burst, then
/// one a second.
const BAD_KEY_BURST: u32 = 100;
const BAD_KEY_PERIOD: Duration = Duration::from_secs(1);

/// A rate limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimited {
    /// Seconds until the next attempt, at least 1; for `Retry-After`.
    pub retry_after: u64,
}

/// The rate limit of an API key, for the `RateLimit` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitState {
    /// Requests per second.
    pub quota: u32,
    /// Requests left at the moment.
    pub remaining: u32,
}

/// Returns a quota: a burst, then one per period.
fn quota(burst: u32, period: Duration) -> Quota {
    let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
    let quota = Quota::with_period(period).unwrap_or(Quota::per_second(burst));
    quota.allow_burst(burst)
}

/// The rate limits of one server process.
#[derive(Debug)]
pub struct RateLimits {
    clock: DefaultClock,
    sign_ins: DefaultKeyedRateLimiter<IpAddr>,
    bad_keys: DefaultKeyedRateLimiter<IpAddr>,
    invitations: DefaultKeyedRateLimiter<UserId>,
    connection_tests: DefaultKeyedRateLimiter<UserId>,
    public_keys: DefaultKeyedRateLimiter<IpAddr>,
    requests: Option<KeyLimiter>,
}

impl RateLimits {
    /// Creates the limits; `per_key` is in requests per second, `None` for no limit.
    pub fn new(per_key: Option<NonZeroU32>) -> Self {
        Self {
            clock: DefaultClock::default(),
            sign_ins: RateLimiter::keyed(quota(SIGN_IN_BURST, SIGN_IN_PERIOD)),
            bad_keys: RateLimiter::keyed(quota(BAD_KEY_BURST, BAD_KEY_PERIOD)),
            invitations: RateLimiter::keyed(quota(INVITATION_BURST, INVITATION_PERIOD)),
            connection_tests: RateLimiter::keyed(quota(
                CONNECTION_TEST_BURST,
                CONNECTION_TEST_PERIOD,
            )),
            public_keys: RateLimiter::keyed(quota(PUBLIC_KEY_BURST, PUBLIC_KEY_PERIOD)),
            requests: per_key.map(|rate| {
                RateLimiter::keyed(Quota::per_second(rate))
                    .with_middleware::<StateInformationMiddleware>()
            }),
        }
    }

    /// Counts a sign-in of a client.
    pub fn sign_in(&self, address: IpAddr) -> Result<(), RateLimited> {
        self.sign_ins
            .check_key(&network_of(address))
            .map_err(|not_until| self.too_many(&not_until))
    }

    /// Counts a request of a client with a key that does not exist.
    pub fn bad_key(&self, address: IpAddr) -> Result<(), RateLimited> {
        self.bad_keys
            .check_key(&network_of(address))
            .map_err(|not_until| self.too_many(&not_until))
    }

    /// Counts an invitation by a person.
    pub fn invitation(&self, by: UserId) -> Result<(), RateLimited> {
        self.invitations
            .check_key(&by)
            .map_err(|not_until| self.too_many(&not_until))
    }

    /// Counts a test of a connection by a person.
    pub fn connection_test(&self, by: UserId) -> Result<(), RateLimited> {
        self.connection_tests
            .check_key(&by)
            .map_err(|not_until| self.too_many(&not_until))
    }

    /// Counts a request of a client for the public key of a webhook.
    pub fn public_key(&self, address: IpAddr) -> Result<(), RateLimited> {
        self.public_keys
            .check_key(&network_of(address))
            .map_err(|not_until| self.too_many(&not_until))
    }

    /// Counts a request of a key; `None` when keys have no limit.
    pub fn request(&self, key: ApiKeyId) -> Result<Option<RateLimitState>, RateLimited> {
        let Some(requests) = &self.requests else {
            return Ok(None);
        };
        match requests.check_key(&key) {
            Ok(state) => Ok(Some(RateLimitState {
                quota: state.quota().burst_size().get(),
                remaining: state.remaining_burst_capacity(),
            })),
            Err(not_until) => Err(self.too_many(&not_until)),
        }
    }

    /// Drops the counters that are back at their full burst.
    pub fn forget_idle(&self) {
        self.sign_ins.retain_recent();
        self.bad_keys.retain_recent();
        self.invitations.retain_recent();
        self.connection_tests.retain_recent();
        self.public_keys.retain_recent();
        if let Some(requests) = &self.requests {
            requests.retain_recent();
        }
    }

    fn too_many<P: governor::clock::Reference>(
        &self,
        not_until: &governor::NotUntil<P>,
    ) -> RateLimited
    where
        DefaultClock: governor::clock::Clock<Instant = P>,
    {
        let wait = not_until.wait_time_from(self.clock.now());
        RateLimited {
            retry_after: wait.as_secs() + 1,
        }
    }
}
