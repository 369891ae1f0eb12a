//! `chlog around`: lists what changed before a given time, the most suspicious
//! first.

use changelog_core::limits::{DEFAULT_SUSPECTS, MAX_SUSPECTS};
use changelog_core::{Host, Service};
use clap::Args;

use crate::base::failure::{Outcome, note};
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::complete;
use crate::input::flags::whole_number;
use crate::input::names::resolve_filter;
use crate::output::format::Format;
use crate::output::table;

/// Lists what changed before a given time, ranked by how likely it is the cause
/// of a problem at that time.
#[derive(Debug, Args)]
pub(crate) struct AroundArgs {
    /// Time of the problem: RFC 3339, a date (its beginning), or an age such as 2h
    #[arg(value_name = "TIME", value_parser = time::parse)]
    at: TimeArg,
    /// Affected service
    #[arg(long, value_name = "NAME|ID", add = complete::services())]
    service: Option<String>,
    /// Affected host
    #[arg(long, value_name = "HOSTNAME|ID", add = complete::hosts())]
    host: Option<String>,
    /// How far to look back; at most 7d
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = "2h",
        value_parser = time::parse_minutes
    )]
    window: u64,
    /// Maximum number of changes
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = DEFAULT_SUSPECTS,
        value_parser = whole_number(1..=MAX_SUSPECTS)
    )]
    limit: u64,
}

/// Prints the changes with the reasons for each.
pub(crate) async fn run(mut app: App, args: AroundArgs) -> Outcome {
    let client = app.client()?;
    let mut request = client
        .changes()
        .around()
        .at(args.at.start(time::now()))
        .window_minutes(args.window)
        .limit(args.limit);
    if let Some(id) = resolve_filter::<Service>(&client, args.service.as_deref()).await? {
        request = request.service(id);
    }
    if let Some(id) = resolve_filter::<Host>(&client, args.host.as_deref()).await? {
        request = request.host(id);
    }
    let around = request.send().await?;
    if app.output.format() == Format::Json {
        return app.output.json(&around);
    }
    if !around.complete {
        note(&format!(
            "only {} of the changes were ranked; a shorter --window ranks all",
            around.considered
        ));
    }
    app.output.records(around.data, table::suspects)
}
