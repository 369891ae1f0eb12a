//! `chlog export`: writes all matching changes in a format that `chlog import`
//! reads.

use clap::Args;

use crate::base::failure::Outcome;
use crate::commands::list;
use crate::environment::app::App;
use crate::input::filter::FilterArgs;
use crate::output::format::Format;

/// Exports changes.
#[derive(Debug, Args)]
#[command(after_help = "\
Writes one JSON record per line, newest first, or a table with --format csv. `chlog import` reads \
both:

  chlog export | chlog --profile other import -")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

/// Writes the changes page by page.
pub(crate) async fn run(app: &mut App, args: ExportArgs) -> Outcome {
    app.output.set_default_format(Format::Ndjson);
    let client = app.client()?;
    let query = args.filter.query(&client).await?.with_updated_by();
    list::stream(&mut app.output, &client, query, None).await
}
