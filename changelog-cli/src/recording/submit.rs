//! How a change gets on record: sent at once, or kept for later where the
//! service does not answer or does not accept the key. What the service rejects
//! for what it is, is never kept to be sent again: somebody has to correct it.

use std::time::Duration;

use changelog_client::{Client, Error};
use changelog_core::{
    Change, ChangeCreated, ChangeId, ChangePatch, Input, NewChange, ProblemCode, Status, Timestamp,
};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::base::failure::{Cause, Exit, Failure, Outcome, warn};
use crate::base::time;
use crate::environment::app::App;
use crate::environment::context;
use crate::input::flags::ChangeFields;
use crate::input::names::{self, Missing};
use crate::output::Output;
use crate::output::table::one_line;
use crate::recording::spool::owner::Owner;
use crate::recording::spool::{self, Entry};

/// How long a command waits for the service before it keeps what it has.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// A change that is to be recorded, with the names of what only the service
/// has ids for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Draft {
    #[serde(deserialize_with = "spool::input")]
    pub(crate) change: NewChange,
    /// The name or id of the service; it stands above the id in `change`.
    pub(crate) service: Option<String>,
    /// The name or id of the host.
    pub(crate) host: Option<String>,
    /// Whether to make a service or host that does not exist.
    pub(crate) create_missing: bool,
    /// When it happened if the change does not say: when it was first sent. It
    /// is the same however often and late it is sent, and so is what is sent.
    pub(crate) at: Timestamp,
    /// Whether the idempotency key is somebody's own, under which the same was
    /// sent at another time, and so without a time.
    pub(crate) key_is_given: bool,
}

/// How a change is recorded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Behaviour")]
pub(crate) struct RecordArgs {
    /// Two requests with the same key and content are one change
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Check everything and print what would be sent, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// When the service is unavailable, fail (exit code 7) and keep nothing for later
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What became of a change that was to be recorded.
pub(crate) enum Recorded {
    /// The service has it.
    Created(ChangeCreated),
    /// It waits in the spool; with what has to be done for it to be sent, if
    /// waiting is not enough.
    Kept(Option<Failure>),
    /// It would have been sent so.
    Checked(Box<NewChange>),
}

impl Recorded {
    /// Says it on standard output.
    pub(crate) fn show(self, output: &mut Output) -> Outcome {
        match self {
            Self::Created(created) => output.record(&created, |created| {
                format!("{}  {}", created.id, one_line(&created.title))
            }),
            Self::Kept(None) => Ok(()),
            Self::Kept(Some(failure)) => Err(failure),
            Self::Checked(new) => output.json(&new),
        }
    }
}

impl Draft {
    /// Checks a change and puts to it what the fields name. What the change says
    /// already stands above what the fields do.
    pub(crate) fn new(fields: &ChangeFields, change: NewChange) -> Outcome<Self> {
        let now = time::now();
        let change = NewChange {
            risk_level: change.risk_level.or(fields.risk.clone()),
            status: change.status.or(fields.status.clone()),
            impact: change.impact.or(fields.impact.clone()),
            scheduled_for: fields.scheduled_for.map(|at| at.start(now)),
            tags: or(change.tags, fields.tags.as_ref()),
            links: or(change.links, fields.links.as_ref()),
            ..change
        };
        Ok(Self {
            // All of it is checked before anything is made: a title that is too
            // short must not leave a service behind.
            change: change.checked(now)?,
            service: fields.service.clone(),
            host: fields.host.clone(),
            create_missing: fields.create_missing,
            at: now,
            key_is_given: false,
        })
    }

    /// Finds the ids of what is named, and makes what is missing if asked to.
    pub(crate) async fn resolve(&mut self, client: &Client, missing: Missing) -> Outcome {
        if let Some(name) = named(self.service.as_deref()) {
            self.change.service_id = names::service(client, name, missing).await?;
        }
        if let Some(name) = named(self.host.as_deref()) {
            self.change.host_id = names::host(client, name, missing).await?;
        }
        Ok(())
    }

    /// Records the change; `late` when it has waited.
    pub(crate) async fn create(
        mut self,
        client: &Client,
        key: &str,
        late: bool,
    ) -> Outcome<ChangeCreated> {
        let missing = if self.create_missing {
            Missing::Create
        } else {
            Missing::Offer
        };
        self.resolve(client, missing).await?;
        let send = async |occurred_at: Option<Timestamp>| {
            let change = NewChange {
                occurred_at,
                ..self.change.clone()
            };
            let create = client.changes().create_from(change);
            create.idempotency_key(key).send().await
        };
        let given = self.change.occurred_at;
        let at = match given {
            Some(at) => Some(at),
            None if self.key_is_given && !late => None,
            None => Some(self.at),
        };
        let created = match send(at).await {
            // This machine's clock is wrong; the service's is not.
            Err(error) if given.is_none() && is_about_the_time(&error) => {
                warn("the clock of this machine is ahead of the service's, whose time is recorded");
                send(None).await
            }
            // It was recorded at its time, and only the answer was lost.
            Err(error) if given.is_none() && late && is_about_the_key(&error) => send(None).await,
            other => other,
        };
        created.map_err(|error| unrecorded(error, key))
    }
}

/// Returns what a change has, or what was given for it.
fn or<T: Clone>(has: Vec<T>, given: Option<&Vec<T>>) -> Vec<T> {
    if has.is_empty() {
        given.cloned().unwrap_or_default()
    } else {
        has
    }
}

/// Records a change. Where the service does not answer, it is kept, unless
/// that is not wanted.
pub(crate) async fn record(app: &App, mut draft: Draft, options: &RecordArgs) -> Outcome<Recorded> {
    if options.dry_run {
        if named(draft.service.as_deref()).is_some() || named(draft.host.as_deref()).is_some() {
            let missing = if draft.create_missing {
                Missing::Announce
            } else {
                Missing::Offer
            };
            draft.resolve(&app.client()?, missing).await?;
        }
        return Ok(Recorded::Checked(Box::new(draft.change)));
    }
    draft.key_is_given = options.idempotency_key.is_some();
    // Made here and not by the client, so that it can be named if the answer
    // is lost.
    let key = options
        .idempotency_key
        .clone()
        .unwrap_or_else(changelog_client::new_idempotency_key);
    let owner = Owner::of(app)?;
    if options.strict {
        let created = Box::pin(draft.create(&app.client()?, &key, false)).await;
        return match created {
            Ok(created) => {
                owner.learn(created.organization_id);
                Ok(Recorded::Created(created))
            }
            Err(failure) if failure.is_transient() => Err(failure.with_exit(Exit::Unavailable)),
            Err(failure) => Err(failure),
        };
    }
    let client = app.hurried_client()?;
    let failure = match hurried(Box::pin(draft.clone().create(&client, &key, false))).await {
        Ok(created) => {
            owner.learn(created.organization_id);
            return Ok(Recorded::Created(created));
        }
        Err(failure) if failure.is_kept() => failure,
        Err(failure) => return Err(failure),
    };
    let entry = Entry::of_draft(app, key, draft)?;
    Ok(Recorded::Kept(keep(app, entry, failure)?))
}

/// Finds the newest planned change that has this tag.
pub(crate) async fn find_planned(app: &App, tag: &str) -> Outcome<Option<Change>> {
    let client = app.hurried_client()?;
    let list = client.changes().list().status(Status::Planned).tag(tag);
    let page = hurried(async { Ok(list.per_page(1).send().await?) }).await?;
    Ok(page.data.into_iter().next())
}

/// What became of an update.
pub(crate) enum Updated {
    Done(Box<Change>),
    /// It waits in the spool, as a change does.
    Kept(Option<Failure>),
}

/// Updates a change, or keeps the update for later.
pub(crate) async fn update(app: &App, id: ChangeId, patch: ChangePatch) -> Outcome<Updated> {
    let client = app.hurried_client()?;
    let update = client.changes().update_with(id, patch.clone()).send();
    let failure = match hurried(async { Ok(update.await?) }).await {
        Ok(change) => return Ok(Updated::Done(Box::new(change))),
        Err(failure) if failure.is_kept() => failure,
        Err(failure) => return Err(failure),
    };
    let entry = Entry::of_patch(app, id, patch)?;
    Ok(Updated::Kept(keep(app, entry, failure)?))
}

/// Keeps what could not be sent, and says so; or says that it is lost. Returns
/// the failure where it takes more than time for the change to be sent: a valid
/// key.
pub(crate) fn keep(app: &App, mut entry: Entry, failure: Failure) -> Outcome<Option<Failure>> {
    app.found_nobody();
    entry.cause = failure.cause;
    failure.message().clone_into(&mut entry.reason);
    let path = match spool::keep(&entry) {
        Ok(path) => path,
        // Whoever keeps this output has the change.
        Err(error) => {
            let failure = match failure.cause {
                Cause::Unauthorized => failure,
                _ => failure.with_exit(Exit::Unavailable),
            };
            return Err(failure
                .line(format!("nor can it be kept for later: {error}"))
                .line(format!("what is lost: {}", entry.to_json())));
        }
    };
    let path = path.display();
    if failure.cause == Cause::Unauthorized {
        let mut failure = failure.line(format!(
            "the change is kept in {path} and sent by the next chlog command with a valid key of \
             the same organization; `chlog spool status` shows it"
        ));
        if entry.organization.is_none() {
            failure = failure.line(format!(
                "no change was ever sent with this key (fingerprint {}), so its organization is \
                 not known here: `chlog spool flush --adopt ID` sends the change with another key",
                entry.key_fingerprint
            ));
        }
        return Ok(Some(in_ci().into_iter().fold(failure, Failure::line)));
    }
    warn(&format!(
        "{}; the change is kept in {path} and sent by the next chlog command that reaches the \
         service, or by `chlog spool flush`",
        entry.reason
    ));
    if let Some(advice) = in_ci() {
        warn(&advice);
    }
    Ok(None)
}

/// Says that a CI run may take its disk with it; nothing where the user has
/// chosen a directory.
fn in_ci() -> Option<String> {
    (context::is_ci() && !spool::is_chosen()).then(|| {
        "the disk of this CI runner may not outlast the job, and the kept change with it: set \
         CHLOG_SPOOL_DIR to a directory that lasts, or use --strict to fail instead"
            .to_owned()
    })
}

/// Puts aside what the service refused, and says so.
pub(crate) fn set_aside(mut entry: Entry, failure: Failure) -> Failure {
    entry.reason = failure.summary();
    match spool::refuse(&entry) {
        Ok(path) => failure
            .line(format!(
                "what it did not take is kept in {}",
                path.display()
            ))
            .hint("`chlog spool status` shows it; record it again by hand, and drop it there"),
        Err(error) => failure
            .line(format!("nor can it be kept: {error}"))
            .line(format!("what is lost: {}", entry.to_json())),
    }
}

/// Waits for the service, and not for long.
pub(crate) async fn hurried<T>(sending: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    timeout(PATIENCE, sending).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(Failure::silence(format!(
            "no answer from the service within {seconds} s"
        )))
    })
}

/// Returns a name that is not the empty one, by which somebody says "none".
pub(crate) fn named(name: Option<&str>) -> Option<&str> {
    name.map(str::trim).filter(|name| !name.is_empty())
}

/// Tells whether the service refuses nothing but the time.
fn is_about_the_time(error: &Error) -> bool {
    let violations = error.violations();
    !violations.is_empty() && violations.iter().all(|one| one.pointer == "/occurred_at")
}

/// Tells whether the service knows the key from a request that was not quite
/// the same.
fn is_about_the_key(error: &Error) -> bool {
    let code = error.problem().map(|problem| &problem.code);
    code == Some(&ProblemCode::IdempotencyKeyReused)
}

/// Says whether the change may have been recorded all the same.
fn unrecorded(error: Error, key: &str) -> Failure {
    let unconfirmed = error.is_unconfirmed();
    let failure = Failure::from(error);
    match (failure.exit, unconfirmed) {
        (Exit::Unavailable | Exit::Other, true) => failure
            .line("it is not known whether the change was recorded")
            .hint(format!(
                "repeat the command with --idempotency-key {key}, and it is recorded once"
            )),
        (Exit::Unavailable, false) => failure.line("nothing was recorded"),
        _ => failure,
    }
}
