//! Sending what waits, oldest first, by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use changelog_client::Client;
use changelog_core::ChangeId;
use chrono::TimeDelta;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Entry, directory, journal, no_directory, paths, read, refused, write};
use crate::credentials::is_same_address;
use crate::failure::{Exit, Failure, Outcome, note, warn};
use crate::files;
use crate::moment;
use crate::record::Draft;
use crate::session::Session;

/// How long a command spends on what waits beyond its own time.
const SPARE: Duration = Duration::from_secs(2);
/// How long the service is sure to know an idempotency key.
const REMEMBERED: TimeDelta = TimeDelta::hours(47);
/// How often it is looked whether another process has ended.
const GLANCE: Duration = Duration::from_millis(50);

/// Sends what waits for one address.
pub(crate) struct Delivery {
    client: Client,
    url: String,
    directory: PathBuf,
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
    /// Why it ended before it had tried all.
    pub(crate) stopped: Option<Failure>,
}

impl Delivery {
    /// Prepares to send what waits, if anything does.
    pub(crate) fn in_passing(session: &Session) -> Option<Self> {
        let directory = directory()?;
        let is_empty = paths(&directory).ok()?.is_empty() && !journal::any(&directory);
        if is_empty {
            return None;
        }
        Some(Self {
            client: session.hurried_client().ok()?,
            url: session.url().ok()?.value.clone(),
            directory,
        })
    }

    /// Prepares to send all there is.
    pub(crate) fn of_all(session: &Session) -> Outcome<Self> {
        Ok(Self {
            client: session.client()?,
            url: session.url()?.value.clone(),
            directory: directory().ok_or_else(|| unreadable(&no_directory()))?,
        })
    }

    /// Sends what waits after a command that has reached the service.
    pub(crate) async fn after(session: &Session) {
        if !session.away().get()
            && let Some(delivery) = Self::in_passing(session)
        {
            delivery.spare_time().await;
        }
    }

    /// Sends what can be sent in the time that a command has to spare. What
    /// goes wrong is said, and spoils nothing.
    pub(crate) async fn spare_time(self) {
        let deadline = Instant::now() + SPARE;
        let Ok(Some(_lock)) = lock(&self.directory) else {
            // Another process sends, or nobody can.
            return;
        };
        let report = match self.send_all(Some(deadline), |_, _| {}).await {
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
        if let Some(failure) = report.stopped.filter(|failure| !failure.may_pass) {
            warn(&format!("what waits cannot be sent: {}", failure.message()));
        }
    }

    /// Sends everything, and tells how many of how many are done.
    pub(crate) async fn flush(self, tell: impl FnMut(usize, usize)) -> Outcome<Report> {
        let mut lock = lock(&self.directory).map_err(|error| unreadable(&error))?;
        while lock.is_none() {
            sleep(GLANCE).await;
            lock = self::lock(&self.directory).map_err(|error| unreadable(&error))?;
        }
        let sent = self.send_all(None, tell).await;
        sent.map_err(|error| unreadable(&error))
    }

    async fn send_all(
        &self,
        deadline: Option<Instant>,
        mut tell: impl FnMut(usize, usize),
    ) -> io::Result<Report> {
        journal::recover(&self.directory)?;
        let mut report = Report::default();
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
            if !is_same_address(&entry.url, &self.url) {
                report.elsewhere += 1;
                continue;
            }
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if report.stopped.is_some() || is_late {
                report.left += 1;
                continue;
            }
            let sending = self.send(&mut entry, &kept.path);
            let sent = match deadline {
                None => sending.await,
                Some(deadline) => match timeout_at(deadline, sending).await {
                    Ok(sent) => sent,
                    Err(_) => Err(Failure::silence("there was no more time".to_owned())),
                },
            };
            match sent {
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
            files::sync_directory(&self.directory)?;
        }
        Ok(report)
    }

    /// Sends one: the change, and what became of it.
    async fn send(&self, entry: &mut Entry, path: &Path) -> Outcome {
        let id = match (entry.id, entry.draft.clone()) {
            (Some(id), _) => id,
            (None, Some(draft)) => {
                let key = &entry.idempotency_key;
                let known = if moment::now() > entry.kept_at.plus(REMEMBERED) {
                    self.find(&draft).await?
                } else {
                    None
                };
                let id = match known {
                    Some(id) => id,
                    None => draft.create(&self.client, key, true).await?.id,
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

/// Moves a file to what the service did not take.
fn set_aside(directory: &Path, path: &Path, entry: Option<&Entry>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Ok(());
    };
    let refused = refused(directory);
    files::create_private(&refused)?;
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
    files::create_private(directory)?;
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

pub(crate) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot use the spool: {error}"))
}
