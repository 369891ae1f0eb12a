//! Finds work that holds up an async worker: how long the longest poll of each
//! request took. Off unless it is asked for, with
//! `CHANGELOG_LOG=changelog_server::polls=debug`.

use std::pin::pin;
use std::time::Duration;

use http::{Method, Request};
use rustix::time::{ClockId, clock_gettime};

use super::respond::loggable;

/// The target of the log lines.
macro_rules! target {
    () => {
        "changelog_server::polls"
    };
}

/// Which request is watched; none while nobody asks.
pub(super) struct WatchedRequest(Option<(Method, String)>);

impl WatchedRequest {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let asked = tracing::enabled!(target: target!(), tracing::Level::DEBUG);
        let path = || loggable(request.uri().path()).to_owned();
        Self(asked.then(|| (request.method().clone(), path())))
    }
}

/// Runs a future to its end, and logs the processor time of its longest poll, in
/// microseconds. Time in which another thread had the core does not count.
pub(super) async fn watched<F: Future>(WatchedRequest(name): WatchedRequest, work: F) -> F::Output {
    let Some((method, path)) = name else {
        return work.await;
    };
    let mut work = pin!(work);
    let mut longest = Duration::ZERO;
    let output = std::future::poll_fn(|context| {
        let before = processor_time();
        let polled = work.as_mut().poll(context);
        longest = longest.max(processor_time().saturating_sub(before));
        polled
    })
    .await;
    tracing::debug!(
        target: target!(),
        %method,
        path,
        longest_poll_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
        "watched"
    );
    output
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
