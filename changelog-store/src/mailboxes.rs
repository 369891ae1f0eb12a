//! Mailboxes: a person has one for mails about notifications that are sent at once, and one
//! for those of each day.

use changelog_core::{MailMode, OrganizationId, Timestamp, UserId};
use chrono::{Days, NaiveTime, TimeDelta, TimeZone};
use chrono_tz::Tz;
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::engine::{Dialect, Script, Value, execute, read};
use super::{Database, StoreError, Tenant, Tx};

/// The least time between two mails that are sent at once to a person.
pub(super) const MAIL_INTERVAL: TimeDelta = TimeDelta::minutes(1);
/// When mails of a day are sent, in the person's time zone.
const DAILY_HOUR: u32 = 8;
/// The last condition makes SQLite read only what is to be mailed.
const FORGET: &str = "
UPDATE notifications SET mail = NULL, mailing = NULL
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND is_incident >= 0";

const EMPTY: &str = "
UPDATE mailboxes SET due_at = NULL, attempts = attempts + 1, failures = 0, problem = NULL
WHERE organization_id = $1 AND user_id = $2 AND mail = $3";

const BY_TOKEN: &str = "
SELECT b.organization_id, b.user_id, b.mail, u.name, o.name AS organization_name
FROM mailboxes b
JOIN memberships m ON m.organization_id = b.organization_id AND m.user_id = b.user_id
JOIN users u ON u.id = b.user_id
JOIN organizations o ON o.id = b.organization_id
WHERE b.token = $1";

const PROBLEM: &str = "
SELECT problem FROM mailboxes
WHERE organization_id = $1 AND user_id = $2 ORDER BY mail";

/// Which mails of which person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mailbox {
    /// The id of the organization.
    organization: OrganizationId,
    /// The person.
    pub user: UserId,
    /// When they are sent.
    pub mail: MailMode,
}

impl Mailbox {
    /// Returns the mailbox of a person; `None` for [`MailMode::Off`].
    pub(super) fn of(tenant: Tenant, user: UserId, mail: &MailMode) -> Option<Self> {
        (*mail != MailMode::Off).then(|| Self {
            organization: tenant.id(),
            user,
            mail: mail.clone(),
        })
    }

    /// Returns the organization.
    pub fn tenant(&self) -> Tenant {
        Tenant(self.organization)
    }
}

/// The mailbox of a link that unsubscribes.
#[derive(Clone, Debug)]
pub struct Unsubscription {
    /// The mailbox.
    pub mailbox: Mailbox,
    /// The name of the person.
    pub name: String,
    /// The name of the organization.
    pub organization_name: String,
}

#[derive(FromRow)]
pub(super) struct MailboxRow {
    #[sqlx(try_from = "Uuid")]
    organization_id: OrganizationId,
    #[sqlx(try_from = "Uuid")]
    user_id: UserId,
    mail: Text<MailMode>,
}

impl From<MailboxRow> for Mailbox {
    fn from(row: MailboxRow) -> Self {
        Self {
            organization: row.organization_id,
            user: row.user_id,
            mail: row.mail.0,
        }
    }
}

#[derive(FromRow)]
struct TokenRow {
    #[sqlx(flatten)]
    mailbox: MailboxRow,
    name: String,
    organization_name: String,
}

/// Binds the primary key of a mailbox.
macro_rules! about {
    ($statement:expr, $mailbox:expr) => {
        sqlx::query($statement)
            .bind($mailbox.tenant().uuid())
            .bind($mailbox.user.0)
            .bind($mailbox.mail.as_str())
    };
}
pub(super) use about;

impl Database {
    /// Finds the mailbox of a link that unsubscribes, if the person is still a member.
    pub async fn unsubscription(&self, token: &str) -> Result<Option<Unsubscription>, StoreError> {
        let row: Option<TokenRow> = read!(self.system().await?, |db| sqlx::query_as(BY_TOKEN)
            .bind(token)
            .fetch_optional(&mut **db))?;
        Ok(row.map(|row| Unsubscription {
            mailbox: row.mailbox.into(),
            name: row.name,
            organization_name: row.organization_name,
        }))
    }

    /// Returns why the last mail to a person was not sent, if it was not.
    pub async fn mail_problem(
        &self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<Option<String>, StoreError> {
        let rows: Vec<(Option<String>,)> =
            read!(self.system().await?, |db| sqlx::query_as(PROBLEM)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_all(&mut **db))?;
        Ok(rows.into_iter().find_map(|(problem,)| problem))
    }
}

impl Tx {
    /// Forgets what is to be mailed.
    pub(super) async fn empty_mailbox(
        &mut self,
        tenant: Tenant,
        user: UserId,
        mail: &MailMode,
    ) -> Result<(), StoreError> {
        if let Some(mailbox) = Mailbox::of(tenant, user, mail) {
            self.forget_notifications(&mailbox).await?;
            execute!(self, about!(EMPTY, mailbox))?;
        }
        Ok(())
    }

    /// Forgets which notifications are to be mailed.
    pub(super) async fn forget_notifications(
        &mut self,
        mailbox: &Mailbox,
    ) -> Result<(), StoreError> {
        execute!(self, about!(FORGET, mailbox))?;
        Ok(())
    }
}

/// Returns the statement that makes mailboxes due, unless they are due already.
pub(super) fn make_due<DB: Dialect>(due: &[(Mailbox, Timestamp)]) -> Script<DB> {
    let tokens: Vec<String> = due
        .iter()
        .map(|_| hex::encode(rand::random::<[u8; 32]>()))
        .collect();
    let rows: Vec<[Value<'_>; 7]> = due
        .iter()
        .zip(&tokens)
        .map(|((mailbox, at), token)| {
            [
                mailbox.organization.0.into(),
                mailbox.user.0.into(),
                mailbox.mail.as_str().into(),
                token.as_str().into(),
                at.millis().into(),
                0.into(),
                0.into(),
            ]
        })
        .collect();
    let interval = MAIL_INTERVAL.num_milliseconds();
    let mut script = Script::new();
    script.insert(
        "INSERT INTO mailboxes (organization_id, user_id, mail, token, due_at, attempts, failures) ",
        &rows,
        &format!(
            " ON CONFLICT (organization_id, user_id, mail) DO UPDATE SET due_at = \
             CASE WHEN mailboxes.sent_at + {interval} > excluded.due_at \
             THEN mailboxes.sent_at + {interval} ELSE excluded.due_at END \
             WHERE mailboxes.due_at IS NULL"
        ),
    );
    script
}

/// Returns when the first mail about something that happens now is due.
pub(super) fn first_due(mail: &MailMode, zone_name: Option<&str>, now: Timestamp) -> Timestamp {
    match mail {
        MailMode::Daily => next_daily(zone(zone_name), now),
        _ => now,
    }
}

/// Returns the zone with this name; UTC if there is none.
pub(super) fn zone(name: Option<&str>) -> Tz {
    name.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC)
}

/// Returns the next time at which it is eight o'clock in a zone.
pub(super) fn next_daily(zone: Tz, now: Timestamp) -> Timestamp {
    let today = now.to_datetime().with_timezone(&zone).date_naive();
    let eight = NaiveTime::from_hms_opt(DAILY_HOUR, 0, 0).unwrap_or_default();
    let times = (0..3).filter_map(|days| {
        let day = today.checked_add_days(Days::new(days))?;
        zone.from_local_datetime(&day.and_time(eight)).earliest()
    });
    let mut times = times.map(|at| Timestamp::from(at.to_utc()));
    let next = times.find(|at| *at > now);
    next.unwrap_or_else(|| now.plus(TimeDelta::days(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_of_a_day_are_due_at_eight() {
        for (zone, now, expected) in [
            ("UTC", "2026-11-22T07:59:59Z", "2026-11-22T08:00:00.000Z"),
            ("UTC", "2026-11-22T08:00:00Z", "2026-11-23T08:00:00.000Z"),
            (
                "Europe/Berlin",
                "2026-11-22T06:00:00Z",
                "2026-11-22T07:00:00.000Z",
            ),
            (
                "Europe/Berlin",
                "2026-11-22T07:00:01Z",
                "2026-11-23T07:00:00.000Z",
            ),
            // Clocks go back that night, and forward that night.
            (
                "Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "2026-10-25T07:00:00.000Z",
            ),
            (
                "Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "2026-03-29T06:00:00.000Z",
            ),
            (
                "Asia/Kathmandu",
                "2026-11-22T12:00:00Z",
                "2026-11-23T02:15:00.000Z",
            ),
            // There this day did not exist.
            (
                "Pacific/Apia",
                "2011-12-29T19:00:00Z",
                "2011-12-30T18:00:00.000Z",
            ),
            (
                "Nowhere",
                "2026-11-22T09:00:00Z",
                "2026-11-23T08:00:00.000Z",
            ),
        ] {
            let now: Timestamp = now.parse().expect("a time");
            let next = first_due(&MailMode::Daily, Some(zone), now);
            assert_eq!(next.to_string(), expected, "{zone} {now}");
        }
        let now: Timestamp = "2026-11-22T09:00:00Z".parse().expect("a time");
        assert_eq!(first_due(&MailMode::Instant, None, now), now);
    }
}
