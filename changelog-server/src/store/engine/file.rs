//! The SQLite database as a file: who may serve it, which process may write,
//! whether it is still where it was, and who may read it.
//!
//! Three companions lie next to it. `NAME-serve` is locked by the one process
//! that serves the file. `NAME-turn` is the write lock, held by whichever
//! process writes: SQLite's own lock is polled, so that under steady load an
//! admin command would hardly ever find it free, while the kernel wakes a
//! process that waits for a file lock. `NAME-next` is the queue lock, held by
//! the process that waits for the write lock, so that the service, which
//! releases the write lock only to take it again, cannot overtake a process
//! that waits.
//!
//! All of them, and the database, are for their owner only (mode 0600): a lock
//! that another user can open is a lock that another user can hold.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::StoreError;

/// The mode of the database and of everything next to it: hashes of passwords
/// and the changes of every organization are in there.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// How long a process waits for the write lock. A caller has five seconds in
/// all, and the lock is held for milliseconds.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a process waits for it once [`WRITE_LOCK_TIMEOUT`] has passed and
/// the lock is still held: what fails anyway should fail soon.
const BLOCKED_TIMEOUT: Duration = Duration::from_millis(100);

/// A database file that is open.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    /// Device and inode at the time of opening.
    identity: (u64, u64),
    write_lock: WriteLock,
}

impl DataFile {
    /// Remembers which file this path names now.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        // Absolute, so that it stays true whatever the process does later.
        let path = std::path::absolute(path)?;
        let identity = identity(&path)?;
        let write_lock = WriteLock::open(&path)?;
        Ok(Self {
            path,
            identity,
            write_lock,
        })
    }

    /// Fails when the path no longer names the file that was opened: SQLite
    /// would go on writing into a file that nobody will ever find.
    pub(crate) fn is_in_place(&self) -> Result<(), StoreError> {
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            _ => Err(StoreError::Unavailable(
                "the database file was moved or replaced".into(),
            )),
        }
    }

    /// Waits for the write lock for at most some seconds; it is released when
    /// what is returned is dropped. One task at a time may wait.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] when another process holds it for longer.
    pub(crate) async fn turn(&self) -> Result<Turn, StoreError> {
        self.write_lock.take().await
    }

    /// Fails when writes are blocked: another process has held the write lock
    /// for longer than a write waits for it.
    pub(crate) fn is_writable(&self) -> Result<(), StoreError> {
        match self.write_lock.blocked() {
            Some(lock) => Err(StoreError::Blocked(lock.path.clone())),
            None => Ok(()),
        }
    }

    /// Opens the write lock once more, for another task of this process.
    pub(crate) fn another_write_lock(&self) -> std::io::Result<WriteLock> {
        WriteLock::open(&self.path)
    }

    /// Returns the size of the write-ahead log in bytes.
    pub(crate) fn wal_bytes(&self) -> u64 {
        companion(&self.path, "wal")
            .metadata()
            .map_or(0, |found| found.len())
    }
}

/// Waits for the right to write the database at `path`, like
/// [`DataFile::turn`].
pub(crate) async fn turn_of(path: &Path) -> Result<Turn, StoreError> {
    WriteLock::open(path)
        .map_err(|error| cannot_lock(&companion(path, "turn"), &error))?
        .take()
        .await
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
}

/// The two locks that pass the right to write from process to process.
#[derive(Debug)]
pub(crate) struct WriteLock {
    queue: Lock,
    write: Lock,
}

impl WriteLock {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            queue: Lock::open(path, "next")?,
            write: Lock::open(path, "turn")?,
        })
    }

    /// Waits to be the next, then for the write lock.
    pub(crate) async fn take(&self) -> Result<Turn, StoreError> {
        let deadline = Instant::now()
            + if self.blocked().is_some() {
                BLOCKED_TIMEOUT
            } else {
                WRITE_LOCK_TIMEOUT
            };
        let queue = self.queue.take(deadline).await?;
        let write = self.write.take(deadline).await?;
        drop(queue);
        Ok(write)
    }

    /// Returns the lock that has been waited for in vain.
    fn blocked(&self) -> Option<&Lock> {
        [&self.queue, &self.write]
            .into_iter()
            .find(|lock| lock.is_blocked())
    }
}

/// One of the locks. Waiting for it takes a thread, which cannot be called off:
/// it goes on when its task has given up, and the next one waits for the same
/// thread. (Two threads must not wait on one open file: to the kernel they are
/// one owner, and what one releases the other believes to hold.)
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: Arc<File>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Since when a thread waits, if one does.
    since: Option<Instant>,
    /// The task that gets the lock from it; none when that has given up.
    task: Option<oneshot::Sender<std::io::Result<Turn>>>,
}

impl Lock {
    fn open(path: &Path, purpose: &str) -> std::io::Result<Self> {
        let (path, file) = open_companion(path, purpose)?;
        Ok(Self {
            path,
            file: Arc::new(file),
            waiting: Arc::default(),
        })
    }

    async fn take(&self, deadline: Instant) -> Result<Turn, StoreError> {
        let taken = match self.request() {
            Ok(Requested::Taken(turn)) => return Ok(turn),
            Ok(Requested::Later(answer)) => tokio::time::timeout_at(deadline.into(), answer).await,
            Err(error) => return Err(cannot_lock(&self.path, &error)),
        };
        match taken {
            Ok(Ok(Ok(turn))) => Ok(turn),
            Ok(Ok(Err(error))) => Err(cannot_lock(&self.path, &error)),
            // A thread always answers, unless a later task took this one's place.
            Ok(Err(_)) | Err(_) => Err(StoreError::Blocked(self.path.clone())),
        }
    }

    /// Takes the lock if it is free, or has a thread wait for it.
    fn request(&self) -> std::io::Result<Requested> {
        let mut waiting = lock(&self.waiting);
        if waiting.since.is_none() {
            match self.file.try_lock() {
                Ok(()) => return Ok(Requested::Taken(Turn(Arc::clone(&self.file)))),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            let (file, shared) = (Arc::clone(&self.file), Arc::clone(&self.waiting));
            // Not a thread of the runtime: that would wait for it at its end.
            std::thread::Builder::new()
                .name("write-lock".into())
                .spawn(move || wait_for(file, &shared))?;
            waiting.since = Some(Instant::now());
        }
        let (task, answer) = oneshot::channel();
        waiting.task = Some(task);
        Ok(Requested::Later(answer))
    }

    fn is_blocked(&self) -> bool {
        lock(&self.waiting)
            .since
            .is_some_and(|since| since.elapsed() >= WRITE_LOCK_TIMEOUT)
    }
}

enum Requested {
    Taken(Turn),
    Later(oneshot::Receiver<std::io::Result<Turn>>),
}

/// Waits for a lock and hands it to the task that still wants it.
fn wait_for(file: Arc<File>, shared: &Mutex<Waiting>) {
    let taken = file.lock();
    let mut waiting = lock(shared);
    waiting.since = None;
    let taken = taken.map(|()| Turn(file));
    if let Some(task) = waiting.task.take() {
        // Nobody waits any more: what comes back is dropped, which unlocks.
        drop(task.send(taken));
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<File>);

impl Drop for Turn {
    fn drop(&mut self) {
        // It goes with the process at the latest.
        let _ = self.0.unlock();
    }
}

/// Becomes the one process that serves the database at `path`, until the
/// returned file is dropped; `None` when another process is it already.
pub(crate) fn serve_lock(path: &Path) -> std::io::Result<Option<File>> {
    let (_, file) = open_companion(path, "serve")?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the database file if there is none, and takes the access of others to
/// it away. SQLite gives its log and the index of that the same mode.
pub(crate) fn prepare(path: &Path) -> std::io::Result<()> {
    match create_new(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for path in [
        path.to_owned(),
        companion(path, "wal"),
        companion(path, "shm"),
    ] {
        narrow(&path)?;
    }
    Ok(())
}

/// Creates an empty file that only its owner can read and write.
pub(crate) fn create_new(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)
}

/// Takes the access of others to a file away, if it is there and ours. Not
/// through an open file: closing it would release SQLite's locks on it.
fn narrow(path: &Path) -> std::io::Result<()> {
    let mode = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => found.mode() & 0o777,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let narrowed = mode & 0o700;
    if mode == narrowed {
        return Ok(());
    }
    let file = path.display();
    match std::fs::set_permissions(path, Permissions::from_mode(narrowed)) {
        Ok(()) => {
            tracing::warn!(%file, was = format!("{mode:o}"), "other users can no longer open this file");
        }
        // It may have gone meanwhile, or belong to somebody else.
        Err(error) => {
            tracing::warn!(%file, mode = format!("{mode:o}"), %error, "other users can open this file");
        }
    }
    Ok(())
}

/// Opens a lock that lies next to the database.
fn open_companion(path: &Path, purpose: &str) -> std::io::Result<(PathBuf, File)> {
    let name = companion(path, purpose);
    let file = match create_new(&name) {
        Ok(file) => {
            // Made by root, it still belongs to the owner of the database, who
            // could not open it otherwise; SQLite does the same with its files.
            if let (Ok(owner), Ok(made)) = (std::fs::metadata(path), file.metadata())
                && owner.uid() != made.uid()
            {
                // Others than root may not, and need not.
                let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
            }
            file
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file = OpenOptions::new().write(true).open(&name)?;
            narrow(&name)?;
            file
        }
        Err(error) => return Err(error),
    };
    Ok((name, file))
}

pub(crate) fn companion(path: &Path, purpose: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-");
    name.push(purpose);
    name.into()
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
