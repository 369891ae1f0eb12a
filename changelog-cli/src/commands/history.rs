//! `chlog history`: prints what was done to a change, when and by whom.

use changelog_core::{ChangeId, Data};
use clap::Args;

use crate::base::failure::Outcome;
use crate::base::time;
use crate::environment::app::App;
use crate::input::complete;
use crate::output::format::Format;
use crate::output::history;

/// Shows what was done to a change, newest first.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// ID of the change
    #[arg(add = complete::changes())]
    id: ChangeId,
}

/// Prints the history.
pub(crate) async fn run(mut app: App, args: &HistoryArgs) -> Outcome {
    let data = app.client()?.changes().history(args.id).await?;
    if app.output.format() == Format::Json {
        return app.output.json(&Data { data });
    }
    app.output.records(data.entries, |entries, width| {
        history::table(entries, width, time::now())
    })
}
