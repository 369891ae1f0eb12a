//! What a server does besides answering requests.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use crate::app::App;
use crate::mail;
use crate::store::StoreError;

/// How often expired rows are deleted.
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(10);
/// How far the clock may be ahead of the latest time that was recorded when a server starts, and
/// how long nothing is deleted if it is further.
const MAX_AHEAD: TimeDelta = TimeDelta::days(1);
const PURGE_WAIT: Duration = Duration::from_hours(24);
/// How often it is looked for records that are too old, and for people who are to be erased.
const RUNS_INTERVAL: Duration = Duration::from_secs(10);
/// How often a step that has failed is tried again, and how long after.
const MAX_STEP_FAILURES: u32 = 3;
const STEP_PAUSE: Duration = Duration::from_secs(1);
/// How often the current time is saved in the database.
const CLOCK_SAVE_INTERVAL: Duration = Duration::from_mins(1);
/// How often pending entries are moved to the activity log.
const PENDING_ACTIVITY_INTERVAL: Duration = Duration::from_mins(1);

/// How often it is looked for tables that have grown.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the tasks, which run until they are aborted.
pub(crate) fn start(app: &App) -> [JoinHandle<()>; 9] {
    [
        tokio::spawn(run_maintenance(app.clone())),
        tokio::spawn(delete_old_records(app.clone())),
        tokio::spawn(erase_people(app.clone())),
        tokio::spawn(save_clock(app.clone())),
        tokio::spawn(move_pending_activity(app.clone())),
        tokio::spawn(update_statistics(app.clone())),
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
    let purges_from = Instant::now() + wait_to_purge(&app).await;
    let mut interval = interval(MAINTENANCE_INTERVAL);
    loop {
        interval.tick().await;
        app.rate_limits.forget_idle();
        if Instant::now() < purges_from {
            continue;
        }
        match app.store.purge(app.now().into()).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "deleted expired rows"),
            Err(error) => tracing::warn!(%error, "expired rows could not be deleted"),
        }
    }
}

/// Returns how long nothing that has expired is deleted: a day, if the clock is so far ahead of the
/// latest time that a server has recorded that it may be wrong. What it deletes does not come back
/// when it is corrected.
async fn wait_to_purge(app: &App) -> Duration {
    match app.store.latest_time().await {
        Ok(Some(latest)) if latest.plus(MAX_AHEAD) < app.now().into() => {
            tracing::info!(
                %latest,
                "the clock is more than a day ahead of the latest time that this service has \
                 recorded; nothing expired is deleted for a day, because the clock may be wrong"
            );
            PURGE_WAIT
        }
        _ => Duration::ZERO,
    }
}

/// Deletes what organizations do not want to keep any longer.
async fn delete_old_records(app: App) {
    let mut interval = interval(RUNS_INTERVAL);
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
            let step = |run| app.store.retention_step(run, app.now());
            if let Err(error) = in_steps(run, step).await {
                let organization = run.tenant.id();
                tracing::warn!(%organization, %error, "old records could not be deleted");
            }
        }
    }
}

/// Erases people of organizations.
async fn erase_people(app: App) {
    let mut interval = interval(RUNS_INTERVAL);
    loop {
        interval.tick().await;
        let due = match app.store.due_erasures(app.now().into()).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "it is unknown who is to be erased");
                continue;
            }
        };
        for run in due {
            let organization = run.tenant.id();
            let step = |run| app.store.erasure_step(run, app.now());
            if let Err(error) = in_steps(run, step).await {
                tracing::warn!(%organization, %error, "a person could not be erased");
            }
        }
    }
}

/// Runs until the run has ended, or a step has failed several times. Returns the run as its last
/// step began.
pub(crate) async fn in_steps<R: Clone, S>(run: R, step: impl Fn(R) -> S) -> Result<R, StoreError>
where
    S: Future<Output = Result<Option<R>, StoreError>>,
{
    let mut last = run;
    let mut failures = 0;
    loop {
        let begun = Instant::now();
        match step(last.clone()).await {
            Ok(Some(next)) => (last, failures) = (next, 0),
            Ok(None) => return Ok(last),
            Err(error) if failures == MAX_STEP_FAILURES => return Err(error),
            // Nothing was changed; the organization may be busy.
            Err(_) => {
                failures += 1;
                sleep(STEP_PAUSE).await;
            }
        }
        // At least half of the time belongs to requests.
        sleep(begun.elapsed()).await;
    }
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

/// Has the database look at tables that have grown, so that it chooses well how to read them.
async fn update_statistics(app: App) {
    let mut interval = interval(STATISTICS_INTERVAL);
    loop {
        interval.tick().await;
        if let Err(error) = app.store.update_statistics().await {
            tracing::warn!(%error, "the statistics of the database could not be updated");
        }
    }
}
