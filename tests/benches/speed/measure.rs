//! The kinds of measurements.

use std::time::Duration;

use crate::load::{self, Latencies};
use crate::report::Outcome;
use crate::testbed::Testbed;
use crate::text::{millis, rate, rounded, time};
use crate::work::Work;
use crate::{Failure, disk, text};

/// The number of connections for throughput.
const CONNECTIONS: usize = 32;
/// The number of connections, and of organizations, for many writers.
pub(crate) const MANY_CONNECTIONS: usize = 64;

/// The cost of a request to the service.
pub(crate) struct Cost {
    /// Processor time of all threads of the service, in microseconds.
    pub(crate) micros: f64,
    /// Kilobytes that the service writes to the disk.
    pub(crate) kilobytes: f64,
}

/// Measures one testbed.
pub(crate) struct Gauge<'a> {
    testbed: &'a Testbed,
}

impl<'a> Gauge<'a> {
    pub(crate) fn new(testbed: &'a Testbed) -> Self {
        Self { testbed }
    }

    /// Measures the throughput of some work, in percent of that of the bare handlers just
    /// before.
    pub(crate) async fn relative_to_bare(
        &self,
        work: &Work,
        bare: &Work,
    ) -> Result<Outcome, Failure> {
        let window = self.testbed.window;
        let ceiling = load::run(&self.testbed.bare.address, &[(bare, CONNECTIONS)], window).await?;
        let latencies = self.service(&[(work, CONNECTIONS)]).await?;
        let (ceiling, latencies) = (ceiling[0].per_second(), &latencies[0]);
        let measured = format!(
            "{}, p99 {}",
            rate(latencies.per_second()),
            time(latencies.p99())
        );
        let percent = latencies.per_second() / ceiling * 100.0;
        Ok(Outcome::new(percent, measured).with_ceiling(rate(ceiling)))
    }

    /// Measures the p99 of reads, in milliseconds, while as many connections create.
    pub(crate) async fn reads_during_creates(
        &self,
        reading: &Work,
        creating: &Work,
    ) -> Result<Outcome, Failure> {
        let half = CONNECTIONS / 2;
        let latencies = self.service(&[(reading, half), (creating, half)]).await?;
        let p99 = latencies[0].p99();
        let [gets, creates] = [0, 1].map(|index: usize| rate(latencies[index].per_second()));
        let measured = format!("{} ({gets} gets, {creates} creates)", time(p99));
        Ok(Outcome::new(millis(p99), measured))
    }

    /// Measures the p99 of some work over one connection, in fsyncs.
    pub(crate) async fn in_fsyncs(&self, work: &Work) -> Result<Outcome, Failure> {
        let before = disk::fsync(self.testbed.folder())?;
        let latencies = self.alone(work).await?;
        let after = disk::fsync(self.testbed.folder())?;
        // The faster of the two, so that a slow disk does not improve the ratio.
        let fsync = if after.p50() < before.p50() {
            after
        } else {
            before
        };
        let measured = format!(
            "{}, p50 {}; an fsync {}, p99 {}",
            time(latencies.p99()),
            time(latencies.p50()),
            time(fsync.p50()),
            time(fsync.p99()),
        );
        Ok(Outcome::new(times(latencies.p99(), fsync.p50()), measured))
    }

    /// Measures the ratio of the p50 of two kinds of work over one connection, each in
    /// two turns, so that a drift affects both.
    pub(crate) async fn median_ratio(
        &self,
        work: &Work,
        (other_gauge, other): (&Self, &Work),
    ) -> Result<Outcome, Failure> {
        let both = [(self, work), (other_gauge, other)];
        let mut times = [Duration::ZERO; 2];
        for index in [0, 1, 1, 0] {
            let (gauge, work) = both[index];
            times[index] += gauge.alone(work).await?.p50() / 2;
        }
        Ok(compare(times[0], times[1]))
    }

    /// Measures the p50 of some work over one connection, in milliseconds.
    pub(crate) async fn median(&self, work: &Work) -> Result<Outcome, Failure> {
        let latencies = self.alone(work).await?;
        let measured = format!("{}, p99 {}", time(latencies.p50()), time(latencies.p99()));
        Ok(Outcome::new(millis(latencies.p50()), measured))
    }

    /// Measures the ratio of the throughputs of two kinds of work over many connections,
    /// each in two turns, so that a drift affects both.
    pub(crate) async fn throughput_ratio(
        &self,
        work: &Work,
        other: &Work,
    ) -> Result<Outcome, Failure> {
        let mut rates = [0.0; 2];
        for index in [0, 1, 1, 0] {
            let latencies = self
                .service(&[([work, other][index], MANY_CONNECTIONS)])
                .await?;
            rates[index] += latencies[0].per_second() / 2.0;
        }
        let measured = format!("{} against {}", rate(rates[0]), rate(rates[1]));
        Ok(Outcome::new(rates[0] / rates[1], measured))
    }

    /// Reads the resident memory of the service, in megabytes.
    pub(crate) fn memory(&self) -> Result<Outcome, Failure> {
        let memory = self.testbed.service.memory()?;
        let (resident, peak) = (rounded(memory.resident), rounded(memory.peak));
        let measured = format!("{resident} MB, at its peak {peak} MB");
        Ok(Outcome::new(memory.resident, measured))
    }

    /// Measures the cost of one request of some work over many connections.
    pub(crate) async fn cost(&self, work: &Work) -> Result<Cost, Failure> {
        let service = &self.testbed.service;
        let before = service.usage()?;
        let latencies = self.service(&[(work, CONNECTIONS)]).await?;
        let after = service.usage()?;
        let answered = text::float(latencies[0].answered);
        Ok(Cost {
            micros: after
                .processor
                .saturating_sub(before.processor)
                .as_secs_f64()
                * 1e6
                / answered,
            kilobytes: text::float(after.written - before.written) / 1_000.0 / answered,
        })
    }

    /// Measures the latencies of some work over one connection.
    pub(crate) async fn alone(&self, work: &Work) -> Result<Latencies, Failure> {
        let latencies = self.service(&[(work, 1)]).await?;
        latencies
            .into_iter()
            .next()
            .ok_or_else(|| "nothing was measured".into())
    }

    async fn service(&self, loads: &[(&Work, usize)]) -> Result<Vec<Latencies>, Failure> {
        load::run(&self.testbed.service.address, loads, self.testbed.window).await
    }
}

fn compare(time: Duration, other: Duration) -> Outcome {
    let measured = format!(
        "{} against {}",
        crate::text::time(time),
        crate::text::time(other)
    );
    Outcome::new(times(time, other), measured)
}

fn times(time: Duration, unit: Duration) -> f64 {
    time.as_secs_f64() / unit.as_secs_f64()
}
