//! The benchmark of the service: the release binary over HTTP, with each throughput
//! relative to that of a bare warp handler measured just before.
//!
//! `cargo bench -p changelog-tests` prints the tables, for SQLite and then for
//! PostgreSQL. `BENCH_CHANGES` (1,000,000) is the number of stored changes,
//! `BENCH_SECONDS` (5) the time of a measurement, `BENCH_ENGINES` (`sqlite,postgres`)
//! which databases are measured, `BENCH_PARTS` (`speed,share`) what is measured, and
//! `BENCH_SERVER` the program to measure instead of the one built from these sources. It
//! fails on a wrong response, not on a missed floor.

mod bare;
mod disk;
mod history;
mod http_connection;
mod import;
mod lists;
mod load;
mod machine;
mod measure;
mod pages;
mod report;
mod seed;
mod server;
mod settings;
mod share;
mod testbed;
mod text;
mod work;

use std::io::Write;
use std::process::ExitCode;

use changelog_tests::{bench, watchdog};
use chrono::{TimeDelta, Utc};

use measure::{Gauge, MANY_CONNECTIONS};
use report::{Costs, Goal, Shapes, Table, Unit};
use seed::Seeded;
use settings::{Engine, Settings};
use testbed::Testbed;
use work::Work;

/// An error that prevents a measurement.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    if bare::is_requested() {
        return bench::exit_code(bare::serve());
    }
    bench::main(run)
}

/// Measures each database and prints its tables.
fn run() -> Result<(), Failure> {
    let settings = Settings::from_environment()?;
    let server = server::program(&settings)?;
    // One thread, because the load shares the cores with the service.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        print(&machine::describe(&server)?)?;
        for engine in &settings.engines {
            let many = Testbed::new(*engine, settings.changes, &settings, &server).await?;
            let few = Testbed::new(*engine, SMALL_DATABASE_CHANGES, &settings, &server).await?;
            if let (Some(many), Some(few)) = (many, few) {
                print_tables(&settings, &many, &few).await?;
            }
        }
        Ok(())
    })
}

/// The number of changes in the small database.
const SMALL_DATABASE_CHANGES: u64 = 10_000;

/// Fills a large and a small database, and prints the tables.
async fn print_tables(
    settings: &Settings,
    testbed: &Testbed,
    few: &Testbed,
) -> Result<(), Failure> {
    print(&format!("\n## {}\n", testbed.title()))?;
    let seeded = seed::fill(testbed).await?;
    let gauge = Gauge::new(testbed);
    if settings.speed {
        let table = table(&gauge, &seeded, few).await?;
        print(&table.markdown())?;
        print(&costs(&gauge, &seeded).await?.markdown())?;
        let shapes = shapes(testbed, &gauge, &seeded).await?;
        print(&shapes.markdown())?;
    }
    if settings.share {
        let table = share::table(testbed, &gauge, &seeded).await?;
        print(&table.markdown())?;
    }
    Ok(())
}

/// Measures the main table.
async fn table(gauge: &Gauge<'_>, seeded: &Seeded, few: &Testbed) -> Result<Table, Failure> {
    // PostgreSQL is another process; its goals are half as high.
    let reads = match few.engine {
        Engine::Sqlite => 1.0,
        Engine::Postgres => 0.5,
    };
    let key = &seeded.key;
    let create = Work::create(&[key], None);
    let by_id = Work::get_any(key, &seeded.ids);
    let by_risk = Work::list(key, "risk_level=high");
    let rare_word = Work::list(key, "q=needle");
    let common_word = Work::list(key, "q=deploy");
    let first_page = Work::list(key, "");
    let deep_page = Work::list(key, &format!("page={}", seeded.deep_page()));
    let small_gauge = Gauge::new(few);
    let by_risk_small = Work::list(&seed::fill_small(few).await?, "risk_level=high");

    let mut table = Table::default();
    table.row(
        "Create a change, durable",
        &Goal::at_least(15.0, 30.0, Unit::PercentOfCeiling),
        &gauge.relative_to_bare(&create, &create).await?,
    );
    table.row(
        "Get a change by id",
        &Goal::at_least(25.0 * reads, 60.0, Unit::PercentOfCeiling),
        &gauge.relative_to_bare(&by_id, &by_id).await?,
    );
    table.row(
        "List 25 filtered by risk, exact count",
        &Goal::at_least(12.0 * reads, 25.0, Unit::PercentOfCeiling),
        &gauge.relative_to_bare(&by_risk, &by_id).await?,
    );
    table.row(
        "List with `q` of a rare word (100 matches)",
        &Goal::at_least(8.0 * reads, 20.0, Unit::PercentOfCeiling),
        &gauge.relative_to_bare(&rare_word, &by_id).await?,
    );
    table.row(
        "16 connections creating while 16 read by id, p99 of reading",
        &Goal::under(25.0, 10.0, Unit::Millis),
        &gauge.reads_during_creates(&by_id, &create).await?,
    );
    table.row(
        "Create, one connection, p99",
        &Goal::under(4.0, 2.0, Unit::Fsyncs),
        &gauge.in_fsyncs(&create).await?,
    );
    table.row(
        &format!(
            "List by risk at {} against at {}, one connection, p50",
            text::grouped(seeded.changes),
            text::grouped(few.changes),
        ),
        &Goal::under(1.3, 1.1, Unit::Times),
        &gauge
            .median_ratio(&by_risk, (&small_gauge, &by_risk_small))
            .await?,
    );
    table.row(
        &format!(
            "Page {} against page 1, one connection, p50",
            text::grouped(seeded.deep_page()),
        ),
        &Goal::under(50.0, 5.0, Unit::Times),
        &gauge.median_ratio(&deep_page, (gauge, &first_page)).await?,
    );
    table.row(
        "List with `q` of a common word (half of all titles), one connection, p50",
        &Goal::under(150.0, 30.0, Unit::Millis),
        &gauge.median(&common_word).await?,
    );
    if few.engine == Engine::Postgres {
        let many: Vec<&str> = seeded.small.iter().map(|small| &*small.key).collect();
        let spread = Work::create(&many[..MANY_CONNECTIONS], None);
        table.row(
            "Create over 64 connections, in one organization against in 64",
            // The noise of two equal measurements.
            &Goal::at_least(0.95, 1.0, Unit::Times),
            &gauge.throughput_ratio(&create, &spread).await?,
        );
    }
    table.row(
        "Resident memory after that load",
        &Goal::under(200.0, 100.0, Unit::Megabytes),
        &gauge.memory()?,
    );
    table.row(
        &format!("Importing {} changes", text::grouped(seeded.changes)),
        &Goal::under(300.0, 60.0, Unit::Seconds).for_part(seeded.changes, 1_000_000),
        &seeded.imported,
    );
    Ok(table)
}

/// Measures the processor time and disk writes per request, which are stable on a busy
/// machine.
async fn costs(gauge: &Gauge<'_>, seeded: &Seeded) -> Result<Costs, Failure> {
    let key = &seeded.key;
    let mut costs = Costs::default();
    for (name, work, aim) in [
        (
            "Create a change",
            Work::create(&[key], None),
            "150 µs, 12 KB",
        ),
        ("Get a change by id", Work::get_any(key, &seeded.ids), ""),
        (
            "List 25 filtered by risk",
            Work::list(key, "risk_level=high"),
            "",
        ),
        (
            "List with `q` of a rare word",
            Work::list(key, "q=needle"),
            "",
        ),
    ] {
        costs.row(name, &gauge.cost(&work).await?, aim);
    }
    Ok(costs)
}

/// Measures requests that are hard to serve fast, with one connection.
async fn shapes(testbed: &Testbed, gauge: &Gauge<'_>, seeded: &Seeded) -> Result<Shapes, Failure> {
    let mut shapes = Shapes::default();
    for expected in &seeded.hard_lists {
        let work = Work::list(&expected.key, &expected.query);
        // Checked again: creates meanwhile must not have changed the count.
        if !expected.grows {
            testbed.expect(expected).await?;
        }
        let latencies = gauge.alone(&work).await?;
        shapes.row(&expected.name, Some(expected.count), &latencies);
    }
    for (name, query) in around_questions(seeded) {
        let target = format!("/api/changes/around?{query}");
        let work = Work::of(200, work::get(&seeded.key, &target));
        let latencies = gauge.alone(&work).await?;
        shapes.row(&format!("around {name}"), None, &latencies);
    }
    for page in pages::pages(testbed, seeded).await? {
        let latencies = gauge.alone(&page.work).await?;
        let kilobytes = text::rounded(text::float(page.bytes as u64) / 1_000.0);
        let name = format!("page: {}, {kilobytes} KB compressed", page.name);
        shapes.row(&name, None, &latencies);
    }
    let with_service = Work::create(&[&seeded.key], Some(&seeded.services[0]));
    let latencies = gauge.alone(&with_service).await?;
    shapes.row("create with one of 5,000 services", None, &latencies);
    Ok(shapes)
}

/// Returns the questions about the changes before a moment, with their names.
fn around_questions(seeded: &Seeded) -> [(&'static str, String); 6] {
    let service = &seeded.services[seeded.services.len() / 2];
    let half_a_year_ago = history::timestamp(Utc::now() - TimeDelta::days(182));
    let of_service = format!("service_id={service}");
    let week = "window_minutes=10080";
    [
        ("now", String::new()),
        ("now, 7 d, 100 changes", format!("{week}&limit=100")),
        ("now, one of 5,000 services", of_service.clone()),
        (
            "now, 7 d, its service, words",
            format!("{week}&{of_service}&q=deploy+needle"),
        ),
        (
            "half a year ago, 7 d",
            format!("at={half_a_year_ago}&{week}"),
        ),
        (
            "half a year ago, 7 d, its service, words",
            format!("at={half_a_year_ago}&{week}&{of_service}&q=deploy+needle"),
        ),
    ]
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}
