//! `schema`: SQL for the operator.

use clap::Subcommand;

/// SQL for the operator.
#[derive(Debug, Subcommand)]
pub enum Schema {
    /// Print the statements that distribute a PostgreSQL database by Citus, for psql; the
    /// schema must exist already
    Citus {
        /// Let servers connect to every node: accounts and keys are copied to all nodes, and
        /// changing them needs all nodes
        #[arg(long)]
        every_node: bool,
    },
}
