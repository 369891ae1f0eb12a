//! A change that is recorded beside a command, from its beginning to its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use changelog_client::Client;
use changelog_core::{ChangeId, ChangePatch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::base::failure::{Failure, Outcome};
use crate::environment::app::App;
use crate::recording::spool::Entry;
use crate::recording::spool::journal::Journal;
use crate::recording::spool::owner::Owner;
use crate::recording::submit::{self, Draft, PATIENCE, hurried};

/// A change whose command has not ended.
pub(crate) struct Recording {
    client: Client,
    draft: Sending,
    noted: Arc<Mutex<Noted>>,
}

/// What this machine knows of it.
struct Noted {
    entry: Entry,
    /// None where it cannot be written: the command runs all the same.
    journal: Option<Journal>,
}

/// How far the creation of the change is.
enum Sending {
    Underway(JoinHandle<Outcome<ChangeId>>),
    Done(Outcome<ChangeId>),
}

impl Recording {
    /// Writes down that the command begins, and begins to record it.
    /// `unknown` is what is to be said of it if nobody comes back.
    ///
    /// # Errors
    /// There is no key or no address; with `require` also whatever keeps the
    /// change from being recorded now.
    pub(crate) async fn begin(
        app: &App,
        draft: Draft,
        unknown: ChangePatch,
        require: bool,
    ) -> Outcome<Self> {
        let client = if require {
            app.client()?
        } else {
            app.hurried_client()?
        };
        let key = changelog_client::new_idempotency_key();
        let mut entry = Entry::of_draft(app, key.clone(), draft.clone())?;
        "the command did not come back".clone_into(&mut entry.reason);
        entry.patch = Some(unknown);
        let journal = Journal::begin(&entry).ok();
        let noted = Arc::new(Mutex::new(Noted { entry, journal }));
        let owner = Owner::of(app)?;
        let create = {
            let (client, noted) = (client.clone(), Arc::clone(&noted));
            async move {
                let created = draft.create(&client, &key, false).await?;
                owner.learn(created.organization_id);
                let id = created.id;
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                let Noted { entry, journal } = &mut *noted;
                entry.id = Some(id);
                entry.organization = Some(created.organization_id);
                if let Some(journal) = journal {
                    // Without it the change is found by its idempotency key.
                    let _ = journal.update(entry);
                }
                Ok::<_, Failure>(id)
            }
        };
        let draft = if require {
            match create.await {
                Ok(id) => Sending::Done(Ok(id)),
                Err(failure) => {
                    forget(&noted);
                    return Err(if failure.is_transient() {
                        Failure::silence(failure.message().to_owned())
                            .line("the change is not recorded, and the command not started")
                    } else {
                        failure
                    });
                }
            }
        } else {
            Sending::Underway(tokio::spawn(create))
        };
        Ok(Self {
            client,
            draft,
            noted,
        })
    }

    /// Returns the id of the change, if it is known within this time.
    pub(crate) async fn id_within(&mut self, limit: Duration) -> Option<ChangeId> {
        if let Sending::Underway(sending) = &mut self.draft
            && let Ok(sent) = timeout(limit, sending).await
        {
            self.draft = Sending::Done(joined(sent));
        }
        match &self.draft {
            Sending::Done(Ok(id)) => Some(*id),
            _ => None,
        }
    }

    /// Records what became of it, or keeps that for later.
    pub(crate) async fn finish(mut self, app: &App, patch: ChangePatch) -> Outcome {
        self.id_within(PATIENCE).await;
        let Self {
            draft,
            client,
            noted,
        } = self;
        let sent = match draft {
            Sending::Done(sent) => sent,
            Sending::Underway(sending) => {
                sending.abort();
                Err(Failure::silence(
                    "no answer from the service while the command ran".to_owned(),
                ))
            }
        };
        let ended = match sent {
            Ok(id) => {
                let update = client.changes().update_with(id, patch.clone()).send();
                hurried(async { Ok(update.await?) }).await.map(|_| ())
            }
            Err(failure) => Err(failure),
        };
        let outcome = match ended {
            Err(failure) if failure.is_kept() => {
                match submit::keep(app, entry(&noted, patch), failure) {
                    Ok(None) => Ok(()),
                    Ok(Some(failure)) | Err(failure) => Err(failure),
                }
            }
            Err(failure) if failure.is_final() => {
                Err(submit::set_aside(entry(&noted, patch), failure))
            }
            ended => ended,
        };
        forget(&noted);
        outcome
    }
}

/// Returns what is to be kept now that it is known what became of it.
fn entry(noted: &Mutex<Noted>, patch: ChangePatch) -> Entry {
    let noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    Entry {
        patch: Some(patch),
        ..noted.entry.clone()
    }
}

/// Takes back what was written down: it is known what became of it.
fn forget(noted: &Mutex<Noted>) {
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(journal) = noted.journal.take() {
        journal.end();
    }
}

fn joined(sent: Result<Outcome<ChangeId>, tokio::task::JoinError>) -> Outcome<ChangeId> {
    sent.unwrap_or_else(|error| Err(Failure::silence(error.to_string())))
}
