//! `chlog terraform`: records what Terraform did, or would do.
//!
//! What is read from a pipe is read to its end, whatever is wrong with the
//! command line or the settings: a reader that leaves early would kill
//! Terraform in the middle of its work.

mod call;
mod run;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::adapter::strip_str;
use changelog_core::limits::{MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_TAGS};
use changelog_core::{Change, ChangePatch, Input, NewChange};
use clap::{Args, Subcommand};

use crate::base::failure::{Exit, Failure, Outcome, note, warn};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::context::{ContextArgs, cut};
use crate::input::flags::ChangeFields;
use crate::input::names::{self, Missing};
use crate::output::table::one_line;
use crate::recording::spool::Entry;
use crate::recording::spool::delivery::Delivery;
use crate::recording::submit::{self, Draft, RecordArgs, Recorded, Updated, named};
use crate::terraform::events::{Events, Known};
use crate::terraform::plan::Plan;
use crate::terraform::renderer::{Shown, shown};
use crate::terraform::summary::Summary;

/// The longest line that is looked at, in bytes; a longer one is left out.
const MAX_LINE: u64 = 1024 * 1024;
/// The largest plan that is read, in bytes.
const MAX_PLAN: u64 = 1024 * 1024 * 1024;
/// The tag of everything that is recorded here.
const TAG: &str = "terraform";

/// Records what Terraform did.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Reads the events of `terraform apply -json`, `destroy -json` or `plan -json` (or of tofu) from \
standard input, shows them on standard error as people know them, and records one change when they \
end: counts, addresses and actions, the summaries of errors; never a value, an output or a variable.

The exit code tells whether the change was recorded; `set -o pipefail` gives Terraform's own. A run \
that changes nothing is not recorded, unless with --always.

Examples:
  terraform apply -json -auto-approve | chlog terraform
  terraform apply -json tfplan | chlog terraform --plan plan.json
  chlog terraform run -- apply")]
pub(crate) struct TerraformArgs {
    #[command(subcommand)]
    command: Option<TerraformCommand>,
    #[command(flatten)]
    flags: Flags,
    /// What `terraform show -json` says of the plan that is applied: its planned change is updated
    #[arg(long, value_name = "PATH", help_heading = "Behaviour")]
    plan: Option<PathBuf>,
}

/// The other ways to know what Terraform does.
#[derive(Debug, Subcommand)]
enum TerraformCommand {
    /// Run terraform, show what it says, and record what it did
    Run(Box<RunArgs>),
    /// Record a saved plan as a planned change
    Plan(Box<PlanArgs>),
}

/// Runs Terraform.
#[derive(Debug, Args)]
#[command(after_help = "\
The exit code is Terraform's own. It is `terraform`, or else `tofu`, from the search path, or what \
CHLOG_TERRAFORM names. `apply` and `destroy` are recorded when they end, `plan` as a planned change; \
applying a saved plan updates the change that was recorded for it. Other commands are run and not \
recorded.

Examples:
  chlog terraform run -- apply
  chlog terraform run --service network -- -chdir=infra apply -auto-approve
  chlog terraform run -- plan -out=tfplan && chlog terraform run -- apply tfplan")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    flags: Flags,
    /// What terraform is called with
    #[arg(required = true, last = true, value_name = "ARGUMENTS")]
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
    /// What `terraform show -json` says of a saved plan; - is standard input
    #[arg(value_name = "PLAN.json")]
    path: PathBuf,
    #[command(flatten)]
    flags: Flags,
}

/// What all of them take.
#[derive(Clone, Debug, Args)]
struct Flags {
    /// The title, instead of one such as "terraform apply: 2 added"
    #[arg(long, value_name = "TITLE", help_heading = "The change")]
    title: Option<String>,
    #[command(flatten)]
    fields: ChangeFields,
    /// Record it even if nothing is changed
    #[arg(long, help_heading = "Behaviour")]
    always: bool,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    context: ContextArgs,
}

/// Records what Terraform did or would do.
pub(crate) async fn run(
    app: impl FnOnce() -> Outcome<App>,
    args: TerraformArgs,
) -> Outcome<ExitCode> {
    match args.command {
        None => piped(app, args.flags, args.plan).await?,
        Some(TerraformCommand::Run(run)) => {
            return run::run(app(), run.flags, &run.arguments).await;
        }
        Some(TerraformCommand::Plan(plan)) => planned(app()?, plan.flags, &plan.path).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads events from standard input, and records what they say.
async fn piped(app: impl FnOnce() -> Outcome<App>, flags: Flags, plan: Option<PathBuf>) -> Outcome {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("there is nothing to read on standard input")
            .line("pipe Terraform's events: terraform apply -json -auto-approve | chlog terraform")
            .line("or let it be run: chlog terraform run -- apply")
            .line("or record a saved plan: chlog terraform plan PLAN.json"));
    }
    // Whoever interrupts a pipeline interrupts Terraform, which then says how
    // it ended.
    see_it_through();
    let events = tokio::task::spawn_blocking(|| follow(io::stdin().lock(), on_stderr))
        .await
        .map_err(|error| Failure::new(Exit::Other, format!("cannot read: {error}")))?;
    let mut app = app()?;
    if !events.any() {
        return Err(Failure::usage(
            "no event of Terraform came on standard input; nothing was recorded",
        )
        .hint("terraform says what it does as events with -json: terraform apply -json"));
    }
    // What Terraform did is not forgotten over a plan that cannot be read.
    let print = plan.and_then(|path| match read_plan(&path) {
        Ok(plan) => Some(plan.fingerprint()),
        Err(failure) => {
            let _ = failure.report();
            warn("it is recorded as a change of its own");
            None
        }
    });
    let mut summary = events.finish(Known::default());
    surround(&mut summary, None, &[]);
    let recorded = uninterrupted(record(&app, &summary, &flags, print.as_deref())).await?;
    Delivery::after(&app).await;
    recorded.show(&mut app)
}

/// Records a saved plan.
async fn planned(mut app: App, flags: Flags, path: &Path) -> Outcome {
    let plan = read_plan(path)?;
    let mut summary = plan.summary();
    surround(&mut summary, None, &[]);
    let print = plan.fingerprint();
    let recorded = uninterrupted(record(&app, &summary, &flags, Some(&print))).await?;
    Delivery::after(&app).await;
    recorded.show(&mut app)
}

fn read_plan(path: &Path) -> Outcome<Plan> {
    use std::io::Read;

    let name = path.display();
    let plan = if path == Path::new("-") {
        Plan::read(io::stdin().lock().take(MAX_PLAN))
    } else {
        let file = File::open(path)
            .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        Plan::read(BufReader::new(file).take(MAX_PLAN))
    };
    plan.map_err(|error| {
        Failure::usage(format!("cannot read {name}: {error}"))
            .hint("terraform show -json PLANFILE > plan.json writes it")
    })
}

/// Takes events line by line until there are no more.
fn follow(mut from: impl BufRead, mut show: impl FnMut(&[u8])) -> Events {
    use std::io::Read;

    let mut events = Events::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) => return events,
            Ok(_) if !line.ends_with(b"\n") && line.len() as u64 >= MAX_LINE => {
                warn(&format!("a line of more than {MAX_LINE} bytes is left out"));
                if from.skip_until(b'\n').is_err() {
                    return events;
                }
            }
            Ok(_) => {
                events.take(&line);
                show(&line);
            }
            Err(error) => {
                warn(&format!("cannot read any further: {error}"));
                return events;
            }
        }
    }
}

/// Shows a line on standard error: an event as people know it, anything else
/// as it is. Nobody may be looking; that must not end Terraform.
fn on_stderr(line: &[u8]) {
    match shown(line) {
        Shown::Nothing => {}
        Shown::Text(text) | Shown::Error(text) => note(&strip_str(&text).to_string()),
        Shown::Foreign => {
            let _ = io::stderr().write_all(line);
        }
    }
}

/// Adds what the folder says, and takes out of errors what the environment and
/// the arguments know to be secret.
fn surround(summary: &mut Summary, chdir: Option<&Path>, secrets: &[String]) {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = chdir.map_or_else(|| here.clone(), |chdir| here.join(chdir));
    summary.folder = folder
        .ancestors()
        .find(|at| at.join(".git").exists())
        .and_then(|root| folder.strip_prefix(root).ok())
        .map(|path| path.display().to_string())
        .filter(|path| !path.is_empty());
    summary.providers = call::providers(&folder);
    let mut all = call::secrets_of(std::env::vars_os());
    all.extend_from_slice(secrets);
    summary.hide(&all);
}

/// What became of a summary.
enum Kept {
    /// Nothing was changed.
    Nothing,
    New(Recorded),
    /// The change that had been planned.
    Updated(Box<Change>),
    /// What became of it waits in the spool.
    Waiting(Option<Failure>),
}

impl Kept {
    /// Says it on standard output.
    fn show(self, app: &mut App) -> Outcome {
        match self {
            Self::Nothing => {
                note("nothing is changed, and nothing is recorded; --always records it");
                Ok(())
            }
            Self::Waiting(None) => Ok(()),
            Self::Waiting(Some(failure)) => Err(failure),
            Self::New(recorded) => recorded.show(&mut app.output),
            Self::Updated(change) => app.output.record(&*change, |change| {
                format!("{}  {}", change.id, one_line(&change.title))
            }),
        }
    }
}

/// Records the summary: as the change that was planned, if there is one for
/// the plan with this fingerprint, or else as a new one.
async fn record(app: &App, summary: &Summary, flags: &Flags, print: Option<&str>) -> Outcome<Kept> {
    let tag = print.map(|print| format!("plan={print}"));
    let planned = match &tag {
        // A failure means that it may be kept for later; if not, recording it
        // says why.
        Some(tag) if !flags.record.dry_run => {
            submit::find_planned(app, tag).await.unwrap_or_default()
        }
        _ => None,
    };
    if planned.is_none() && summary.is_nothing() && !flags.always {
        return Ok(Kept::Nothing);
    }
    // What Terraform has done is recorded also where a flag is of no use.
    let draft = match draft(app, summary, flags, tag.clone()) {
        Err(failure) if failure.exit == Exit::Invalid && !flags.record.dry_run => {
            warn(&format!(
                "{}; what is wrong is left out, and the change is recorded",
                failure.summary()
            ));
            draft(app, summary, &flags.valid(), tag)?
        }
        draft => draft?,
    };
    match planned {
        Some(planned) => Ok(match Box::pin(update(app, planned, draft)).await? {
            Updated::Done(change) => Kept::Updated(change),
            Updated::Kept(failure) => Kept::Waiting(failure),
        }),
        None => match submit::record(app, draft.clone(), &flags.record).await {
            Ok(recorded) => Ok(Kept::New(recorded)),
            // Terraform is not run once more for a name that was mistyped.
            Err(failure) if failure.is_final() && !flags.record.dry_run => {
                let key = changelog_client::new_idempotency_key();
                let entry = Entry::of_draft(app, key, draft)?;
                Err(submit::set_aside(entry, failure))
            }
            // It is not kept for later, and not done again either: whoever
            // keeps this output has it.
            Err(failure) if !flags.record.dry_run => {
                let json = serde_json::to_string(&draft.change).unwrap_or_default();
                Err(failure.line(format!("not recorded: {json}")))
            }
            Err(failure) => Err(failure),
        },
    }
}

impl Flags {
    /// Returns the flags without the values that break a rule.
    fn valid(&self) -> Self {
        let now = time::now();
        let is_valid = |change: NewChange| {
            let title = "A title that is valid".to_owned();
            let title = Some(change.title.clone())
                .filter(|title| !title.is_empty())
                .unwrap_or(title);
            NewChange { title, ..change }.checked(now).is_ok()
        };
        let text = |text: &Option<String>, of: fn(String) -> NewChange| {
            text.clone().filter(|text| is_valid(of(text.clone())))
        };
        let fields = &self.fields;
        let tags = fields.tags.iter().flatten().filter(|tag| {
            is_valid(NewChange {
                tags: vec![(*tag).clone()],
                ..NewChange::default()
            })
        });
        let links = fields.links.iter().flatten().filter(|link| {
            is_valid(NewChange {
                links: vec![(*link).clone()],
                ..NewChange::default()
            })
        });
        Self {
            title: text(&self.title, |title| NewChange {
                title,
                ..NewChange::default()
            }),
            fields: ChangeFields {
                tags: Some(tags.take(MAX_TAGS).cloned().collect()),
                links: Some(links.take(MAX_LINKS).cloned().collect()),
                description: text(&fields.description, |text| NewChange {
                    description: Some(text),
                    ..NewChange::default()
                }),
                impact: text(&fields.impact, |text| NewChange {
                    impact: Some(text),
                    ..NewChange::default()
                }),
                ..fields.clone()
            },
            ..self.clone()
        }
    }
}

/// Makes a change of a summary; what was said explicitly counts first.
fn draft(app: &App, summary: &Summary, flags: &Flags, tag: Option<String>) -> Outcome<Draft> {
    let fields = flags.fields.clone().or(&app.config.defaults);
    let said = summary.description();
    let description = match &fields.description {
        Some(given) => {
            let room = MAX_LONG_TEXT_CHARS.saturating_sub(said.chars().count() + 2);
            format!("{}\n\n{said}", cut(given.trim_end(), room))
        }
        None => said,
    };
    let mut tags = fields.tags.clone().unwrap_or_default();
    for tag in [Some(TAG.to_owned()), tag].into_iter().flatten() {
        if tags.len() < MAX_TAGS && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let change = NewChange {
        title: flags.title.clone().unwrap_or_else(|| summary.title()),
        description: Some(description).filter(|text| !text.is_empty()),
        // The proposal knows more than the settings do.
        risk_level: flags.fields.risk.clone().or(Some(summary.risk())),
        status: fields.status.clone().or(Some(summary.status())),
        tags,
        ..NewChange::default()
    };
    let mut draft = Draft::new(&fields, change)?;
    flags.context.gather().apply(&mut draft.change);
    Ok(draft)
}

/// Makes of a planned change what came of it; what it has beyond that stays.
async fn update(app: &App, planned: Change, draft: Draft) -> Outcome<Updated> {
    let change = draft.change;
    let missing = if draft.create_missing {
        Missing::Create
    } else {
        Missing::Offer
    };
    let mut patch = ChangePatch {
        title: Some(change.title),
        description: change.description.map(Some),
        risk_level: change.risk_level,
        status: change.status,
        impact: change.impact.map(Some),
        scheduled_for: change.scheduled_for.map(Some),
        ..ChangePatch::default()
    };
    if let Some(name) = named(draft.service.as_deref()) {
        patch.service_id = Some(names::service(&app.client()?, name, missing).await?);
    }
    if let Some(name) = named(draft.host.as_deref()) {
        patch.host_id = Some(names::host(&app.client()?, name, missing).await?);
    }
    // The run is another than the one that planned: its own come first.
    let mut tags = change.tags;
    for tag in planned.tags {
        let key = tag.split_inclusive('=').next().unwrap_or(&tag);
        let known = if key.ends_with('=') {
            tags.iter().any(|known| known.starts_with(key))
        } else {
            tags.contains(&tag)
        };
        if tags.len() < MAX_TAGS && !known {
            tags.push(tag);
        }
    }
    let mut links = change.links;
    for link in planned.links {
        let known = links.iter().any(|known| known.label == link.label);
        if links.len() < MAX_LINKS && !known {
            links.push(link);
        }
    }
    patch.tags = Some(tags);
    patch.links = Some(links);
    submit::update(app, planned.id, patch).await
}

/// Lets an interruption pass by this process; Terraform, which gets it too,
/// ends in its own way.
fn see_it_through() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Listened to is not died of, also when nobody waits for it.
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            drop(signal(kind));
        }
    }
}

/// Waits for what comes after Terraform, or for whoever has waited enough.
async fn uninterrupted<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        outcome = work => outcome,
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::cancelled("cancelled; it may be that nothing was recorded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terraform::summary::Ending;

    #[test]
    fn lines_that_are_too_long_are_left_out_and_the_rest_is_read() {
        let mut input = b"plain\n".to_vec();
        input.extend(vec![b'x'; 3 * 1024 * 1024]);
        input.extend(b"\n{\"type\": \"version\", \"terraform\": \"1.11.4\", \"@message\": \"v\"}");
        let mut lines = Vec::new();
        let events = follow(&input[..], |line| lines.push(line.to_vec()));
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], b"plain\n");
        assert!(events.any());
        let summary = events.finish(Known::default());
        assert_eq!(summary.ending, Ending::Missing);
        assert_eq!(summary.version.as_deref(), Some("1.11.4"));
    }
}
