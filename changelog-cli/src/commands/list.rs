//! `chlog list`: lists changes, newest first.

use changelog_client::{ChangeQuery, Client};
use changelog_core::Change;
use changelog_core::limits::MAX_PER_PAGE;
use clap::Args;
use futures_util::TryStreamExt;

use crate::base::failure::{Failure, Outcome};
use crate::base::text::grouped;
use crate::environment::app::App;
use crate::input::filter::FilterArgs;
use crate::input::flags::whole_number;
use crate::output::Output;
use crate::output::format::Format;

/// Lists changes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Maximum number of changes
    #[arg(
        short = 'L',
        long,
        value_name = "COUNT",
        default_value_t = 25,
        value_parser = whole_number(1..=u64::MAX)
    )]
    limit: u64,
    /// Page number, from 1; a page has --limit changes
    #[arg(long, value_name = "PAGE", value_parser = whole_number(1..=u64::MAX))]
    page: Option<u64>,
    /// List all matching changes
    #[arg(long, conflicts_with_all = ["limit", "page"])]
    all: bool,
}

/// Lists the matching changes.
pub(crate) async fn run(app: &mut App, args: ListArgs) -> Outcome {
    if args.page.is_some() && args.limit > MAX_PER_PAGE {
        return Err(Failure::usage(format!(
            "--limit: must be at most {MAX_PER_PAGE} together with --page, got {}",
            args.limit
        )));
    }
    let client = app.client()?;
    let query = args.filter.query(&client).await?;
    if args.all {
        return stream(&mut app.output, &client, query, None).await;
    }
    if args.limit > MAX_PER_PAGE {
        return stream(&mut app.output, &client, query, Some(args.limit)).await;
    }
    let list = client.changes().list().matching(query);
    let list = list.page(args.page.unwrap_or(1)).per_page(args.limit);
    let page = list.send().await?;
    app.output.page(&page)
}

/// Writes up to `limit` changes page by page. A table is written at the end,
/// because the widths of its columns depend on all rows.
pub(crate) async fn stream(
    output: &mut Output,
    client: &Client,
    query: ChangeQuery,
    limit: Option<u64>,
) -> Outcome {
    let list = client.changes().list().matching(query);
    let max = limit.unwrap_or(u64::MAX);
    let mut changes = list.clone().stream();
    let mut count = 0;
    let mut rows: Vec<Change> = Vec::new();
    let is_table = output.format() == Format::Table;
    output.begin::<Change>()?;
    while count < max
        && let Some(change) = changes.try_next().await?
    {
        if is_table {
            rows.push(change);
        } else {
            output.next(&change)?;
            // After each page, so that a reader does not wait for the next.
            if count % MAX_PER_PAGE == MAX_PER_PAGE - 1 {
                output.flush()?;
            }
        }
        count += 1;
    }
    // Only a limited list can have more matching changes than were listed.
    let total = match limit {
        Some(limit) if count >= limit => list.per_page(1).send().await?.count,
        _ => count,
    };
    if is_table {
        if rows.is_empty() {
            output.note("no changes match");
            return Ok(());
        }
        output.records(&rows)?;
        if total > count {
            output.note(&format!(
                "Showing the newest {} of {} changes (--all for everything)",
                grouped(count),
                grouped(total)
            ));
        }
        return Ok(());
    }
    output.end(limit.unwrap_or(count), total)
}
