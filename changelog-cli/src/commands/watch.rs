//! `chlog watch`: prints changes as they are recorded and updated.

use changelog_core::Change;
use chrono::TimeDelta;
use clap::Args;
use futures_util::TryStreamExt;

use crate::base::failure::{Failure, Outcome, note};
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::filter::SelectArgs;
use crate::output::watched::{self, Watched};

/// How long the server keeps events.
const MAX_WATCH_AGE: TimeDelta = TimeDelta::days(7);

/// Prints changes as they are recorded: one line each, or NDJSON to a pipe.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Also print updates, with what was changed; without it, only new changes
    ///
    /// JSON and CSV get an `event` (`created` or `updated`) and the `changes`.
    #[arg(long)]
    pub(crate) updates: bool,
    /// Begin with what was recorded since this time, such as 1h, 08:30 or yesterday; at
    /// most 7 days ago [default: now]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time::parse,
        allow_hyphen_values = true
    )]
    since: Option<TimeArg>,
    #[command(flatten)]
    select: SelectArgs,
}

/// Prints changes until it is interrupted.
pub(crate) async fn run(app: &mut App, args: WatchArgs) -> Outcome {
    let since = args.since.map(|since| since.start(time::now()));
    if since.is_some_and(|since| since < time::now().plus(-MAX_WATCH_AGE)) {
        return Err(Failure::usage("--since: must be at most 7 days ago")
            .hint("`chlog list --since` lists older changes"));
    }
    let client = app.client()?;
    let query = args.select.query(&client).await?;
    if args.updates {
        app.output.begin_live::<Watched>()?;
    } else {
        app.output.begin_live::<Change>()?;
    }
    app.output.live_header(watched::header)?;
    let mut watch = client
        .changes()
        .watch()
        .matching(query)
        .updates(args.updates)
        .on_disconnect(|error| note(&format!("{error}; reconnecting")));
    if let Some(since) = since {
        watch = watch.since(since);
    }
    let mut changes = watch.stream();
    while let Some(watched) = changes.try_next().await? {
        if args.updates {
            app.output
                .next_live(&Watched::from(watched), watched::line)?;
        } else {
            app.output
                .next_live(&watched.change, watched::line_of_change)?;
        }
    }
    Ok(())
}
