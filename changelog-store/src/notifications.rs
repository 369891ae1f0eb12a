//! Notifications of people about the changes and incidents of services that they are
//! subscribed to: one for each change or incident and person, with its last event.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use changelog_core::{
    ChangeId, Event, EventKind, EventOfChange, EventOfIncident, IncidentId, MailMode, RiskLevel,
    ServiceId, Severity, Timestamp, UserId,
};
use chrono::TimeDelta;
use sqlx::types::{Text, Uuid};
use sqlx::{FromRow, QueryBuilder};

use super::engine::{Dialect, Script, Value, end_lease, execute, on, run_script};
use super::mailboxes::{self, Mailbox};
use super::{Database, StoreError, Tenant, Tx, changes};

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
/// How long a mail about a new incident waits for its suspects.
const SUSPECTS_WAIT: TimeDelta = TimeDelta::seconds(5);

/// Joins the memberships, so that nobody who has left is notified.
const SELECT_SUBSCRIBERS: &str = "
SELECT s.service_id, s.user_id, s.min_risk, s.mail, u.time_zone
FROM subscriptions s
JOIN memberships m ON m.organization_id = s.organization_id AND m.user_id = s.user_id
JOIN users u ON u.id = s.user_id
WHERE s.organization_id = ";

const SELECT: &str = "
SELECT subject_id, kind, title, level, status, services, actor, at, is_unread
FROM notifications WHERE organization_id = $1 AND user_id = $2 AND is_unread = $3
ORDER BY at DESC LIMIT 100";

const MARK: &str = "
UPDATE notifications SET is_unread = 0
WHERE organization_id = $1 AND user_id = $2 AND subject_id = $3";

const MARK_ALL: &str = "
UPDATE notifications SET is_unread = 0
WHERE organization_id = $1 AND user_id = $2 AND is_unread = 1 AND at <= $3";

pub(super) const PURGE: &str = "
DELETE FROM notifications WHERE (organization_id, user_id, subject_id) IN
    (SELECT organization_id, user_id, subject_id FROM notifications WHERE at < $1
     ORDER BY at LIMIT 1000)";

const INSERT: &str = "INSERT INTO notifications (organization_id, user_id, subject_id, \
                      is_incident, kind, title, level, status, services, actor, at, mail, \
                      is_unread) ";

/// A later event replaces an earlier one and is unread. What a mailing has taken, it has
/// taken without this event.
const OR_REPLACE: &str = " \
ON CONFLICT (organization_id, user_id, subject_id) DO UPDATE SET
    kind = excluded.kind, title = excluded.title, level = excluded.level,
    status = excluded.status, services = excluded.services, actor = excluded.actor,
    at = excluded.at, is_unread = 1,
    mail = CASE WHEN excluded.mail IS NULL OR notifications.mail = 'instant'
        THEN notifications.mail ELSE excluded.mail END,
    mailing = CASE WHEN excluded.mail IS NULL THEN notifications.mailing END";

/// What a person is notified of: the last event of a change or an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// What it happened to.
    pub subject: NotificationSubject,
    /// What happened.
    pub kind: EventKind,
    /// The title of the change or the incident.
    pub title: String,
    /// The status of the change in words; of an incident, whether it was opened, opened again
    /// or resolved.
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

/// What a notification is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotificationSubject {
    /// A change with its risk.
    Change(ChangeId, RiskLevel),
    /// An incident with its severity.
    Incident(IncidentId, Severity),
}

impl Notification {
    /// Returns the id of the change or the incident.
    pub fn id(&self) -> Uuid {
        match self.subject {
            NotificationSubject::Change(id, _) => id.0,
            NotificationSubject::Incident(id, _) => id.0,
        }
    }

    /// Returns the incident that it is about.
    pub fn incident_id(&self) -> Option<IncidentId> {
        match self.subject {
            NotificationSubject::Incident(id, _) => Some(id),
            NotificationSubject::Change(..) => None,
        }
    }
}

#[derive(FromRow)]
pub(super) struct Row {
    subject_id: Uuid,
    kind: Text<EventKind>,
    title: String,
    level: String,
    status: String,
    services: String,
    actor: String,
    at: i64,
    is_unread: i64,
}

impl TryFrom<Row> for Notification {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let id = row.subject_id;
        let kind = row.kind.0;
        let subject = if kind.is_of_incident() {
            let severity = row.level.parse::<Severity>();
            let severity = severity.map_err(|bad| changes::broken(&bad))?;
            NotificationSubject::Incident(id.into(), severity)
        } else {
            let risk = row.level.parse::<RiskLevel>();
            let risk = risk.map_err(|bad| changes::broken(&bad))?;
            NotificationSubject::Change(id.into(), risk)
        };
        Ok(Self {
            subject,
            kind,
            title: row.title,
            status: row.status,
            services: row.services,
            actor: row.actor,
            at: Timestamp::from_millis(row.at),
            is_unread: row.is_unread == 1,
        })
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

/// What subscribers are notified of an event.
struct Notice<'e> {
    subject: Uuid,
    is_incident: bool,
    kind: &'e EventKind,
    title: &'e str,
    /// The risk of a change, the severity of an incident.
    level: &'e str,
    status: &'e str,
    service_ids: &'e [ServiceId],
    services: String,
    /// What subscriptions limit; `None` for an incident, of which all subscribers are notified.
    risk: Option<&'e RiskLevel>,
    actor: &'e str,
    actor_id: Option<UserId>,
    at: Timestamp,
    /// How long a mail that is sent at once waits.
    wait: TimeDelta,
}

impl<'e> Notice<'e> {
    /// Returns the notice of an event; `None` if nobody is notified of it.
    fn of(event: &'e Event) -> Option<Self> {
        match event {
            Event::Change(event) => Some(Self::of_change(event)),
            Event::Incident(event) => Self::of_incident(event),
            Event::Source(_) => None,
        }
    }

    fn of_change(event: &'e EventOfChange) -> Self {
        let change = &event.change;
        let services = change.all_services().iter();
        let names: Vec<&str> = services.map(|service| service.name.as_str()).collect();
        Self {
            subject: change.id.0,
            is_incident: false,
            kind: &event.kind,
            title: &change.title,
            level: change.risk_level.as_str(),
            status: change.status_label(),
            service_ids: &change.service_ids,
            services: names.join(", ").chars().take(MAX_SERVICE_CHARS).collect(),
            risk: Some(&change.risk_level),
            actor: &event.actor,
            actor_id: event.actor_id,
            at: event.at,
            wait: TimeDelta::zero(),
        }
    }

    /// Of new suspects nobody is notified: who reads about an incident sees the latest ones.
    fn of_incident(event: &'e EventOfIncident) -> Option<Self> {
        let incident = &event.incident;
        let status = match (&event.kind, event.again) {
            (EventKind::IncidentOpened, false) => "opened",
            (EventKind::IncidentOpened, true) => "opened again",
            (EventKind::IncidentResolved, _) => "resolved",
            _ => return None,
        };
        let service = incident.service.as_ref();
        let is_ranked = incident.ranked_at.is_some() || !incident.is_open();
        Some(Self {
            subject: incident.id.0,
            is_incident: true,
            kind: &event.kind,
            title: &incident.title,
            level: incident.severity.as_str(),
            status,
            service_ids: incident.service_id.as_slice(),
            services: service.map_or_else(String::new, |service| service.name.clone()),
            risk: None,
            actor: &event.actor,
            actor_id: event.actor_id,
            at: event.at,
            wait: if is_ranked {
                TimeDelta::zero()
            } else {
                SUSPECTS_WAIT
            },
        })
    }

    fn row<'r>(&'r self, tenant: Tenant, user: UserId, mail: &'r MailMode) -> [Value<'r>; 13] {
        [
            tenant.uuid().into(),
            user.0.into(),
            self.subject.into(),
            i64::from(self.is_incident).into(),
            self.kind.as_str().into(),
            self.title.into(),
            self.level.into(),
            self.status.into(),
            self.services.as_str().into(),
            self.actor.into(),
            self.at.millis().into(),
            Some(mail.as_str())
                .filter(|_| *mail != MailMode::Off)
                .into(),
            1.into(),
        ]
    }
}

/// What to notify of, by person and change or incident, with the way to mail it.
type Matches<'n> = BTreeMap<(UserId, Uuid), (&'n Notice<'n>, MailMode)>;

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
            for row in rows {
                list.push(row.try_into()?);
            }
        }
        end_lease(lease);
        Ok(list)
    }
}

impl Tx {
    /// Notifies the subscribers of the services of changes and incidents, except of what they
    /// did themselves, and has mails sent to those who want them. The events are in order.
    /// Returns the number of events, from the first on, of which they are notified: fewer
    /// than all if there would be too many notifications for one transaction.
    pub async fn notify_subscribers(
        &mut self,
        tenant: Tenant,
        events: &[&Event],
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let notices: Vec<Option<Notice<'_>>> =
            events.iter().map(|event| Notice::of(event)).collect();
        let services = notices.iter().flatten();
        let services: BTreeSet<Uuid> = services
            .flat_map(|notice| notice.service_ids)
            .map(|id| id.0)
            .collect();
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
        let (new, taken) = matching(&notices, &subscribers);
        let rows: Vec<[Value<'_>; 13]> = new
            .iter()
            .map(|((user, _), (notice, mail))| notice.row(tenant, *user, mail))
            .collect();
        let zones: HashMap<UserId, Option<&str>> = subscribers
            .iter()
            .map(|one| (one.user_id, one.time_zone.as_deref()))
            .collect();
        let mut mailboxes: BTreeMap<Mailbox, TimeDelta> = BTreeMap::new();
        for ((user, _), (notice, mail)) in &new {
            if let Some(mailbox) = Mailbox::of(tenant, *user, mail) {
                let wait = mailboxes.entry(mailbox).or_insert(notice.wait);
                *wait = notice.wait.min(*wait);
            }
        }
        let due: Vec<(Mailbox, Timestamp)> = mailboxes
            .into_iter()
            .map(|(mailbox, wait)| {
                let zone = zones.get(&mailbox.user).copied().flatten();
                let due = mailboxes::first_due(&mailbox.mail, zone, now);
                // A mail of the day has time enough.
                let due = match mailbox.mail {
                    MailMode::Instant => due.plus(wait),
                    _ => due,
                };
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

    /// Marks the notification of a change or an incident as read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person has none.
    pub async fn mark_read(
        &mut self,
        tenant: Tenant,
        user: UserId,
        subject: Uuid,
    ) -> Result<(), StoreError> {
        let marked = execute!(
            self,
            sqlx::query(MARK)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(subject)
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

/// Returns the last notice of each person and change or incident that a subscription of the
/// person matches, with the most urgent of the ways to mail it. The rows of all transactions
/// are in the same order, so that none waits for another one that waits for it. Also returns
/// the number of events until there are enough.
fn matching<'n>(
    notices: &'n [Option<Notice<'n>>],
    subscribers: &[Subscriber],
) -> (Matches<'n>, usize) {
    let mut of_service: HashMap<ServiceId, Vec<&Subscriber>> = HashMap::new();
    for subscriber in subscribers {
        let list = of_service.entry(subscriber.service_id).or_default();
        list.push(subscriber);
    }
    let mut new = Matches::new();
    let mut taken = 0;
    for notice in notices {
        if new.len() >= ENOUGH_NOTIFICATIONS {
            break;
        }
        taken += 1;
        let Some(notice) = notice else {
            continue;
        };
        let services = notice.service_ids.iter();
        for subscriber in services.filter_map(|id| of_service.get(id)).flatten() {
            let is_own = notice.actor_id == Some(subscriber.user_id);
            if is_own
                || notice
                    .risk
                    .is_some_and(|risk| *risk < subscriber.min_risk.0)
            {
                continue;
            }
            let mail = &subscriber.mail.0;
            new.entry((subscriber.user_id, notice.subject))
                .and_modify(|(last, sooner)| {
                    *last = notice;
                    if *sooner == MailMode::Off || *mail == MailMode::Instant {
                        *sooner = mail.clone();
                    }
                })
                .or_insert_with(|| (notice, mail.clone()));
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

fn insert<DB: Dialect>(rows: &[[Value<'_>; 13]]) -> Script<DB> {
    let mut script = Script::new();
    script.insert(INSERT, rows, OR_REPLACE);
    script
}
