//! `chlog show`: prints a change in full.

use clap::Args;

use crate::base::failure::Outcome;
use crate::base::time;
use crate::environment::app::App;
use crate::input::change_ref::ChangeRef;
use crate::input::complete;
use crate::input::web::{self, WebArgs};
use crate::output::detail;
use crate::recording::find_change::find_recorded;

/// Shows a change.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Change: its ID, the beginning of it, or @last; without it, on a terminal, a choice
    #[arg(value_name = "ID", add = complete::changes())]
    change: Option<ChangeRef>,
    #[command(flatten)]
    web: WebArgs,
}

/// Prints the change.
pub(crate) async fn run(mut app: App, args: &ShowArgs) -> Outcome {
    let id = find_recorded(&app, args.change.as_ref()).await?;
    let change = app.client()?.changes().get(id).await?;
    let url = web::url(&app, id)?;
    app.output
        .record(&change, |change| detail::change(change, &url, time::now()))?;
    args.web.open(&app, id)
}
