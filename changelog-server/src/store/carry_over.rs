//! Brings what migration 2 found in the old table of changes into the new ones.
//!
//! It takes code, not SQL: titles are folded by core, and each change is
//! recorded by the same statements as a new one. Each batch is a transaction of
//! its own, so that whatever ends this process, the next one goes on.

use changelog_core::{
    Change, ChangeId, HostId, HostRef, Link, RiskLevel, ServiceId, ServiceRef, Status, Timestamp,
};
use sqlx::FromRow;
use sqlx::types::{Json, Text, Uuid};

use super::engine::on;
use super::index::sort_key;
use super::{Database, StoreError, Tenant};

const IS_ANYTHING_LEFT: &str = "SELECT id FROM changes_before LIMIT 1";

/// Takes a batch out, in a way that no other process takes the same.
const TAKE: &str = "
DELETE FROM changes_before WHERE (organization_id, id) IN
    (SELECT organization_id, id FROM changes_before ORDER BY id LIMIT 500)
RETURNING organization_id, id, title, description, risk_level, status, impact, service_id, host_id,
    tags, links, scheduled_for, occurred_at, created_at, updated_at";

/// The last place that is taken in a millisecond.
const LAST: &str = "SELECT MAX(place) FROM changes WHERE place >= $1 AND place < $2";

#[derive(FromRow)]
struct Row {
    #[sqlx(try_from = "Uuid")]
    organization_id: changelog_core::OrganizationId,
    #[sqlx(try_from = "Uuid")]
    id: ChangeId,
    title: String,
    description: Option<String>,
    risk_level: Text<RiskLevel>,
    status: Text<Status>,
    impact: Option<String>,
    service_id: Option<Uuid>,
    host_id: Option<Uuid>,
    tags: Json<Vec<String>>,
    links: Json<Vec<Link>>,
    scheduled_for: Option<i64>,
    occurred_at: i64,
    created_at: i64,
    updated_at: i64,
}

impl Row {
    fn into_change(self) -> Change {
        // What is kept of a change has neither names nor colors.
        let service = self.service_id.map(|id| ServiceRef {
            id: ServiceId(id),
            name: String::new(),
            color: String::new(),
        });
        let host_ref = self.host_id.map(|id| HostRef {
            id: HostId(id),
            hostname: String::new(),
            environment: None,
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
            organization_id: self.organization_id,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        }
    }
}

/// Carries over what is left.
pub(super) async fn run(database: &Database) -> Result<(), StoreError> {
    let left: Option<(Uuid,)> = on!(&mut database.system().await?, |db| {
        sqlx::query_as(IS_ANYTHING_LEFT).fetch_optional(&mut **db)
    })?;
    if left.is_none() {
        return Ok(());
    }
    let mut carried = 0;
    loop {
        let batch = batch(database).await?;
        if batch == 0 {
            tracing::info!(carried, "changes were carried over into the new schema");
            return Ok(());
        }
        carried += batch;
    }
}

async fn batch(database: &Database) -> Result<usize, StoreError> {
    let mut tx = database.begin().await?;
    let mut rows: Vec<Row> = on!(&mut tx.connection, |db| {
        sqlx::query_as(TAKE).fetch_all(&mut **db)
    })?;
    rows.sort_by_key(|row| row.id);
    let mut changes = Vec::new();
    let mut last = None;
    for row in rows {
        // Ids of before were made without regard to places: where two would
        // have the same, the later id goes to the next one.
        let here = sort_key::where_id_can_be(row.id.0);
        let millisecond = sort_key::of_millis(row.occurred_at..row.occurred_at + 1);
        let taken: (Option<i64>,) = on!(&mut tx.connection, |db| {
            sqlx::query_as(LAST)
                .bind(millisecond.start)
                .bind(here.end)
                .fetch_one(&mut **db)
        })?;
        let free = taken.0.max(last).map_or(0, |place| place + 1);
        let place = here.start.max(free);
        last = Some(place);
        let tenant = Tenant(row.organization_id);
        changes.push((tenant, place, row.into_change()));
    }
    tx.carry(&changes).await?;
    tx.commit().await?;
    Ok(changes.len())
}
