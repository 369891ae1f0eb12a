//! Sending the waiting changes: oldest first, by one process at a time.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use changelog_client::{ChangeQuery, Client};
use changelog_core::limits::IDEMPOTENCY_TTL;
use changelog_core::{ChangeId, OrganizationId};
use chrono::TimeDelta;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::claim::Claim;
use super::entry::{SpoolEntry, SpoolFile, Unreadable};
use super::folder::{self, unusable};
use super::journal;
use super::owner::Owner;
use super::recorded;
use super::reminder::remind;
use crate::base::failure::{Cause, Exit, Failure, Outcome, note, warn};
use crate::base::private_fs;
use crate::base::text::plural;
use crate::base::time;
use crate::environment::app::App;
use crate::environment::credentials::is_same_url;
use crate::recording::draft::Draft;

/// How long another command may run on to send waiting changes.
const EXTRA_TIME: Duration = Duration::from_secs(2);
/// How long before the end of its lifetime an idempotency key is no longer
/// relied on.
const KEY_MARGIN: TimeDelta = TimeDelta::hours(1);
/// How often a locked spool is tried again.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Sends the waiting changes of one server and organization.
pub(crate) struct Delivery {
    client: Client,
    url: String,
    owner: Owner,
    directory: PathBuf,
}

/// The changes of other servers and keys that the user wants to send as well.
#[derive(Debug, Default)]
pub(crate) struct Takeover {
    /// The URL that the changes were kept for.
    pub(crate) from: Option<String>,
    /// The ids of changes whose organization is not known.
    pub(crate) adopted: Vec<String>,
    /// All changes whose organization is not known.
    pub(crate) adopts_all: bool,
}

/// How many waiting changes had which result.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) sent: u64,
    /// Rejected by the server.
    pub(crate) rejected: u64,
    /// Could not be read; warnings say which and why.
    pub(crate) unreadable: u64,
    /// Still waiting.
    pub(crate) remaining: u64,
    /// Waiting for another server.
    pub(crate) other_url: u64,
    /// Waiting for a key of another organization.
    pub(crate) other_organization: u64,
    /// Kept with another key whose organization is not known.
    pub(crate) unknown_organization: u64,
    /// Why sending stopped early.
    #[serde(skip)]
    pub(crate) stopped: Option<Failure>,
}

impl Delivery {
    /// Prepares to send waiting changes; none if there are none.
    pub(crate) fn if_needed(app: &App) -> Option<Self> {
        let directory = folder::directory()?;
        if folder::paths(&directory).ok()?.is_empty() && !journal::any(&directory) {
            return None;
        }
        let owner = Owner::of(app).ok()?;
        Some(Self {
            client: app.quick_client().ok()?,
            url: owner.url.clone(),
            owner,
            directory,
        })
    }

    /// Prepares to send all queued changes.
    pub(crate) fn of_all(app: &App) -> Outcome<Self> {
        let owner = Owner::of(app)?;
        Ok(Self {
            client: app.client()?,
            url: owner.url.clone(),
            owner,
            directory: folder::required_directory().map_err(|error| unusable(&error))?,
        })
    }

    /// Sends waiting changes after a command, if the command reached the
    /// server; prints the reminder if it is due.
    pub(crate) async fn after(app: &App) {
        if !app.is_unavailable()
            && let Some(delivery) = Self::if_needed(app)
        {
            delivery.send_briefly().await;
        }
        remind();
    }

    /// Sends what can be sent within [`EXTRA_TIME`]. Failures are printed and
    /// do not fail the command.
    pub(crate) async fn send_briefly(self) {
        let deadline = Instant::now() + EXTRA_TIME;
        let Ok(Some(_lock)) = lock(&self.directory) else {
            // Another process is sending, or the spool cannot be used.
            return;
        };
        let takeover = Takeover::default();
        let report = match self.send_all(&takeover, Some(deadline), |_, _| {}).await {
            Ok(report) => report,
            Err(error) => return warn(&format!("could not send queued changes: {error}")),
        };
        if report.sent > 0 {
            note(&format!(
                "sent {} from the queue",
                plural(report.sent, "change")
            ));
        }
        if report.rejected > 0 {
            warn(&format!(
                "the server rejected {} from the queue; see `chlog spool status`",
                plural(report.rejected, "change")
            ));
        }
        if let Some(failure) = report.stopped.filter(|failure| !failure.is_transient()) {
            let reason = failure.message();
            warn(&format!("could not send queued changes: {reason}"));
        }
    }

    /// Sends everything; calls `progress` with the done and the total number.
    pub(crate) async fn flush(
        self,
        takeover: &Takeover,
        progress: impl FnMut(usize, usize),
    ) -> Outcome<Report> {
        let _lock = wait_for_lock(&self.directory).await?;
        let sent = self.send_all(takeover, None, progress).await;
        sent.map_err(|error| unusable(&error))
    }

    async fn send_all(
        &self,
        takeover: &Takeover,
        deadline: Option<Instant>,
        mut progress: impl FnMut(usize, usize),
    ) -> io::Result<Report> {
        journal::recover(&self.directory)?;
        let mut report = Report::default();
        // `flush` checks the key with the server, rather than rely on what was
        // remembered long ago.
        let mut organization = self.owner.organization().filter(|_| deadline.is_some());
        let paths = folder::paths(&self.directory)?;
        let total = paths.len();
        for (index, path) in paths.into_iter().enumerate() {
            progress(index, total);
            let Some(file) = SpoolFile::read(path) else {
                continue;
            };
            let id = file.id();
            let mut entry = match file.entry {
                Ok(entry) => entry,
                Err(error) => {
                    // What the system does not let be read may be another user's.
                    if let Unreadable::Damaged(_) = error {
                        let moved = move_to_rejected(&self.directory, &file.path, None)?;
                        let path = moved.display();
                        warn(&format!("a queued change is damaged, see {path}: {error}"));
                    } else {
                        warn_of_unread(&file.path, &error);
                    }
                    report.unreadable += 1;
                    continue;
                }
            };
            let is_here = is_same_url(&entry.url, &self.url);
            let from = takeover.from.as_deref();
            if !is_here && !from.is_some_and(|from| is_same_url(&entry.url, from)) {
                report.other_url += 1;
                continue;
            }
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if report.stopped.is_some() || is_late {
                report.remaining += 1;
                continue;
            }
            let is_adopted = takeover.adopts_all || takeover.adopted.contains(&id);
            match self.claim(&entry, &mut organization, deadline).await {
                Ok(Claim::Own) => {}
                Ok(Claim::Unknown) if is_adopted => {
                    entry.key_fingerprint.clone_from(&self.owner.fingerprint);
                    entry.organization = organization;
                }
                Ok(Claim::Unknown) => {
                    report.unknown_organization += 1;
                    continue;
                }
                Ok(Claim::Foreign) => {
                    report.other_organization += 1;
                    continue;
                }
                Err(failure) => {
                    report.remaining += 1;
                    report.stopped = Some(failure);
                    continue;
                }
            }
            if !is_here {
                entry.url.clone_from(&self.url);
            }
            if !is_here || is_adopted {
                entry.write_to(&file.path)?;
            }
            let sending = Box::pin(async {
                self.set_id(&mut entry)?;
                self.send(&mut entry, &file.path).await
            });
            match until(deadline, sending).await {
                Ok(recorded) => {
                    if entry.draft.is_some()
                        && let Some(recorded) = recorded
                    {
                        // On a full disk, the id that was printed is not accepted later.
                        let _ = recorded::remember(&self.directory, &id, recorded);
                    }
                    fs::remove_file(&file.path)?;
                    report.sent += 1;
                }
                Err(failure) if failure.is_final() => {
                    failure.summary().clone_into(&mut entry.reason);
                    move_to_rejected(&self.directory, &file.path, Some(&entry))?;
                    report.rejected += 1;
                }
                // An earlier entry, which creates the change, still waits.
                Err(failure) if failure.cause == Cause::Other => report.remaining += 1,
                Err(failure) => {
                    report.remaining += 1;
                    report.stopped = Some(failure);
                }
            }
        }
        progress(total, total);
        if report.sent > 0 {
            private_fs::sync_directory(&self.directory)?;
            recorded::remove_old(&self.directory);
        }
        Ok(report)
    }

    /// Returns the claim of this key on an entry; asks the server for the key's
    /// organization if that decides.
    async fn claim(
        &self,
        entry: &SpoolEntry,
        organization: &mut Option<OrganizationId>,
        deadline: Option<Instant>,
    ) -> Outcome<Claim> {
        let is_needed =
            deadline.is_none() || Claim::of(entry, &self.owner, *organization).is_none();
        if organization.is_none() && is_needed {
            *organization = Some(until(deadline, self.owner.fetch(&self.client)).await?);
        }
        Ok(Claim::of(entry, &self.owner, *organization).unwrap_or(Claim::Unknown))
    }

    /// Sets the id of the change to update, if that was the id of an entry.
    fn set_id(&self, entry: &mut SpoolEntry) -> Outcome {
        let Some(id) = entry.id.filter(|_| entry.draft.is_none()) else {
            return Ok(());
        };
        if let Some(recorded) = recorded::find(&self.directory, id) {
            entry.id = Some(recorded);
            return Ok(());
        }
        let Some(file) = recorded::queued(&self.directory, id) else {
            return Ok(());
        };
        let is_rejected = file.path.parent() == Some(&folder::rejected(&self.directory));
        Err(if is_rejected {
            Failure::new(Exit::NotFound, format!("the change {id} was rejected"))
        } else {
            Failure::new(Exit::Other, format!("the change {id} is not recorded yet"))
        })
    }

    /// Sends one entry: creates the change, then applies the update. Returns the id of
    /// the change.
    async fn send(&self, entry: &mut SpoolEntry, path: &Path) -> Outcome<Option<ChangeId>> {
        let id = match (entry.id, entry.draft.clone()) {
            (Some(id), _) => id,
            (None, Some(draft)) => {
                let key = &entry.idempotency_key;
                let existing = if time::now() > entry.kept_at.plus(IDEMPOTENCY_TTL - KEY_MARGIN) {
                    self.find(&draft).await?
                } else {
                    None
                };
                let id = if let Some(id) = existing {
                    id
                } else {
                    let created = draft.create(&self.client, key, true).await?;
                    self.owner.remember(created.organization_id);
                    entry.organization = Some(created.organization_id);
                    created.id
                };
                if entry.update.is_some() {
                    // The update may be tried again after the server has
                    // forgotten the idempotency key.
                    entry.id = Some(id);
                    entry.write_to(path).map_err(|error| unusable(&error))?;
                }
                id
            }
            (None, None) => return Ok(None),
        };
        if let Some(update) = entry.update.clone() {
            update.send(&self.client, id).await?;
        }
        Ok(Some(id))
    }

    /// Finds a change that an earlier attempt may have recorded without its
    /// response having arrived.
    async fn find(&self, draft: &Draft) -> Outcome<Option<ChangeId>> {
        let at = draft.change.effective_at(draft.at);
        let query = ChangeQuery::new()
            .since(at)
            .until(at.plus(TimeDelta::milliseconds(1)));
        let page = self.client.changes().list().matching(query).send().await?;
        let title = draft.change.title.trim();
        // The list also has the changes in progress, which may have started before.
        let found =
            (page.data.iter()).find(|change| change.title == title && change.effective_at() == at);
        Ok(found.map(|change| change.id))
    }
}

/// Runs a request for at most the time until a deadline.
async fn until<T>(
    deadline: Option<Instant>,
    request: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    match deadline {
        None => request.await,
        Some(deadline) => timeout_at(deadline, request)
            .await
            .unwrap_or_else(|_| Err(Failure::unavailable("out of time".to_owned()))),
    }
}

/// Puts rejected changes, and those that wait for a valid key, back among the
/// waiting ones: all of them, or those with the given ids. Returns their number
/// and the ids that do not exist.
pub(crate) async fn retry(ids: &[String]) -> Outcome<(usize, Vec<String>)> {
    let directory = folder::required_directory().map_err(|error| unusable(&error))?;
    let _lock = wait_for_lock(&directory).await?;
    let mut missing = ids.to_vec();
    let mut count = 0;
    for folder in [directory.clone(), folder::rejected(&directory)] {
        for file in SpoolFile::read_all(&folder)? {
            let id = file.id();
            if !ids.is_empty() && !ids.contains(&id) {
                continue;
            }
            missing.retain(|missing| *missing != id);
            let SpoolFile { path, entry } = file;
            // What cannot be read cannot be sent.
            let Ok(mut entry) = entry else { continue };
            let is_waiting = folder == directory;
            if is_waiting && entry.cause == Cause::Unavailable {
                continue;
            }
            entry.cause = Cause::Unavailable;
            entry
                .write_to(&directory.join(path.file_name().unwrap_or_default()))
                .and_then(|()| {
                    if is_waiting {
                        Ok(())
                    } else {
                        fs::remove_file(&path)
                    }
                })
                .map_err(|error| unusable(&error))?;
            count += 1;
        }
    }
    Ok((count, missing))
}

/// Warns of an entry that the system does not let be read or moved.
pub(super) fn warn_of_unread(path: &Path, error: &dyn fmt::Display) {
    let path = path.display();
    warn(&format!("a queued change stays in {path}: {error}"));
}

/// Moves a file to the rejected changes; `entry` replaces its content. Returns the new path.
fn move_to_rejected(
    directory: &Path,
    path: &Path,
    entry: Option<&SpoolEntry>,
) -> io::Result<PathBuf> {
    let rejected = folder::rejected(directory);
    private_fs::create_directory(&rejected)?;
    let target = rejected.join(path.file_name().unwrap_or_default());
    match entry {
        Some(entry) => {
            entry.write_to(&target)?;
            fs::remove_file(path)?;
        }
        None => fs::rename(path, &target)?,
    }
    Ok(target)
}

/// Locks a spool; none while another process holds the lock.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    private_fs::create_directory(directory)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

async fn wait_for_lock(directory: &Path) -> Outcome<File> {
    loop {
        if let Some(lock) = lock(directory).map_err(|error| unusable(&error))? {
            return Ok(lock);
        }
        sleep(LOCK_RETRY_INTERVAL).await;
    }
}
