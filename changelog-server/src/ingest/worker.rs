//! Reads the requests of sources in the order of their arrival: a batch of each
//! organization in turn, so that a flood of one delays no other.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use changelog_core::{SourceId, Timestamp};
use changelog_sources::{Reading, Received, Unreadable};
use chrono::TimeDelta;
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use super::apply::{self, Origin};
use super::sessions;
use crate::app::App;
use crate::blocking_pool;
use crate::coverage;
use crate::store::{DueSession, PendingEvent, Source, StoreError, Tenant, size_of};

/// How often requests, sessions that are over and sources that have fallen silent are looked
/// for without a notification:
/// another server may have stored them, or this one before it was killed.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How often old requests are deleted.
const TRIM_INTERVAL: Duration = Duration::from_mins(1);
/// The wait after an error of the database.
const ERROR_WAIT: Duration = Duration::from_secs(2);
/// When a session that was refused to be ended is tried again.
const RETRY_SESSION: TimeDelta = TimeDelta::hours(1);
/// The share of the time in which batches run, at most: the rest is for requests.
const DATABASE_SHARE: u32 = 2;
/// The longest time for which a batch holds a transaction of its organization, which others wait
/// for.
const MAX_HELD: Duration = Duration::from_millis(10);

/// Reads until `stop` is true.
pub(crate) async fn run(app: App, mut stop: watch::Receiver<bool>) {
    let mut poll = interval(POLL_INTERVAL);
    let mut trim = interval(TRIM_INTERVAL);
    let started: Timestamp = app.now().into();
    while !*stop.borrow() {
        let ready = tokio::select! {
            ready = app.store.source_work() => ready,
            _ = poll.tick() => {
                attend_sessions(&app).await;
                if let Err(error) = coverage::report_silence(&app, started).await {
                    tracing::warn!(%error, "what has fallen silent could not be reported");
                }
                found(app.store.find_source_work().await)
            }
            _ = trim.tick() => {
                if let Err(error) = app.store.trim_old_source_events(app.now().into()).await {
                    tracing::warn!(%error, "old requests of sources could not be deleted");
                }
                continue;
            }
            _ = stop.changed() => continue,
        };
        read_all(&app, ready, &stop).await;
    }
}

fn found(work: Result<HashSet<Tenant>, StoreError>) -> HashSet<Tenant> {
    work.unwrap_or_else(|error| {
        tracing::warn!(%error, "the organizations with requests of sources are unknown");
        HashSet::new()
    })
}

/// Reads the requests of organizations in turns, until none has more.
async fn read_all(app: &App, ready: HashSet<Tenant>, stop: &watch::Receiver<bool>) {
    let mut queue: VecDeque<Tenant> = ready.into_iter().collect();
    while let Some(tenant) = queue.pop_front() {
        if *stop.borrow() {
            return;
        }
        // Those whose requests have arrived meanwhile have their turns, too.
        for other in app.store.take_source_work() {
            if other != tenant && !queue.contains(&other) {
                queue.push_back(other);
            }
        }
        let started = Instant::now();
        match read_batch(app, tenant).await {
            Ok(0) => {
                let trimmed = app.store.trim_source_events(tenant, app.now().into()).await;
                if let Err(error) = trimmed {
                    tracing::warn!(%error, "old requests of sources could not be deleted");
                }
            }
            Ok(_) => {
                queue.push_back(tenant);
                sleep(started.elapsed() * (DATABASE_SHARE - 1)).await;
            }
            Err(error) => {
                tracing::warn!(%error, "requests of sources could not be read");
                // They are found again by the next poll.
                sleep(ERROR_WAIT).await;
            }
        }
    }
}

/// Reads the oldest requests of an organization in one transaction, and returns how many.
/// If that fails for a reason that one of them may have, each is read by itself.
async fn read_batch(app: &App, tenant: Tenant) -> Result<usize, StoreError> {
    match read_some(app, tenant, usize::MAX, false).await {
        Err(error) if may_be_of_one(&error) => match read_some(app, tenant, 1, false).await {
            Err(error) if may_be_of_one(&error) => {
                tracing::warn!(%error, "a request of a source is set aside");
                read_some(app, tenant, 1, true).await
            }
            read => read,
        },
        read => read,
    }
}

/// Returns whether an error may come from what a request says, not from the database's
/// state.
fn may_be_of_one(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Invalid(_)
            | StoreError::Database(_)
            | StoreError::NotFound
            | StoreError::Conflict
            | StoreError::QuotaExceeded { .. }
    )
}

async fn read_some(
    app: &App,
    tenant: Tenant,
    most: usize,
    sets_aside: bool,
) -> Result<usize, StoreError> {
    let mut tx = app.store.begin_for(tenant).await?;
    let events = tx.take_pending_events(tenant).await?;
    let started = Instant::now();
    let mut count = 0;
    let mut origins: HashMap<SourceId, Option<Origin>> = HashMap::new();
    let mut arrivals: HashMap<SourceId, (Vec<Timestamp>, i64)> = HashMap::new();
    for event in events.into_iter().take(most) {
        if count > 0 && started.elapsed() > MAX_HELD {
            break;
        }
        count += 1;
        let (times, bytes) = arrivals.entry(event.source).or_default();
        times.push(event.received_at);
        *bytes += size_of(&event.body);
        let origin = match origins.entry(event.source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Origin::find(app, tenant, event.source).await?),
        };
        let (event, finding) = match origin {
            None => (event, apply::ignored("the source was deleted")),
            Some(_) if sets_aside => (
                event,
                apply::set_aside("the change that it tells of was refused"),
            ),
            Some(origin) => {
                if let Some((changes, incident)) = tx.earlier_event(tenant, &event).await? {
                    let reason = "the sender has sent it before";
                    (event, apply::duplicate(reason, changes, incident))
                } else {
                    let (event, reading) = read(event, &origin.source).await;
                    let finding = match reading {
                        Err(unreadable) => apply::set_aside(&unreadable.to_string()),
                        Ok(reading) => {
                            Box::pin(apply::apply(app, &mut tx, origin, reading)).await?
                        }
                    };
                    (event, finding)
                }
            }
        };
        tx.finish_event(tenant, &event, &finding).await?;
    }
    for (source, (times, bytes)) in arrivals {
        if let Some(Some(origin)) = origins.get(&source) {
            let newest = times.iter().copied().max().unwrap_or(Timestamp::EPOCH);
            tx.note_events(&origin.source, bytes, newest).await?;
            coverage::hear_source(&mut tx, &origin.source, &origin.actor, &times).await?;
        }
    }
    if count > 0 {
        tx.commit().await?;
    }
    Ok(count)
}

/// Reads a request, a large one on the blocking pool.
async fn read(event: PendingEvent, source: &Source) -> (PendingEvent, Result<Reading, Unreadable>) {
    let (kind, settings) = (source.kind.clone(), source.settings.clone());
    blocking_pool::run_sized(event.body.len(), move || {
        let received = Received {
            headers: &event.headers,
            body: &event.body,
            at: event.received_at,
        };
        let reading = changelog_sources::read(&kind, &received, &settings);
        (event, reading)
    })
    .await
}

/// Ends the sessions of calls whose pause is over, and joins those with a run that a run
/// explains. One that cannot be ended holds up no other.
async fn attend_sessions(app: &App) {
    loop {
        let due = match app.store.due_sessions(app.now().into()).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "the sessions of sources that are over are unknown");
                return;
            }
        };
        let mut attended = 0;
        for session in &due {
            match attend(app, session).await {
                Ok(()) => attended += 1,
                Err(error) => {
                    let (organization, source) = (session.tenant.id(), session.source);
                    tracing::warn!(%error, %organization, %source, "a session could not be ended");
                }
            }
        }
        if attended == 0 {
            return;
        }
    }
}

async fn attend(app: &App, session: &DueSession) -> Result<(), StoreError> {
    let attended = async {
        let origin = Origin::find(app, session.tenant, session.source).await?;
        let mut tx = app.store.begin_for(session.tenant).await?;
        Box::pin(sessions::attend(app, &mut tx, origin, session)).await?;
        tx.commit().await
    };
    match attended.await {
        Err(error) if may_be_of_one(&error) => {
            let mut tx = app.store.begin_for(session.tenant).await?;
            let again: Timestamp = (app.now() + RETRY_SESSION).into();
            tx.postpone_session(session, Some(again)).await?;
            tx.commit().await?;
            Err(error)
        }
        attended => attended,
    }
}
