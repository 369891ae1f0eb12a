//! `chlog watch`: shows changes as they are recorded.

use changelog_core::Change;
use clap::Args;
use futures_util::TryStreamExt;

use crate::base::failure::{Outcome, note};
use crate::environment::app::App;
use crate::input::filter::WhichArgs;
use crate::output::detail;

/// Shows changes as they are recorded: a line each, and through a pipe NDJSON.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Shows them until somebody ends it.
pub(crate) async fn run(mut app: App, args: WatchArgs) -> Outcome {
    let client = app.client()?;
    let filter = args.which.filter(&client).await?;
    app.output.begin_live::<Change>()?;
    let mut changes = client
        .changes()
        .watch_with(filter)
        .on_interruption(|error| note(&format!("{error}; connecting again")))
        .stream();
    while let Some(watched) = changes.try_next().await? {
        app.output.next_live(&watched.change, detail::line)?;
    }
    Ok(())
}
