//! `chlog export`: everything that matches, as `chlog import` reads it.

use clap::Args;

use crate::base::failure::Outcome;
use crate::commands::list;
use crate::environment::app::App;
use crate::input::filter::FilterArgs;
use crate::output::Output;
use crate::output::format::Format;

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
pub(crate) async fn run(mut app: App, args: ExportArgs) -> Outcome {
    if app.output.format() == Format::Table {
        // A table is for people, and waits for the last row to know its widths.
        app.output = Output::new(Format::Ndjson);
    }
    let client = app.client()?;
    let filter = args.filter.filter(&client).await?;
    list::stream(&mut app.output, &client, filter, None).await
}
