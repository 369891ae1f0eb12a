//! `changelog-server man`

use std::path::Path;

use super::Failure;
use crate::config::Arguments;

/// Writes a manual page for the program and each of its commands into a directory.
pub(super) fn run(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    let program = Arguments::described().disable_help_subcommand(true);
    Ok(clap_mangen::generate_to(program, directory)?)
}
