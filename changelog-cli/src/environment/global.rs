//! The flags that every command takes.

use std::path::PathBuf;

use clap::Args;

use crate::base::prompting;
use crate::output::flags::OutputFlags;

/// The flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// URL of the server (or `CHLOG_URL`)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Profile of config.toml (or `CHLOG_PROFILE`)
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// File with certificates (PEM) to trust in addition to those of the system (or
    /// `CHLOG_CA_FILE`)
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) cacert: Option<PathBuf>,
    /// Print each request with its status, duration and request ID on standard error (or
    /// `CHLOG_DEBUG=1`)
    #[arg(short = 'v', long, global = true, hide_short_help = true)]
    pub(crate) debug: bool,
    /// Print no notes on standard error; warnings and errors are printed
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    terminal: TerminalFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// How the terminal is used.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
struct TerminalFlags {
    /// Never prompt; fail instead
    #[arg(long, global = true, hide_short_help = true)]
    no_input: bool,
    /// Print no colors (or `NO_COLOR`)
    #[arg(long, global = true, hide_short_help = true)]
    no_color: bool,
}

impl Global {
    /// Applies the flags that hold for the whole process.
    pub(crate) fn apply(&self) {
        if self.terminal.no_input {
            prompting::turn_off();
        }
        if self.terminal.no_color {
            anstream::ColorChoice::Never.write_global();
        }
    }

    /// Returns flags that set the connection only.
    pub(crate) fn connection(url: Option<String>, profile: Option<String>) -> Self {
        Self {
            url,
            profile,
            cacert: None,
            debug: false,
            quiet: false,
            terminal: TerminalFlags::default(),
            output: OutputFlags::default(),
        }
    }
}
