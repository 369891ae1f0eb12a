//! The flags of `move`.

use clap::Args;

/// The arguments of `move`.
#[derive(Clone, Debug, Args)]
pub struct Move {
    /// The database to read; it stays as it is
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The database to write, which must be new; a move that was interrupted is continued
    #[arg(long, value_name = "URL")]
    pub to: String,
}
