//! Notifications of people about the changes of services that they are subscribed to: one
//! for each change and person, with its last event.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use changelog_core::{
    ChangeId, Event, EventKind, EventOfChange, MailMode, RiskLevel, ServiceId, Timestamp, UserId,
};
use chrono::TimeDelta;
use sqlx::types::{Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::engine::{Dialect, Script, Value, end_lease, execute, on, run_script};
use super::mailboxes::{self, Mailbox};
use super::{Database, StoreError, Tenant, Tx};

/// How long notifications are kept after the event.
pub(super) const NOTIFICATION_TTL: TimeDelta = TimeDelta::days(30);
/// The most unread and the most read notifications that are listed; the statement repeats
/// it.
pub const MAX_LISTED_NOTIFICATIONS: usize = 100;
/// The number of notifications from which on no further events are taken into the same
/// transaction, because on SQLite other writers wait for it.
const ENOUGH_NOTIFICATIONS: usize = 2_000;
/// The most rows that are written at once.
const MAX_SCRIPT_ROWS: usize = 1_000;
/// The limit on characters of the names of the services of a notification.
const MAX_SERVICE_CHARS: usize = 200;

/// Joins the memberships, so that nobody who has left is notified.
const SELECT_SUBSCRIBERS: &str = "
SELECT s.service_id, s.user_id, s.min_risk, s.mail, u.time_zone
FROM subscriptions s
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN users u ON u.id = s.user_id
WHERE s.organization_id = ";

const SELECT: &str = "
SELECT change_id, kind, title, risk_level, status, services, actor, at, is_unread
FROM notifications WHERE organization_id = $1 AND user_id = $2 AND is_unread = $3
ORDER BY at DESC LIMIT 100";

const MARK: &str = "
UPDATE notifications SET is_unread = 0
WHERE organization_id = $1 AND user_id = $2 AND change_id = $3";

const MARK_ALL: &str = "
UPDATE notifications SET is_unread = 0
WHERE organization_id = $1 AND user_id = $2 AND is_unread = 1 AND at <= $3";

pub(super) const PURGE: &str = "
DELETE FROM notifications WHERE (organization_id, user_id, change_id) IN
    (SELECT organization_id, user_id, change_id FROM notifications WHERE at < $1
     ORDER BY at LIMIT 1000)";

const INSERT: &str = "INSERT INTO notifications (organization_id, user_id, change_id, kind, \
                      title, risk_level, status, services, actor, at, mail, is_unread) ";

/// A later event replaces an earlier one and is unread. What a mailing has taken, it has
/// taken without this event.
const OR_REPLACE: &str = " \
ON CONFLICT (organization_id, user_id, change_id) DO UPDATE SET
    kind = excluded.kind, title = excluded.title, risk_level = excluded.risk_level,
    status = excluded.status, services = excluded.services, actor = excluded.actor,
    at = excluded.at, is_unread = 1,
    mail = CASE WHEN excluded.mail IS NULL OR notifications.mail = 'instant'
        THEN notifications.mail ELSE excluded.mail END,
    mailing = CASE WHEN excluded.mail IS NULL THEN notifications.mailing END";

/// What a person is notified of: the last event of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The change.
    pub change_id: ChangeId,
    /// What happened.
    pub kind: EventKind,
    /// The title of the change.
    pub title: String,
    /// Its risk.
    pub risk_level: RiskLevel,
    /// Its status in words.
    pub status: String,
    /// The names of its services, separated by commas.
    pub services: String,
    /// Who did it, as the activity log names them.
    pub actor: String,
    /// When it happened.
    pub at: Timestamp,
    /// Whether the person has not marked it as read.
    pub is_unread: bool,
}

#[derive(FromRow)]
pub(super) struct Row {
    #[sqlx(try_from = "Uuid")]
    change_id: ChangeId,
    kind: Text<EventKind>,
    title: String,
    risk_level: Text<RiskLevel>,
    status: String,
    services: String,
    actor: String,
    at: i64,
    is_unread: i64,
}

impl From<Row> for Notification {
    fn from(row: Row) -> Self {
        Self {
            change_id: row.change_id,
            kind: row.kind.0,
            title: row.title,
            risk_level: row.risk_level.0,
            status: row.status,
            services: row.services,
            actor: row.actor,
            at: Timestamp::from_millis(row.at),
            is_unread: row.is_unread == 1,
        }
    }
}

#[derive(FromRow)]
struct Subscriber {
    #[sqlx(try_from = "Uuid")]
    service_id: ServiceId,
    #[sqlx(try_from = "Uuid")]
    user_id: UserId,
    min_risk: Text<RiskLevel>,
    mail: Text<MailMode>,
    time_zone: Option<String>,
}

/// The events to notify of, by person and change, with the way to mail them.
type Matches<'e> = BTreeMap<(UserId, ChangeId), (&'e EventOfChange, MailMode)>;

impl Database {
    /// Lists the notifications of a person: the unread ones, then the read ones, each
    /// newest first, at most [`MAX_LISTED_NOTIFICATIONS`].
    pub async fn notifications(
        &self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<Vec<Notification>, StoreError> {
        let mut lease = self.system().await?;
        let mut list = Vec::new();
        for is_unread in [1_i64, 0] {
            let rows: Vec<Row> = on!(&mut lease, |db| sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(is_unread)
                .fetch_all(&mut **db))?;
            list.extend(rows.into_iter().map(Notification::from));
        }
        end_lease(lease);
        Ok(list)
    }
}

impl Tx {
    /// Notifies the subscribers of the services of changes, except of what they did
    /// themselves, and has mails sent to those who want them. The events are in order.
    /// Returns the number of events, from the first on, of which they are notified: fewer
    /// than all if there would be too many notifications for one transaction.
    pub async fn notify_subscribers(
        &mut self,
        tenant: Tenant,
        events: &[&Event],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let changes = || events.iter().filter_map(|event| event.of_change());
        let services = changes().flat_map(|event| &event.change.service_ids);
        let services: BTreeSet<Uuid> = services.map(|id| id.0).collect();
        if services.is_empty() {
            return Ok(events.len());
        }
        let services: Vec<Uuid> = services.into_iter().collect();
        let subscribers: Vec<Subscriber> = on!(&mut self.connection, |db| async {
            let mut query = select_subscribers(tenant, services);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        if subscribers.is_empty() {
            return Ok(events.len());
        }
        let (new, taken) = matching(events, &subscribers);
        let names: HashMap<Uuid, String> = changes()
            .map(|event| (event.id, service_names(event)))
            .collect();
        let rows: Vec<[Value<'_>; 12]> = new
            .iter()
            .map(|((user, _), (event, mail))| row(tenant, *user, event, &names, mail))
            .collect();
        let zones: HashMap<UserId, Option<&str>> = subscribers
            .iter()
            .map(|one| (one.user_id, one.time_zone.as_deref()))
            .collect();
        let mailboxes: BTreeSet<Mailbox> = new
            .iter()
            .filter_map(|((user, _), (_, mail))| Mailbox::of(tenant, *user, mail))
            .collect();
        let due: Vec<(Mailbox, Timestamp)> = mailboxes
            .into_iter()
            .map(|mailbox| {
                let zone = zones.get(&mailbox.user).copied().flatten();
                let due = mailboxes::first_due(&mailbox.mail, zone, now);
                (mailbox, due)
            })
            .collect();
        // One after the other, because each has a time limit.
        for rows in rows.chunks(MAX_SCRIPT_ROWS) {
            run_script!(self, |DB| insert::<DB>(rows))?;
        }
        for due in due.chunks(MAX_SCRIPT_ROWS) {
            run_script!(self, |DB| mailboxes::make_due::<DB>(due))?;
        }
        Ok(taken)
    }

    /// Marks the notification of a change as read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person has none.
    pub async fn mark_read(
        &mut self,
        tenant: Tenant,
        user: UserId,
        change: ChangeId,
    ) -> Result<(), StoreError> {
        let marked = execute!(
            self,
            sqlx::query(MARK)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(change.0)
        )?;
        match marked {
            0 => Err(StoreError::NotFound),
            _ => Ok(()),
        }
    }

    /// Marks all notifications of events until a time as read.
    pub async fn mark_all_read(
        &mut self,
        tenant: Tenant,
        user: UserId,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(MARK_ALL)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(until.millis())
        )?;
        Ok(())
    }
}

/// Returns the last event of each person and change that a subscription of the person
/// matches, with the most urgent of the ways to mail it. The rows of all transactions are
/// in the same order, so that none waits for another one that waits for it. Also returns
/// the number of events until there are enough.
fn matching<'e>(events: &[&'e Event], subscribers: &[Subscriber]) -> (Matches<'e>, usize) {
    let mut of_service: HashMap<ServiceId, Vec<&Subscriber>> = HashMap::new();
    for subscriber in subscribers {
        let list = of_service.entry(subscriber.service_id).or_default();
        list.push(subscriber);
    }
    let mut new = Matches::new();
    let mut taken = 0;
    for event in events {
        if new.len() >= ENOUGH_NOTIFICATIONS {
            break;
        }
        taken += 1;
        let Some(event) = event.of_change() else {
            continue;
        };
        let change = &event.change;
        let services = change.service_ids.iter();
        for subscriber in services.filter_map(|id| of_service.get(id)).flatten() {
            let is_own = event.actor_id == Some(subscriber.user_id);
            if is_own || change.risk_level < subscriber.min_risk.0 {
                continue;
            }
            let mail = &subscriber.mail.0;
            new.entry((subscriber.user_id, change.id))
                .and_modify(|(last, sooner)| {
                    *last = event;
                    if *sooner == MailMode::Off || *mail == MailMode::Instant {
                        *sooner = mail.clone();
                    }
                })
                .or_insert_with(|| (event, mail.clone()));
        }
    }
    (new, taken)
}

fn select_subscribers<DB: Dialect>(tenant: Tenant, services: Vec<Uuid>) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new(SELECT_SUBSCRIBERS);
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND s.service_id");
    DB::push_in_ids(&mut query, services);
    query
}

fn row<'r>(
    tenant: Tenant,
    user: UserId,
    event: &'r EventOfChange,
    names: &'r HashMap<Uuid, String>,
    mail: &'r MailMode,
) -> [Value<'r>; 12] {
    let change = &event.change;
    [
        tenant.uuid().into(),
        user.0.into(),
        change.id.0.into(),
        event.kind.as_str().into(),
        change.title.as_str().into(),
        change.risk_level.as_str().into(),
        change.status_label().into(),
        names.get(&event.id).map_or("", String::as_str).into(),
        event.actor.as_str().into(),
        event.at.millis().into(),
        Some(mail.as_str())
            .filter(|_| *mail != MailMode::Off)
            .into(),
        1.into(),
    ]
}

fn service_names(event: &EventOfChange) -> String {
    let services = event.change.all_services().iter();
    let names: Vec<&str> = services.map(|service| service.name.as_str()).collect();
    names.join(", ").chars().take(MAX_SERVICE_CHARS).collect()
}

fn insert<DB: Dialect>(rows: &[[Value<'_>; 12]]) -> Script<DB> {
    let mut script = Script::new();
    script.insert(INSERT, rows, OR_REPLACE);
    script
}
