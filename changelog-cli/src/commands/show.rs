//! `chlog show`: prints a change in full.

use changelog_core::ChangeId;
use clap::Args;

use crate::base::failure::Outcome;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::output::detail;

/// Shows a change.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// ID of the change
    #[arg(add = complete::changes())]
    id: ChangeId,
}

/// Prints the change.
pub(crate) async fn run(mut app: App, args: &ShowArgs) -> Outcome {
    let change = app.client()?.changes().get(args.id).await?;
    app.output
        .record(&change, |change| detail::change(change, time::now()))
}
