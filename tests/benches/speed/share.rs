//! What an organization feels of another one that does its worst.

use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::load::{self, Taken};
use crate::measure::Gauge;
use crate::report::{Goal, Outcome, Table, Unit};
use crate::seed::Seeded;
use crate::text::{millis, time};
use crate::wire::Wire;
use crate::work::{self, ANY, Work};
use crate::world::World;
use crate::{Failure, note};

/// Changes as large as they may be: with their page, 18 MB.
const LARGE: usize = 100;
/// Changes in one request.
const BULK: usize = 500;
/// How long the other one is at it before anything is measured.
const RUN_UP: Duration = Duration::from_secs(2);

/// Measures a small organization alone and beside the large one. Each of its
/// requests must be answered as ever.
pub(crate) async fn table(
    world: &World,
    gauge: &Gauge<'_>,
    seeded: &Seeded,
) -> Result<Table, Failure> {
    prepare(world, &seeded.key).await?;
    let quiet = &seeded.small.first().ok_or("no small organization")?.key;
    let one = change(world, quiet).await?;
    let works = [
        ("list", Work::list(quiet, "")),
        ("list by risk", Work::list(quiet, "risk_level=high")),
        ("search", Work::list(quiet, "q=deploy")),
        ("get by id", Work::get_any(quiet, &[one])),
        ("create", Work::create(&[quiet], None)),
        ("health", Work::of(200, work::get("-", "/api/health"))),
    ];
    let mut table = Table::default();
    for (name, work) in works {
        let alone = gauge.alone(&work).await?;
        let beside = beside_the_worst(world, gauge, &seeded.key, &work).await?;
        let ratio = beside.p99().as_secs_f64() / alone.p99().as_secs_f64();
        let measured = format!(
            "p50 {}, p99 {} against {} and {} alone",
            time(beside.p50()),
            time(beside.p99()),
            time(alone.p50()),
            time(alone.p99()),
        );
        table.row(
            &format!("Quiet organization beside one that does its worst, {name}, p99"),
            &Goal::under(5.0, 3.0, Unit::Times),
            &Outcome::new(ratio, measured),
        );
        if beside.p99() > Duration::from_millis(300) {
            note(&format!(
                "  {name}: {} ms is over 300 ms",
                millis(beside.p99())
            ));
        }
    }
    Ok(table)
}

/// Runs some work while a thread of its own asks for everything that takes long.
async fn beside_the_worst(
    world: &World,
    gauge: &Gauge<'_>,
    key: &str,
    work: &Work,
) -> Result<Taken, Failure> {
    let address = world.service.address.clone();
    let window = RUN_UP + world.window;
    let key = key.to_owned();
    let other = thread::spawn(move || -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let worst = worst(&key);
        let loads: Vec<(&Work, usize)> = worst.iter().map(|(work, n)| (work, *n)).collect();
        let loaded = runtime.block_on(load::run(&address, &loads, window));
        loaded.map(drop).map_err(|error| error.to_string())
    });
    tokio::time::sleep(RUN_UP).await;
    let taken = gauge.alone(work).await?;
    other.join().map_err(|_| "the load stopped")??;
    Ok(taken)
}

/// What takes longest, and over how many connections it is asked for. Refusals
/// are expected.
fn worst(key: &str) -> Vec<(Work, usize)> {
    let changes: Vec<_> = (0..BULK)
        .map(|number| json!({ "title": format!("One of many {number}"), "tags": ["many"] }))
        .collect();
    let bulk = json!({ "changes": changes }).to_string();
    let get = |target: &str| Work::of(ANY, work::get(key, &format!("/api/changes{target}")));
    vec![
        (get("?q=d"), 8),
        (get("?q=a+b+c+d+e+f+g+h+i+k+l+m+n+o+p+r"), 8),
        (get("?risk_level=high&tag=release&page=9000"), 4),
        (get("?tag=large&per_page=100"), 2),
        (get("/around?window_minutes=10080&limit=100"), 8),
        (
            Work::of(ANY, work::post(key, "/api/changes/bulk", "", &bulk)),
            2,
        ),
    ]
}

/// Stores changes that are as large as they may be.
async fn prepare(world: &World, key: &str) -> Result<(), Failure> {
    let mut wire = Wire::connect(&world.service.address).await?;
    let text = "\u{1f680}".repeat(20_000);
    let body = json!({
        "title": "A large one", "tags": ["large"], "description": text, "impact": text,
    });
    let request = work::post(key, "/api/changes", "", &body.to_string());
    for _ in 0..LARGE {
        wire.exchange(&request).await?.is(201, b"a large change")?;
    }
    Ok(())
}

/// Returns the id of one change of an organization.
async fn change(world: &World, key: &str) -> Result<String, Failure> {
    let mut wire = Wire::connect(&world.service.address).await?;
    let request = work::get(key, "/api/changes?per_page=1");
    let list = wire.exchange(&request).await?;
    let list: serde_json::Value = serde_json::from_slice(list.body)?;
    Ok(list["data"][0]["id"]
        .as_str()
        .ok_or("no change")?
        .to_owned())
}
