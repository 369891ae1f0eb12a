//! The change of a run or a plan.

use std::fs;
use std::path::{Path, PathBuf};

use changelog_core::change::fields::{FIELDS, FieldKind, Optional, ShortText};
use changelog_core::limits::{MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_TAGS};
use changelog_core::{Change, ChangePatch, NewChange};
use chrono::TimeDelta;

use super::flags::Flags;
use super::{providers, secrets};
use crate::base::failure::{Exit, Outcome, note};
use crate::base::text::{one_line, shorten, without_controls};
use crate::environment::app::App;
use crate::input::flags::ChangeFields;
use crate::recording::draft::{Draft, Progress};
use crate::recording::spool::entry::SpoolEntry;
use crate::recording::spool::queued::Queued;
use crate::recording::submit::{self, Submitted, Updated};
use crate::recording::update::Update;
use crate::terraform::summary::Summary;

/// The tag of every change that is recorded here.
const TAG: &str = "terraform";

/// Adds the directory and the providers, and hides the secrets of the environment
/// and of the arguments in errors.
pub(super) fn add_context(summary: &mut Summary, chdir: Option<&Path>, of_arguments: &[String]) {
    let here = std::env::current_dir().unwrap_or_default();
    let directory = chdir.map_or_else(|| here.clone(), |chdir| here.join(chdir));
    summary.directory = directory
        .ancestors()
        .find(|at| at.join(".git").exists())
        .and_then(|root| directory.strip_prefix(root).ok())
        .map(|path| path.display().to_string())
        .filter(|path| !path.is_empty());
    summary.providers = providers::of_directory(&directory);
    summary.workspace = workspace(&directory);
    let mut all = secrets::of_environment(std::env::vars_os());
    all.extend_from_slice(of_arguments);
    summary.hide(all);
}

/// Returns where Terraform keeps its settings of a project.
pub(super) fn terraform_directory(directory: &Path) -> PathBuf {
    let named = std::env::var_os("TF_DATA_DIR").filter(|name| !name.is_empty());
    directory.join(named.unwrap_or_else(|| ".terraform".into()))
}

/// Returns the selected workspace; none for the default one.
fn workspace(directory: &Path) -> Option<String> {
    let named = std::env::var("TF_WORKSPACE").ok();
    let named = named.filter(|name| !name.trim().is_empty());
    let selected = || fs::read_to_string(terraform_directory(directory).join("environment")).ok();
    let name = without_controls(&named.or_else(selected)?)?;
    (name != "default").then_some(name)
}

/// The result of recording a summary.
pub(super) enum Recorded {
    /// Nothing was changed, and nothing is recorded.
    Nothing,
    New(Submitted),
    /// The change of the plan was updated.
    Updated(Box<Change>),
    /// The update is kept in the spool.
    Queued(Queued),
}

impl Recorded {
    /// Prints the result on standard output.
    pub(super) fn print(self, app: &mut App) -> Outcome {
        match self {
            Self::Nothing => {
                note("no changes, so nothing was recorded (use --always to record anyway)");
                Ok(())
            }
            Self::Queued(queued) => queued.print(&mut app.output),
            Self::New(recorded) => recorded.print(app),
            Self::Updated(change) => app.output.record(&*change, |change| {
                format!("{}  {}", change.id, one_line(&change.title))
            }),
        }
    }
}

/// Records a summary: updates the change of the plan with this fingerprint, or
/// creates a change.
pub(super) async fn record(
    app: &App,
    summary: &Summary,
    flags: &Flags,
    fingerprint: Option<&str>,
) -> Outcome<Recorded> {
    let tag = fingerprint.map(|fingerprint| format!("plan={fingerprint}"));
    let planned = match &tag {
        // A failure is ignored here: recording fails in the same way, or keeps
        // the change.
        Some(tag) if !flags.submit.dry_run => {
            submit::find_planned(app, tag).await.unwrap_or_default()
        }
        _ => None,
    };
    if planned.is_none() && summary.is_no_op() && !flags.always {
        return Ok(Recorded::Nothing);
    }
    // A run is recorded even if a flag is invalid.
    let draft = match new_draft(app, summary, flags, tag.clone()) {
        Err(failure) if failure.exit == Exit::Invalid && !flags.submit.dry_run => {
            new_draft(app, summary, &flags.fitted(&app.config.defaults), tag)?
        }
        draft => draft?,
    };
    match planned {
        Some(planned) => Ok(match Box::pin(update(app, planned, draft)).await? {
            Updated::Done(change) => Recorded::Updated(change),
            Updated::Queued(queued) => Recorded::Queued(queued),
        }),
        None => match submit::create(app, draft.clone(), &flags.submit).await {
            Ok(recorded) => Ok(Recorded::New(recorded)),
            // Terraform is not run again because a name was mistyped.
            Err(failure) if failure.is_final() && !flags.submit.dry_run => {
                let key = changelog_client::new_idempotency_key();
                let entry = SpoolEntry::of_draft(app, key, draft)?;
                Err(submit::keep_rejected(entry, failure))
            }
            // Printed, so that the change can be recovered from a log.
            Err(failure) if !flags.submit.dry_run => {
                let json = serde_json::to_string(&draft.change).unwrap_or_default();
                Err(failure.line(format!("not recorded: {json}")))
            }
            Err(failure) => Err(failure),
        },
    }
}

/// Returns the change for a summary; flags take precedence.
pub(super) fn new_draft(
    app: &App,
    summary: &Summary,
    flags: &Flags,
    tag: Option<String>,
) -> Outcome<Draft> {
    let mut fields = flags.fields.clone().or_defaults(&app.config.defaults);
    let facts = summary.description();
    let description = match &fields.description {
        Some(given) => {
            let room = MAX_LONG_TEXT_CHARS.saturating_sub(facts.chars().count() + 2);
            format!("{}\n\n{facts}", shorten(given.trim_end(), room))
        }
        None => facts,
    };
    let mut tags = fields.tags.take().unwrap_or_default();
    for tag in [Some(TAG.to_owned()), tag].into_iter().flatten() {
        if tags.len() < MAX_TAGS && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let (status, outcome) = summary.result();
    let fields = ChangeFields {
        description: Some(description).filter(|text| !text.is_empty()),
        // The risk level of the summary takes precedence over the settings.
        risk: flags.fields.risk.clone().or(Some(summary.risk())),
        status: Some(flags.fields.status.clone().unwrap_or(status.clone())),
        tags: Some(tags),
        ..fields
    };
    let title = flags.title.clone().unwrap_or_else(|| summary.title());
    // A status that the user gives says something else about the end.
    let is_observed = fields.status.as_ref() == Some(&status);
    let progress = Progress {
        outcome: outcome.filter(|_| is_observed),
        ..Progress::default()
    };
    let mut draft = Draft::new(title, fields, progress)?;
    if is_observed && status.is_ended() {
        let lasted = TimeDelta::from_std(summary.duration.unwrap_or_default());
        draft.ended_at = Some(draft.at);
        draft.at = draft.at.plus(-lasted.unwrap_or_default());
    }
    flags.context.gather().apply(&mut draft.change);
    Ok(draft)
}

/// Updates the change of a plan; keeps its other tags and links.
async fn update(app: &App, planned: Change, draft: Draft) -> Outcome<Updated> {
    let change = draft.change.clone();
    let ended_at = draft.ended_at;
    let mut patch = ChangePatch {
        title: Some(change.title.clone()),
        risk_level: change.risk_level.clone(),
        status: change.status.clone(),
        started_at: ended_at.map(|_| Some(draft.at)),
        ended_at: ended_at.map(Some),
        ..ChangePatch::default()
    };
    // What the run does not have stays as it was planned.
    for field in FIELDS {
        match field.kind {
            FieldKind::LongText(text) | FieldKind::ShortText(ShortText { field: text, .. }) => {
                supplement(text, &change, &mut patch);
            }
            FieldKind::Outcome(outcome) => supplement(outcome, &change, &mut patch),
            FieldKind::Environment(environment) => {
                supplement(environment, &change, &mut patch);
            }
            FieldKind::Agent(agent) => supplement(agent, &change, &mut patch),
            FieldKind::Time(time) => supplement(time, &change, &mut patch),
            _ => {}
        }
    }
    // This run's tags and links take precedence over the plan's.
    let mut tags = change.tags;
    for tag in planned.tags {
        let key = tag.split_inclusive('=').next().unwrap_or(&tag);
        let exists = if key.ends_with('=') {
            tags.iter().any(|tag| tag.starts_with(key))
        } else {
            tags.contains(&tag)
        };
        if tags.len() < MAX_TAGS && !exists {
            tags.push(tag);
        }
    }
    let mut links = change.links;
    for link in planned.links {
        let exists = links.iter().any(|known| known.label == link.label);
        if links.len() < MAX_LINKS && !exists {
            links.push(link);
        }
    }
    patch.tags = Some(tags);
    patch.links = Some(links);
    let update = Update {
        patch,
        services: draft.services,
        host: draft.host,
        create_missing: draft.create_missing,
        ..Update::default()
    };
    submit::update(app, planned.id, update).await
}

/// Sets a field of an update to the value that a new change has, if it has one.
fn supplement<T: Clone>(field: Optional<T>, change: &NewChange, patch: &mut ChangePatch) {
    if let Some(value) = (field.of_new)(change) {
        *(field.of_patch_mut)(patch) = Some(Some(value.clone()));
    }
}
