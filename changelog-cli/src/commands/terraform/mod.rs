//! `chlog terraform`: records what Terraform did, or plans to do.
//!
//! A pipe is read to its end even if the command line or the settings are
//! invalid: closing it early would kill Terraform in the middle of its work.

mod change;
mod command_line;
mod events;
mod flags;
mod pipe;
mod plan;
mod providers;
mod run;
mod secrets;
mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::base::failure::Outcome;
use crate::environment::app::App;
use flags::Flags;

/// Records what Terraform did.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Reads the events of `terraform apply -json`, `destroy -json` or `plan -json` (or of tofu) from \
standard input and prints them on standard error in Terraform's usual form. When they end, records \
one change: counts, addresses and actions, the summaries of errors; never a value, an output or a \
variable.

The exit code is 0 if the change was recorded; use `set -o pipefail` to get Terraform's. A run that \
changes nothing is recorded only with --always.

Examples:
  terraform apply -json -auto-approve | chlog terraform
  terraform apply -json tfplan | chlog terraform --plan plan.json
  chlog terraform run -- apply")]
pub(crate) struct TerraformArgs {
    #[command(subcommand)]
    command: Option<TerraformCommand>,
    #[command(flatten)]
    flags: Flags,
    /// Output of `terraform show -json` for the applied plan; updates the change of the plan
    #[arg(long, value_name = "PATH", help_heading = "Behavior")]
    plan: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum TerraformCommand {
    /// Run Terraform and record what it did
    Run(Box<RunArgs>),
    /// Record a saved plan as a planned change
    Plan(Box<PlanArgs>),
}

/// Runs Terraform.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs the program that CHLOG_TERRAFORM names, or else `terraform` or `tofu` from the search path; the \
exit code is that of the program. `apply` and `destroy` are recorded when they end, `plan` as a \
planned change; applying a saved plan updates the change of the plan. Other commands are run and not \
recorded.

Examples:
  chlog terraform run -- apply
  chlog terraform run --service network -- -chdir=infra apply -auto-approve
  chlog terraform run -- plan -out=tfplan && chlog terraform run -- apply tfplan")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    flags: Flags,
    /// Arguments of Terraform
    #[arg(
        required = true,
        last = true,
        value_name = "ARGUMENTS",
        help_heading = None::<&'static str>
    )]
    arguments: Vec<OsString>,
}

/// Records a plan.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  terraform plan -out=tfplan && terraform show -json tfplan > plan.json
  chlog terraform plan plan.json
  terraform apply -json tfplan | chlog terraform --plan plan.json")]
struct PlanArgs {
    /// Output of `terraform show -json` for a saved plan; - is standard input
    #[arg(value_name = "PLAN.json")]
    path: PathBuf,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the subcommand.
pub(crate) async fn run(
    app: impl FnOnce() -> Outcome<App>,
    args: TerraformArgs,
) -> Outcome<ExitCode> {
    match args.command {
        None => pipe::run(app, args.flags, args.plan).await?,
        Some(TerraformCommand::Run(run)) => {
            let running = run::run(app(), run.flags, &run.arguments);
            return Box::pin(running).await;
        }
        Some(TerraformCommand::Plan(plan)) => plan::run(app()?, plan.flags, &plan.path).await?,
    }
    Ok(ExitCode::SUCCESS)
}
