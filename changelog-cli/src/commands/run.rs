//! `chlog run`: runs a command and records its outcome. The command takes
//! precedence: it is started even if the change cannot be recorded, and its exit
//! code is that of `chlog`.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use changelog_core::limits::{MAX_LONG_TEXT_CHARS, MAX_TITLE_CHARS};
use changelog_core::{
    ChangeId, ChangePatch, Outcome as ChangeOutcome, RiskLevel, Status, Timestamp,
};
use clap::Args;

use crate::base::failure::{Exit, Failure, Outcome, name_program, warn};
use crate::base::text::{controls_to_spaces, shorten};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::context::{Context, ContextArgs};
use crate::environment::credentials::{KEY_REMOVED_VARIABLE, SECRET_VARIABLES};
use crate::input::command_words::command_words;
use crate::input::flags::{ChangeFields, risk, title_help};
use crate::recording::draft::{Draft, Progress};
use crate::recording::fit::fit;
use crate::recording::run_recorder::RunRecorder;
use crate::recording::secrets;
use crate::recording::spool::delivery::Delivery;
use crate::recording::update::{Passage, Update};
use crate::supervise;

/// The state of the command in the description while it runs.
const RUNNING: &str = "The command is running.";
/// The characters of a description that are kept free for the result of the command.
const MAX_RESULT: usize = 500;
/// How long the start of the command may be delayed to get the id of its change.
const ID_TIMEOUT: Duration = Duration::from_millis(500);
/// The variable with the id of the change, for the command.
const ID_VARIABLE: &str = "CHLOG_CHANGE_ID";
/// The longest command name in a title, in characters.
const MAX_NAME: usize = 200;

/// Runs a command and records its outcome.
// The outcome of the command sets the status.
#[derive(Debug, Args)]
#[command(next_help_heading = "Behavior")]
#[command(mut_arg("status", |status| status.hide(true)))]
#[command(after_help = "\
The command runs as it would without chlog: its input and output are not touched, and each signal \
reaches it once. Its exit code is that of chlog run: 128 plus the number of the signal that ended \
it, 127 if it is not found, 126 if it cannot be started. A change that cannot be recorded is kept \
and sent later. With --require-log, the command is not started in that case.

CHLOG_CHANGE_ID holds the ID of the change for the command. If the server does not respond within \
half a second, it is the ID of the queued change, which chlog accepts on this machine.")]
pub(crate) struct RunArgs {
    #[arg(
        long,
        value_name = "TITLE",
        help = title_help("; by default from the name of the command"),
        help_heading = "The change"
    )]
    title: Option<String>,
    #[command(flatten)]
    fields: ChangeFields,
    /// Risk level if the command fails, unless --risk is higher
    #[arg(
        long,
        value_name = "RISK",
        ignore_case = true,
        default_value = "high",
        value_parser = risk(),
    )]
    fail_risk: RiskLevel,
    /// Exit codes that mean success; repeatable, or comma-separated
    #[arg(long, value_name = "CODE", value_delimiter = ',', default_value = "0")]
    ok_codes: Vec<u8>,
    /// Also record the arguments of the command, with probable secrets masked
    #[arg(long)]
    capture_args: bool,
    /// Keep the API key in the environment of the command
    #[arg(long)]
    pass_key: bool,
    #[command(flatten)]
    context: ContextArgs,
    /// Start the command only if the change is recorded
    #[arg(long)]
    require_log: bool,
    /// Command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND",
        add = command_words(),
        help_heading = None::<&'static str>
    )]
    command: Vec<OsString>,
}

/// The end of a command.
struct Ending {
    ended: io::Result<ExitStatus>,
    ended_at: Timestamp,
    lasted: Duration,
}

/// Runs the command; fails only if the command is not started.
pub(crate) async fn run(app: Outcome<App>, args: RunArgs) -> Outcome<ExitCode> {
    check_flags(&args)?;
    name_program();
    let recorder = match app {
        Ok(app) => begin(&app, &args).await.map(|recorder| (app, recorder)),
        Err(failure) => Err(failure),
    };
    let mut recorder = match recorder {
        Ok(recorder) => Some(recorder),
        Err(failure) if args.require_log => {
            return Err(
                failure.line("the change was not recorded, and the command was not started")
            );
        }
        Err(failure) => {
            failure.context("this run will not be recorded").report();
            None
        }
    };
    let id = match &mut recorder {
        Some((_, recorder)) => {
            let id = recorder.id_within(ID_TIMEOUT).await;
            id.or_else(|| recorder.queued_id())
        }
        None => None,
    };
    let ending = execute(command(&args, id), |pid| {
        if let Some((_, recorder)) = &recorder {
            recorder.command_started(pid);
        }
    })
    .await;
    let code = match &ending.ended {
        Ok(status) => supervise::code(*status),
        Err(error) => {
            let name = args.command[0].to_string_lossy();
            Failure::new(Exit::Other, format!("cannot start {name}: {error}")).report();
            supervise::code_of_failure(error)
        }
    };
    if let Some((app, recorder)) = recorder {
        let update = outcome(&app, &args, &ending, code);
        match recorder.finish(&app, update).await {
            Ok(()) => Delivery::after(&app).await,
            Err(failure) => drop(failure.context("this run was not recorded").report()),
        }
    }
    Ok(ExitCode::from(code))
}

/// Starts to record the change.
async fn begin(app: &App, args: &RunArgs) -> Outcome<RunRecorder> {
    let draft = draft(app, args)?;
    let patch = ChangePatch {
        status: Some(Status::RolledBack),
        outcome: Some(Some(ChangeOutcome::Indeterminate)),
        risk_level: raised_risk(app, args),
        ..ChangePatch::default()
    };
    let on_kill = Update {
        passage: Some(result(
            args,
            "Outcome unknown: chlog was killed before it could record how the command ended.",
        )),
        ..patch.into()
    };
    RunRecorder::begin(app, draft, on_kill, args.require_log).await
}

/// Returns the change for the start of the command.
fn draft(app: &App, args: &RunArgs) -> Outcome<Draft> {
    let context = args.context.gather();
    let fields = ChangeFields {
        description: Some(described(args)),
        status: Some(Status::InProgress),
        ..args.fields.clone().or_defaults(&app.config.defaults)
    };
    let new = |title: Option<String>, fields| {
        let title = title.unwrap_or_else(|| default_title(args, &context));
        Draft::new(title, fields, Progress::default())
    };
    let mut draft = match new(args.title.clone(), fields.clone()) {
        // The command does not fail because of a value that comes from a variable.
        Err(failure) if failure.exit == Exit::Invalid && !args.require_log => {
            let fitted = fit(args.title.clone(), fields);
            for warning in &fitted.warnings {
                warn(warning);
            }
            new(fitted.title, fitted.fields)?
        }
        draft => draft?,
    };
    context.apply(&mut draft.change);
    Ok(draft)
}

/// Refuses a mistyped flag, which would be the command, and a status.
fn check_flags(args: &RunArgs) -> Outcome {
    let program = args.command[0].to_string_lossy();
    if program.starts_with('-') {
        return Err(Failure::usage(format!("`chlog run` has no flag {program}"))
            .hint("`chlog run --help` lists the flags; write -- before the command to run"));
    }
    if args.fields.status.is_none() {
        return Ok(());
    }
    Err(
        Failure::usage("--status: `chlog run` sets the status itself")
            .hint("--ok-codes sets the exit codes that mean success"),
    )
}

/// Returns a title from the name of the command and the context.
fn default_title(args: &RunArgs, context: &Context) -> String {
    let name = if args.capture_args {
        shorten(&secrets::mask_command(&args.command), MAX_NAME)
    } else {
        program_name(&args.command[0])
    };
    let name = controls_to_spaces(&name);
    match &context.source {
        Some(source) => shorten(&format!("Run {name} ({source})"), MAX_TITLE_CHARS),
        None => format!("Run {name}"),
    }
}

/// Returns the name of a program without its directory.
fn program_name(program: &OsString) -> String {
    let name = Path::new(program)
        .file_name()
        .map_or_else(|| program.to_string_lossy(), |name| name.to_string_lossy());
    let name = name.chars().filter(|c| !c.is_control());
    name.take(MAX_NAME).collect()
}

/// Prepares the command.
fn command(args: &RunArgs, id: Option<ChangeId>) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if !args.pass_key {
        if SECRET_VARIABLES
            .iter()
            .any(|name| std::env::var_os(name).is_some())
        {
            command.env(KEY_REMOVED_VARIABLE, "1");
        }
        for name in SECRET_VARIABLES {
            command.env_remove(name);
        }
    }
    match id {
        Some(id) => command.env(ID_VARIABLE, id.to_string()),
        // The id of an outer `chlog run` would be wrong.
        None => command.env_remove(ID_VARIABLE),
    };
    command
}

/// Runs the command until it ends.
async fn execute(command: Command, started: impl FnOnce(u32)) -> Ending {
    let began = Instant::now();
    let ended = match supervise::start(command) {
        Ok(running) => {
            started(running.pid);
            running.wait().await
        }
        Err(error) => Err(error),
    };
    Ending {
        ended,
        ended_at: time::now(),
        lasted: began.elapsed(),
    }
}

/// Returns the update for the end of the command.
fn outcome(app: &App, args: &RunArgs, ending: &Ending, code: u8) -> Update {
    let succeeded = ending.ended.is_ok() && args.ok_codes.contains(&code);
    let how = match &ending.ended {
        Ok(status) if status.code().is_none() => format!("Ended by signal {}", code - 128),
        Ok(_) => format!("Exit code {code}"),
        Err(error) => format!("Could not be started: {error}"),
    };
    let how = format!("{how}, after {}", time::duration(ending.lasted));
    let (status, outcome) = if succeeded {
        (Status::Completed, ChangeOutcome::Succeeded)
    } else {
        (Status::RolledBack, ChangeOutcome::Failed)
    };
    let patch = ChangePatch {
        status: Some(status),
        outcome: Some(Some(outcome)),
        ended_at: Some(Some(ending.ended_at)),
        risk_level: if succeeded {
            None
        } else {
            raised_risk(app, args)
        },
        ..ChangePatch::default()
    };
    Update {
        passage: Some(result(args, &how)),
        ..patch.into()
    }
}

/// Returns the risk level of a run that did not succeed, if that is higher than the
/// given one.
fn raised_risk(app: &App, args: &RunArgs) -> Option<RiskLevel> {
    let given = args.fields.risk.as_ref();
    let risk = given.or(app.config.defaults.risk.as_ref());
    let is_below = |risk: &RiskLevel| rank(risk) < rank(&args.fail_risk);
    risk.is_none_or(is_below).then(|| args.fail_risk.clone())
}

/// Returns the rank of a risk level; none for an unknown one.
fn rank(risk: &RiskLevel) -> Option<usize> {
    RiskLevel::WORDS
        .iter()
        .position(|word| *word == risk.as_str())
}

/// Returns the description at the start: the given one, the command, and that it runs.
fn described(args: &RunArgs) -> String {
    let facts = facts(args, RUNNING);
    let given = args.fields.description.as_deref().map(str::trim);
    let text = match given.filter(|given| !given.is_empty()) {
        Some(given) => {
            let room = MAX_LONG_TEXT_CHARS.saturating_sub(facts.chars().count() + MAX_RESULT);
            let given: String = given.chars().take(room).collect();
            format!("{given}\n\n{facts}")
        }
        None => facts,
    };
    text.chars().take(MAX_LONG_TEXT_CHARS).collect()
}

/// Returns the passage with the result of the command, which replaces that it runs.
fn result(args: &RunArgs, how: &str) -> Passage {
    Passage {
        old: facts(args, RUNNING),
        new: facts(args, how),
    }
}

/// Returns the command and its state.
fn facts(args: &RunArgs, state: &str) -> String {
    let command = if args.capture_args {
        secrets::mask_command(&args.command)
    } else {
        args.command[0].to_string_lossy().into_owned()
    };
    format!(
        "Command: `{}`\n\n{}",
        controls_to_spaces(&command),
        controls_to_spaces(state)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_the_name_without_its_directory() {
        for (program, expected) in [
            ("ls", "ls"),
            ("./deploy.sh", "deploy.sh"),
            ("/usr/bin/make", "make"),
            ("..", ".."),
            ("a\nb", "ab"),
        ] {
            assert_eq!(program_name(&program.into()), expected);
        }
        let name = program_name(&"x".repeat(1000).into());
        assert_eq!(name.chars().count(), MAX_NAME);
    }
}
