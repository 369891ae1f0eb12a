//! Subscriptions of members to the changes of services.
//!
//! They are where the memberships are, so that those of people who are no longer members
//! are left out by a join. `notifications` has what they lead to.

use changelog_core::{
    Action, MailMode, ResourceType, RiskLevel, Service, ServiceId, ServiceRef, Subscription,
    SubscriptionOptions, Timestamp, UserId,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::FromRow;
use sqlx::types::{Text, Uuid};

use super::activity::{Entry, changed};
use super::engine::{execute, on, read};
use super::{Actor, Database, StoreError, Tenant, Tx};

/// The most subscriptions of a person in one organization.
pub const MAX_SUBSCRIPTIONS: usize = 200;

const SELECT_OF_USER: &str = "
SELECT service_id, min_risk, mail, created_at FROM subscriptions
WHERE organization_id = $1 AND user_id = $2 ORDER BY service_id";

const SELECT: &str = "
SELECT service_id, min_risk, mail, created_at FROM subscriptions
WHERE organization_id = $1 AND user_id = $2 AND service_id = $3";

const COUNT: &str =
    "SELECT count(*) FROM subscriptions WHERE organization_id = $1 AND user_id = $2";

const UPSERT: &str = "
INSERT INTO subscriptions (organization_id, service_id, user_id, min_risk, mail, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (organization_id, user_id, service_id)
DO UPDATE SET min_risk = excluded.min_risk, mail = excluded.mail";

const DELETE: &str =
    "DELETE FROM subscriptions WHERE organization_id = $1 AND user_id = $2 AND service_id = $3";

/// What a person who leaves has.
const DELETE_OF_MEMBER: [&str; 3] = [
    "DELETE FROM subscriptions WHERE organization_id = $1 AND user_id = $2",
    "DELETE FROM notifications WHERE organization_id = $1 AND user_id = $2",
    "DELETE FROM mailboxes WHERE organization_id = $1 AND user_id = $2",
];

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    service_id: ServiceId,
    min_risk: Text<RiskLevel>,
    mail: Text<MailMode>,
    created_at: i64,
}

impl From<Row> for Subscription {
    fn from(row: Row) -> Self {
        Self {
            service_id: row.service_id,
            options: SubscriptionOptions {
                min_risk: row.min_risk.0,
                mail: row.mail.0,
            },
            created_at: Timestamp::from_millis(row.created_at),
        }
    }
}

impl Database {
    /// Lists the subscriptions of a person, with their services, by name.
    pub async fn subscriptions(
        &self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<Vec<(ServiceRef, Subscription)>, StoreError> {
        let rows: Vec<Row> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_OF_USER)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_all(&mut **db)
        })?;
        let ids: Vec<ServiceId> = rows.iter().map(|row| row.service_id).collect();
        let mut services = self.items_by_id::<Service>(tenant, &ids).await?;
        let with_service = |row: Row| {
            let service = services.remove(&row.service_id)?;
            Some((ServiceRef::from(&service), row.into()))
        };
        let mut list: Vec<(ServiceRef, Subscription)> =
            rows.into_iter().filter_map(with_service).collect();
        list.sort_by_cached_key(|(service, _)| (service.name.to_lowercase(), service.id));
        Ok(list)
    }

    /// Returns the subscription of a person to a service.
    pub async fn subscription(
        &self,
        tenant: Tenant,
        user: UserId,
        service: ServiceId,
    ) -> Result<Option<Subscription>, StoreError> {
        let row: Option<Row> = read!(self.system().await?, |db| sqlx::query_as(SELECT)
            .bind(tenant.uuid())
            .bind(user.0)
            .bind(service.0)
            .fetch_optional(&mut **db))?;
        Ok(row.map(Subscription::from))
    }

    /// Returns the services whose changes a person is mailed in this way, by name.
    pub async fn services_mailed(
        &self,
        tenant: Tenant,
        user: UserId,
        mail: &MailMode,
    ) -> Result<Vec<ServiceRef>, StoreError> {
        let all = self.subscriptions(tenant, user).await?.into_iter();
        let mailed = all.filter(|(_, subscription)| subscription.options.mail == *mail);
        Ok(mailed.map(|(service, _)| service).collect())
    }
}

impl Tx {
    /// Starts a subscription of the actor, or changes its options, and records it. Returns
    /// whether the person has at most [`MAX_SUBSCRIPTIONS`]; otherwise nothing is saved.
    /// The caller has called [`Database::require_events`] before.
    pub async fn set_subscription(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: UserId,
        service: &ServiceRef,
        options: &SubscriptionOptions,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let row: Option<Row> = on!(&mut self.connection, |db| sqlx::query_as(SELECT)
            .bind(tenant.uuid())
            .bind(user.0)
            .bind(service.id.0)
            .fetch_optional(&mut **db))?;
        let before = row.map(|row| Subscription::from(row).options);
        if before.as_ref() == Some(options) {
            return Ok(true);
        }
        if before.is_none() {
            // Two requests at once may exceed the limit by one, which harms nobody.
            let (count,): (i64,) = on!(&mut self.connection, |db| sqlx::query_as(COUNT)
                .bind(tenant.uuid())
                .bind(user.0)
                .fetch_one(&mut **db))?;
            if usize::try_from(count).unwrap_or(usize::MAX) >= MAX_SUBSCRIPTIONS {
                return Ok(false);
            }
        }
        execute!(
            self,
            sqlx::query(UPSERT)
                .bind(tenant.uuid())
                .bind(service.id.0)
                .bind(user.0)
                .bind(options.min_risk.as_str())
                .bind(options.mail.as_str())
                .bind(now.timestamp_millis())
        )?;
        let (action, metadata) = match &before {
            None => (Action::Started, facts(options)),
            Some(before) => (Action::Updated, differences(before, options)),
        };
        // What was collected for another kind of mail is still mailed.
        if let Some(before) = before.filter(|_| options.mail == MailMode::Off) {
            self.empty_unused_mailbox(tenant, user, &before.mail)
                .await?;
        }
        let entry = entry(action, service, metadata);
        self.record_pending(tenant, actor, entry, now).await?;
        Ok(true)
    }

    /// Stops a subscription of the actor and records it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the person has none to this service.
    pub async fn stop_subscription(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        user: UserId,
        service: &ServiceRef,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let deleted = execute!(
            self,
            sqlx::query(DELETE)
                .bind(tenant.uuid())
                .bind(user.0)
                .bind(service.id.0)
        )?;
        if deleted == 0 {
            return Err(StoreError::NotFound);
        }
        for mail in [MailMode::Instant, MailMode::Daily] {
            self.empty_unused_mailbox(tenant, user, &mail).await?;
        }
        let entry = entry(Action::Stopped, service, Map::new());
        self.record_pending(tenant, actor, entry, now).await
    }

    /// Forgets what is to be mailed in a way in which no subscription is mailed any more.
    async fn empty_unused_mailbox(
        &mut self,
        tenant: Tenant,
        user: UserId,
        mail: &MailMode,
    ) -> Result<(), StoreError> {
        let rows: Vec<Row> = on!(&mut self.connection, |db| sqlx::query_as(SELECT_OF_USER)
            .bind(tenant.uuid())
            .bind(user.0)
            .fetch_all(&mut **db))?;
        if rows.iter().any(|row| row.mail.0 == *mail) {
            return Ok(());
        }
        self.empty_mailbox(tenant, user, mail).await
    }

    /// Deletes the subscriptions and notifications of a person who leaves.
    pub(super) async fn delete_subscriptions(
        &mut self,
        tenant: Tenant,
        user: UserId,
    ) -> Result<(), StoreError> {
        for statement in DELETE_OF_MEMBER {
            execute!(
                self,
                sqlx::query(statement).bind(tenant.uuid()).bind(user.0)
            )?;
        }
        Ok(())
    }
}

/// Returns an entry of the activity log; its resource is the service.
fn entry(action: Action, service: &ServiceRef, metadata: Map<String, Value>) -> Entry<'_> {
    Entry {
        action,
        resource_type: ResourceType::Subscription,
        resource_id: service.id.0,
        label: &service.name,
        metadata,
    }
}

/// Returns the options as the activity log has them.
fn facts(options: &SubscriptionOptions) -> Map<String, Value> {
    let facts = [
        ("min_risk".to_owned(), json!(options.min_risk)),
        ("mail".to_owned(), json!(options.mail)),
    ];
    facts.into_iter().collect()
}

fn differences(before: &SubscriptionOptions, after: &SubscriptionOptions) -> Map<String, Value> {
    let (before, after) = (facts(before), facts(after));
    let differences = before.into_iter().filter_map(|(name, from)| {
        let to = after.get(&name)?;
        let difference = json!({ "from": from, "to": to });
        (from != *to).then_some((name, difference))
    });
    changed(differences.collect())
}
