//! `chlog show`: one change in full.

use changelog_core::ChangeId;
use clap::Args;

use crate::complete;
use crate::failure::Outcome;
use crate::moment;
use crate::output::detail;
use crate::session::Session;

/// Shows a change.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The id of the change
    #[arg(add = complete::changes())]
    id: ChangeId,
}

/// Shows it with exact times.
pub(crate) async fn run(mut session: Session, args: &ShowArgs) -> Outcome {
    let change = session.client()?.changes().get(args.id).await?;
    session
        .output
        .record(&change, |change| detail::change(change, moment::now()))
}
