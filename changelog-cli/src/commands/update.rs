//! `chlog update`, and its short forms `start`, `done` and `rollback`.

use std::path::Path;

use changelog_core::change::fields::{FIELDS, Field, FieldKind, ShortText};
use changelog_core::{
    Change, ChangeId, ChangePatch, Input, Link, Outcome as ChangeOutcome, Status,
};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::base::failure::{Failure, Outcome};
use crate::base::text::one_line;
use crate::base::time::{self, TimeArg};
use crate::environment::app::App;
use crate::input::change_ref::ChangeRef;
use crate::input::complete;
use crate::input::flags::{ChangeFields, ProgressFlags, title_help};
use crate::input::message::file;
use crate::input::names::{all_non_empty, non_empty};
use crate::input::web::{self, WebArgs};
use crate::recording::find_change;
use crate::recording::submit::{self, Updated};
use crate::recording::update::{ListEdit, Update};

/// The statuses of the changes that are offered to choose from.
const OPEN: [Status; 2] = [Status::InProgress, Status::Planned];

/// Edits a change.
#[derive(Debug, Args)]
#[command(next_help_heading = "The change")]
#[command(after_help = "\
--service replaces all services. --tag and --link add to the tags and links of the change; a link \
replaces the one with the same label. chlog reads the change and writes it back: an update of the tags or links by another client \
within these milliseconds is overwritten.

Examples:
  chlog update ID --tag verified --remove-tag draft
  chlog update ID --set-tags release,eu
  chlog update ID --link ticket=https://tickets.example.com/7")]
pub(crate) struct UpdateArgs {
    /// Change: its ID, the beginning of it, or @last; without it, on a terminal, a choice
    #[arg(value_name = "ID", add = complete::changes(), help_heading = None::<&'static str>)]
    change: Option<ChangeRef>,
    #[arg(long, value_name = "TITLE", help = title_help(""))]
    title: Option<String>,
    #[command(flatten)]
    fields: ChangeFields,
    #[command(flatten)]
    progress: ProgressFlags,
    /// Why the change was rolled back, for its history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Remove a tag; repeatable, or comma-separated
    #[arg(long = "remove-tag", value_name = "TAG", value_delimiter = ',')]
    remove_tags: Vec<String>,
    /// Replace all tags
    #[arg(
        long,
        value_name = "TAG",
        value_delimiter = ',',
        conflicts_with_all = ["tags", "remove_tags"]
    )]
    set_tags: Option<Vec<String>>,
    /// Remove the link with this label; repeatable
    #[arg(long = "remove-link", value_name = "LABEL")]
    remove_links: Vec<String>,
    /// Replace all links; repeatable
    #[arg(long, value_name = "LABEL=URL", conflicts_with_all = ["links", "remove_links"])]
    set_links: Option<Vec<Link>>,
    /// Clear a field; repeatable, or comma-separated
    #[arg(
        long,
        value_name = "FIELD",
        value_parser = clearable(),
        value_delimiter = ',',
        help_heading = "Behavior"
    )]
    clear: Vec<Field>,
    #[command(flatten)]
    web: WebArgs,
    /// A flag of `log` only; explained when it is given.
    #[arg(long, hide = true)]
    occurred_at: Option<String>,
}

/// Sets the status of a change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  chlog start                      # choose one of the planned changes
  chlog done @last -m \"All green\"
  chlog done 01a1fc2f-a7 --web")]
pub(crate) struct StatusArgs {
    /// Change: its ID, the beginning of it, or @last; without it, on a terminal, a choice
    #[arg(value_name = "ID", add = complete::open_changes())]
    change: Option<ChangeRef>,
    /// Text to append to the description
    #[arg(short = 'm', long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    web: WebArgs,
}

/// Records that a change was rolled back, or failed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  chlog rollback @last --reason \"Errors rose to 5 %\"
  chlog rollback 01a1fc2f-a7 --failed")]
pub(crate) struct RollbackArgs {
    /// Change: its ID, the beginning of it, or @last; without it, on a terminal, a choice
    #[arg(value_name = "ID", add = complete::changes())]
    change: Option<ChangeRef>,
    /// Why, for the history of the change
    #[arg(short = 'm', long, value_name = "TEXT")]
    reason: Option<String>,
    /// The change failed; nobody rolled it back
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    web: WebArgs,
}

/// Appends a note to the description of a change.
#[derive(Debug, Args)]
#[command(after_help = "\
chlog reads the description and writes it back: an update of the description by another client \
within these milliseconds is overwritten.

Examples:
  chlog note @last \"Latency is back to normal\"
  journalctl -u api -n 20 | chlog note 01a1fc2f-a7 -")]
pub(crate) struct NoteArgs {
    /// Change: its ID, the beginning of it, or @last
    #[arg(value_name = "ID", add = complete::changes())]
    change: ChangeRef,
    /// Text to append, Markdown; - reads it from standard input
    text: String,
    #[command(flatten)]
    web: WebArgs,
}

/// Edits the change and prints it.
pub(crate) async fn run(app: &mut App, mut args: UpdateArgs) -> Outcome {
    if args.occurred_at.is_some() {
        return Err(Failure::usage(
            "--occurred-at: cannot be changed: the ID of a change depends on it",
        )
        .hint("--started-at corrects when the change was started, which is its place in lists"));
    }
    if args.fields.description.as_deref() == Some("-") {
        args.fields.description = Some(file::text_of(Path::new("-")).await?);
    }
    let mut update = update(&args)?;
    update.create_missing |= app.config.defaults.create_missing.unwrap_or_default();
    if update.is_empty() {
        return Err(Failure::usage("nothing to update").hint(
            "give a field to set or clear, such as --status completed or --clear description",
        ));
    }
    // Added values are checked before the first request.
    let update = update.checked()?;
    let id = find_change::find(app, args.change.as_ref(), &OPEN).await?;
    let updated = submit::update(app, id, update).await?;
    print(app, updated, args.web)
}

impl UpdateArgs {
    fn edits_tags(&self) -> bool {
        self.fields.tags.is_some() || !self.remove_tags.is_empty()
    }

    fn edits_links(&self) -> bool {
        self.fields.links.is_some() || !self.remove_links.is_empty()
    }
}

/// Appends the note and prints the change.
pub(crate) async fn add_note(app: &mut App, args: NoteArgs) -> Outcome {
    let note = match args.text.as_str() {
        "-" => file::text_of(Path::new("-")).await?,
        _ => args.text,
    };
    let update = Update {
        note: Some(note.trim().to_owned()).filter(|note| !note.is_empty()),
        ..Update::default()
    };
    if update.is_empty() {
        return Err(Failure::usage("the note is empty"));
    }
    let update = update.checked()?;
    let id = find_change::find(app, Some(&args.change), &[]).await?;
    send(app, id, update, args.web).await
}

/// Sets the status and prints the change.
pub(crate) async fn set_status(app: &mut App, args: &StatusArgs, status: Status) -> Outcome {
    let offered: &[Status] = match status {
        Status::InProgress => &[Status::Planned],
        _ => &OPEN,
    };
    let patch = ChangePatch {
        status: Some(status),
        ..ChangePatch::default()
    };
    let update = Update {
        note: args.note.clone(),
        ..patch.into()
    };
    let update = update.checked()?;
    let id = find_change::find(app, args.change.as_ref(), offered).await?;
    send(app, id, update, args.web).await
}

/// Records that the change was rolled back or failed, and prints it.
pub(crate) async fn roll_back(app: &mut App, args: RollbackArgs) -> Outcome {
    let patch = ChangePatch {
        status: Some(Status::RolledBack),
        // Explicit, so that a change that failed reads "rolled back" afterwards.
        outcome: Some(Some(if args.failed {
            ChangeOutcome::Failed
        } else {
            ChangeOutcome::Undone
        })),
        reason: args.reason,
        ..ChangePatch::default()
    };
    let patch = patch.checked(time::now())?;
    let offered = [Status::InProgress, Status::Completed];
    let id = find_change::find(app, args.change.as_ref(), &offered).await?;
    send(app, id, patch.into(), args.web).await
}

async fn send(app: &mut App, id: ChangeId, update: Update, web: WebArgs) -> Outcome {
    let updated = submit::update(app, id, update).await?;
    print(app, updated, web)
}

/// Prints an updated change.
fn print(app: &mut App, updated: Updated, web: WebArgs) -> Outcome {
    match updated {
        Updated::Done(change) => {
            let url = web::url(app, change.id)?;
            app.output
                .record(&*change, |change| format!("{}\n{url}", line(change)))?;
            web.open(app, change.id)
        }
        Updated::Queued(queued) => queued.print(&mut app.output),
    }
}

fn line(change: &Change) -> String {
    let status = one_line(change.status_label());
    format!("{}  {status}  {}", change.id, one_line(&change.title))
}

/// Returns the name of a field for `--clear`: that of its flag.
fn clear_name(field: &Field) -> String {
    match field.kind {
        FieldKind::Service => "service".to_owned(),
        FieldKind::Host => "host".to_owned(),
        _ => field.name.replace('_', "-"),
    }
}

/// Accepts the fields that can be cleared, also by their names in the API.
fn clearable() -> impl TypedValueParser<Value = Field> {
    // Clearing the service removes all services.
    let is_offered =
        |field: &&Field| field.is_clearable() && !matches!(field.kind, FieldKind::Services);
    let fields = move || FIELDS.iter().filter(is_offered);
    let names = fields().map(|field| {
        // clap takes static strings only.
        let name: &'static str = clear_name(field).leak();
        PossibleValue::new(name).alias(field.name)
    });
    PossibleValuesParser::new(names).try_map(move |name| {
        let mut fields = fields();
        let found = fields.find(|field| name == clear_name(field) || name == field.name);
        found.copied().ok_or("is not a field that can be cleared")
    })
}

/// Returns the update.
fn update(args: &UpdateArgs) -> Outcome<Update> {
    Ok(Update {
        patch: patch(args)?,
        services: args.fields.services.clone(),
        host: args.fields.host.clone(),
        create_missing: args.fields.create_missing,
        tags: ListEdit {
            added: args.fields.tags.clone().unwrap_or_default(),
            removed: args.remove_tags.clone(),
        },
        links: ListEdit {
            added: args.fields.links.clone().unwrap_or_default(),
            removed: args.remove_links.clone(),
        },
        note: None,
        passage: None,
        made_at: None,
        has_given_times: args.progress.started_at.is_some() || args.progress.ended_at.is_some(),
    })
}

/// Returns the fields to set and clear, without the ids of names.
fn patch(args: &UpdateArgs) -> Outcome<ChangePatch> {
    let fields = &args.fields;
    let now = time::now();
    let has_services = !all_non_empty(fields.services.as_deref()).is_empty();
    let has_host = non_empty(fields.host.as_deref()).is_some();
    let at = |time: Option<TimeArg>| time.map(|time| Some(time.start(now)));
    let mut patch = ChangePatch {
        title: args.title.clone(),
        description: fields.description.clone().map(Some),
        // An empty name means none, as for `log`.
        service_id: (fields.services.is_some() && !has_services).then_some(None),
        host_id: (fields.host.is_some() && !has_host).then_some(None),
        environment: fields.environment.clone().map(Some),
        agent: fields.agent.clone().map(Some),
        outcome: args.progress.outcome.clone().map(Some),
        reason: args.reason.clone(),
        started_at: at(args.progress.started_at),
        ended_at: at(args.progress.ended_at),
        risk_level: fields.risk.clone(),
        status: fields.status.clone(),
        tags: args.set_tags.clone(),
        links: args.set_links.clone(),
        scheduled_for: at(fields.scheduled_for),
        ..ChangePatch::default()
    };
    fields.texts.apply(&mut patch);
    for field in &args.clear {
        let given = match field.kind {
            FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. }) => {
                let text = (text.of_patch_mut)(&mut patch);
                text.replace(None).flatten().is_some()
            }
            FieldKind::Service => {
                patch.service_id = Some(None);
                has_services
            }
            FieldKind::Host => {
                patch.host_id = Some(None);
                has_host
            }
            FieldKind::Tags => patch.tags.replace(Vec::new()).is_some() || args.edits_tags(),
            FieldKind::Links => patch.links.replace(Vec::new()).is_some() || args.edits_links(),
            FieldKind::Time(time) => {
                let time = (time.of_patch_mut)(&mut patch);
                time.replace(None).flatten().is_some()
            }
            FieldKind::Outcome(_) => patch.outcome.replace(None).flatten().is_some(),
            FieldKind::Environment(_) => patch.environment.replace(None).flatten().is_some(),
            FieldKind::Agent(_) => patch.agent.replace(None).flatten().is_some(),
            // `clearable` does not accept these.
            FieldKind::Title
            | FieldKind::RiskLevel
            | FieldKind::Status
            | FieldKind::Services
            | FieldKind::OccurredAt => false,
        };
        if given {
            let name = clear_name(field);
            return Err(Failure::usage(format!(
                "{name}: cannot be set and cleared at the same time"
            )));
        }
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: UpdateArgs,
    }

    fn patched(line: &str) -> Outcome<serde_json::Value> {
        let line = format!("update 018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90 {line}");
        let Line { args } = Line::try_parse_from(line.split_whitespace()).unwrap();
        patch(&args).map(|patch| serde_json::to_value(patch).unwrap())
    }

    #[test]
    fn a_cleared_field_is_sent_as_null_or_as_an_empty_list() {
        let patch = patched("--status completed --clear description,tags --clear scheduled-for");
        assert_eq!(
            patch.unwrap(),
            serde_json::json!({
                "status": "completed", "description": null, "tags": [], "scheduled_for": null,
            })
        );
        assert_eq!(
            patched("--service= --clear host").unwrap(),
            serde_json::json!({"service_id": null, "host_id": null})
        );
        assert_eq!(
            patched("--description=").unwrap(),
            serde_json::json!({"description": ""})
        );
        assert_eq!(
            patched("--clear started-at,ended_at,outcome,environment,agent,on-behalf-of,commit")
                .unwrap(),
            serde_json::json!({
                "started_at": null, "ended_at": null, "outcome": null, "environment": null,
                "agent": null, "on_behalf_of": null, "commit": null,
            })
        );
    }

    #[test]
    fn a_field_is_not_set_and_cleared_at_once() {
        for line in [
            "-m x --clear description",
            "--tag a --clear tags",
            "--set-tags a --clear tags",
            "--remove-link a --clear links",
            "--host h --clear host",
            "--service a,b --clear service",
            "--outcome failed --clear outcome",
        ] {
            assert!(patched(line).is_err(), "{line}");
        }
    }
}
