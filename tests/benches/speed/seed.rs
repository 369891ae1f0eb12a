//! Fills a database over the API before the measurements.

use std::time::{Duration, Instant};

use changelog_tests::bench::note;
use chrono::{DateTime, Utc};

use crate::history::History;
use crate::import::{Imported, Importer};
use crate::lists::{self, Expected};
use crate::measure::MANY_CONNECTIONS;
use crate::report::Outcome;
use crate::testbed::Testbed;
use crate::{Failure, text};

/// Services of the large organization; one more has no changes.
const SERVICES: usize = 5_000;
/// The changes and services of a busy day.
const BUSY_CHANGES: u64 = 20_000;
const BUSY_SERVICES: usize = 200;
/// The number of small organizations, and of changes in each.
const SMALL_ORGANIZATIONS: usize = 1_000;
pub(crate) const CHANGES_PER_SMALL: u64 = 10;
/// The time limit for creating them, after which there are fewer.
const MAX_SMALL_TIME: Duration = Duration::from_mins(1);
/// The stored data, and the result of the import.
pub(crate) struct Seeded {
    /// The key of the large organization.
    pub(crate) key: String,
    pub(crate) changes: u64,
    /// Ids of stored changes, evenly spread.
    pub(crate) ids: Vec<String>,
    pub(crate) services: Vec<String>,
    /// The small organizations.
    pub(crate) small: Vec<SmallOrganization>,
    /// Lists that are hard to read fast.
    pub(crate) hard_lists: Vec<Expected>,
    /// The time of the import.
    pub(crate) imported: Outcome,
}

/// An organization with a few changes.
pub(crate) struct SmallOrganization {
    pub(crate) key: String,
    pub(crate) history: History,
}

/// Creates the organizations and their changes, and requires the expected counts of all
/// measured lists.
pub(crate) async fn fill(testbed: &Testbed) -> Result<Seeded, Failure> {
    let key = testbed.organization_with_owner("large")?;
    let small = small_organizations(testbed)?;
    let importer = Importer::new(&testbed.service.address, &key).await?;
    let mut services = importer.services(&key, SERVICES + 1).await?;
    let empty = services.pop().ok_or("no service was created")?;
    let history = History::new(testbed.changes, 0, services);

    for SmallOrganization { key, history } in &small {
        importer.changes(key, history, 0..CHANGES_PER_SMALL).await?;
    }
    let all = importer.changes(&key, &history, 0..history.count).await?;
    testbed.settle().await?;
    let hard_lists = lists::hard_lists(&key, &history, &empty, &small[small.len() / 2]);
    for expected in lists::main_lists(&key, &history).iter().chain(&hard_lists) {
        testbed.expect(expected).await?;
    }
    Ok(Seeded {
        changes: history.count,
        services: history.services,
        key,
        small,
        hard_lists,
        imported: import_outcome(&all, testbed.changes, &importer.method()),
        ids: all.ids,
    })
}

/// Fills a small database with changes like those of the large one, and returns the key
/// of their organization.
pub(crate) async fn fill_small(testbed: &Testbed) -> Result<String, Failure> {
    let key = testbed.organization("large")?;
    let importer = Importer::new(&testbed.service.address, &key).await?;
    let services = importer.services(&key, SERVICES / 10).await?;
    let history = History::new(testbed.changes, 0, services);
    importer.changes(&key, &history, 0..history.count).await?;
    testbed.settle().await?;
    testbed.expect(&lists::by_risk(&key, &history)).await?;
    Ok(key)
}

/// Adds a day of 20,000 changes of 200 services to the large organization, and returns its end.
pub(crate) async fn add_busy_day(
    testbed: &Testbed,
    seeded: &Seeded,
) -> Result<DateTime<Utc>, Failure> {
    let importer = Importer::new(&testbed.service.address, &seeded.key).await?;
    let services = seeded.services.iter().take(BUSY_SERVICES).cloned();
    let day = History::busy_day(BUSY_CHANGES, services.collect());
    importer.changes(&seeded.key, &day, 0..day.count).await?;
    testbed.settle().await?;
    Ok(day.end())
}

fn import_outcome(imported: &Imported, changes: u64, how: &str) -> Outcome {
    let seconds = imported.time.as_secs_f64();
    let rate = text::rate(text::float(changes) / seconds);
    let outcome = Outcome::new(seconds, format!("{seconds:.1} s ({rate}, {how})"));
    note(&format!("  imported in {}", outcome.measured));
    outcome
}

impl Seeded {
    /// Returns the page in the middle: 20,000 of 25 changes each among a million.
    pub(crate) fn deep_page(&self) -> u64 {
        self.changes / 2 / 25
    }
}

fn small_organizations(testbed: &Testbed) -> Result<Vec<SmallOrganization>, Failure> {
    let started = Instant::now();
    let mut small = Vec::new();
    for number in 0..SMALL_ORGANIZATIONS {
        if number >= MANY_CONNECTIONS && started.elapsed() > MAX_SMALL_TIME {
            break;
        }
        let salt = u64::try_from(number)? + 1;
        small.push(SmallOrganization {
            key: testbed.organization(&format!("small {number}"))?,
            history: History::new(CHANGES_PER_SMALL, salt, Vec::new()),
        });
    }
    let (count, seconds) = (small.len(), started.elapsed().as_secs_f64());
    note(&format!("  {count} small organizations in {seconds:.1} s"));
    Ok(small)
}
