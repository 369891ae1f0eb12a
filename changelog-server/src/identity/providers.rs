//! What providers publish, remembered, so that a request seldom waits for a provider.
//!
//! | Age of what is remembered | It is |
//! |---|---|
//! | up to [`REFRESH_AFTER`] | used |
//! | up to [`FRESH_FOR`] | used, and fetched again meanwhile |
//! | up to [`USABLE_FOR`] | used if the provider does not answer |
//!
//! A key that is not among those remembered has them fetched again, a few times in a minute. An
//! issuer is asked by one request at a time, whoever waits for it; and after a failure not for
//! some seconds, so that a provider that hangs holds few requests.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use changelog_core::Timestamp;
use chrono::TimeDelta;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use quick_cache::sync::Cache;

use super::error::ProviderError;
use super::provider::{Issuer, Provider, ProviderClient};
use crate::clock::Clock;

/// From which age on keys are fetched again while they are used.
const REFRESH_AFTER: TimeDelta = TimeDelta::minutes(45);
/// Up to which age keys are used without asking the provider.
const FRESH_FOR: TimeDelta = TimeDelta::hours(1);
/// Up to which age keys are used when the provider does not answer.
const USABLE_FOR: TimeDelta = TimeDelta::hours(6);
/// For how long a provider that has failed is not asked again.
const FAILURE_TTL: Duration = Duration::from_secs(10);
/// How often within [`UNKNOWN_KEY_WINDOW`] keys are fetched again because one is not known.
const MAX_UNKNOWN_KEY_FETCHES: u32 = 6;
const UNKNOWN_KEY_WINDOW: Duration = Duration::from_mins(1);
/// The most issuers that are remembered.
const MAX_ISSUERS: usize = 1_000;

type Fetch = Shared<BoxFuture<'static, Result<Arc<Provider>, ProviderError>>>;

/// The providers that are remembered.
pub(super) struct Providers {
    client: ProviderClient,
    clock: Clock,
    known: Cache<Issuer, Arc<Known>>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Known(Mutex<State>);

#[derive(Default)]
struct State {
    provider: Option<Arc<Provider>>,
    failure: Option<(Instant, ProviderError)>,
    /// When the present window of fetches for unknown keys began, and how many were in it.
    unknown_keys: Option<(Instant, u32)>,
    /// The request that is under way.
    fetch: Option<Fetch>,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns what is remembered, if it is not too old for that.
    fn not_older(&self, age: TimeDelta, now: Timestamp) -> Option<&Arc<Provider>> {
        let provider = self.provider.as_ref();
        provider.filter(|one| one.fetched_at.plus(age) > now)
    }

    /// Returns why the provider is not asked now.
    fn recent_failure(&self) -> Option<&ProviderError> {
        let (at, failure) = self.failure.as_ref()?;
        (at.elapsed() < FAILURE_TTL).then_some(failure)
    }

    /// Counts a fetch for a key that is not known; returns whether there may be one more.
    fn may_look_for_key(&mut self) -> bool {
        let (since, count) = match self.unknown_keys {
            Some((since, count)) if since.elapsed() < UNKNOWN_KEY_WINDOW => (since, count),
            _ => (Instant::now(), 0),
        };
        let may = count < MAX_UNKNOWN_KEY_FETCHES;
        self.unknown_keys = Some((since, count + u32::from(may)));
        may
    }
}

impl Providers {
    pub(super) fn new(client: ProviderClient, clock: Clock) -> Self {
        Self {
            client,
            clock,
            known: Cache::new(MAX_ISSUERS),
        }
    }

    /// Returns what a provider publishes. What is remembered is fetched again if it does not
    /// have what is needed; what is returned may lack it nevertheless.
    ///
    /// # Errors
    /// [`ProviderError`] if nothing can be fetched, and nothing is remembered that may be used
    /// and has what is needed.
    pub(super) async fn get(
        &self,
        issuer: &Issuer,
        has_needed: impl Fn(&Provider) -> bool,
    ) -> Result<Arc<Provider>, ProviderError> {
        let known = self.known(issuer);
        let now = self.clock.for_expiry();
        let (fetch, usable) = {
            let mut state = known.lock();
            let fresh = state.not_older(FRESH_FOR, now).cloned();
            let usable = state.not_older(USABLE_FOR, now).cloned();
            let needs = fresh.as_ref().is_some_and(|one| !has_needed(one));
            if let Some(fresh) = &fresh
                && !needs
            {
                if state.not_older(REFRESH_AFTER, now).is_none() {
                    // Runs by itself.
                    let _ = self.start(issuer, &known, &mut state);
                }
                return Ok(Arc::clone(fresh));
            }
            let is_running = state.fetch.is_some();
            if needs && !is_running && !state.may_look_for_key() {
                (None, usable)
            } else {
                (self.start(issuer, &known, &mut state), usable)
            }
        };
        let failure = match fetch {
            Some(fetch) => match fetch.await {
                Ok(provider) => return Ok(provider),
                Err(failure) => Some(failure),
            },
            None => known.lock().recent_failure().cloned(),
        };
        match (usable, failure) {
            // Whether the provider has what is needed is not known.
            (Some(usable), Some(failure)) if !has_needed(&usable) => Err(failure),
            (Some(usable), _) => Ok(usable),
            (None, failure) => Err(failure.unwrap_or(ProviderError::Timeout)),
        }
    }

    fn known(&self, issuer: &Issuer) -> Arc<Known> {
        let result = self
            .known
            .get_or_insert_with(issuer, || Ok::<_, std::convert::Infallible>(Arc::default()));
        match result {
            Ok(known) => known,
            Err(never) => match never {},
        }
    }

    /// Returns the request that is under way, or starts one; `None` so soon after a failure.
    /// It runs to its end even if nobody waits for it.
    fn start(&self, issuer: &Issuer, known: &Arc<Known>, state: &mut State) -> Option<Fetch> {
        if let Some(running) = &state.fetch {
            return Some(running.clone());
        }
        if state.recent_failure().is_some() {
            return None;
        }
        let (client, clock) = (self.client.clone(), self.clock.clone());
        let (issuer, known) = (issuer.clone(), Arc::clone(known));
        let fetch = async move {
            let fetched = client.fetch(&issuer, clock.for_expiry()).await;
            let fetched = fetched.map(Arc::new);
            let mut state = known.lock();
            state.fetch = None;
            match &fetched {
                Ok(provider) => {
                    state.provider = Some(Arc::clone(provider));
                    state.failure = None;
                }
                Err(failure) => {
                    tracing::warn!(
                        issuer = issuer.url(),
                        %failure,
                        "what an identity provider publishes could not be fetched"
                    );
                    state.failure = Some((Instant::now(), failure.clone()));
                }
            }
            fetched
        };
        let fetch = fetch.boxed().shared();
        state.fetch = Some(fetch.clone());
        tokio::spawn(fetch.clone());
        Some(fetch)
    }
}
