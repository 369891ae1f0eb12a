//! Generates load: connections on one thread, each of which sends one request after the
//! other.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;

use crate::Failure;
use crate::http_connection::HttpConnection;
use crate::text;
use crate::work::Work;

/// The time before the measured window.
const WARM_UP: Duration = Duration::from_secs(1);

/// The latencies of one kind of request.
#[derive(Default)]
pub(crate) struct Latencies {
    /// Microseconds of each request that ended after the warm-up.
    micros: Vec<u32>,
    /// The number of requests that ended within the window.
    ended: u64,
    /// The number of responses, including the warm-up.
    pub(crate) answered: u64,
    window: Duration,
}

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration) {
        self.micros
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        self.ended += 1;
    }

    /// Sets the measured window.
    pub(crate) fn within(mut self, window: Duration) -> Self {
        self.micros.sort_unstable();
        self.window = window;
        self
    }

    pub(crate) fn per_second(&self) -> f64 {
        text::float(self.ended) / self.window.as_secs_f64()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.micros.len() * percent).div_ceil(100).max(1);
        let micros = self.micros.get(rank - 1).copied().unwrap_or(0);
        Duration::from_micros(micros.into())
    }

    fn join(&mut self, other: Self) {
        self.micros.extend(other.micros);
        self.ended += other.ended;
        self.answered += other.answered;
    }
}

/// Runs several kinds of work concurrently, each over its own number of connections, and
/// returns the latencies of each.
pub(crate) async fn run(
    address: &str,
    loads: &[(&Work, usize)],
    window: Duration,
) -> Result<Vec<Latencies>, Failure> {
    let begin = Instant::now() + WARM_UP;
    let end = begin + window;
    let mut connections: FuturesUnordered<_> = loads
        .iter()
        .enumerate()
        .flat_map(|(index, (work, count))| (0..*count).map(move |_| (index, *work)))
        .map(|(index, work)| async move {
            let latencies = connection(address, work, begin, end).await?;
            Ok::<_, Failure>((index, latencies))
        })
        .collect();
    let mut all: Vec<Latencies> = loads.iter().map(|_| Latencies::default()).collect();
    while let Some((index, latencies)) = connections.try_next().await? {
        all[index].join(latencies);
    }
    Ok(all
        .into_iter()
        .map(|latencies| latencies.within(window))
        .collect())
}

async fn connection(
    address: &str,
    work: &Work,
    begin: Instant,
    end: Instant,
) -> Result<Latencies, Failure> {
    let mut http = HttpConnection::connect(address).await?;
    let mut request = Vec::new();
    let mut latencies = Latencies::default();
    loop {
        request.clear();
        work.write(&mut request);
        let sent = Instant::now();
        let answer = http.exchange(&request).await?;
        answer.is(work.status, &request)?;
        let received = Instant::now();
        latencies.answered += 1;
        if received >= begin {
            latencies.add(received - sent);
        }
        if received > end {
            // Its latency counts, but not as a request that ended within the window.
            latencies.ended -= 1;
            return Ok(latencies);
        }
    }
}
