//! `chlog terraform` at the end of a pipe.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use super::change::{self, add_context};
use super::events::{follow, print_on_stderr};
use super::flags::Flags;
use super::plan;
use super::signals::{ignore_signals, until_interrupted};
use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::environment::app::App;
use crate::recording::spool::delivery::Delivery;
use crate::terraform::events::RunFacts;

/// Reads events from standard input and records the change.
pub(super) async fn run(
    app: impl FnOnce() -> Outcome<App>,
    flags: Flags,
    plan: Option<PathBuf>,
) -> Outcome {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("standard input is a terminal")
            .line("pipe Terraform's events to it: terraform apply -json -auto-approve | chlog terraform")
            .line("or run Terraform with it: chlog terraform run -- apply")
            .line("or record a saved plan: chlog terraform plan PLAN.json"));
    }
    // An interruption of the pipeline reaches Terraform, which then reports how it
    // ended.
    ignore_signals();
    let events = tokio::task::spawn_blocking(|| follow(io::stdin().lock(), print_on_stderr))
        .await
        .map_err(|error| Failure::new(Exit::Other, format!("cannot read: {error}")))?;
    let mut app = app()?;
    if !events.any() {
        return Err(
            Failure::usage("no Terraform events on standard input; nothing was recorded")
                .hint("run Terraform with -json: terraform apply -json"),
        );
    }
    // The run is recorded even if the plan cannot be read.
    let fingerprint = plan.and_then(|path| match plan::read(&path) {
        Ok(plan) => Some(plan.fingerprint()),
        Err(failure) => {
            let _ = failure.report();
            warn("the run is recorded as a change of its own");
            None
        }
    });
    let mut summary = events.finish(RunFacts::default());
    add_context(&mut summary, None, &[]);
    let recorded = until_interrupted(change::record(
        &app,
        &summary,
        &flags,
        fingerprint.as_deref(),
    ))
    .await?;
    Delivery::after(&app).await;
    recorded.print(&mut app)
}
