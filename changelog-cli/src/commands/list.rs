//! `chlog list`: finds changes, newest first.

use changelog_client::Client;
use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{Change, ChangeFilter};
use clap::Args;
use futures_util::TryStreamExt;

use crate::base::failure::{Failure, Outcome, note};
use crate::base::time;
use crate::environment::app::App;
use crate::input::filter::FilterArgs;
use crate::output::format::Format;
use crate::output::{Output, table};

/// Lists changes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// How many at most
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = 25,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    limit: u64,
    /// Which page of that many, from 1
    #[arg(long, value_name = "PAGE", value_parser = clap::value_parser!(u64).range(1..))]
    page: Option<u64>,
    /// Everything that matches, as it comes
    #[arg(long, conflicts_with_all = ["limit", "page"])]
    all: bool,
}

/// Lists what matches.
pub(crate) async fn run(mut app: App, args: ListArgs) -> Outcome {
    if args.page.is_some() && args.limit > MAX_PER_PAGE {
        return Err(Failure::usage(format!(
            "--limit: must be at most {MAX_PER_PAGE} together with --page, got {}",
            args.limit
        )));
    }
    let client = app.client()?;
    let filter = ChangeFilter {
        page: args.page.unwrap_or(1),
        per_page: args.limit,
        ..args.filter.filter(&client).await?
    };
    if args.all {
        return stream(&mut app.output, &client, filter, None).await;
    }
    if args.limit > MAX_PER_PAGE {
        return stream(&mut app.output, &client, filter, Some(args.limit)).await;
    }
    let page = client.changes().list_with(filter).send().await?;
    app.output.page(page)
}

/// Writes up to so many changes as they come. Only a table waits for all of
/// them, since its columns are as wide as what is in them.
pub(crate) async fn stream(
    output: &mut Output,
    client: &Client,
    filter: ChangeFilter,
    limit: Option<u64>,
) -> Outcome {
    let first = ChangeFilter {
        page: 1,
        per_page: 1,
        ..filter.clone()
    };
    let most = limit.unwrap_or(u64::MAX);
    let mut changes = client.changes().list_with(filter).stream();
    let mut count = 0;
    let mut kept: Vec<Change> = Vec::new();
    let is_table = output.format() == Format::Table;
    output.begin::<Change>()?;
    while count < most
        && let Some(change) = changes.try_next().await?
    {
        if is_table {
            kept.push(change);
        } else {
            if count > 0 {
                output.separate()?;
            }
            output.next(&change)?;
            // A hundred come at a time; a reader need not wait for more.
            if count % MAX_PER_PAGE == MAX_PER_PAGE - 1 {
                output.flush()?;
            }
        }
        count += 1;
    }
    // Only where the list was cut can there be more than were listed.
    let in_all = match limit {
        Some(limit) if count >= limit => client.changes().list_with(first).send().await?.count,
        _ => count,
    };
    if is_table {
        if kept.is_empty() {
            note("no changes match");
            return Ok(());
        }
        output.records(kept, |changes, width| {
            table::changes(changes, width, time::now())
        })?;
        if in_all > count {
            note(&format!(
                "the newest {count} of {in_all} changes; --all has everything"
            ));
        }
        return Ok(());
    }
    output.end(limit.unwrap_or(count), in_all)
}
