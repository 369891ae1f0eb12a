//! What a server does besides answering requests.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use crate::app::App;
use crate::mail;
use crate::store::{RetentionRun, StoreError};

/// How often expired rows are deleted.
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(10);
/// How often it is looked for records that are too old.
const RETENTION_INTERVAL: Duration = Duration::from_secs(10);
/// How often a step that has failed is tried again, and how long after.
const MAX_RETENTION_FAILURES: u32 = 3;
const RETENTION_PAUSE: Duration = Duration::from_secs(1);
/// How often the current time is saved in the database.
const CLOCK_SAVE_INTERVAL: Duration = Duration::from_mins(1);
/// How often pending entries are moved to the activity log.
const PENDING_ACTIVITY_INTERVAL: Duration = Duration::from_mins(1);

/// Starts the tasks, which run until they are aborted.
pub(crate) fn start(app: &App) -> [JoinHandle<()>; 7] {
    [
        tokio::spawn(run_maintenance(app.clone())),
        tokio::spawn(delete_old_records(app.clone())),
        tokio::spawn(save_clock(app.clone())),
        tokio::spawn(move_pending_activity(app.clone())),
        tokio::spawn(mail::run(app.clone())),
        tokio::spawn({
            let app = app.clone();
            async move { app.last_used.write_each_minute(&app.store).await }
        }),
        tokio::spawn({
            let store = app.store.clone();
            async move { store.exchange_notifications().await }
        }),
    ]
}

async fn run_maintenance(app: App) {
    let mut interval = interval(MAINTENANCE_INTERVAL);
    loop {
        interval.tick().await;
        app.rate_limits.forget_idle();
        match app.store.purge(app.now().into()).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "deleted expired rows"),
            Err(error) => tracing::warn!(%error, "expired rows could not be deleted"),
        }
    }
}

/// Deletes what organizations do not want to keep any longer.
async fn delete_old_records(app: App) {
    let mut interval = interval(RETENTION_INTERVAL);
    loop {
        interval.tick().await;
        let due = match app.store.due_retention_runs(app.now().into()).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "it is unknown whose old records are to be deleted");
                continue;
            }
        };
        for run in due {
            if let Err(error) = run_retention(&app, run).await {
                let organization = run.tenant.id();
                tracing::warn!(%organization, %error, "old records could not be deleted");
            }
        }
    }
}

/// Runs until the run has ended, or a step has failed several times.
async fn run_retention(app: &App, run: RetentionRun) -> Result<(), StoreError> {
    let mut next = Some(run);
    let mut failures = 0;
    while let Some(step) = next {
        let begun = Instant::now();
        match app.store.retention_step(step, app.now()).await {
            Ok(after) => (next, failures) = (after, 0),
            Err(error) if failures == MAX_RETENTION_FAILURES => return Err(error),
            // Nothing was changed; the organization may be busy.
            Err(_) => {
                failures += 1;
                sleep(RETENTION_PAUSE).await;
            }
        }
        // At least half of the time belongs to requests.
        sleep(begun.elapsed()).await;
    }
    Ok(())
}

/// Saves the current time for the next process: the clock may be set back meanwhile.
async fn save_clock(app: App) {
    let mut interval = interval(CLOCK_SAVE_INTERVAL);
    loop {
        interval.tick().await;
        if let Some(latest) = app.clock.latest_confirmed()
            && let Err(error) = app.store.save_latest_time(latest).await
        {
            tracing::warn!(%error, "the time could not be saved");
        }
    }
}

/// Moves entries to the activity log that could not be moved when they were recorded,
/// by this server, another one or a command.
async fn move_pending_activity(app: App) {
    let mut interval = interval(PENDING_ACTIVITY_INTERVAL);
    loop {
        interval.tick().await;
        match app.store.move_pending_activity().await {
            Ok((0, 0)) => {}
            Ok((moved, pending)) => {
                tracing::info!(moved, pending, "moved pending entries to the activity log");
            }
            Err(error) => tracing::warn!(%error, "pending entries could not be read"),
        }
    }
}
