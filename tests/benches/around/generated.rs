//! Generated histories: three months of busy and quiet services that depend on each other.
//! How long a cause stays unnoticed is distributed as in real histories, where the median
//! is about an hour and a tenth takes longer than a day.

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use crate::history::{Change, History, Incident};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// 2024-01-01T00:00:00Z, a Monday.
const BEGIN: i64 = 1_704_067_200_000;
const DAYS: i64 = 90;
const SERVICES: usize = 48;
/// The first services depend on no other.
const BASE_SERVICES: usize = 8;
const MOST_DEPENDENCIES: usize = 4;
/// The mean time between changes during office hours; it is longer at other times.
const PAUSE_MINUTES: f64 = 5.0;
const PAUSE_FACTOR_AT_NIGHT: f64 = 6.0;
/// The shares of changes that cause an incident, are undone without one, and are made
/// again after they had been undone.
const CULPRITS: f64 = 0.04;
const UNDONE_WITHOUT_INCIDENT: f64 = 0.02;
const RELANDED: f64 = 0.25;
/// The share of changes that touch other services, too.
const TOUCHES_OTHERS: f64 = 0.3;
/// The shortest and longest time until an incident, in minutes.
const UNNOTICED_MINUTES: [f64; 2] = [3.0, 2_880.0];

const AREAS: [&str; 8] = [
    "billing", "catalog", "identity", "mail", "media", "orders", "search", "storage",
];
const PARTS: [&str; 6] = ["api", "cache", "db", "gateway", "jobs", "web"];
const WORK: [&str; 8] = [
    "Deploy",
    "Configure",
    "Migrate",
    "Raise the limits of",
    "Rotate the keys of",
    "Scale",
    "Tune",
    "Upgrade",
];

/// Returns the history of a seed.
pub(crate) fn history(seed: u64) -> History {
    let mut random = StdRng::seed_from_u64(seed);
    let dependencies = dependencies(&mut random);
    let busyness = busyness(&mut random);
    let mut changes: Vec<(Change, bool)> = Vec::new();
    let mut at = BEGIN;
    while at < BEGIN + DAYS * DAY {
        at += pause(&mut random, at);
        let mut change = original(&mut random, at, &busyness, &dependencies);
        let caused_incident = random.random_bool(CULPRITS);
        if caused_incident || random.random_bool(UNDONE_WITHOUT_INCIDENT) {
            let undone = at + unnoticed(&mut random);
            change.undone_at = Some(undone);
            changes.push((follow(&change, "Revert", undone), false));
            if random.random_bool(RELANDED) {
                let later = undone + random.random_range(HOUR..2 * DAY);
                changes.push((follow(&change, "Reapply", later), false));
            }
        }
        changes.push((change, caused_incident));
    }
    changes.sort_by_key(|(change, _)| change.at);
    let mut incidents: Vec<Incident> = changes
        .iter()
        .enumerate()
        .filter(|(_, (_, caused_incident))| *caused_incident)
        .filter_map(|(number, (change, _))| incident(&mut random, number, change, &dependencies))
        .collect();
    incidents.sort_by_key(|incident| incident.at);
    History {
        name: format!("generated {seed}"),
        services: names(),
        dependencies,
        changes: changes.into_iter().map(|(change, _)| change).collect(),
        incidents,
    }
}

fn names() -> Vec<String> {
    let areas = AREAS.iter();
    areas
        .flat_map(|area| PARTS.map(|part| format!("{area}-{part}")))
        .collect()
}

/// Each service after the first ones depends on some of those before it.
fn dependencies(random: &mut StdRng) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for service in BASE_SERVICES..SERVICES {
        let count = random.random_range(1..=MOST_DEPENDENCIES);
        let mut wanted: Vec<usize> = (0..count)
            .map(|_| random.random_range(0..service))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        all.extend(wanted.into_iter().map(|other| (service, other)));
    }
    all
}

/// Returns the services with how often each is changed: the second busiest half as often
/// as the busiest, the third a third as often, and so on.
fn busyness(random: &mut StdRng) -> Vec<(usize, f64)> {
    let mut services: Vec<usize> = (0..SERVICES).collect();
    services.shuffle(random);
    let rank = (1..).map(f64::from);
    services
        .into_iter()
        .zip(rank.map(|rank| 1.0 / rank))
        .collect()
}

/// Returns the time from one change to the next.
fn pause(random: &mut StdRng, at: i64) -> i64 {
    let (day, hour) = (at / DAY % 7, at % DAY / HOUR);
    // The first of January 1970 was a Thursday.
    let is_office = ![2, 3].contains(&day) && (8..18).contains(&hour);
    let mean = PAUSE_MINUTES
        * if is_office {
            1.0
        } else {
            PAUSE_FACTOR_AT_NIGHT
        };
    millis(-mean * random.random_range(f64::EPSILON..1.0).ln())
}

/// Returns how long it takes until a fault is noticed and undone: each doubling is as
/// probable.
fn unnoticed(random: &mut StdRng) -> i64 {
    let [shortest, longest] = UNNOTICED_MINUTES.map(f64::ln);
    millis(random.random_range(shortest..longest).exp())
}

/// Converts minutes to milliseconds, at least a millisecond.
fn millis(minutes: f64) -> i64 {
    let duration = std::time::Duration::from_secs_f64(minutes * 60.0);
    i64::try_from(duration.as_millis())
        .unwrap_or(i64::MAX)
        .max(1)
}

fn original(
    random: &mut StdRng,
    at: i64,
    busyness: &[(usize, f64)],
    dependencies: &[(usize, usize)],
) -> Change {
    let first = busyness.choose_weighted(random, |(_, weight)| *weight);
    let first = first.map_or(0, |(service, _)| *service);
    let mut services = vec![first];
    if random.random_bool(TOUCHES_OTHERS) {
        let related = dependencies.iter().filter(|(one, _)| *one == first);
        let related: Vec<usize> = related.map(|(_, other)| *other).collect();
        services.extend(related.choose(random));
        services.push(random.random_range(0..SERVICES));
        let mut seen = Vec::new();
        services.retain(|service| {
            !seen.contains(service) && {
                seen.push(*service);
                true
            }
        });
    }
    let work = WORK.choose(random).unwrap_or(&WORK[0]);
    let version = random.random_range(1..400);
    Change {
        at,
        title: format!("{work} {} ({version})", names()[first]),
        services,
        environment: *[
            Some("prod"),
            Some("prod"),
            Some("staging"),
            Some("dev"),
            None,
        ]
        .choose(random)
        .unwrap_or(&None),
        undone_at: None,
    }
}

/// Returns the change that undoes another one, or makes it again.
fn follow(change: &Change, how: &str, at: i64) -> Change {
    Change {
        at,
        title: format!("{how} \"{}\"", change.title),
        services: change.services.clone(),
        environment: change.environment,
        undone_at: None,
    }
}

fn incident(
    random: &mut StdRng,
    number: usize,
    change: &Change,
    dependencies: &[(usize, usize)],
) -> Option<Incident> {
    let [service, others @ ..] = change.services.as_slice() else {
        return None;
    };
    let dependents = dependencies.iter().filter(|(_, other)| other == service);
    let dependents: Vec<usize> = dependents
        .map(|(one, _)| *one)
        .filter(|one| !change.services.contains(one))
        .collect();
    Some(Incident {
        at: change.undone_at? - MINUTE,
        culprits: vec![number],
        service: *service,
        other: others.choose(random).copied(),
        dependent: dependents.choose(random).copied(),
        symptom: None,
    })
}
