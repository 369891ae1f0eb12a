//! `chlog history`: prints what was done to a change, when and by whom.

use changelog_core::Data;
use clap::Args;

use crate::base::failure::Outcome;
use crate::environment::app::App;
use crate::input::change_ref::ChangeRef;
use crate::input::complete;
use crate::recording::find_change::find_recorded;

/// Shows what was done to a change, newest first.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Change: its ID, the beginning of it, or @last; without it, on a terminal, a choice
    #[arg(value_name = "ID", add = complete::changes())]
    change: Option<ChangeRef>,
}

/// Prints the history.
pub(crate) async fn run(app: &mut App, args: &HistoryArgs) -> Outcome {
    let id = find_recorded(app, args.change.as_ref()).await?;
    let data = app.client()?.changes().history(id).await?;
    if app.output.is_document() {
        return app.output.document(&Data { data });
    }
    app.output.history(&data.entries)
}
