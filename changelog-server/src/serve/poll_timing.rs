//! Logs the longest poll of each request, to find work that blocks an async
//! worker. On with `CHANGELOG_LOG=changelog_server::polls=debug`.

use std::pin::pin;
use std::time::Duration;

use http::Method;
use rustix::time::{ClockId, clock_gettime};

/// The target of the log lines.
macro_rules! target {
    () => {
        "changelog_server::polls"
    };
}

/// The method and the path of the request to measure; `None` if the log is off.
pub(super) struct TimedRequest(Option<(Method, String)>);

impl TimedRequest {
    /// The path must be free of secrets.
    pub(super) fn new(method: &Method, path: &str) -> Self {
        let is_on = tracing::enabled!(target: target!(), tracing::Level::DEBUG);
        Self(is_on.then(|| (method.clone(), path.to_owned())))
    }
}

/// Runs a future to its end and logs the processor time of its longest poll, in
/// microseconds. Time in which another thread had the core does not count.
pub(super) async fn timed<F: Future>(TimedRequest(request): TimedRequest, work: F) -> F::Output {
    let Some((method, path)) = request else {
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
        "longest poll"
    );
    output
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
