//! The benchmark of `/api/changes/around`: histories with incidents whose causes are
//! known are recorded over the API, the endpoint is asked about each incident, and how
//! often a cause is the first change, among the first three and among the first ten is
//! printed next to the same shares of two simple orders: newest first, and the newest of
//! the named service first.
//!
//! `cargo bench -p changelog-tests --bench around` replays generated histories, and the
//! real ones of `../shared/data/incidents` if that folder exists; `BENCH_INCIDENTS` names
//! another folder. The points of the ranking must not be tuned to these figures: they
//! come from a few histories, and weights that were fitted to such figures have not
//! improved those of other histories.

mod generated;
mod history;
mod questions;
mod real;
mod replay;
mod tally;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use changelog_tests::bench::{self, note};

use history::History;
use replay::replay;
use tally::Tally;

/// An error that ends the benchmark.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The seeds of the generated histories.
const SEEDS: [u64; 2] = [1, 2];

fn main() -> ExitCode {
    bench::main(run)
}

fn run() -> Result<(), Failure> {
    bench::block_on(async {
        let generated = SEEDS.map(generated::history).into();
        print_table("Generated histories", generated).await?;
        let folder = std::env::var_os("BENCH_INCIDENTS").map_or_else(real::folder, PathBuf::from);
        if folder.is_dir() {
            return print_table("Real histories", real::histories(&folder)?).await;
        }
        note(&format!(
            "no real histories: {} does not exist",
            folder.display()
        ));
        Ok(())
    })?
}

/// Replays histories, each on a server of its own, and prints one table.
async fn print_table(title: &str, histories: Vec<History>) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let (mut changes, mut incidents) = (0, 0);
    for history in histories {
        changes += history.changes.len();
        incidents += history.incidents.len();
        note(&format!(
            "{}: {} changes, {} incidents",
            history.name,
            history.changes.len(),
            history.incidents.len()
        ));
        replay(&history, &mut tally).await?;
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "\n## {title}: {incidents} incidents among {changes} changes\n\n{}",
        tally.markdown()
    )?;
    Ok(out.flush()?)
}
