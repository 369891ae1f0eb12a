//! `chlog run`: runs a command, and records that it ran and how it ended. The
//! command comes first: whatever happens here, it starts, and its exit code is
//! ours.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use changelog_core::limits::{MAX_LONG_TEXT_CHARS, MAX_TITLE_CHARS};
use changelog_core::{ChangeId, ChangePatch, Input, NewChange, RiskLevel, Status};
use clap::Args;

use crate::base::failure::{Exit, Failure, Outcome, warn};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::context::{Context, ContextArgs, cut};
use crate::environment::credentials::{KEY_FILE_VARIABLE, KEY_VARIABLE};
use crate::input::flags::{ChangeFields, risk};
use crate::recording::run_recorder::Recording;
use crate::recording::secrets;
use crate::recording::spool::delivery::Delivery;
use crate::recording::submit::Draft;
use crate::supervise;

/// What a change has whose command nobody has seen end.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome-unknown";
/// How long the command waits for the id of its change at most.
const HEAD_START: Duration = Duration::from_millis(500);
/// What the command knows of us.
const ID_VARIABLE: &str = "CHLOG_CHANGE_ID";
/// The longest title that is made of a command's name, in characters.
const MAX_NAME: usize = 200;

/// Runs a command and records how it ended.
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs as if it were called alone: its input and output are not touched, signals reach \
it once, and its exit code is the one of chlog run (128 and the number of the signal that ended \
it, 127 when it is not found, 126 when it cannot be started). A change that cannot be recorded is \
kept and sent later; with --require-log the command is not started then.

The command finds the id of its change in CHLOG_CHANGE_ID, if the service answers within half a \
second.")]
pub(crate) struct RunArgs {
    /// What is done, in a line: 3 to 300 characters; made from the command's name if not given
    #[arg(long, value_name = "TITLE", help_heading = "The change")]
    title: Option<String>,
    #[command(flatten)]
    fields: ChangeFields,
    /// The risk that it has at least if the command fails
    #[arg(
        long,
        value_name = "RISK",
        ignore_case = true,
        default_value = "high",
        value_parser = risk(),
        help_heading = "Behaviour"
    )]
    fail_risk: RiskLevel,
    /// The exit codes that are a success; repeatable, or separated by commas
    #[arg(
        long,
        value_name = "CODE",
        value_delimiter = ',',
        default_value = "0",
        help_heading = "Behaviour"
    )]
    ok_codes: Vec<u8>,
    /// Record the arguments of the command too, with what looks like a secret masked
    #[arg(long, help_heading = "Behaviour")]
    capture_args: bool,
    /// Leave the API key in the environment of the command
    #[arg(long, help_heading = "Behaviour")]
    pass_key: bool,
    #[command(flatten)]
    context: ContextArgs,
    /// Do not start the command unless the change is recorded
    #[arg(long, help_heading = "Behaviour")]
    require_log: bool,
    /// The command with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// How a command ended.
struct Ending {
    ended: io::Result<ExitStatus>,
    lasted: Duration,
}

/// Runs the command; fails only where it was not to be started.
pub(crate) async fn run(app: Outcome<App>, args: RunArgs) -> Outcome<ExitCode> {
    let begun = match app {
        Ok(app) => begin(&app, &args).await.map(|begun| (app, begun)),
        Err(failure) => Err(failure),
    };
    let mut begun = match begun {
        Ok(begun) => Some(begun),
        // The command line is wrong, or somebody wants it so.
        Err(failure) if args.require_log || failure.exit == Exit::Invalid => return Err(failure),
        Err(failure) => {
            failure.report();
            warn("the command runs all the same, and nothing is recorded");
            None
        }
    };
    let id = match &mut begun {
        Some((_, recording)) => recording.id_within(HEAD_START).await,
        None => None,
    };
    let ending = watch(command(&args, id)).await;
    let code = match &ending.ended {
        Ok(status) => supervise::code(*status),
        Err(error) => {
            let name = args.command[0].to_string_lossy();
            Failure::new(Exit::Other, format!("cannot start {name}: {error}")).report();
            supervise::code_of_failure(error)
        }
    };
    if let Some((app, recording)) = begun {
        let patch = outcome(&app, &args, &ending, code);
        match recording.finish(&app, patch).await {
            Ok(()) => Delivery::after(&app).await,
            Err(failure) => drop(failure.report()),
        }
    }
    Ok(ExitCode::from(code))
}

/// Begins to record.
async fn begin(app: &App, args: &RunArgs) -> Outcome<Recording> {
    let draft = draft(app, args)?;
    let mut lost = ChangePatch {
        status: Some(Status::RolledBack),
        description: Some(Some(described(
            args,
            "Outcome unknown: neither the command nor chlog came back to tell.",
        ))),
        ..ChangePatch::default()
    };
    let mut tags = draft.change.tags.clone();
    tags.push(OUTCOME_UNKNOWN.to_owned());
    if let Ok(patch) = (ChangePatch {
        tags: Some(tags),
        ..ChangePatch::default()
    })
    .checked(time::now())
    {
        lost.tags = patch.tags;
    }
    Recording::begin(app, draft, lost, args.require_log).await
}

/// Puts the change together.
fn draft(app: &App, args: &RunArgs) -> Outcome<Draft> {
    if args.fields.status.is_some() {
        return Err(Failure::new(
            Exit::Invalid,
            "--status: `chlog run` says itself where the change stands",
        )
        .hint("--ok-codes says which exit codes are a success"));
    }
    let context = args.context.gather();
    let change = NewChange {
        title: args
            .title
            .clone()
            .unwrap_or_else(|| title(&args.command[0], &context)),
        description: Some(described(args, "The command runs.")),
        status: Some(Status::InProgress),
        ..NewChange::default()
    };
    let mut draft = Draft::new(&args.fields.clone().or(&app.config.defaults), change)?;
    context.apply(&mut draft.change);
    Ok(draft)
}

/// Makes a title of a command's name and where it runs.
fn title(program: &OsString, context: &Context) -> String {
    let name = Path::new(program)
        .file_name()
        .map_or_else(|| program.to_string_lossy(), |name| name.to_string_lossy());
    let name: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME)
        .collect();
    match &context.place {
        Some(place) => cut(&format!("Run {} ({place})", name.trim()), MAX_TITLE_CHARS),
        None => format!("Run {}", name.trim()),
    }
}

/// Prepares the command.
fn command(args: &RunArgs, id: Option<ChangeId>) -> Command {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if !args.pass_key {
        for name in [KEY_VARIABLE, KEY_FILE_VARIABLE] {
            command.env_remove(name);
        }
    }
    match id {
        Some(id) => command.env(ID_VARIABLE, id.to_string()),
        // That of another command around us would be wrong.
        None => command.env_remove(ID_VARIABLE),
    };
    command
}

/// Runs the command to its end.
async fn watch(command: Command) -> Ending {
    let began = Instant::now();
    let ended = match supervise::start(command) {
        Ok(running) => running.wait().await,
        Err(error) => Err(error),
    };
    Ending {
        ended,
        lasted: began.elapsed(),
    }
}

/// Says what became of the command.
fn outcome(app: &App, args: &RunArgs, ending: &Ending, code: u8) -> ChangePatch {
    let has_succeeded = ending.ended.is_ok() && args.ok_codes.contains(&code);
    let how = match &ending.ended {
        Ok(status) if status.code().is_none() => format!("Ended by signal {}", code - 128),
        Ok(_) => format!("Exit code {code}"),
        Err(error) => format!("Could not be started: {error}"),
    };
    let how = format!("{how}, after {}", time::span(ending.lasted));
    let risk = args.fields.risk.clone();
    let risk = risk.or(app.config.defaults.risk.clone());
    let is_below = |risk: &RiskLevel| position(risk) < position(&args.fail_risk);
    let raised = !has_succeeded && risk.as_ref().is_none_or(is_below);
    ChangePatch {
        status: Some(if has_succeeded {
            Status::Completed
        } else {
            Status::RolledBack
        }),
        risk_level: raised.then(|| args.fail_risk.clone()),
        description: Some(Some(described(args, &how))),
        ..ChangePatch::default()
    }
}

/// Returns how dangerous a risk is beside others.
fn position(risk: &RiskLevel) -> Option<usize> {
    RiskLevel::WORDS
        .iter()
        .position(|word| *word == risk.as_str())
}

/// Writes the description: what was said, the command, and how it is with it.
fn described(args: &RunArgs, how: &str) -> String {
    let command = if args.capture_args {
        secrets::masked(&args.command)
    } else {
        args.command[0].to_string_lossy().into_owned()
    };
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    };
    let ours = format!("Command: `{}`\n\n{}", plain(&command), plain(how));
    let given = args.fields.description.as_deref().map(str::trim);
    let text = match given.filter(|given| !given.is_empty()) {
        Some(given) => {
            let room = MAX_LONG_TEXT_CHARS.saturating_sub(ours.chars().count() + 2);
            let given: String = given.chars().take(room).collect();
            format!("{given}\n\n{ours}")
        }
        None => ours,
    };
    text.chars().take(MAX_LONG_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_made_of_the_name_alone() {
        for (program, expected) in [
            ("ls", "Run ls"),
            ("./deploy.sh", "Run deploy.sh"),
            ("/usr/bin/make", "Run make"),
            ("..", "Run .."),
            ("a\nb", "Run ab"),
        ] {
            assert_eq!(title(&program.into(), &Context::default()), expected);
        }
        let title = title(&"x".repeat(1000).into(), &Context::default());
        assert_eq!(title.chars().count(), 4 + MAX_NAME);
    }
}
