//! `chlog watch`: prints changes as they are recorded and updated, and incidents.

use changelog_core::Change;
use chrono::TimeDelta;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::base::failure::{Failure, Outcome, note};
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::filter::SelectArgs;
use crate::output::format::Format;
use crate::output::watched::{self, Watched, WatchedIncident};

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
    /// Also print incidents as they are opened, ranked, changed and resolved
    ///
    /// Only --service and --environment select incidents. JSON gets an `event` (`incident`).
    #[arg(long)]
    pub(crate) incidents: bool,
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
    if args.incidents && app.output.format() == Format::Csv {
        return Err(Failure::usage(
            "--incidents: CSV has the columns of changes; use --format ndjson",
        ));
    }
    let client = app.client()?;
    let query = args.select.query(&client).await?;
    let has_events = args.updates || args.incidents;
    if has_events {
        app.output.begin_live::<Watched>()?;
    } else {
        app.output.begin_live::<Change>()?;
    }
    app.output.live_header(watched::header)?;
    let mut watch = client
        .changes()
        .watch()
        .matching(query.clone())
        .updates(args.updates)
        .on_disconnect(|error| note(&format!("{error}; reconnecting")));
    let mut incidents = client.incidents().watch().matching(query);
    if let Some(since) = since {
        watch = watch.since(since);
        incidents = incidents.since(since);
    }
    let mut changes = watch.stream();
    // The stream of changes says when the connection is lost.
    let mut incidents = if args.incidents {
        incidents.stream().left_stream()
    } else {
        stream::pending().right_stream()
    };
    loop {
        tokio::select! {
            watched = changes.try_next() => match watched? {
                Some(watched) if has_events => {
                    app.output.next_live(&Watched::from(watched), watched::line)?;
                }
                Some(watched) => {
                    app.output.next_live(&watched.change, watched::line_of_change)?;
                }
                None => break,
            },
            watched = incidents.try_next() => match watched? {
                Some(watched) => {
                    let incident = WatchedIncident::from(watched.incident);
                    app.output.next_live(&incident, watched::line_of_incident)?;
                }
                None => break,
            },
        }
    }
    Ok(())
}
