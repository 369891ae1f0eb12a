//! The load: connections that send one request after the other, on one thread.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;

use crate::Failure;
use crate::text;
use crate::wire::Wire;
use crate::work::Work;

/// How long the load runs before anything counts.
const WARM_UP: Duration = Duration::from_secs(1);

/// What one kind of work took.
#[derive(Default)]
pub(crate) struct Taken {
    /// Microseconds of each request that ended after the warm-up.
    micros: Vec<u32>,
    /// How many of them ended within the window.
    ended: u64,
    /// How many requests were answered, those of the warm-up included.
    pub(crate) answered: u64,
    window: Duration,
}

impl Taken {
    pub(crate) fn add(&mut self, time: Duration) {
        self.micros
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        self.ended += 1;
    }

    /// Says how long all that took together.
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

/// Runs several kinds of work at once, each over its own number of connections,
/// and returns what each took.
pub(crate) async fn run(
    address: &str,
    loads: &[(&Work, usize)],
    window: Duration,
) -> Result<Vec<Taken>, Failure> {
    let begin = Instant::now() + WARM_UP;
    let end = begin + window;
    let mut connections: FuturesUnordered<_> = loads
        .iter()
        .enumerate()
        .flat_map(|(index, (work, count))| (0..*count).map(move |_| (index, *work)))
        .map(|(index, work)| async move {
            let taken = connection(address, work, begin, end).await?;
            Ok::<_, Failure>((index, taken))
        })
        .collect();
    let mut all: Vec<Taken> = loads.iter().map(|_| Taken::default()).collect();
    while let Some((index, taken)) = connections.try_next().await? {
        all[index].join(taken);
    }
    Ok(all.into_iter().map(|taken| taken.within(window)).collect())
}

async fn connection(
    address: &str,
    work: &Work,
    begin: Instant,
    end: Instant,
) -> Result<Taken, Failure> {
    let mut wire = Wire::connect(address).await?;
    let mut request = Vec::new();
    let mut taken = Taken::default();
    loop {
        request.clear();
        work.write(&mut request);
        let sent = Instant::now();
        let answer = wire.exchange(&request).await?;
        answer.is(work.status, &request)?;
        let heard = Instant::now();
        taken.answered += 1;
        if heard >= begin {
            taken.add(heard - sent);
        }
        if heard > end {
            // Its latency counts, as slow requests must; it is not work that
            // was done within the window.
            taken.ended -= 1;
            return Ok(taken);
        }
    }
}
