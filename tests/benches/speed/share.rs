//! The latency of an organization during the maximum load of another one.

use std::thread;
use std::time::Duration;

use changelog_tests::bench::note;
use serde_json::json;

use crate::Failure;
use crate::http_connection::HttpConnection;
use crate::load::{self, Latencies};
use crate::measure::Gauge;
use crate::report::{Goal, Outcome, Table, Unit};
use crate::seed::Seeded;
use crate::testbed::Testbed;
use crate::text::{millis, time};
use crate::work::{self, ANY_STATUS, Work};

/// The number of changes of the maximum size; a page of them has 18 MB.
const LARGE_CHANGES: usize = 100;
/// The number of changes in a bulk request.
const BULK_SIZE: usize = 500;
/// The time of load before the measurement.
const LOAD_WARM_UP: Duration = Duration::from_secs(2);

/// Measures a small organization alone, and during the load of the large one. All its
/// requests must succeed.
pub(crate) async fn table(
    testbed: &Testbed,
    gauge: &Gauge<'_>,
    seeded: &Seeded,
) -> Result<Table, Failure> {
    prepare(testbed, &seeded.key).await?;
    let quiet = &seeded.small.first().ok_or("no small organization")?.key;
    let one = change(testbed, quiet).await?;
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
        let loaded = measure_under_load(testbed, gauge, &seeded.key, &work).await?;
        let ratio = loaded.p99().as_secs_f64() / alone.p99().as_secs_f64();
        let measured = format!(
            "p50 {}, p99 {} against {} and {} alone",
            time(loaded.p50()),
            time(loaded.p99()),
            time(alone.p50()),
            time(alone.p99()),
        );
        table.row(
            &format!("Quiet organization next to one under maximum load, {name}, p99"),
            &Goal::under(5.0, 3.0, Unit::Times),
            &Outcome::new(ratio, measured),
        );
        if loaded.p99() > Duration::from_millis(300) {
            note(&format!(
                "  {name}: {} ms is over 300 ms",
                millis(loaded.p99())
            ));
        }
    }
    Ok(table)
}

/// Measures some work while another thread sends the heavy requests.
async fn measure_under_load(
    testbed: &Testbed,
    gauge: &Gauge<'_>,
    key: &str,
    work: &Work,
) -> Result<Latencies, Failure> {
    let address = testbed.service.address.clone();
    let window = LOAD_WARM_UP + testbed.window;
    let key = key.to_owned();
    let other = thread::spawn(move || -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let heavy_requests = heavy_requests(&key);
        let loads: Vec<(&Work, usize)> =
            heavy_requests.iter().map(|(work, n)| (work, *n)).collect();
        let loaded = runtime.block_on(load::run(&address, &loads, window));
        loaded.map(drop).map_err(|error| error.to_string())
    });
    tokio::time::sleep(LOAD_WARM_UP).await;
    let latencies = gauge.alone(work).await?;
    other.join().map_err(|_| "the load stopped")??;
    Ok(latencies)
}

/// Returns the most expensive requests, with their number of connections. They may be
/// refused.
fn heavy_requests(key: &str) -> Vec<(Work, usize)> {
    let changes: Vec<_> = (0..BULK_SIZE)
        .map(|number| json!({ "title": format!("One of many {number}"), "tags": ["many"] }))
        .collect();
    let bulk = json!({ "changes": changes }).to_string();
    let get = |target: &str| Work::of(ANY_STATUS, work::get(key, &format!("/api/changes{target}")));
    vec![
        (get("?q=d"), 8),
        (get("?q=a+b+c+d+e+f+g+h+i+k+l+m+n+o+p+r"), 8),
        (get("?risk_level=high&tag=release&page=9000"), 4),
        (get("?tag=large&per_page=100"), 2),
        (get("/around?window_minutes=10080&limit=100"), 8),
        (
            Work::of(ANY_STATUS, work::post(key, "/api/changes/bulk", "", &bulk)),
            2,
        ),
    ]
}

/// Creates changes of the maximum size.
async fn prepare(testbed: &Testbed, key: &str) -> Result<(), Failure> {
    let mut connection = HttpConnection::connect(&testbed.service.address).await?;
    let text = "\u{1f680}".repeat(20_000);
    let body = json!({
        "title": "A large one", "tags": ["large"], "description": text, "impact": text,
    });
    let request = work::post(key, "/api/changes", "", &body.to_string());
    for _ in 0..LARGE_CHANGES {
        connection
            .exchange(&request)
            .await?
            .is(201, b"a large change")?;
    }
    Ok(())
}

/// Returns the id of a change of an organization.
async fn change(testbed: &Testbed, key: &str) -> Result<String, Failure> {
    let mut connection = HttpConnection::connect(&testbed.service.address).await?;
    let request = work::get(key, "/api/changes?per_page=1");
    let list = connection.exchange(&request).await?;
    let list: serde_json::Value = serde_json::from_slice(list.body)?;
    Ok(list["data"][0]["id"]
        .as_str()
        .ok_or("no change")?
        .to_owned())
}
