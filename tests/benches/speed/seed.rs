//! What is stored before anything is measured, all of it over the API.

use std::time::{Duration, Instant};

use crate::history::History;
use crate::import::{Imported, Importer};
use crate::lists::{self, Expected};
use crate::measure::CROWD;
use crate::report::Outcome;
use crate::world::World;
use crate::{Failure, note, text};

/// Services of the large organization; one more has no changes.
const SERVICES: usize = 5_000;
/// How many small organizations there are beside the large one, and how many
/// changes each has.
const SMALL: usize = 1_000;
pub(crate) const OF_SMALL: u64 = 10;
/// Where making them takes longer than this, there are fewer.
const PATIENCE: Duration = Duration::from_mins(1);
/// What is stored, and what it took.
pub(crate) struct Seeded {
    /// The key of the large organization.
    pub(crate) key: String,
    pub(crate) changes: u64,
    /// Ids of stored changes, evenly spread.
    pub(crate) ids: Vec<String>,
    pub(crate) services: Vec<String>,
    /// The organizations beside the large one.
    pub(crate) small: Vec<Small>,
    /// Lists that are meant to be hard.
    pub(crate) hard_lists: Vec<Expected>,
    /// How long importing the changes took.
    pub(crate) imported: Outcome,
}

/// An organization with a few changes.
pub(crate) struct Small {
    pub(crate) key: String,
    pub(crate) history: History,
}

/// Makes the organizations and their changes, and requires every list that is
/// measured later to count what was stored.
pub(crate) async fn fill(world: &World) -> Result<Seeded, Failure> {
    let key = world.organization("large")?;
    let small = small_organizations(world)?;
    let importer = Importer::new(&world.service.address, &key).await?;
    let mut services = importer.services(&key, SERVICES + 1).await?;
    let empty = services.pop().ok_or("no service was made")?;
    let history = History::new(world.changes, 0, services);

    for Small { key, history } in &small {
        importer.changes(key, history, 0..OF_SMALL).await?;
    }
    let all = importer.changes(&key, &history, 0..history.count).await?;
    world.settle().await?;
    let hard_lists = lists::hard(&key, &history, &empty, &small[small.len() / 2]);
    for expected in lists::promised(&key, &history).iter().chain(&hard_lists) {
        world.expect(expected).await?;
    }
    Ok(Seeded {
        changes: history.count,
        services: history.services,
        key,
        small,
        hard_lists,
        imported: told(&all, world.changes, &importer.how()),
        ids: all.ids,
    })
}

/// Makes few changes of the kind that another database has many of, and returns
/// the key of their organization.
pub(crate) async fn few(world: &World) -> Result<String, Failure> {
    let key = world.organization("large")?;
    let importer = Importer::new(&world.service.address, &key).await?;
    let services = importer.services(&key, SERVICES / 10).await?;
    let history = History::new(world.changes, 0, services);
    importer.changes(&key, &history, 0..history.count).await?;
    world.settle().await?;
    world.expect(&lists::by_risk(&key, &history)).await?;
    Ok(key)
}

fn told(imported: &Imported, changes: u64, how: &str) -> Outcome {
    let seconds = imported.time.as_secs_f64();
    let rate = text::rate(text::float(changes) / seconds);
    let outcome = Outcome::new(seconds, format!("{seconds:.1} s ({rate}, {how})"));
    note(&format!("  imported in {}", outcome.measured));
    outcome
}

impl Seeded {
    /// The page that begins in the middle: 20,000 of 25 among a million.
    pub(crate) fn deep_page(&self) -> u64 {
        self.changes / 2 / 25
    }
}

fn small_organizations(world: &World) -> Result<Vec<Small>, Failure> {
    let begun = Instant::now();
    let mut small = Vec::new();
    for number in 0..SMALL {
        if number >= CROWD && begun.elapsed() > PATIENCE {
            break;
        }
        let salt = u64::try_from(number)? + 1;
        small.push(Small {
            key: world.organization(&format!("small {number}"))?,
            history: History::new(OF_SMALL, salt, Vec::new()),
        });
    }
    let (count, seconds) = (small.len(), begun.elapsed().as_secs_f64());
    note(&format!("  {count} small organizations in {seconds:.1} s"));
    Ok(small)
}
