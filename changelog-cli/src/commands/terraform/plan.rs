//! `chlog terraform plan`: records a saved plan as a planned change.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::change::{self, add_context};
use super::flags::Flags;
use super::signals::until_interrupted;
use crate::base::failure::{Failure, Outcome};
use crate::environment::app::App;
use crate::recording::spool::delivery::Delivery;
use crate::terraform::plan::Plan;

/// The largest plan, in bytes.
const MAX_PLAN: u64 = 1024 * 1024 * 1024;

/// Records a saved plan.
pub(super) async fn run(mut app: App, flags: Flags, path: &Path) -> Outcome {
    let plan = read(path)?;
    let mut summary = plan.summary();
    add_context(&mut summary, None, &[]);
    let fingerprint = plan.fingerprint();
    let recorded =
        until_interrupted(change::record(&app, &summary, &flags, Some(&fingerprint))).await?;
    Delivery::after(&app).await;
    recorded.print(&mut app)
}

/// Reads a plan from a file; `-` is standard input.
pub(super) fn read(path: &Path) -> Outcome<Plan> {
    let plan = if path == Path::new("-") {
        Plan::read(io::stdin().lock().take(MAX_PLAN))
    } else {
        let file = File::open(path).map_err(|error| Failure::unreadable(path, error))?;
        Plan::read(BufReader::new(file).take(MAX_PLAN))
    };
    plan.map_err(|error| {
        Failure::unreadable(path, error)
            .hint("create it with: terraform show -json PLANFILE > plan.json")
    })
}
