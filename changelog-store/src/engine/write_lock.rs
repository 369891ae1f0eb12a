//! The lock that passes the right to write a SQLite database from process to
//! process.
//!
//! SQLite's own lock is polled, so that under steady load an admin command would
//! hardly ever find it free. The kernel wakes a process that waits for a file
//! lock. There are two: `NAME-write-lock` is held by the process that writes;
//! `NAME-queue-lock` is held by the process that waits for the first one, so that
//! the service, which releases the write lock only to take it again, cannot
//! overtake a process that waits.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::StoreError;
use super::files;

/// How long a process waits for the write lock. A caller has five seconds in
/// all, and the lock is held for milliseconds.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a process waits for it once [`WRITE_LOCK_TIMEOUT`] has passed and
/// the lock is still held: what fails anyway should fail soon.
const BLOCKED_TIMEOUT: Duration = Duration::from_millis(100);

/// The two locks, opened by one task.
#[derive(Debug)]
pub(crate) struct WriteLock {
    queue: Lock,
    write: Lock,
}

impl WriteLock {
    /// Opens the locks of the database at a path.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            queue: Lock::open(path, "queue-lock")?,
            write: Lock::open(path, "write-lock")?,
        })
    }

    /// Waits for the write lock for at most some seconds; it is released when
    /// the guard is dropped. One task at a time may wait.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] when another process holds it for longer.
    pub(crate) async fn acquire(&self) -> Result<LockGuard, StoreError> {
        let deadline = Instant::now()
            + if self.check_not_blocked().is_ok() {
                WRITE_LOCK_TIMEOUT
            } else {
                BLOCKED_TIMEOUT
            };
        let queue = self.queue.acquire(deadline).await?;
        let write = self.write.acquire(deadline).await?;
        drop(queue);
        Ok(write)
    }

    /// Fails when another process has held a lock for longer than a write waits
    /// for it.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] with the path of that lock.
    pub(crate) fn check_not_blocked(&self) -> Result<(), StoreError> {
        match [&self.queue, &self.write]
            .into_iter()
            .find(|lock| lock.is_blocked())
        {
            Some(lock) => Err(StoreError::Blocked(lock.path.clone())),
            None => Ok(()),
        }
    }
}

/// Waits for the right to write the database at a path, like
/// [`WriteLock::acquire`].
pub(crate) async fn acquire(path: &Path) -> Result<LockGuard, StoreError> {
    WriteLock::open(path)
        .map_err(|error| cannot_lock(&files::companion(path, "write-lock"), &error))?
        .acquire()
        .await
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
}

/// One of the locks. Waiting for it takes a thread, which cannot be cancelled:
/// it continues when its task has given up, and the next task waits for the same
/// thread. (Two threads must not wait on one open file: to the kernel they are
/// one owner, and what one releases the other believes to hold.)
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: Arc<File>,
    waiter: Arc<Mutex<Waiter>>,
}

#[derive(Debug, Default)]
struct Waiter {
    /// Since when a thread waits, if one does.
    since: Option<Instant>,
    /// The task that gets the lock from it; `None` when that has given up.
    task: Option<oneshot::Sender<std::io::Result<LockGuard>>>,
}

impl Lock {
    fn open(path: &Path, purpose: &str) -> std::io::Result<Self> {
        let (path, file) = files::open_lock(path, purpose)?;
        Ok(Self {
            path,
            file: Arc::new(file),
            waiter: Arc::default(),
        })
    }

    async fn acquire(&self, deadline: Instant) -> Result<LockGuard, StoreError> {
        let acquired = match self.try_acquire() {
            Ok(Attempt::Acquired(guard)) => return Ok(guard),
            Ok(Attempt::Waits(answer)) => tokio::time::timeout_at(deadline.into(), answer).await,
            Err(error) => return Err(cannot_lock(&self.path, &error)),
        };
        match acquired {
            Ok(Ok(Ok(guard))) => Ok(guard),
            Ok(Ok(Err(error))) => Err(cannot_lock(&self.path, &error)),
            // A thread always answers, unless a later task took this one's place.
            Ok(Err(_)) | Err(_) => Err(StoreError::Blocked(self.path.clone())),
        }
    }

    /// Acquires the lock if it is free, or has a thread wait for it.
    fn try_acquire(&self) -> std::io::Result<Attempt> {
        let mut waiter = lock(&self.waiter);
        if waiter.since.is_none() {
            match self.file.try_lock() {
                Ok(()) => return Ok(Attempt::Acquired(LockGuard(Arc::clone(&self.file)))),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.waiter));
            // Not a thread of the runtime, which would wait for it at its end.
            std::thread::Builder::new()
                .name("write-lock".into())
                .spawn(move || wait(file, &shared))?;
            waiter.since = Some(Instant::now());
        }
        let (task, answer) = oneshot::channel();
        waiter.task = Some(task);
        Ok(Attempt::Waits(answer))
    }

    fn is_blocked(&self) -> bool {
        lock(&self.waiter)
            .since
            .is_some_and(|since| since.elapsed() >= WRITE_LOCK_TIMEOUT)
    }
}

enum Attempt {
    Acquired(LockGuard),
    Waits(oneshot::Receiver<std::io::Result<LockGuard>>),
}

/// Waits for a lock and passes it to the task that still wants it.
fn wait(file: Arc<File>, shared: &Mutex<Waiter>) {
    let locked = file.lock();
    let mut waiter = lock(shared);
    waiter.since = None;
    let locked = locked.map(|()| LockGuard(file));
    if let Some(task) = waiter.task.take() {
        // When the task has given up, the guard comes back and is dropped, which
        // unlocks.
        drop(task.send(locked));
    }
}

fn lock(waiter: &Mutex<Waiter>) -> MutexGuard<'_, Waiter> {
    waiter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct LockGuard(Arc<File>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        // The lock ends with the process at the latest.
        let _ = self.0.unlock();
    }
}
