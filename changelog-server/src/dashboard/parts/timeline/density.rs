//! How much happened on a timeline of more changes than can be drawn: bars, from kept counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use changelog_core::{Service, ServiceId, ServiceRef, Timestamp};
use chrono::TimeDelta;

use super::Range;
use crate::app::App;
use crate::dashboard::parts::format;
use crate::store::{HOUR, HourCount, StoreError, Tenant};

/// The most changes of a range that are drawn one by one.
pub(super) const MAX_MARKED: u64 = 300;
/// The most lanes of services; the changes of the others share one.
pub(super) const MAX_SERVICES: usize = 14;
/// Ranges of at most this length, with at most so many changes in their hours, are counted by
/// minutes, for which the changes are read.
const MAX_READ: TimeDelta = TimeDelta::hours(6);
const MAX_CHANGES_READ: u64 = 5_000;
/// The most parts of a range.
const MAX_PARTS: i64 = 40;
/// The lengths of parts, in minutes and in hours.
const MINUTES: [i64; 6] = [1, 2, 5, 10, 15, 30];
const HOURS: [i64; 6] = [1, 2, 3, 4, 6, 12];
const MINUTE: i64 = 60_000;

/// Numbers of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) changes: u64,
    /// How many of them were rolled back, or failed.
    pub(super) undone: u64,
}

impl Count {
    fn add(&mut self, count: &HourCount) {
        self.changes += count.changes;
        self.undone += count.undone;
    }

    /// Adds another count.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            changes: self.changes + other.changes,
            undone: self.undone + other.undone,
        }
    }

    /// Subtracts another count. Nothing is less than zero: counts are read one after the
    /// other, and changes may have been recorded meanwhile.
    fn minus(self, other: Self) -> Self {
        Self {
            changes: self.changes.saturating_sub(other.changes),
            undone: self.undone.saturating_sub(other.undone),
        }
    }
}

/// In words, such as `12, 1 rolled back or failed`.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format::number(self.changes))?;
        match self.undone {
            0 => Ok(()),
            undone => write!(f, ", {} rolled back or failed", format::number(undone)),
        }
    }
}

/// The counts of a lane by the starts of parts, in milliseconds since 1970.
pub(super) type Counts = BTreeMap<i64, Count>;

/// How much happened in a range.
pub(crate) struct Density {
    /// The length of a part, in milliseconds.
    length: i64,
    /// The services with lanes, and what happened in them.
    pub(super) services: Vec<(ServiceRef, Counts)>,
    /// What else happened.
    pub(super) rest: Counts,
    /// The number of services in `rest`; `None` if there are too many to count them.
    pub(super) more_services: Option<u64>,
}

impl Density {
    /// Returns the parts of the range in which something happened, by their starts.
    pub(super) fn parts(&self) -> BTreeMap<i64, (Range, Count)> {
        let mut parts: BTreeMap<i64, (Range, Count)> = BTreeMap::new();
        let lanes = self.services.iter().map(|(_, counts)| counts);
        for (start, count) in lanes.chain([&self.rest]).flatten() {
            let range = Range {
                from: Timestamp::from_millis(*start),
                to: Timestamp::from_millis(start + self.length),
            };
            let (_, sum) = parts.entry(*start).or_insert((range, Count::default()));
            *sum = sum.plus(*count);
        }
        parts
    }
}

/// Counts the changes of a range; returns `None` if they are so few that each can be drawn.
pub(super) async fn read(
    app: &App,
    tenant: Tenant,
    range: Range,
    first: &[ServiceRef],
) -> Result<Option<Density>, StoreError> {
    let (from, to) = (range.from.millis(), range.to.millis());
    let hours = from.div_euclid(HOUR)..to.div_euclid(HOUR) + 1;
    let by_hour = app.store.changes_by_hour(tenant, &hours).await?;
    let total: u64 = by_hour.iter().map(|hour| hour.changes).sum();
    if total <= MAX_MARKED {
        return Ok(None);
    }
    if range.length() <= MAX_READ && total <= MAX_CHANGES_READ {
        let length = part(range, &MINUTES.map(|minutes| minutes * MINUTE));
        let millis = from.div_euclid(length) * length..to + 1;
        let counts = app
            .store
            .changes_by_part_and_service(tenant, millis, length);
        let counts = counts.await?;
        let totals = counts.iter().filter(|count| count.service.is_none());
        if totals.map(|count| count.changes).sum::<u64>() <= MAX_MARKED {
            return Ok(None);
        }
        let busy = busiest(&counts);
        let number = busy.len() as u64;
        let density = Counted {
            length,
            counts,
            busy,
            number: Some(number),
        };
        return density.arrange(app, tenant, first).await.map(Some);
    }
    let length = part(range, &HOURS.map(|hours| hours * HOUR));
    let limit = MAX_SERVICES as u64;
    let busy = app.store.busy_services(tenant, &hours, limit).await?;
    let chosen = chosen(first, &busy.services);
    let mut counts = app
        .store
        .changes_by_hour_and_service(tenant, &hours, length / HOUR, &chosen)
        .await?;
    counts.extend(by_hour.into_iter().map(|hour| HourCount {
        start: hour.start.div_euclid(length) * length,
        ..hour
    }));
    let density = Counted {
        length,
        counts,
        busy: busy.services,
        number: busy.number,
    };
    density.arrange(app, tenant, first).await.map(Some)
}

/// Returns the first length with few enough parts.
fn part(range: Range, lengths: &[i64; 6]) -> i64 {
    let fits = |length: &&i64| range.length().num_milliseconds() <= **length * MAX_PARTS;
    lengths.iter().find(fits).copied().unwrap_or(lengths[5])
}

/// Returns services, those with the most undone changes first, then those with the most.
fn busiest(counts: &[HourCount]) -> Vec<ServiceId> {
    let mut sums: HashMap<ServiceId, Count> = HashMap::new();
    for count in counts {
        if let Some(service) = count.service {
            sums.entry(service).or_default().add(count);
        }
    }
    let mut busiest: Vec<(ServiceId, Count)> = sums.into_iter().collect();
    busiest.sort_by_key(|(id, sum)| (Reverse(sum.undone), Reverse(sum.changes), *id));
    busiest.into_iter().map(|(id, _)| id).collect()
}

/// Returns the services with lanes: those that the reader asks about, then the busiest.
fn chosen(first: &[ServiceRef], busy: &[ServiceId]) -> Vec<ServiceId> {
    let mut chosen = Vec::new();
    for id in first
        .iter()
        .map(|service| service.id)
        .chain(busy.iter().copied())
    {
        if !chosen.contains(&id) {
            chosen.push(id);
        }
    }
    chosen.truncate(MAX_SERVICES);
    chosen
}

/// Counts of the parts of a range, of all changes and of services.
struct Counted {
    length: i64,
    counts: Vec<HourCount>,
    /// The services in which most happened.
    busy: Vec<ServiceId>,
    /// The number of all services in which something happened.
    number: Option<u64>,
}

impl Counted {
    /// Gives each chosen service its counts.
    async fn arrange(
        self,
        app: &App,
        tenant: Tenant,
        first: &[ServiceRef],
    ) -> Result<Density, StoreError> {
        let chosen = chosen(first, &self.busy);
        let known = first.iter().map(|service| (service.id, service.clone()));
        let mut known: HashMap<ServiceId, ServiceRef> = known.collect();
        let unknown = chosen.iter().filter(|id| !known.contains_key(id)).copied();
        let unknown: Vec<ServiceId> = unknown.collect();
        let read = app.store.items_by_id::<Service>(tenant, &unknown).await?;
        known.extend(read.iter().map(|(id, service)| (*id, service.into())));
        let mut rest = Counts::new();
        let mut lanes: HashMap<ServiceId, Counts> = HashMap::new();
        for count in &self.counts {
            let counts = match count.service {
                None => &mut rest,
                Some(id) if known.contains_key(&id) => lanes.entry(id).or_default(),
                Some(_) => continue,
            };
            counts.entry(count.start).or_default().add(count);
        }
        let services = chosen
            .into_iter()
            .filter_map(|id| Some((known.remove(&id)?, lanes.remove(&id).unwrap_or_default())));
        let services: Vec<(ServiceRef, Counts)> = services.collect();
        for (start, count) in services.iter().flat_map(|(_, counts)| counts) {
            if let Some(all) = rest.get_mut(start) {
                *all = all.minus(*count);
            }
        }
        rest.retain(|_, count| count.changes > 0);
        let shown = services.iter().filter(|(_, counts)| !counts.is_empty());
        let shown = shown.count() as u64;
        Ok(Density {
            length: self.length,
            services,
            rest,
            more_services: self.number.map(|number| number.saturating_sub(shown)),
        })
    }
}
