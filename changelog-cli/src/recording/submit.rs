//! Sending a change or an update; if the server is unavailable or does not
//! accept the key, the request is kept in the spool. What the server rejects
//! for its content is never sent again: the user has to correct it.

use changelog_client::ChangeQuery;
use changelog_core::{Change, ChangeCreated, ChangeId, NewChange, Status};
use clap::Args;

use super::draft::Draft;
use super::spool::delivery::Delivery;
use super::spool::entry::SpoolEntry;
use super::spool::folder;
use super::spool::owner::Owner;
use super::spool::queued::Queued;
use super::spool::recorded::Target;
use super::update::Update;
use crate::base::failure::{Cause, Exit, Failure, Outcome, warn};
use crate::base::text::one_line;
use crate::base::time;
use crate::environment::app::{App, within_spool_time};
use crate::environment::context;
use crate::environment::last_change;
use crate::input::web;

/// The flags for how a change is recorded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Behavior")]
pub(crate) struct SubmitArgs {
    /// Key of this request; requests with the same key and content are recorded once
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Check everything, print what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// If the server is unavailable, fail (exit code 7) and keep nothing for later
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The result of submitting a change.
pub(crate) enum Submitted {
    Created(ChangeCreated),
    Queued(Queued),
    /// Not sent, because of `--dry-run`.
    Checked(Box<NewChange>),
}

impl Submitted {
    /// Prints the result on standard output.
    pub(crate) fn print(self, app: &mut App) -> Outcome {
        let url = match &self {
            Self::Created(created) => web::url(app, created.id)?,
            _ => String::new(),
        };
        let output = &mut app.output;
        match self {
            Self::Created(created) => output.record(&created, |created| {
                let status = created.status.as_str().replace('_', " ");
                let title = one_line(&created.title);
                format!("{}  {}  {title}\n{url}", created.id, one_line(&status))
            }),
            Self::Queued(queued) => queued.print(output),
            Self::Checked(new) => output.json(&new),
        }
    }
}

/// Records a change, or keeps it in the spool unless `--strict` is given.
pub(crate) async fn create(
    app: &App,
    mut draft: Draft,
    options: &SubmitArgs,
) -> Outcome<Submitted> {
    if options.dry_run {
        if draft.has_names() {
            let missing = draft.missing().in_dry_run();
            draft.resolve(&app.client()?, missing).await?;
        }
        return Ok(Submitted::Checked(Box::new(draft.change)));
    }
    draft.key_is_given = options.idempotency_key.is_some();
    // Generated here and not by the client, so that it can be printed if the
    // response is lost.
    let key = options
        .idempotency_key
        .clone()
        .unwrap_or_else(changelog_client::new_idempotency_key);
    let owner = Owner::of(app)?;
    if options.strict {
        let created = Box::pin(draft.create(&app.client()?, &key, false)).await;
        return match created {
            Ok(created) => {
                owner.remember(created.organization_id);
                last_change::remember(app, &created.id);
                Ok(Submitted::Created(created))
            }
            Err(failure) if failure.is_transient() => Err(failure.with_exit(Exit::Unavailable)),
            Err(failure) => Err(failure),
        };
    }
    let client = app.quick_client()?;
    let creating = Box::pin(draft.clone().create(&client, &key, false));
    let failure = match within_spool_time(creating).await {
        Ok(created) => {
            owner.remember(created.organization_id);
            last_change::remember(app, &created.id);
            return Ok(Submitted::Created(created));
        }
        Err(failure) if failure.is_kept() => failure,
        Err(failure) => return Err(failure),
    };
    let entry = SpoolEntry::of_draft(app, key, draft)?;
    Ok(Submitted::Queued(keep(app, entry, failure)?))
}

/// Finds the newest planned change with a tag.
pub(crate) async fn find_planned(app: &App, tag: &str) -> Outcome<Option<Change>> {
    let client = app.quick_client()?;
    let query = ChangeQuery::new().status(Status::Planned).tag(tag);
    let list = client.changes().list().matching(query);
    let page = within_spool_time(async { Ok(list.per_page(1).send().await?) }).await?;
    Ok(page.data.into_iter().next())
}

/// The result of an update.
pub(crate) enum Updated {
    Done(Box<Change>),
    Queued(Queued),
}

/// Updates a change, or keeps the update in the spool. The id may be that of a queued
/// change.
pub(crate) async fn update(app: &App, id: ChangeId, update: Update) -> Outcome<Updated> {
    let mut target = Target::of(id);
    if let Target::Queued = target
        && let Some(delivery) = Delivery::if_needed(app)
    {
        Box::pin(delivery.send_briefly()).await;
        target = Target::of(id);
    }
    let (id, failure) = match target {
        Target::Change(id) => {
            let client = app.quick_client()?;
            let sending = Box::pin(update.clone().send(&client, id));
            match within_spool_time(sending).await {
                Ok(change) => {
                    last_change::remember(app, &change.id);
                    return Ok(Updated::Done(Box::new(change)));
                }
                Err(failure) if failure.is_kept() => (id, failure),
                Err(failure) => return Err(failure),
            }
        }
        Target::Queued => (
            id,
            Failure::unavailable("the change is not recorded yet".to_owned()),
        ),
    };
    let update = Update {
        made_at: Some(time::now()),
        ..update
    };
    let entry = SpoolEntry::of_update(app, id, update)?;
    Ok(Updated::Queued(keep(app, entry, failure)?))
}

/// Keeps an entry in the spool and prints so, or fails with the entry's content.
pub(crate) fn keep(app: &App, mut entry: SpoolEntry, failure: Failure) -> Outcome<Queued> {
    app.set_unavailable();
    entry.cause = failure.cause;
    failure.message().clone_into(&mut entry.reason);
    let path = match entry.save() {
        Ok(path) => path,
        // Printed, so that the change can be recovered from a log.
        Err(error) => {
            let failure = match failure.cause {
                Cause::Unauthorized => failure,
                _ => failure.with_exit(Exit::Unavailable),
            };
            return Err(failure
                .line(format!(
                    "the change could not be saved for later either: {error}"
                ))
                .line(format!("lost change: {}", entry.to_json())));
        }
    };
    let mut queued = Queued::new(&entry, folder::id_of(&path));
    last_change::remember(app, &queued.id);
    let path = path.display();
    if failure.cause == Cause::Unauthorized {
        let mut failure = failure.line(format!(
            "saved for later in {path}: the next chlog command with a valid key of the same organization sends it; see `chlog spool status`"
        ));
        if entry.organization.is_none() {
            failure = failure.line(format!(
                "the organization of this key (fingerprint {}) is not known here, because no \
                 change was ever sent with the key; `chlog spool flush --adopt ID` sends the \
                 change with another key",
                entry.key_fingerprint
            ));
        }
        queued.failure = Some(ci_advice().into_iter().fold(failure, Failure::line));
        return Ok(queued);
    }
    warn(&format!(
        "{}; saved for later in {path}: the next chlog command that reaches the server sends it (or run `chlog spool flush`)",
        entry.reason
    ));
    if let Some(advice) = ci_advice() {
        warn(&advice);
    }
    Ok(queued)
}

/// Returns the advice for CI runners, whose disk may not outlast the job; none
/// if the user chose the spool's directory.
fn ci_advice() -> Option<String> {
    (context::is_ci() && !folder::is_chosen()).then(|| {
        "the disk of this CI runner, and the change kept on it, may not outlast the job: set \
         CHLOG_SPOOL_DIR to a directory that lasts, or use --strict (chlog run: --require-log) \
         to fail instead"
            .to_owned()
    })
}

/// Keeps an entry that the server rejected among the rejected changes.
pub(crate) fn keep_rejected(mut entry: SpoolEntry, failure: Failure) -> Failure {
    entry.reason = failure.summary();
    match entry.save_rejected() {
        Ok(path) => failure
            .line(format!("the rejected change was saved to {}", path.display()))
            .hint("fix the cause and run `chlog spool retry`, or delete it with `chlog spool drop ID`"),
        Err(error) => failure
            .line(format!("the rejected change could not be saved: {error}"))
            .line(format!("lost change: {}", entry.to_json())),
    }
}
