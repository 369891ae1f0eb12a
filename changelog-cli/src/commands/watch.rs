//! `chlog watch`: prints changes as they are recorded.

use changelog_core::Change;
use clap::Args;
use futures_util::TryStreamExt;

use crate::base::failure::{Outcome, note};
use crate::environment::app::App;
use crate::input::filter::SelectArgs;
use crate::output::detail;

/// Prints changes as they are recorded: one line each, or NDJSON to a pipe.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    select: SelectArgs,
}

/// Prints changes until it is interrupted.
pub(crate) async fn run(mut app: App, args: WatchArgs) -> Outcome {
    let client = app.client()?;
    let query = args.select.query(&client).await?;
    app.output.begin_live::<Change>()?;
    let mut changes = client
        .changes()
        .watch()
        .matching(query)
        .on_disconnect(|error| note(&format!("{error}; connecting again")))
        .stream();
    while let Some(watched) = changes.try_next().await? {
        app.output.next_live(&watched.change, detail::line)?;
    }
    Ok(())
}
