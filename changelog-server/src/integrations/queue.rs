//! Queues new events: for each event, a delivery for every connection whose filter it
//! passes, and what people have subscribed to.

use std::collections::{HashMap, HashSet};

use changelog_core::{Event, EventKind, ServiceId, Timestamp};
use chrono::TimeDelta;
use uuid::Uuid;

use super::senders;
use crate::app::App;
use crate::store::{
    Connection, MAX_NEW_EVENTS, NewDelivery, NumberedEvent, StoreError, Tenant, Tx,
};

/// The period in which the changes of a service are counted for a burst.
const BURST_PERIOD: TimeDelta = TimeDelta::minutes(1);
/// The number of messages about a service in that period that chats get by themselves.
const MAX_SINGLE_MESSAGES: usize = 5;
/// The period in which the messages of a chat are counted for a storm of alerts.
const STORM_PERIOD: TimeDelta = TimeDelta::seconds(10);
/// The number of messages in that period from which on messages about incidents are joined,
/// whatever their services: three incidents a second, of a message each.
const MAX_STORM_MESSAGES: usize = 30;

/// How long a message of a chat about a new incident waits for its suspects.
const SUSPECTS_WAIT: TimeDelta = TimeDelta::seconds(1);

/// What was queued.
#[derive(Debug, Default)]
pub(super) struct Queued {
    /// Whether there may be more new events.
    pub(super) more: bool,
    /// The connections of the organization.
    pub(super) connections: Vec<Connection>,
}

/// Queues the oldest new events of an organization in one transaction.
pub(super) async fn queue_events(app: &App, tenant: Tenant) -> Result<Queued, StoreError> {
    let mut tx = app.store.begin_for(tenant).await?;
    let mut events = tx.take_new_events(tenant).await?;
    // Read after the events, so that no event is older than a connection that misses it.
    let connections = tx.connections(tenant).await?;
    if events.is_empty() {
        return Ok(Queued {
            more: false,
            connections,
        });
    }
    let now = Timestamp::from(app.now());
    let mut more = events.len() >= MAX_NEW_EVENTS;
    let subscribed: Vec<&Event> = events.iter().map(|one| &one.event).collect();
    let taken = tx.notify_subscribers(tenant, &subscribed, now).await?;
    more |= taken < events.len();
    events.truncate(taken);
    let mut deliveries = Vec::new();
    for connection in &connections {
        if connection.disabled.is_none() {
            deliveries.extend(deliveries_of(&mut tx, tenant, connection, &events, now).await?);
        }
    }
    tx.insert_deliveries(tenant, &deliveries, now).await?;
    let received: HashSet<i64> = deliveries.iter().map(|one| one.sequence).collect();
    tx.mark_events_queued(tenant, &events, |sequence| received.contains(&sequence))
        .await?;
    tx.commit().await?;
    Ok(Queued { more, connections })
}

/// Returns the deliveries of events by a connection.
async fn deliveries_of(
    tx: &mut Tx,
    tenant: Tenant,
    connection: &Connection,
    events: &[NumberedEvent],
    now: Timestamp,
) -> Result<Vec<NewDelivery>, StoreError> {
    let is_sent = |one: &&NumberedEvent| {
        connection.filter.matches(&one.event) && senders::takes(&connection.kind, &one.event)
    };
    let sent: Vec<&Event> = events
        .iter()
        .filter(is_sent)
        .map(|one| &one.event)
        .collect();
    let mut deliveries: Vec<NewDelivery> = events
        .iter()
        .filter(is_sent)
        .map(|one| NewDelivery {
            connection: connection.id,
            sequence: one.sequence,
            subject: one.event.subject(),
            service: one.event.service(),
            due: now,
            burst: None,
        })
        .collect();
    if deliveries.is_empty() || !connection.kind.is_chat() {
        return Ok(deliveries);
    }
    let shows_suspects = (connection.filter.kinds()).contains(&EventKind::IncidentSuspects);
    for (delivery, event) in deliveries.iter_mut().zip(&sent) {
        if shows_suspects && is_before_suspects(event) {
            delivery.due = now.plus(SUSPECTS_WAIT);
        }
    }
    join_bursts(tx, tenant, connection, &mut deliveries, &sent, now).await?;
    replace_by_suspects(tx, tenant, connection, deliveries, &sent).await
}

/// Returns whether an incident was opened whose suspects are about to be ranked.
fn is_before_suspects(event: &Event) -> bool {
    let Event::Incident(event) = event else {
        return false;
    };
    event.kind == EventKind::IncidentOpened && event.incident.ranked_at.is_none()
}

/// Returns whether the suspects of an incident were ranked for the first time.
fn has_first_suspects(event: &Event) -> bool {
    let Event::Incident(event) = event else {
        return false;
    };
    event.kind == EventKind::IncidentSuspects && !event.again
}

/// Leaves out messages about new incidents that still wait, because those with the suspects say
/// the same and more. Chats take about one message a second.
async fn replace_by_suspects(
    tx: &mut Tx,
    tenant: Tenant,
    connection: &Connection,
    mut deliveries: Vec<NewDelivery>,
    sent: &[&Event],
) -> Result<Vec<NewDelivery>, StoreError> {
    let with_suspects = deliveries.iter().zip(sent);
    let with_suspects =
        with_suspects.filter(|(one, event)| one.burst.is_none() && has_first_suspects(event));
    let subjects: HashSet<Uuid> = with_suspects.map(|(one, _)| one.subject).collect();
    if subjects.is_empty() {
        return Ok(deliveries);
    }
    let mut events = sent.iter();
    deliveries.retain(|one| {
        let is_before = events.next().is_some_and(|event| is_before_suspects(event));
        !(is_before && one.burst.is_none() && subjects.contains(&one.subject))
    });
    tx.withdraw_deliveries(tenant, connection.id, subjects)
        .await?;
    Ok(deliveries)
}

/// If a chat would get more than five messages about a service within a minute, the later ones
/// are joined at its end; so are messages about incidents if it would get more than thirty
/// messages within ten seconds.
async fn join_bursts(
    tx: &mut Tx,
    tenant: Tenant,
    connection: &Connection,
    deliveries: &mut [NewDelivery],
    sent: &[&Event],
    now: Timestamp,
) -> Result<(), StoreError> {
    let since = now.plus(-BURST_PERIOD);
    let mut counts: HashMap<Option<ServiceId>, usize> = HashMap::new();
    let recent = tx.recent_deliveries(tenant, connection.id, since).await?;
    let storm_since = now.plus(-STORM_PERIOD);
    let latest = recent.iter().filter(|(_, at)| *at >= storm_since).count();
    let is_storm = latest + deliveries.len() > MAX_STORM_MESSAGES;
    for (service, _) in recent {
        *counts.entry(service).or_default() += 1;
    }
    for delivery in &*deliveries {
        *counts.entry(delivery.service).or_default() += 1;
    }
    if !is_storm && counts.values().all(|count| *count <= MAX_SINGLE_MESSAGES) {
        return Ok(());
    }
    // These edit the message of their change, which makes no noise.
    let subjects = deliveries.iter().map(|one| one.subject).collect();
    let posted = tx.posted_subjects(tenant, connection.id, subjects).await?;
    let period = BURST_PERIOD.num_milliseconds();
    let minute = now.millis().div_euclid(period);
    for (delivery, event) in deliveries.iter_mut().zip(sent) {
        let is_incident = matches!(event, Event::Incident(_));
        let is_in_storm = is_storm && is_incident;
        let count = counts.get(&delivery.service).copied().unwrap_or_default();
        if (is_in_storm || count > MAX_SINGLE_MESSAGES) && !posted.contains(&delivery.subject) {
            let service = delivery.service.map(|id| id.to_string());
            // One key for all incidents, so that a storm that begins as a burst of one service
            // does not repeat the same incidents.
            let joined = if is_incident {
                "incidents".to_owned()
            } else {
                service.unwrap_or_default()
            };
            delivery.burst = Some(format!("{joined}/{minute}"));
            delivery.due = Timestamp::from_millis((minute + 1) * period);
        }
    }
    Ok(())
}
