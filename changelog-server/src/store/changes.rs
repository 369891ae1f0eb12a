//! Changes: created, read one by one and in pages, updated.

use changelog_core::ids::{first_uuid_at, uuid_v7};
use changelog_core::{
    Change, ChangeFilter, ChangeId, ChangePatch, Code, Environment, HostId, HostRef, Link,
    NewChange, Page, RiskLevel, ServiceId, ServiceRef, Status, Timestamp, Violations,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::types::{Json, Text, Uuid};
use sqlx::{Encode, FromRow, QueryBuilder, Type};

use super::activity::{clamped, difference};
use super::engine::{execute, on};
use super::search::SearchSyntax;
use super::{Store, StoreError, Tenant, Tx, counts, new_id};
use crate::clock::Clock;

const INSERT: &str = "
INSERT INTO changes (organization_id, id, title, description, risk_level, status, impact, service_id,
                     host_id, tags, links, scheduled_for, occurred_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14)";

const INSERT_TAG: &str = "
INSERT INTO change_tags (organization_id, tag, change_id) VALUES ($1, $2, $3)";

const DELETE_TAGS: &str = "DELETE FROM change_tags WHERE organization_id = $1 AND change_id = $2";

/// The detail shape, less where it comes from.
const COLUMNS: &str = "
SELECT c.id, c.title, c.description, c.risk_level, c.status, c.impact, c.tags, c.links,
       c.scheduled_for, c.occurred_at, c.created_at, c.updated_at,
       s.id AS service_id, s.name AS service_name, s.color AS service_color,
       h.id AS host_id, h.hostname, h.environment";

const REFERENCES: &str = "
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id";

const BY_ID: &str = "
SELECT c.id, c.title, c.description, c.risk_level, c.status, c.impact, c.tags, c.links,
       c.scheduled_for, c.occurred_at, c.created_at, c.updated_at,
       s.id AS service_id, s.name AS service_name, s.color AS service_color,
       h.id AS host_id, h.hostname, h.environment
FROM changes c
LEFT JOIN services s ON s.organization_id = c.organization_id AND s.id = c.service_id
LEFT JOIN hosts h ON h.organization_id = c.organization_id AND h.id = c.host_id
WHERE c.organization_id = $1 AND c.id = $2";

/// Locks the row on PostgreSQL, so that what was read is what is changed.
const LOCK: &str = "UPDATE changes SET title = title WHERE organization_id = $1 AND id = $2";

const UPDATE: &str = "
UPDATE changes SET title = $3, description = $4, risk_level = $5, status = $6, impact = $7,
                   service_id = $8, host_id = $9, tags = $10, links = $11, scheduled_for = $12,
                   updated_at = $13
WHERE organization_id = $1 AND id = $2";

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    id: ChangeId,
    title: String,
    description: Option<String>,
    risk_level: Text<RiskLevel>,
    status: Text<Status>,
    impact: Option<String>,
    tags: Json<Vec<String>>,
    links: Json<Vec<Link>>,
    scheduled_for: Option<i64>,
    occurred_at: i64,
    created_at: i64,
    updated_at: i64,
    service_id: Option<Uuid>,
    service_name: Option<String>,
    service_color: Option<String>,
    host_id: Option<Uuid>,
    hostname: Option<String>,
    environment: Option<Text<Environment>>,
}

impl Row {
    fn into_change(self, tenant: Tenant) -> Change {
        let service = match (self.service_id, self.service_name, self.service_color) {
            (Some(id), Some(name), Some(color)) => Some(ServiceRef {
                id: ServiceId(id),
                name,
                color,
            }),
            _ => None,
        };
        let host_ref = self
            .host_id
            .zip(self.hostname)
            .map(|(id, hostname)| HostRef {
                id: HostId(id),
                hostname,
                environment: self.environment.map(|word| word.0),
            });
        Change {
            id: self.id,
            title: self.title,
            description: self.description,
            risk_level: self.risk_level.0,
            status: self.status.0,
            impact: self.impact,
            service,
            host_ref,
            tags: self.tags.0,
            links: self.links.0,
            scheduled_for: self.scheduled_for.map(Timestamp::from_millis),
            occurred_at: Timestamp::from_millis(self.occurred_at),
            organization_id: tenant.id(),
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        }
    }
}

impl Store {
    /// Finds a change of an organization.
    pub async fn change(&self, tenant: Tenant, id: ChangeId) -> Result<Change, StoreError> {
        let row: Row = on!(&self.pool, |db| {
            sqlx::query_as(BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(db)
        })?;
        Ok(row.into_change(tenant))
    }

    /// Lists a page of the changes that match, newest first, with their exact
    /// count.
    pub async fn changes(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
    ) -> Result<Page<Change>, StoreError> {
        let words = filter.words();
        let count = match counts::scope(filter, &words) {
            Some(scope) => self.kept_count(tenant, scope, filter).await?,
            None => self.walked_count(tenant, filter, &words).await?,
        };
        let offset = (filter.page - 1).saturating_mul(filter.per_page);
        let rows: Vec<Row> = if offset >= count {
            Vec::new()
        } else {
            on!(&self.pool, |db| async {
                let mut query = QueryBuilder::new(COLUMNS);
                push_source(&mut query, tenant, filter, &words);
                if let Some(before) = filter.before {
                    query
                        .push(" AND ")
                        .push(order(filter))
                        .push(" < ")
                        .push_bind(before.0);
                }
                query
                    .push(" ORDER BY ")
                    .push(order(filter))
                    .push(" DESC LIMIT ");
                query.push_bind(clamped(filter.per_page));
                query.push(" OFFSET ").push_bind(clamped(offset));
                query.build_query_as().fetch_all(db).await
            })?
        };
        let changes = rows
            .into_iter()
            .map(|row| row.into_change(tenant))
            .collect();
        Ok(Page::new(changes, count, filter.page, filter.per_page))
    }

    /// Counts what no kept count answers.
    async fn walked_count(
        &self,
        tenant: Tenant,
        filter: &ChangeFilter,
        words: &[String],
    ) -> Result<u64, StoreError> {
        let (count,): (i64,) = on!(&self.pool, |db| async {
            let mut query = QueryBuilder::new("SELECT count(*)");
            push_source(&mut query, tenant, filter, words);
            query.build_query_as().fetch_one(db).await
        })?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// Returns the column that the list is ordered by. A tag leads the query when
/// there is one: its rows are as well in the order of the changes, and there
/// may be few.
fn order(filter: &ChangeFilter) -> &'static str {
    if filter.tags.is_empty() {
        "c.id"
    } else {
        "t.change_id"
    }
}

/// Writes FROM and WHERE. The shape follows the filter, because a condition
/// that may be switched off (`$1 IS NULL OR …`) keeps an index from serving.
fn push_source<DB: SearchSyntax>(
    query: &mut QueryBuilder<DB>,
    tenant: Tenant,
    filter: &ChangeFilter,
    words: &[String],
) where
    for<'q> Uuid: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    let mut tags = filter.tags.iter();
    if let Some(tag) = tags.next() {
        // SQLite keeps the order of a CROSS JOIN, and so starts from the tag.
        query
            .push(" FROM change_tags t CROSS JOIN changes c")
            .push(REFERENCES);
        query
            .push(" WHERE t.organization_id = ")
            .push_bind(tenant.uuid());
        query.push(" AND t.tag = ").push_bind(tag.clone());
        query.push(" AND c.organization_id = t.organization_id AND c.id = t.change_id");
    } else {
        query.push(" FROM changes c").push(REFERENCES);
        query
            .push(" WHERE c.organization_id = ")
            .push_bind(tenant.uuid());
    }
    for tag in tags {
        query.push(
            " AND EXISTS (SELECT 1 FROM change_tags other \
             WHERE other.organization_id = c.organization_id AND other.change_id = c.id \
             AND other.tag = ",
        );
        query.push_bind(tag.clone()).push(")");
    }
    if let Some(service) = filter.service_id {
        query.push(" AND c.service_id = ").push_bind(service.0);
    }
    if let Some(host) = filter.host_id {
        query.push(" AND c.host_id = ").push_bind(host.0);
    }
    if let Some(risk) = &filter.risk_level {
        query
            .push(" AND c.risk_level = ")
            .push_bind(risk.to_string());
    }
    if let Some(status) = &filter.status {
        query.push(" AND c.status = ").push_bind(status.to_string());
    }
    // Ids are made from the time of the change, so a time is a place among them.
    if let Some(since) = filter.since {
        query
            .push(" AND ")
            .push(order(filter))
            .push(" >= ")
            .push_bind(first_uuid_at(since));
    }
    if let Some(until) = filter.until {
        query
            .push(" AND ")
            .push(order(filter))
            .push(" < ")
            .push_bind(first_uuid_at(until));
    }
    if !words.is_empty() {
        query
            .push(DB::BEFORE)
            .push_bind(DB::query(tenant, words))
            .push(DB::AFTER);
    }
}

impl Tx {
    /// Records a change.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the organization does not have the service
    /// or the host.
    pub async fn insert_change(
        &mut self,
        tenant: Tenant,
        new: &NewChange,
        now: DateTime<Utc>,
    ) -> Result<Change, StoreError> {
        let created_at = Timestamp::from(now);
        let (service, host_ref) = self.references(tenant, new.service_id, new.host_id).await?;
        let occurred_at = new.occurred_at.unwrap_or(created_at);
        let id = match new.occurred_at {
            Some(at) => uuid_v7(at, 0, rand::random()),
            None => new_id(now),
        };
        let change = Change {
            id: id.into(),
            title: new.title.clone(),
            description: new.description.clone(),
            risk_level: new.risk_level.clone().unwrap_or(RiskLevel::Low),
            status: new.status.clone().unwrap_or(Status::Planned),
            impact: new.impact.clone(),
            service,
            host_ref,
            tags: new.tags.clone(),
            links: new.links.clone(),
            scheduled_for: new.scheduled_for,
            occurred_at,
            organization_id: tenant.id(),
            created_at,
            updated_at: created_at,
        };
        execute!(
            self,
            sqlx::query(INSERT)
                .bind(tenant.uuid())
                .bind(change.id.0)
                .bind(&change.title)
                .bind(&change.description)
                .bind(change.risk_level.as_str())
                .bind(change.status.as_str())
                .bind(&change.impact)
                .bind(new.service_id.map(|id| id.0))
                .bind(new.host_id.map(|id| id.0))
                .bind(Json(&change.tags))
                .bind(Json(&change.links))
                .bind(change.scheduled_for.map(Timestamp::millis))
                .bind(change.occurred_at.millis())
                .bind(created_at.millis())
        )?;
        self.insert_tags(tenant, &change).await?;
        self.index_title(tenant, change.id, &change.title).await?;
        self.count(tenant, None, Some(&change)).await?;
        Ok(change)
    }

    /// Changes a change and returns it with what differs, `{field: {from, to}}`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] without such a change, [`StoreError::Invalid`]
    /// when the organization does not have the service or the host.
    pub async fn update_change(
        &mut self,
        tenant: Tenant,
        id: ChangeId,
        patch: &ChangePatch,
        clock: &Clock,
    ) -> Result<(Change, Map<String, Value>), StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()).bind(id.0))?;
        let row: Row = on!(&mut self.connection, |db| {
            sqlx::query_as(BY_ID)
                .bind(tenant.uuid())
                .bind(id.0)
                .fetch_one(&mut **db)
        })?;
        let before = row.into_change(tenant);
        let mut change = before.clone();
        let ChangePatch {
            title,
            description,
            service_id,
            host_id,
            risk_level,
            status,
            impact,
            tags,
            links,
            scheduled_for,
        } = patch.clone();
        let (service, host_ref) = self
            .references(tenant, service_id.flatten(), host_id.flatten())
            .await?;
        if service_id.is_some() {
            change.service = service;
        }
        if host_id.is_some() {
            change.host_ref = host_ref;
        }
        change.title = title.unwrap_or(change.title);
        change.description = description.unwrap_or(change.description);
        change.risk_level = risk_level.unwrap_or(change.risk_level);
        change.status = status.unwrap_or(change.status);
        change.impact = impact.unwrap_or(change.impact);
        change.tags = tags.unwrap_or(change.tags);
        change.links = links.unwrap_or(change.links);
        change.scheduled_for = scheduled_for.unwrap_or(change.scheduled_for);

        let changes = difference(&before, &change);
        if changes.is_empty() {
            return Ok((change, changes));
        }
        // After the lock: a row's versions follow each other in time.
        let now = clock.now();
        change.updated_at = now.into();
        execute!(
            self,
            sqlx::query(UPDATE)
                .bind(tenant.uuid())
                .bind(id.0)
                .bind(&change.title)
                .bind(&change.description)
                .bind(change.risk_level.as_str())
                .bind(change.status.as_str())
                .bind(&change.impact)
                .bind(change.service.as_ref().map(|service| service.id.0))
                .bind(change.host_ref.as_ref().map(|host| host.id.0))
                .bind(Json(&change.tags))
                .bind(Json(&change.links))
                .bind(change.scheduled_for.map(Timestamp::millis))
                .bind(now.timestamp_millis())
        )?;
        if change.tags != before.tags {
            execute!(
                self,
                sqlx::query(DELETE_TAGS).bind(tenant.uuid()).bind(id.0)
            )?;
            self.insert_tags(tenant, &change).await?;
        }
        if change.title != before.title {
            self.index_title(tenant, id, &change.title).await?;
        }
        self.count(tenant, Some(&before), Some(&change)).await?;
        Ok((change, changes))
    }

    async fn insert_tags(&mut self, tenant: Tenant, change: &Change) -> Result<(), StoreError> {
        for tag in &change.tags {
            execute!(
                self,
                sqlx::query(INSERT_TAG)
                    .bind(tenant.uuid())
                    .bind(tag)
                    .bind(change.id.0)
            )?;
        }
        Ok(())
    }

    /// Finds the service and the host that a change names; both are looked for
    /// before either is reported missing.
    async fn references(
        &mut self,
        tenant: Tenant,
        service: Option<ServiceId>,
        host: Option<HostId>,
    ) -> Result<(Option<ServiceRef>, Option<HostRef>), StoreError> {
        let mut missing = Violations::default();
        let mut service_ref = None;
        if let Some(id) = service {
            service_ref = self.service_ref(tenant, id).await?;
            if service_ref.is_none() {
                let message = format!(
                    "must be a service of the organization, which has none with the id {id}"
                );
                missing.add("/service_id", Code::NotFound, message);
            }
        }
        let mut host_ref = None;
        if let Some(id) = host {
            host_ref = self.host_ref(tenant, id).await?;
            if host_ref.is_none() {
                let message =
                    format!("must be a host of the organization, which has none with the id {id}");
                missing.add("/host_id", Code::NotFound, message);
            }
        }
        Ok(missing.into_result((service_ref, host_ref))?)
    }
}
