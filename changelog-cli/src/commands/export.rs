//! `chlog export`: everything that matches, as `chlog import` reads it.

use clap::Args;

use crate::args::Format;
use crate::commands::list;
use crate::failure::Outcome;
use crate::filter::FilterArgs;
use crate::output::Output;
use crate::session::Session;

/// Writes changes.
#[derive(Debug, Args)]
#[command(after_help = "\
One JSON record a line, newest first; --format csv writes a table instead. What is written is \
what `chlog import` reads:

  chlog export | chlog --profile other import -")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

/// Writes everything that matches, as it comes.
pub(crate) async fn run(mut session: Session, args: ExportArgs) -> Outcome {
    if session.output.format() == Format::Table {
        // A table is for people, and waits for the last row to know its widths.
        session.output = Output::new(Format::Ndjson);
    }
    let client = session.client()?;
    let filter = args.filter.filter(&client).await?;
    list::stream(&mut session.output, &client, filter, None).await
}
