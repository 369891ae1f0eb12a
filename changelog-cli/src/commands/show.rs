//! `chlog show`: one change in full.

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
    /// The id of the change
    #[arg(add = complete::changes())]
    id: ChangeId,
}

/// Shows it with exact times.
pub(crate) async fn run(mut app: App, args: &ShowArgs) -> Outcome {
    let change = app.client()?.changes().get(args.id).await?;
    app.output
        .record(&change, |change| detail::change(change, time::now()))
}
