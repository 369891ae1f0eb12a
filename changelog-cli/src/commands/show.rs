//! `chlog show`: prints a change in full.

use clap::Args;

use crate::base::failure::Outcome;
use crate::base::time;
use crate::environment::app::App;
use crate::input::change_ref::ChangeRef;
use crate::input::complete;
use crate::input::web::{self, WebArgs};
use crate::output::detail;
use crate::output::format::Format;
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
pub(crate) async fn run(app: &mut App, args: &ShowArgs) -> Outcome {
    let id = find_recorded(app, args.change.as_ref()).await?;
    let changes = app.client()?.changes();
    let change = changes.get(id).await?;
    let url = web::url(app, id)?;
    let is_updated = change.updated_at != change.created_at;
    let updated_by = if is_updated && app.output.format() == Format::Table {
        changes.history(id).await?.updated_by
    } else {
        None
    };
    app.output.record(&change, |change| {
        detail::change(change, updated_by.as_ref(), &url, time::now())
    })?;
    args.web.open(app, id)
}
