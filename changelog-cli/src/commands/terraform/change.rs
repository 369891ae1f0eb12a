//! The change of a run or a plan.

use std::path::Path;

use changelog_core::change::fields::long_texts;
use changelog_core::limits::{MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_TAGS};
use changelog_core::{Change, ChangePatch, Host, Service};

use super::flags::Flags;
use super::{providers, secrets};
use crate::base::failure::{Exit, Failure, Outcome, note, warn};
use crate::base::text::{one_line, shorten};
use crate::environment::app::App;
use crate::input::flags::ChangeFields;
use crate::input::names::{self, non_empty};
use crate::recording::draft::Draft;
use crate::recording::spool::entry::SpoolEntry;
use crate::recording::submit::{self, Submitted, Updated};
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
    let mut all = secrets::of_environment(std::env::vars_os());
    all.extend_from_slice(of_arguments);
    summary.hide(&all);
}

/// The result of recording a summary.
pub(super) enum Recorded {
    /// Nothing was changed, and nothing is recorded.
    Nothing,
    New(Submitted),
    /// The change of the plan was updated.
    Updated(Box<Change>),
    /// The update is kept in the spool; see [`Submitted::Kept`].
    Kept(Option<Failure>),
}

impl Recorded {
    /// Prints the result on standard output.
    pub(super) fn print(self, app: &mut App) -> Outcome {
        match self {
            Self::Nothing => {
                note("nothing was changed, and nothing is recorded; --always records it");
                Ok(())
            }
            Self::Kept(None) => Ok(()),
            Self::Kept(Some(failure)) => Err(failure),
            Self::New(recorded) => recorded.print(&mut app.output),
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
            warn(&format!(
                "{}; the invalid values are ignored, and the change is recorded",
                failure.summary()
            ));
            new_draft(app, summary, &flags.without_invalid(), tag)?
        }
        draft => draft?,
    };
    match planned {
        Some(planned) => Ok(match Box::pin(update(app, planned, draft)).await? {
            Updated::Done(change) => Recorded::Updated(change),
            Updated::Kept(failure) => Recorded::Kept(failure),
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
    let fields = ChangeFields {
        description: Some(description).filter(|text| !text.is_empty()),
        // The risk level of the summary takes precedence over the settings.
        risk: flags.fields.risk.clone().or(Some(summary.risk())),
        status: fields.status.or(Some(summary.status())),
        tags: Some(tags),
        ..fields
    };
    let title = flags.title.clone().unwrap_or_else(|| summary.title());
    let mut draft = Draft::new(title, fields, None)?;
    flags.context.gather().apply(&mut draft.change);
    Ok(draft)
}

/// Updates the change of a plan; keeps its other tags and links.
async fn update(app: &App, planned: Change, draft: Draft) -> Outcome<Updated> {
    let change = draft.change.clone();
    let missing = draft.missing();
    let mut patch = ChangePatch {
        title: Some(change.title.clone()),
        risk_level: change.risk_level.clone(),
        status: change.status.clone(),
        scheduled_for: change.scheduled_for.map(Some),
        ..ChangePatch::default()
    };
    for (_, text) in long_texts() {
        *(text.of_patch_mut)(&mut patch) = (text.of_new)(&change).clone().map(Some);
    }
    if let Some(name) = non_empty(draft.service.as_deref()) {
        patch.service_id = Some(names::resolve::<Service>(&app.client()?, name, missing).await?);
    }
    if let Some(name) = non_empty(draft.host.as_deref()) {
        patch.host_id = Some(names::resolve::<Host>(&app.client()?, name, missing).await?);
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
    submit::update(app, planned.id, patch).await
}
