//! Mails about notifications on their way: which are due, and what became of them.
//!
//! A server claims a mailbox that is due, takes the notifications that it is to mail, sends
//! one mail with all of them, and ends the mailing. If the server dies, its claim ends and
//! another one sends the mail: each notification is mailed at least once.

use std::collections::HashMap;

use changelog_core::{Incident, IncidentId, MailMode, Timestamp};
use chrono::TimeDelta;
use chrono_tz::Tz;
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::engine::{end_lease, execute, on, read};
use super::mailboxes::{MAIL_INTERVAL, Mailbox, MailboxRow, about, next_daily, zone};
use super::notifications::{Notification, Row as NotificationRow};
use super::{Database, StoreError, Tx, new_id};

/// After this time another server may send a mail that one has claimed.
const CLAIM_TTL: TimeDelta = TimeDelta::minutes(3);
/// The times between attempts to send a mail, in minutes; after the last, it is given up.
const RETRY_MINUTES: [i64; 9] = [1, 5, 15, 60, 120, 240, 300, 360, 360];
/// The most notifications that one mail lists. The statement reads one more.
pub const MAX_MAILED: usize = 50;

const DUE: &str = "
SELECT organization_id, user_id, mail, attempts FROM mailboxes
WHERE due_at <= $1 ORDER BY due_at LIMIT 50";

const TAKE: &str = "
UPDATE notifications SET mailing = $4
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND is_incident >= 0";

const CLAIM: &str = "
UPDATE mailboxes SET attempts = attempts + 1, due_at = $5
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND attempts = $4
    AND due_at IS NOT NULL";

/// Joins the membership, so that nobody who has left is mailed.
const RECIPIENT: &str = "
SELECT u.email, u.name, u.time_zone, o.name AS organization_name, b.token, b.failures
FROM mailboxes b
JOIN memberships m ON m.organization_id = b.organization_id AND m.user_id = b.user_id
JOIN users u ON u.id = b.user_id
JOIN organizations o ON o.id = b.organization_id
WHERE b.organization_id = $1 AND b.user_id = $2 AND b.mail = $3";

/// Incidents first, so that many changes do not leave them out.
const TAKEN: &str = "
SELECT subject_id, kind, title, level, status, services, actor, at, is_unread
FROM notifications
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND mailing = $4
ORDER BY is_incident DESC, at DESC LIMIT 51";

/// The last condition makes SQLite read only what is to be mailed.
const FORGET_TAKEN: &str = "
UPDATE notifications SET mail = NULL, mailing = NULL
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND mailing = $4
    AND is_incident >= 0";

/// On PostgreSQL this waits for transactions that have notified the person, whose
/// notifications the next statement sees.
const LOCK: &str = "
UPDATE mailboxes SET attempts = attempts + 1
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND attempts = $4";

/// The order makes PostgreSQL use the index of what is to be mailed.
const HAS_MORE: &str = "
SELECT subject_id FROM notifications
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 ORDER BY is_incident, at LIMIT 1";

const SENT: &str = "
UPDATE mailboxes SET due_at = $4, failures = 0, sent_at = $5, problem = NULL
WHERE organization_id = $1 AND user_id = $2 AND mail = $3";

const NOTHING_SENT: &str = "
UPDATE mailboxes SET due_at = $4 WHERE organization_id = $1 AND user_id = $2 AND mail = $3";

const GIVEN_UP: &str = "
UPDATE mailboxes SET due_at = $4, failures = 0, problem = $5
WHERE organization_id = $1 AND user_id = $2 AND mail = $3";

const RETRY: &str = "
UPDATE mailboxes SET due_at = $5, failures = failures + 1, problem = $6
WHERE organization_id = $1 AND user_id = $2 AND mail = $3 AND attempts = $4";

/// A mailbox that is due.
#[derive(Clone, Debug)]
pub struct DueMailbox {
    mailbox: Mailbox,
    attempts: i64,
}

/// A mail that this server has claimed.
#[derive(Clone, Debug)]
pub struct Mailing {
    /// The id of this attempt.
    pub id: Uuid,
    /// Which mails of which person.
    pub mailbox: Mailbox,
    attempts: i64,
    failures: i64,
    /// The address.
    pub email: String,
    /// The name of the person.
    pub name: String,
    /// The name of the organization.
    pub organization_name: String,
    /// The token of the link that unsubscribes.
    pub token: String,
    /// The person's time zone.
    pub zone: Tz,
    /// What is mailed, at most [`MAX_MAILED`]: about incidents first, then newest first.
    pub notifications: Vec<Notification>,
    /// The incidents that they are about, as they are now, with their first suspects.
    pub incidents: HashMap<IncidentId, Incident>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What became of a mailing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    /// The mail server has accepted it.
    Sent,
    /// It is to be sent again: why it was not sent.
    Retry(String),
    /// It is never accepted: why.
    Refused(String),
}

#[derive(FromRow)]
struct DueRow {
    #[sqlx(flatten)]
    mailbox: MailboxRow,
    attempts: i64,
}

#[derive(FromRow)]
struct RecipientRow {
    email: String,
    name: String,
    time_zone: Option<String>,
    organization_name: String,
    token: String,
    failures: i64,
}

impl Database {
    /// Lists mailboxes that are due, at most 50.
    pub async fn due_mailboxes(&self, now: Timestamp) -> Result<Vec<DueMailbox>, StoreError> {
        let rows: Vec<DueRow> = read!(self.system().await?, |db| sqlx::query_as(DUE)
            .bind(now.millis())
            .fetch_all(&mut **db))?;
        let due = |row: DueRow| DueMailbox {
            mailbox: row.mailbox.into(),
            attempts: row.attempts,
        };
        Ok(rows.into_iter().map(due).collect())
    }

    /// Claims a mailbox and takes what is to be mailed. Returns `None` if another server
    /// has claimed it, or if there is nothing to mail.
    pub async fn begin_mailing(
        &self,
        due: &DueMailbox,
        now: Timestamp,
    ) -> Result<Option<Mailing>, StoreError> {
        let mailbox = &due.mailbox;
        let id = new_id(now.to_datetime());
        // Notifications are locked before mailboxes, as in the transaction that notifies.
        let mut tx = self.begin().await?;
        execute!(tx, about!(TAKE, mailbox).bind(id))?;
        let claimed_until = now.plus(CLAIM_TTL).millis();
        let claimed = execute!(
            tx,
            about!(CLAIM, mailbox)
                .bind(due.attempts)
                .bind(claimed_until)
        )?;
        if claimed == 0 {
            return Ok(None);
        }
        tx.commit().await?;
        let (recipient, mut taken): (Option<RecipientRow>, Vec<NotificationRow>) = {
            let mut lease = self.system().await?;
            let recipient = on!(&mut lease, |db| sqlx::query_as(RECIPIENT)
                .bind(mailbox.tenant().uuid())
                .bind(mailbox.user.0)
                .bind(mailbox.mail.as_str())
                .fetch_optional(&mut **db))?;
            let taken = on!(&mut lease, |db| sqlx::query_as(TAKEN)
                .bind(mailbox.tenant().uuid())
                .bind(mailbox.user.0)
                .bind(mailbox.mail.as_str())
                .bind(id)
                .fetch_all(&mut **db))?;
            end_lease(lease);
            (recipient, taken)
        };
        let attempts = due.attempts + 1;
        // A member may have left while events were queued.
        let is_gone = recipient.is_none();
        let Some(recipient) = recipient.filter(|_| !taken.is_empty()) else {
            let mut tx = self.begin().await?;
            if execute!(tx, about!(LOCK, mailbox).bind(attempts))? > 0 {
                if is_gone {
                    tx.forget_notifications(mailbox).await?;
                }
                let due = tx.has_more(mailbox).await?.then(|| now.millis());
                execute!(tx, about!(NOTHING_SENT, mailbox).bind(due))?;
            }
            tx.commit().await?;
            return Ok(None);
        };
        let has_more = taken.len() > MAX_MAILED;
        taken.truncate(MAX_MAILED);
        let notifications: Vec<Notification> = taken
            .into_iter()
            .map(Notification::try_from)
            .collect::<Result<_, _>>()?;
        let incidents = notifications.iter().filter_map(Notification::incident_id);
        let incidents = self.incidents_by_id(mailbox.tenant(), incidents).await?;
        Ok(Some(Mailing {
            id,
            mailbox: mailbox.clone(),
            attempts,
            failures: recipient.failures,
            email: recipient.email,
            name: recipient.name,
            organization_name: recipient.organization_name,
            token: recipient.token,
            zone: zone(recipient.time_zone.as_deref()),
            notifications,
            incidents,
            has_more,
        }))
    }

    /// Records what became of a mailing. One that has failed too often is given up.
    pub async fn end_mailing(
        &self,
        mailing: &Mailing,
        outcome: &MailOutcome,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mailbox = &mailing.mailbox;
        let failures = usize::try_from(mailing.failures).unwrap_or(usize::MAX);
        let mut tx = self.begin().await?;
        let problem = match (outcome, RETRY_MINUTES.get(failures)) {
            (MailOutcome::Sent, _) => None,
            (MailOutcome::Retry(problem), Some(minutes)) => {
                let next = now.plus(with_jitter(TimeDelta::minutes(*minutes)));
                execute!(
                    tx,
                    about!(RETRY, mailbox)
                        .bind(mailing.attempts)
                        .bind(next.millis())
                        .bind(problem)
                )?;
                return tx.commit().await;
            }
            (MailOutcome::Retry(problem) | MailOutcome::Refused(problem), _) => Some(problem),
        };
        execute!(tx, about!(FORGET_TAKEN, mailbox).bind(mailing.id))?;
        let is_claimed = execute!(tx, about!(LOCK, mailbox).bind(mailing.attempts))? > 0;
        if is_claimed {
            let next = match mailbox.mail {
                MailMode::Daily => next_daily(mailing.zone, now),
                _ => now.plus(MAIL_INTERVAL),
            };
            let due = tx.has_more(mailbox).await?.then(|| next.millis());
            match problem {
                None => execute!(tx, about!(SENT, mailbox).bind(due).bind(now.millis()))?,
                Some(problem) => execute!(tx, about!(GIVEN_UP, mailbox).bind(due).bind(problem))?,
            };
        }
        tx.commit().await
    }
}

impl Tx {
    /// Returns whether there is something to mail.
    async fn has_more(&mut self, mailbox: &Mailbox) -> Result<bool, StoreError> {
        let more: Option<(Uuid,)> = on!(&mut self.connection, |db| {
            sqlx::query_as(HAS_MORE)
                .bind(mailbox.tenant().uuid())
                .bind(mailbox.user.0)
                .bind(mailbox.mail.as_str())
                .fetch_optional(&mut **db)
        })?;
        Ok(more.is_some())
    }
}

/// Makes a time up to a tenth longer.
fn with_jitter(time: TimeDelta) -> TimeDelta {
    let most = time.num_milliseconds() / 10;
    time + TimeDelta::milliseconds(rand::random_range(0..=most.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_go_on_for_about_a_day() {
        let minutes: i64 = RETRY_MINUTES.iter().sum();
        assert!((23 * 60..=25 * 60).contains(&minutes), "{minutes}");
    }
}
