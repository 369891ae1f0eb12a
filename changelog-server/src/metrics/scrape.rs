//! The answer to Prometheus: what was counted, and what is looked up at that moment.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use tokio::time::timeout;

use super::current::Current;
use super::{PREFIX, process};
use crate::app::App;
use crate::store::{Backlog, StoreError, Usage};

/// How long the database may take to answer what is looked up in it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    group: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    group: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: &'static str,
}

/// Returns all metrics in the text format of Prometheus.
pub(super) async fn text(app: &App) -> Result<String, fmt::Error> {
    let mut current = Current::with_prefix(PREFIX);
    add_usage(&mut current, &app.store.usage());
    add_state(&mut current, app);
    let now = app.now();
    let looked_up = timeout(DATABASE_TIMEOUT, look_up(app, now)).await;
    let is_up = matches!(looked_up, Ok(Ok(_)));
    current.number(
        "database_up",
        "Whether the database has answered this scrape",
        u64::from(is_up),
    );
    match looked_up {
        Ok(Ok((backlog, size))) => {
            add_backlog(&mut current, &backlog, now);
            current.number("database_size_bytes", "The size of the database", size);
        }
        Ok(Err(error)) => tracing::warn!(%error, "the metrics of the database are missing"),
        Err(_) => tracing::warn!("the metrics of the database are missing: it does not answer"),
    }
    let mut text = String::new();
    encode(&mut text, &app.metrics.registry)?;
    encode(&mut text, &current.0)?;
    encode(&mut text, &process::current(seconds(app.started_at)).0)?;
    Ok(text)
}

async fn look_up(app: &App, now: DateTime<Utc>) -> Result<(Backlog, u64), StoreError> {
    let backlog = app.store.backlog(now.into()).await?;
    Ok((backlog, app.store.size().await?))
}

/// Adds how the database is used by this process.
fn add_usage(current: &mut Current, usage: &Usage) {
    let groups = || usage.groups.iter();
    let label = |group| GroupLabels { group };
    let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
    current.numbers(
        "database_permits",
        "How much may use the database at once, by group",
        groups().map(|(group, one)| (label(*group), number(one.permits))),
    );
    current.numbers(
        "database_permits_in_use",
        "How much uses the database, by group",
        groups().map(|(group, one)| (label(*group), number(one.in_use))),
    );
    current.numbers(
        "database_permits_waiting",
        "How much waits for the database, by group",
        groups().map(|(group, one)| (label(*group), number(one.waiting))),
    );
    let refused = groups().flat_map(|(group, one)| {
        [("share", one.refused), ("all_in_use", one.exhausted)]
            .map(|(reason, n)| (RefusalLabels { group, reason }, n))
    });
    let batch = RefusalLabels {
        group: "create_batch",
        reason: "share",
    };
    current.totals(
        "database_refused",
        "What was refused because an organization used its share, or all was in use",
        refused.chain([(batch, usage.refused_creates)]),
    );
    current.number(
        "create_queue_requests",
        "Requests to create changes that wait for the batch before them",
        number(usage.waiting_creates),
    );
    if let Some(jobs) = usage.writer_queue {
        let help = "Transactions and batches that wait for the writer on SQLite";
        current.number("writer_queue_jobs", help, number(jobs));
    }
    if let Some(bytes) = usage.wal_bytes {
        let help = "The size of the write-ahead log of SQLite";
        current.number("database_wal_bytes", help, bytes);
    }
}

/// Adds the state of this process.
fn add_state(current: &mut Current, app: &App) {
    let streams = u64::try_from(app.change_streams.count()).unwrap_or(u64::MAX);
    current.number("streams", "Open streams of changes", streams);
    current.number(
        "ready",
        "Whether the server takes requests; 0 once it was asked to stop",
        u64::from(!app.readiness.is_stopping()),
    );
    let now = Utc::now();
    let clock = app.clock.for_expiry().to_datetime();
    current.seconds(
        "clock_ahead_seconds",
        "How far the time by which keys expire is ahead of the system clock",
        seconds_of(clock - now),
    );
    current.seconds(
        "clock_seconds",
        "The time by which changes are recorded, in seconds since 1970",
        seconds(app.now()),
    );
}

/// Adds what waits in the database, of all servers.
fn add_backlog(current: &mut Current, backlog: &Backlog, now: DateTime<Utc>) {
    let queues = || backlog.queues.iter();
    let label = |queue| QueueLabels { queue };
    current.numbers(
        "queue_length",
        "What waits, by queue, as far as 10,000",
        queues().map(|one| (label(one.name), one.length)),
    );
    current.numbers(
        "queue_oldest_seconds",
        "How long the oldest of a queue has been due; 0 if nothing is",
        queues().map(|one| {
            let due = one.oldest.map(|oldest| now - oldest.to_datetime());
            let seconds = due.map_or(0, |due| due.num_seconds().max(0));
            (label(one.name), seconds.unsigned_abs())
        }),
    );
}

/// Returns a time in seconds since 1970.
fn seconds(at: DateTime<Utc>) -> f64 {
    seconds_of(at - DateTime::UNIX_EPOCH)
}

fn seconds_of(length: TimeDelta) -> f64 {
    length.as_seconds_f64()
}
