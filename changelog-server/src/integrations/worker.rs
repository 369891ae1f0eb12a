//! Sends what is queued: one task for each organization with receivers, which queues its
//! events, and one for each of its connections, so that a receiver that fails or hangs
//! holds up no other one.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use changelog_core::{ConnectionId, Timestamp};
use futures_util::stream::{self, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{interval, sleep};

use super::message::{Attempt, Message, Verdict};
use super::queue::{Queued, queue_events};
use super::schedule::{
    MAX_FAILING, after, delay_after, earliest_share, failing_since, pause, probe_pause,
};
use super::senders;
use super::target::Target;
use crate::app::App;
use crate::store::{
    Claim, Connection, ConnectionHealth, DeliveryState, Finished, StoreError, Tenant,
};

/// How often organizations, events and deliveries are looked for without a notification:
/// other servers may have recorded them, and notifications may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The longest wait for a time of the clock, which may be corrected meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// How long a task stays that has nothing to do.
const IDLE: Duration = Duration::from_mins(1);
/// The wait before events are queued, so that those of many requests are queued together.
const GATHERING: Duration = Duration::from_millis(20);
/// The wait after a full batch of events was queued. It limits the share of the database
/// that queuing takes from requests while very many changes are recorded.
const FULL_BATCH_WAIT: Duration = Duration::from_millis(100);
/// The shortest time from one full batch of messages of a connection to the next: a
/// connection sends at most 500 messages a second by each server.
const BATCH_INTERVAL: Duration = Duration::from_millis(64);
/// The share of the time in which the transactions of full batches run, at most, for one
/// connection and for queuing: the rest is for requests, whatever the machine.
const DATABASE_SHARE: u32 = 5;
/// The wait before the key file is read again for a connection whose key it lacks.
const KEY_WAIT: Duration = Duration::from_secs(30);
/// The wait after an error of the database.
const ERROR_WAIT: Duration = Duration::from_secs(2);
/// How long a claim is valid.
const CLAIM: Duration = Duration::from_mins(2);
/// How long after its claim a message may be sent; the others are claimed again. A message
/// takes at most five requests of 15 seconds, so that its result is recorded while its claim is
/// valid.
const MAX_WAIT_OF_CLAIM: Duration = Duration::from_secs(40);
/// The messages of a connection that are claimed together.
const BATCH: u64 = 32;
/// The messages of a connection that are sent at the same time by one server.
const CONCURRENCY: usize = 4;
/// The time from one message of a chat to the next: Slack takes about one a second.
const CHAT_INTERVAL: Duration = Duration::from_secs(1);

/// Queues and sends until `stop` is true, and returns when what was being sent is done.
pub(crate) async fn run(app: App, mut stop: watch::Receiver<bool>) {
    let mut tasks = Tasks::new();
    let work = app.store.event_work();
    let mut poll = interval(POLL_INTERVAL);
    while !*stop.borrow() {
        let ready = tokio::select! {
            _ = poll.tick() => match app.store.find_event_work().await {
                Ok(tenants) => tenants,
                Err(error) => {
                    tracing::warn!(%error, "the organizations with new events are unknown");
                    HashSet::new()
                }
            },
            () = work.notified() => app.store.take_event_work(),
            _ = stop.changed() => HashSet::new(),
        };
        for tenant in ready {
            tasks.wake(tenant, |wake| {
                run_organization(app.clone(), tenant, wake, stop.clone())
            });
        }
    }
    tasks.join().await;
}

/// Tasks by what they are for.
struct Tasks<K> {
    set: JoinSet<()>,
    running: HashMap<K, (Arc<Notify>, AbortHandle)>,
}

impl<K: Eq + Hash> Tasks<K> {
    fn new() -> Self {
        Self {
            set: JoinSet::new(),
            running: HashMap::new(),
        }
    }

    /// Wakes a task, or starts it if it does not run.
    fn wake<F>(&mut self, key: K, start: impl FnOnce(Arc<Notify>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.forget_ended();
        // It may have ended just now.
        if (self.running.get(&key)).is_some_and(|(_, task)| task.is_finished()) {
            self.running.remove(&key);
        }
        let (wake, _) = self.running.entry(key).or_insert_with(|| {
            let wake = Arc::new(Notify::new());
            let task = self.set.spawn(start(Arc::clone(&wake)));
            (wake, task)
        });
        wake.notify_one();
    }

    /// Returns whether no task runs.
    fn is_empty(&mut self) -> bool {
        self.forget_ended();
        self.running.is_empty()
    }

    fn forget_ended(&mut self) {
        // Also those that have panicked.
        let ended = std::iter::from_fn(|| self.set.try_join_next()).count();
        if ended > 0 {
            self.running.retain(|_, (_, task)| !task.is_finished());
        }
    }

    /// Waits until all tasks have ended.
    async fn join(mut self) {
        while self.set.join_next().await.is_some() {}
    }
}

/// Queues the events of an organization, and runs the tasks of its connections, until there
/// is nothing to do.
async fn run_organization(
    app: App,
    tenant: Tenant,
    wake: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
) {
    let mut tasks = Tasks::new();
    while !*stop.borrow() {
        let mut wait = IDLE;
        let started = Instant::now();
        match queue_events(&app, tenant).await {
            Ok(Queued { more, connections }) => {
                for connection in connections.iter().filter(|one| one.disabled.is_none()) {
                    tasks.wake(connection.id, |wake| {
                        let sender = Sender {
                            app: app.clone(),
                            tenant,
                            id: connection.id,
                            wake,
                            stop: stop.clone(),
                            lacks_key: false,
                        };
                        sender.run()
                    });
                }
                if more {
                    wake.notify_one();
                    sleep(FULL_BATCH_WAIT.max(started.elapsed() * (DATABASE_SHARE - 1))).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "events could not be queued");
                wait = ERROR_WAIT;
            }
        }
        tokio::select! {
            () = wake.notified() => sleep(GATHERING).await,
            () = sleep(wait) => {
                if wait == IDLE && tasks.is_empty() {
                    break;
                }
            }
            _ = stop.changed() => {}
        }
    }
    tasks.join().await;
}

/// Sends what is queued for one connection.
struct Sender {
    app: App,
    tenant: Tenant,
    id: ConnectionId,
    wake: Arc<Notify>,
    stop: watch::Receiver<bool>,
    /// Whether the connection's key was missing at the last attempt.
    lacks_key: bool,
}

impl Sender {
    /// Sends until nothing is queued any more, the connection is deleted or disabled, or the
    /// server stops.
    async fn run(mut self) {
        let mut organization: Option<String> = None;
        if self.app.store.serves_alone()
            && let Err(error) = self.release().await
        {
            tracing::warn!(%error, "claims of the previous process could not be released");
        }
        while !*self.stop.borrow() {
            let sent = match &organization {
                Some(name) => self.send_due(name).await,
                None => match self.app.store.organization(self.tenant).await {
                    Ok(found) => {
                        organization = Some(found.name);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let wait = match sent {
                Ok(Some(wait)) => wait,
                Ok(None) | Err(StoreError::NotFound) => break,
                Err(error) => {
                    tracing::warn!(%error, "deliveries could not be read or recorded");
                    ERROR_WAIT
                }
            };
            if !wait.is_zero() {
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep(wait) => {
                        if wait == IDLE {
                            break;
                        }
                    }
                    _ = self.stop.changed() => {}
                }
            }
        }
    }

    async fn release(&self) -> Result<(), StoreError> {
        let mut tx = self.app.store.begin_for(self.tenant).await?;
        let released = tx.release_claims(self.tenant, self.id, self.now()).await?;
        if released > 0 {
            tx.commit().await?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.app.now().into()
    }

    /// Returns how long to wait for a time.
    fn wait_until(&self, at: Timestamp) -> Duration {
        let wait = at.to_datetime() - self.now().to_datetime();
        wait.to_std()
            .unwrap_or_default()
            .clamp(Duration::from_millis(1), MAX_WAIT)
    }

    /// Sends what is due. Returns how long to wait then, or `None` when the connection is
    /// disabled.
    async fn send_due(&mut self, organization: &str) -> Result<Option<Duration>, StoreError> {
        let store = &self.app.store;
        let due = store.next_due(self.tenant, self.id).await?;
        let now = self.now();
        match due {
            None => return Ok(Some(IDLE)),
            Some(due) if due > now => return Ok(Some(self.wait_until(due))),
            Some(_) => {}
        }
        let connection = store.connection(self.tenant, self.id).await?;
        if connection.disabled.is_some() {
            return Ok(None);
        }
        if let Some(until) = connection.hold_until
            && until > now
        {
            return Ok(Some(self.wait_until(until)));
        }
        let target = match self.app.integrations.target(self.tenant, &connection) {
            Ok(target) => target,
            Err(error) => {
                // Another server may have the key, and this one may get it: nothing is given up.
                if !std::mem::replace(&mut self.lacks_key, true) {
                    let (id, name) = (connection.id, &connection.name);
                    tracing::error!(connection = %id, name, %error, "nothing is sent");
                }
                return Ok(Some(KEY_WAIT));
            }
        };
        self.lacks_key = false;
        let is_chat = connection.kind.is_chat();
        let turn = is_chat.then(|| after(now, CHAT_INTERVAL));
        // A receiver that fails is tried with one message.
        let limit = match connection.failing_since {
            None if !is_chat => BATCH,
            _ => 1,
        };
        let expiry = after(now, CLAIM);
        let times = (now, expiry);
        let started = Instant::now();
        let claims = store
            .claim(self.tenant, self.id, times, limit, turn)
            .await?;
        if claims.is_empty() {
            // The first ones are being sent, here or by another server.
            return Ok(Some(MAX_WAIT));
        }
        let is_full = u64::try_from(claims.len()).is_ok_and(|count| count >= BATCH);
        let claimed = started.elapsed();
        let sent = self.send(&connection, &target, organization, claims).await;
        let recording = Instant::now();
        let Sent {
            finished,
            health,
            unsent,
            alone,
        } = sent;
        let mut tx = store.begin_for(self.tenant).await?;
        for (sequences, is_alone) in [(unsent, false), (alone, true)] {
            let times = (self.now(), expiry);
            tx.return_claims(self.tenant, self.id, sequences, is_alone, times)
                .await?;
        }
        tx.finish_deliveries(self.tenant, &connection, &finished, &health, self.now())
            .await?;
        tx.commit().await?;
        if is_full {
            let busy = claimed + recording.elapsed();
            let interval = BATCH_INTERVAL.max(busy * DATABASE_SHARE);
            sleep(interval.saturating_sub(started.elapsed())).await;
        }
        Ok(Some(Duration::ZERO))
    }

    /// Sends claimed messages, some at the same time, until the server stops.
    async fn send(
        &self,
        connection: &Connection,
        target: &Target,
        organization: &str,
        claims: Vec<Claim>,
    ) -> Sent {
        let started = Instant::now();
        let mut sent = Sent::default();
        let mut messages: Vec<Vec<Claim>> = Vec::new();
        for claim in claims {
            match (&claim.burst, messages.last_mut()) {
                // It edits the message of its change, which was posted meanwhile.
                (Some(_), _) if claim.reference.is_some() => sent.alone.push(claim.sequence),
                (Some(_), Some(burst)) => burst.push(claim),
                _ => messages.push(vec![claim]),
            }
        }
        let dashboard = self.app.url();
        // Whether the receiver has asked for a pause: what has not begun by then waits.
        let must_pause = AtomicBool::new(false);
        let results: Vec<(Vec<Claim>, Timestamp, Option<Attempt>)> = stream::iter(messages)
            .map(|claims| async {
                let at = self.now();
                if *self.stop.borrow()
                    || started.elapsed() > MAX_WAIT_OF_CLAIM
                    || must_pause.load(Ordering::Relaxed)
                {
                    return (claims, at, None);
                }
                let (first, rest) = claims.split_first().expect("each has a claim");
                let grouped: Vec<_> = rest.iter().map(|claim| claim.event.clone()).collect();
                let message = Message {
                    target,
                    event: &first.event,
                    grouped: &grouped,
                    dashboard: &dashboard,
                    organization,
                    reference: first.reference.as_ref(),
                    now: at,
                };
                let http = &self.app.integrations.http.of_trace(first.trace);
                let attempt = if first.is_outdated && grouped.is_empty() {
                    Attempt::nothing_to_send()
                } else {
                    senders::send(http, &connection.kind, &message).await
                };
                if matches!(attempt.verdict, Verdict::Retry { after: Some(_), .. }) {
                    must_pause.store(true, Ordering::Relaxed);
                }
                let metrics = &self.app.metrics;
                metrics.count_delivery(connection.kind.as_str(), attempt.verdict.outcome());
                (claims, at, Some(attempt))
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        for (claims, at, attempt) in &results {
            let Some(attempt) = attempt else {
                sent.unsent
                    .extend(claims.iter().map(|claim| claim.sequence));
                continue;
            };
            self.judge(connection, attempt, &mut sent.health);
            // One for all of a message, so that they remain one.
            let random = rand::random();
            let results = claims.iter();
            sent.finished
                .extend(results.map(|claim| result(claim, *at, attempt, random)));
        }
        if must_pause.into_inner() {
            // Whatever it has accepted before: the next one is tried after the pause, and if it
            // is accepted, those that were not are due.
            sent.health.works = Some(false);
        }
        sent
    }

    /// Adds what an attempt means for the connection.
    fn judge(&self, connection: &Connection, attempt: &Attempt, health: &mut ConnectionHealth) {
        let now = self.now();
        match &attempt.verdict {
            // Without a request nothing is known of the receiver.
            Verdict::Delivered if attempt.status.is_none() => {}
            Verdict::Delivered => health.works = Some(true),
            Verdict::Refused { .. } => {}
            Verdict::Disabled { reason } => health.disable = Some(reason.clone()),
            Verdict::Retry {
                reason,
                after: asked,
            } => {
                health.works.get_or_insert(false);
                let since = failing_since(connection.failing_since, connection.hold_until, now);
                health.failing_since = Some(since);
                if now >= since.plus(MAX_FAILING) {
                    health.disable = Some(format!("It has failed for five days. {reason}"));
                }
                let wait = asked.map_or(probe_pause(since, now), pause);
                let until = after(now, wait);
                health.hold_until = health.hold_until.max(Some(until));
            }
        }
    }
}

/// What became of claimed messages.
#[derive(Default)]
struct Sent {
    finished: Vec<Finished>,
    health: ConnectionHealth,
    /// The places of those that were not sent.
    unsent: Vec<i64>,
    /// The places of those that are no longer part of a burst.
    alone: Vec<i64>,
}

/// Returns what becomes of a delivery by an attempt. `random` is from 0 to 1.
fn result(claim: &Claim, at: Timestamp, attempt: &Attempt, random: f64) -> Finished {
    let mut earliest = at;
    let (state, next, reason) = match &attempt.verdict {
        Verdict::Delivered => (DeliveryState::Delivered, at, None),
        Verdict::Refused { reason } => (DeliveryState::Dead, at, Some(reason)),
        Verdict::Disabled { reason } => (DeliveryState::Pending, at, Some(reason)),
        Verdict::Retry { reason, .. } => match delay_after(claim.attempt, random) {
            Some(delay) => {
                earliest = after(at, earliest_share(delay));
                (DeliveryState::Pending, after(at, delay), Some(reason))
            }
            None => (DeliveryState::Dead, at, Some(reason)),
        },
    };
    Finished {
        sequence: claim.sequence,
        subject: claim.event.subject(),
        attempt: claim.attempt,
        state,
        next,
        earliest,
        at,
        duration_ms: i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX),
        status: attempt.status,
        answer: attempt.answer.clone(),
        reason: reason.cloned(),
        reference: attempt.reference.clone(),
    }
}
