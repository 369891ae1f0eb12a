//! The flags of `chlog terraform` and its subcommands.

use clap::Args;

use crate::base::failure::warn;
use crate::environment::context::ContextArgs;
use crate::environment::defaults::Defaults;
use crate::input::flags::ChangeFields;
use crate::recording::fit::{Fitted, fit};
use crate::recording::submit::SubmitArgs;

/// The flags of all subcommands.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Title; by default such as "terraform apply: 2 added"
    #[arg(long, value_name = "TITLE", help_heading = "The change")]
    pub(super) title: Option<String>,
    #[command(flatten)]
    pub(super) fields: ChangeFields,
    /// Record a run that changes nothing
    #[arg(long, help_heading = "Behavior")]
    pub(super) always: bool,
    #[command(flatten)]
    pub(super) submit: SubmitArgs,
    #[command(flatten)]
    pub(super) context: ContextArgs,
}

impl Flags {
    /// Returns the flags and the settings with values that fit into a change; warns of the
    /// others.
    pub(super) fn fitted(&self, defaults: &Defaults) -> Self {
        let risk = self.fields.risk.clone();
        let Fitted {
            title,
            fields,
            warnings,
        } = fit(
            self.title.clone(),
            self.fields.clone().or_defaults(defaults),
        );
        for warning in warnings {
            warn(&warning);
        }
        Self {
            title,
            fields: ChangeFields { risk, ..fields },
            ..self.clone()
        }
    }
}
