//! Sending what waits, oldest first, by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use changelog_client::Client;
use changelog_core::{ChangeId, OrganizationId};
use chrono::TimeDelta;
use tokio::time::{Instant, sleep, timeout_at};

use super::owner::{Claim, Owner, claim};
use super::reminder::remind;
use super::{
    Entry, Kept, directory, journal, list, name_of, no_directory, paths, read, refused, write,
};
use crate::base::failure::{Cause, Exit, Failure, Outcome, note, warn};
use crate::base::private_fs;
use crate::base::time;
use crate::environment::app::App;
use crate::environment::credentials::is_same_address;
use crate::recording::submit::Draft;

/// How long a command spends on what waits beyond its own time.
const SPARE: Duration = Duration::from_secs(2);
/// How long the service is sure to know an idempotency key.
const REMEMBERED: TimeDelta = TimeDelta::hours(47);
/// How often it is looked whether another process has ended.
const GLANCE: Duration = Duration::from_millis(50);

/// Sends what waits for one address and organization.
pub(crate) struct Delivery {
    client: Client,
    url: String,
    owner: Owner,
    directory: PathBuf,
}

/// What is taken over for this address and this key's organization because the
/// user says so.
#[derive(Debug, Default)]
pub(crate) struct Takeover {
    /// Entries for this other address.
    pub(crate) from: Option<String>,
    /// Entries of unknown organizations with these ids.
    pub(crate) adopted: Vec<String>,
    /// All entries of unknown organizations.
    pub(crate) adopts_all: bool,
}

/// What became of what waited.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) delivered: usize,
    /// Set aside, because the service did not take it.
    pub(crate) refused: usize,
    /// Still waiting.
    pub(crate) left: usize,
    /// Waiting for another address.
    pub(crate) elsewhere: usize,
    /// Waiting for a key of another organization.
    pub(crate) foreign: usize,
    /// Made under another key, of whose organization nothing is known.
    pub(crate) unknown: usize,
    /// Why it ended before it had tried all.
    pub(crate) stopped: Option<Failure>,
}

impl Delivery {
    /// Prepares to send what waits, if anything does.
    pub(crate) fn in_passing(app: &App) -> Option<Self> {
        let directory = directory()?;
        let is_empty = paths(&directory).ok()?.is_empty() && !journal::any(&directory);
        if is_empty {
            return None;
        }
        Some(Self {
            client: app.hurried_client().ok()?,
            url: app.url().ok()?.value.clone(),
            owner: Owner::of(app).ok()?,
            directory,
        })
    }

    /// Prepares to send all there is.
    pub(crate) fn of_all(app: &App) -> Outcome<Self> {
        Ok(Self {
            client: app.client()?,
            url: app.url()?.value.clone(),
            owner: Owner::of(app)?,
            directory: directory().ok_or_else(|| unreadable(&no_directory()))?,
        })
    }

    /// Sends what waits after a command that has reached the service.
    pub(crate) async fn after(app: &App) {
        if !app.away().get()
            && let Some(delivery) = Self::in_passing(app)
        {
            delivery.spare_time().await;
        }
        remind();
    }

    /// Sends what can be sent in the time that a command has to spare. What
    /// goes wrong is said, and spoils nothing.
    pub(crate) async fn spare_time(self) {
        let deadline = Instant::now() + SPARE;
        let Ok(Some(_lock)) = lock(&self.directory) else {
            // Another process sends, or nobody can.
            return;
        };
        let report = match self
            .send_all(&Takeover::default(), Some(deadline), |_, _| {})
            .await
        {
            Ok(report) => report,
            Err(error) => return warn(&format!("what waits cannot be sent: {error}")),
        };
        if report.delivered > 0 {
            note(&format!(
                "recorded now what had waited: {}",
                report.delivered
            ));
        }
        if report.refused > 0 {
            warn(&format!(
                "the service did not take {} of what had waited; `chlog spool status` says why",
                report.refused
            ));
        }
        if let Some(failure) = report.stopped.filter(|failure| !failure.is_transient()) {
            warn(&format!("what waits cannot be sent: {}", failure.message()));
        }
    }

    /// Sends everything, and tells how many of how many are done.
    pub(crate) async fn flush(
        self,
        takeover: &Takeover,
        tell: impl FnMut(usize, usize),
    ) -> Outcome<Report> {
        let _lock = wait_for_lock(&self.directory).await?;
        let sent = self.send_all(takeover, None, tell).await;
        sent.map_err(|error| unreadable(&error))
    }

    async fn send_all(
        &self,
        takeover: &Takeover,
        deadline: Option<Instant>,
        mut tell: impl FnMut(usize, usize),
    ) -> io::Result<Report> {
        journal::recover(&self.directory)?;
        let mut report = Report::default();
        // Somebody who asks to send everything gets to know that the key is
        // wrong, and does not rely on what was learned of it long ago.
        let mut organization = self.owner.organization().filter(|_| deadline.is_some());
        let paths = paths(&self.directory)?;
        let count = paths.len();
        for (number, path) in paths.into_iter().enumerate() {
            tell(number, count);
            let Some(kept) = read(path) else { continue };
            let Ok(mut entry) = kept.entry else {
                // It is shown with the reason by whoever reads it there.
                set_aside(&self.directory, &kept.path, None)?;
                report.refused += 1;
                continue;
            };
            let is_here = is_same_address(&entry.url, &self.url);
            let from = takeover.from.as_deref();
            if !is_here && !from.is_some_and(|from| is_same_address(&entry.url, from)) {
                report.elsewhere += 1;
                continue;
            }
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if report.stopped.is_some() || is_late {
                report.left += 1;
                continue;
            }
            let claimed = self.claimed(&entry, &mut organization, deadline).await;
            let name = name_of(&kept.path);
            let is_adopted = takeover.adopts_all || takeover.adopted.contains(&name);
            match claimed {
                Ok(Claim::Own) => {}
                Ok(Claim::Unknown) if is_adopted => {
                    entry.key_fingerprint.clone_from(&self.owner.fingerprint);
                    entry.organization = organization;
                }
                Ok(Claim::Unknown) => {
                    report.unknown += 1;
                    continue;
                }
                Ok(Claim::Foreign) => {
                    report.foreign += 1;
                    continue;
                }
                Err(failure) => {
                    report.left += 1;
                    report.stopped = Some(failure);
                    continue;
                }
            }
            if !is_here {
                entry.url.clone_from(&self.url);
            }
            if !is_here || is_adopted {
                write(&kept.path, &entry)?;
            }
            let sending = self.send(&mut entry, &kept.path);
            match within(deadline, sending).await {
                Ok(()) => {
                    fs::remove_file(&kept.path)?;
                    report.delivered += 1;
                }
                Err(failure) if failure.is_final() => {
                    failure.summary().clone_into(&mut entry.reason);
                    set_aside(&self.directory, &kept.path, Some(&entry))?;
                    report.refused += 1;
                }
                Err(failure) => {
                    report.left += 1;
                    report.stopped = Some(failure);
                }
            }
        }
        tell(count, count);
        if report.delivered > 0 {
            private_fs::sync_directory(&self.directory)?;
        }
        Ok(report)
    }

    /// Judges whether an entry may be sent under this key, and asks the service
    /// of which organization the key is where that is needed to judge.
    async fn claimed(
        &self,
        entry: &Entry,
        organization: &mut Option<OrganizationId>,
        deadline: Option<Instant>,
    ) -> Outcome<Claim> {
        let needs_it = deadline.is_none() || claim(entry, &self.owner, *organization).is_none();
        if organization.is_none() && needs_it {
            *organization = Some(within(deadline, self.owner.ask(&self.client)).await?);
        }
        Ok(claim(entry, &self.owner, *organization).unwrap_or(Claim::Unknown))
    }

    /// Sends one: the change, and what became of it.
    async fn send(&self, entry: &mut Entry, path: &Path) -> Outcome {
        let id = match (entry.id, entry.draft.clone()) {
            (Some(id), _) => id,
            (None, Some(draft)) => {
                let key = &entry.idempotency_key;
                let known = if time::now() > entry.kept_at.plus(REMEMBERED) {
                    self.find(&draft).await?
                } else {
                    None
                };
                let id = if let Some(id) = known {
                    id
                } else {
                    let created = draft.create(&self.client, key, true).await?;
                    self.owner.learn(created.organization_id);
                    entry.organization = Some(created.organization_id);
                    created.id
                };
                if entry.patch.is_some() {
                    // What follows may be tried again when the key is long
                    // forgotten.
                    entry.id = Some(id);
                    write(path, entry).map_err(|error| unreadable(&error))?;
                }
                id
            }
            (None, None) => return Ok(()),
        };
        if let Some(patch) = entry.patch.clone() {
            let update = self.client.changes().update_with(id, patch);
            update.send().await?;
        }
        Ok(())
    }

    /// Looks for a change that the service may have recorded long ago without
    /// that its answer arrived.
    async fn find(&self, draft: &Draft) -> Outcome<Option<ChangeId>> {
        let at = draft.change.occurred_at.unwrap_or(draft.at);
        let list = self.client.changes().list();
        let page = list
            .since(at)
            .until(at.plus(TimeDelta::milliseconds(1)))
            .send()
            .await?;
        let found = page
            .data
            .iter()
            .find(|change| change.title == draft.change.title.trim());
        Ok(found.map(|change| change.id))
    }
}

/// Waits for the service, and no longer than until a deadline.
async fn within<T>(
    deadline: Option<Instant>,
    sending: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    match deadline {
        None => sending.await,
        Some(deadline) => timeout_at(deadline, sending)
            .await
            .unwrap_or_else(|_| Err(Failure::silence("there was no more time".to_owned()))),
    }
}

/// Puts what was refused, and what waits for a valid key, back to what simply
/// waits: all of it, or what has one of these ids. Returns how many, and the ids
/// that nothing has.
pub(crate) async fn retry(ids: &[String]) -> Outcome<(usize, Vec<String>)> {
    let directory = directory().ok_or_else(|| unreadable(&no_directory()))?;
    let _lock = wait_for_lock(&directory).await?;
    let mut missing = ids.to_vec();
    let mut count = 0;
    for folder in [directory.clone(), refused(&directory)] {
        for kept in list(&folder).map_err(|error| unreadable(&error))? {
            let name = name_of(&kept.path);
            if !ids.is_empty() && !ids.contains(&name) {
                continue;
            }
            missing.retain(|id| *id != name);
            let Kept { path, entry } = kept;
            // What cannot be read cannot be sent.
            let Ok(mut entry) = entry else { continue };
            let waits = folder == directory;
            if waits && entry.cause == Cause::Unavailable {
                continue;
            }
            entry.cause = Cause::Unavailable;
            let put_back = write(
                &directory.join(path.file_name().unwrap_or_default()),
                &entry,
            );
            put_back
                .and_then(|()| {
                    if waits {
                        Ok(())
                    } else {
                        fs::remove_file(&path)
                    }
                })
                .map_err(|error| unreadable(&error))?;
            count += 1;
        }
    }
    Ok((count, missing))
}

/// Moves a file to what the service did not take.
fn set_aside(directory: &Path, path: &Path, entry: Option<&Entry>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Ok(());
    };
    let refused = refused(directory);
    private_fs::create_private(&refused)?;
    let there = refused.join(name);
    match entry {
        Some(entry) => {
            write(&there, entry)?;
            fs::remove_file(path)
        }
        None => fs::rename(path, there),
    }
}

/// Takes the lock of a spool; none while another process has it.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    private_fs::create_private(directory)?;
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
        if let Some(lock) = lock(directory).map_err(|error| unreadable(&error))? {
            return Ok(lock);
        }
        sleep(GLANCE).await;
    }
}

pub(crate) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot use the spool: {error}"))
}
