//! The change of a running command: created when the command starts, updated
//! when it ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use changelog_client::Client;
use changelog_core::ChangeId;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::draft::Draft;
use super::spool::entry::SpoolEntry;
use super::spool::folder;
use super::spool::journal::Journal;
use super::spool::owner::Owner;
use super::spool::recorded;
use super::submit;
use super::update::Update;
use crate::base::failure::{Failure, Outcome};
use crate::environment::app::{App, SPOOL_AFTER, within_spool_time};
use crate::environment::last_change;

/// How often the journal of a running command is touched: if `chlog` is killed, the end of
/// its change is wrong by at most as much.
const TOUCH_INTERVAL: Duration = Duration::from_secs(5);

/// Records a command from its start to its end.
pub(crate) struct RunRecorder {
    client: Client,
    creation: Creation,
    state: Arc<Mutex<State>>,
}

/// What this machine knows of the change.
struct State {
    entry: SpoolEntry,
    /// None if it cannot be written; the command runs all the same.
    journal: Option<Journal>,
}

/// The progress of the request that creates the change.
enum Creation {
    Running(JoinHandle<Outcome<ChangeId>>),
    Done(Outcome<ChangeId>),
}

impl RunRecorder {
    /// Writes the journal and starts to create the change. `on_kill` is the
    /// update to send if this process is killed.
    ///
    /// # Errors
    /// No key or no URL is configured; with `require`, also any failure to
    /// create the change now.
    pub(crate) async fn begin(
        app: &App,
        draft: Draft,
        on_kill: Update,
        require: bool,
    ) -> Outcome<Self> {
        let client = if require {
            app.client()?
        } else {
            app.quick_client()?
        };
        let key = changelog_client::new_idempotency_key();
        let mut entry = SpoolEntry::of_draft(app, key.clone(), draft.clone())?;
        "chlog was killed while the command ran".clone_into(&mut entry.reason);
        entry.update = Some(on_kill);
        let journal = Journal::begin(&entry).ok();
        let state = Arc::new(Mutex::new(State { entry, journal }));
        tokio::spawn(touch_journal(Arc::clone(&state)));
        let owner = Owner::of(app)?;
        let create = {
            let (client, state) = (client.clone(), Arc::clone(&state));
            async move {
                let created = draft.create(&client, &key, false).await?;
                owner.remember(created.organization_id);
                let id = created.id;
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let State { entry, journal } = &mut *state;
                entry.id = Some(id);
                entry.organization = Some(created.organization_id);
                if let Some(queued) = &entry.file_id {
                    remember_recorded(queued, id);
                }
                if let Some(journal) = journal {
                    // On failure the idempotency key finds the change.
                    let _ = journal.update(entry);
                }
                Ok::<_, Failure>(id)
            }
        };
        let creation = if require {
            match create.await {
                Ok(id) => Creation::Done(Ok(id)),
                Err(failure) => {
                    end_journal(&state);
                    return Err(if failure.is_transient() {
                        Failure::unavailable(failure.message().to_owned())
                    } else {
                        failure
                    });
                }
            }
        } else {
            Creation::Running(tokio::spawn(create))
        };
        Ok(Self {
            client,
            creation,
            state,
        })
    }

    /// Stores the process of the command: if `chlog` is killed, its change is not ended
    /// while the command still runs.
    pub(crate) fn command_started(&self, pid: u32) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &state.journal {
            journal.set_process(pid);
        }
    }

    /// Returns the id of the change, if it is known within `limit`.
    pub(crate) async fn id_within(&mut self, limit: Duration) -> Option<ChangeId> {
        if let Creation::Running(creating) = &mut self.creation
            && let Ok(created) = timeout(limit, creating).await
        {
            let failed =
                |error: tokio::task::JoinError| Err(Failure::unavailable(error.to_string()));
            self.creation = Creation::Done(created.unwrap_or_else(failed));
        }
        match &self.creation {
            Creation::Done(Ok(id)) => Some(*id),
            _ => None,
        }
    }

    /// Returns an id that commands accept for the change that is not recorded yet: that of
    /// its entry. None if the entry cannot be written.
    pub(crate) fn queued_id(&self) -> Option<ChangeId> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let id = state.journal.as_ref()?.id();
        if let Some(recorded) = state.entry.id {
            remember_recorded(&id, recorded);
        }
        state.entry.file_id = Some(id.clone());
        id.parse().ok()
    }

    /// Records the outcome of the command, or keeps it in the spool.
    pub(crate) async fn finish(mut self, app: &App, update: Update) -> Outcome {
        self.id_within(SPOOL_AFTER).await;
        let Self {
            creation,
            client,
            state,
        } = self;
        let created = match creation {
            Creation::Done(created) => created,
            Creation::Running(creating) => {
                creating.abort();
                Err(Failure::unavailable(
                    "no response from the server while the command ran".to_owned(),
                ))
            }
        };
        let updated = match created {
            Ok(id) => {
                last_change::remember(app, &id);
                let sent = within_spool_time(update.clone().send(&client, id)).await;
                sent.map(|_| ())
            }
            Err(failure) => Err(failure),
        };
        let outcome = match updated {
            Err(failure) if failure.is_kept() => {
                match submit::keep(app, entry_with(&state, update), failure) {
                    Ok(queued) => queued.failure.map_or(Ok(()), Err),
                    Err(failure) => Err(failure),
                }
            }
            Err(failure) if failure.is_final() => {
                Err(submit::keep_rejected(entry_with(&state, update), failure))
            }
            updated => updated,
        };
        end_journal(&state);
        outcome
    }
}

/// Stores from time to time that this process lives, until the journal has ended.
async fn touch_journal(state: Arc<Mutex<State>>) {
    loop {
        tokio::time::sleep(TOUCH_INTERVAL).await;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.journal {
            Some(journal) => journal.touch(),
            None => return,
        }
    }
}

/// Remembers under which id a change was recorded whose command knows the id of its entry.
fn remember_recorded(queued: &str, id: ChangeId) {
    if let Some(directory) = folder::directory() {
        // On failure, the id of the entry is not accepted.
        let _ = recorded::remember(&directory, queued, id);
    }
}

/// Returns the entry to keep now that the outcome is known.
fn entry_with(state: &Mutex<State>, update: Update) -> SpoolEntry {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    SpoolEntry {
        update: Some(update),
        ..state.entry.clone()
    }
}

/// Removes the journal.
fn end_journal(state: &Mutex<State>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(journal) = state.journal.take() {
        journal.end();
    }
}
