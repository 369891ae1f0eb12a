//! `chlog upcoming`: lists the planned changes that have a scheduled time.

use changelog_core::limits::{DEFAULT_PER_PAGE, MAX_PER_PAGE};
use clap::Args;

use crate::base::failure::{Outcome, note};
use crate::environment::app::App;
use crate::input::flags::whole_number;
use crate::output::changes::UPCOMING;
use crate::output::format::Format;

/// Lists the planned changes that have a scheduled time, the earliest first: overdue
/// ones, then those to come.
#[derive(Debug, Args)]
pub(crate) struct UpcomingArgs {
    /// Maximum number of changes
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = DEFAULT_PER_PAGE,
        value_parser = whole_number(1..=MAX_PER_PAGE)
    )]
    limit: u64,
}

/// Lists the changes.
pub(crate) async fn run(app: &mut App, args: &UpcomingArgs) -> Outcome {
    let changes = app.client()?.changes().upcoming(args.limit).await?;
    if changes.is_empty() && app.output.format() == Format::Table {
        note("no scheduled changes");
        return Ok(());
    }
    app.output.records_with(&UPCOMING, &changes)
}
