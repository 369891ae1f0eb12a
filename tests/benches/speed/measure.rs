//! The ways in which something is measured.

use std::time::Duration;

use crate::load::{self, Taken};
use crate::report::Outcome;
use crate::text::{millis, rate, rounded, time};
use crate::work::Work;
use crate::world::World;
use crate::{Failure, disk, text};

/// How many connections a throughput is measured with.
const CONNECTIONS: usize = 32;
/// How many connections many writers are, and how many organizations they
/// write into.
pub(crate) const CROWD: usize = 64;

/// What a request costs the service.
pub(crate) struct Cost {
    /// Microseconds of a processor, of all threads of the service.
    pub(crate) micros: f64,
    /// Kilobytes that the service makes the system write to a disk.
    pub(crate) kilobytes: f64,
}

/// Measures one world.
pub(crate) struct Gauge<'a> {
    world: &'a World,
}

impl<'a> Gauge<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self { world }
    }

    /// The throughput of some work, in percent of what the bare handlers do
    /// with other work directly before it.
    pub(crate) async fn beside_bare(&self, work: &Work, bare: &Work) -> Result<Outcome, Failure> {
        let window = self.world.window;
        let ceiling = load::run(&self.world.bare.address, &[(bare, CONNECTIONS)], window).await?;
        let taken = self.service(&[(work, CONNECTIONS)]).await?;
        let (ceiling, taken) = (ceiling[0].per_second(), &taken[0]);
        let measured = format!("{}, p99 {}", rate(taken.per_second()), time(taken.p99()));
        let percent = taken.per_second() / ceiling * 100.0;
        Ok(Outcome::new(percent, measured).beside(rate(ceiling)))
    }

    /// The p99 of reading, in milliseconds, while as many others create.
    pub(crate) async fn beside_each_other(
        &self,
        reading: &Work,
        creating: &Work,
    ) -> Result<Outcome, Failure> {
        let half = CONNECTIONS / 2;
        let taken = self.service(&[(reading, half), (creating, half)]).await?;
        let p99 = taken[0].p99();
        let [gets, creates] = [0, 1].map(|index: usize| rate(taken[index].per_second()));
        let measured = format!("{} ({gets} gets, {creates} creates)", time(p99));
        Ok(Outcome::new(millis(p99), measured))
    }

    /// The p99 of some work over one connection, in fsyncs.
    pub(crate) async fn in_fsyncs(&self, work: &Work) -> Result<Outcome, Failure> {
        let before = disk::fsync(self.world.folder())?;
        let taken = self.alone(work).await?;
        let after = disk::fsync(self.world.folder())?;
        // The cheaper one, so that a disk in a bad mood flatters nobody.
        let fsync = if after.p50() < before.p50() {
            after
        } else {
            before
        };
        let measured = format!(
            "{}, p50 {}; an fsync {}, p99 {}",
            time(taken.p99()),
            time(taken.p50()),
            time(fsync.p50()),
            time(fsync.p99()),
        );
        Ok(Outcome::new(times(taken.p99(), fsync.p50()), measured))
    }

    /// The p50 of some work over one connection, against that of other work,
    /// maybe elsewhere: each in two turns, so that what drifts does so for both.
    pub(crate) async fn against(
        &self,
        work: &Work,
        (elsewhere, other): (&Self, &Work),
    ) -> Result<Outcome, Failure> {
        let both = [(self, work), (elsewhere, other)];
        let mut times = [Duration::ZERO; 2];
        for index in [0, 1, 1, 0] {
            let (gauge, work) = both[index];
            times[index] += gauge.alone(work).await?.p50() / 2;
        }
        Ok(compared(times[0], times[1]))
    }

    /// The p50 of some work over one connection, in milliseconds.
    pub(crate) async fn median(&self, work: &Work) -> Result<Outcome, Failure> {
        let taken = self.alone(work).await?;
        let measured = format!("{}, p99 {}", time(taken.p50()), time(taken.p99()));
        Ok(Outcome::new(millis(taken.p50()), measured))
    }

    /// The throughput of some work over many connections, against that of other
    /// work: each in two turns, so that what drifts does so for both.
    pub(crate) async fn crowds(&self, work: &Work, other: &Work) -> Result<Outcome, Failure> {
        let mut rates = [0.0; 2];
        for index in [0, 1, 1, 0] {
            let taken = self.service(&[([work, other][index], CROWD)]).await?;
            rates[index] += taken[0].per_second() / 2.0;
        }
        let measured = format!("{} against {}", rate(rates[0]), rate(rates[1]));
        Ok(Outcome::new(rates[0] / rates[1], measured))
    }

    /// The memory of the service, in megabytes.
    pub(crate) fn memory(&self) -> Result<Outcome, Failure> {
        let memory = self.world.service.memory()?;
        let (resident, peak) = (rounded(memory.resident), rounded(memory.peak));
        let measured = format!("{resident} MB, at its peak {peak} MB");
        Ok(Outcome::new(memory.resident, measured))
    }

    /// What one request of some work over many connections costs the service.
    pub(crate) async fn cost(&self, work: &Work) -> Result<Cost, Failure> {
        let service = &self.world.service;
        let before = service.usage()?;
        let taken = self.service(&[(work, CONNECTIONS)]).await?;
        let after = service.usage()?;
        let answered = text::float(taken[0].answered);
        Ok(Cost {
            micros: (after.processor - before.processor).as_secs_f64() * 1e6 / answered,
            kilobytes: text::float(after.written - before.written) / 1_000.0 / answered,
        })
    }

    /// What some work takes over one connection.
    pub(crate) async fn alone(&self, work: &Work) -> Result<Taken, Failure> {
        let taken = self.service(&[(work, 1)]).await?;
        taken
            .into_iter()
            .next()
            .ok_or_else(|| "nothing was measured".into())
    }

    async fn service(&self, loads: &[(&Work, usize)]) -> Result<Vec<Taken>, Failure> {
        load::run(&self.world.service.address, loads, self.world.window).await
    }
}

fn compared(time: Duration, other: Duration) -> Outcome {
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
