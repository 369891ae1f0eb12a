//! How long organizations keep what they have recorded, and the runs that delete what is older:
//! changes with what belongs to them, resolved incidents and entries of the activity log.
//!
//! A run is made of steps, each a short transaction, so that nobody waits for it. What it has
//! deleted so far is counted in the transaction of the step, and recorded in one entry at its
//! end, however often servers stop meanwhile.

use changelog_core::ids::first_uuid_at;
use changelog_core::{Action, ChangeFilter, ResourceType, RetentionMonths, Status, Timestamp};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::activity::changed;
use super::changes::broken;
use super::engine::{execute, on, read};
use super::{Actor, Database, Store, StoreError, Tenant, Tx};

/// How long a new time is in force before anything is deleted, so that a mistake can be undone.
const GRACE: TimeDelta = TimeDelta::hours(24);
/// How long after its end a run is followed by the next.
const INTERVAL: TimeDelta = TimeDelta::days(1);
/// How long after a step another server goes on with the run, if the one that began it does not.
const LEASE: TimeDelta = TimeDelta::minutes(10);

/// How late a run may begin. If it would begin later, no server has run meanwhile, or the clock
/// has jumped: a day passes before anything is deleted, in which the clock can be corrected.
const MAX_LATE: TimeDelta = TimeDelta::days(7);

/// How many incidents a preview counts at most.
const MAX_PREVIEWED_INCIDENTS: u64 = 10_000;

/// The limits on what one step deletes: it takes a few milliseconds.
const CHANGES_PER_STEP: u64 = 50;
const ROWS_PER_STEP: i64 = 500;

const SELECT: &str = "
SELECT months, due_at, cutoff, changes, incidents, entries FROM retentions
WHERE organization_id = $1";

/// Makes a step of a run wait, whose numbers are read next.
const LOCK: &str = "UPDATE retentions SET months = months WHERE organization_id = $1";

const SET: &str = "
INSERT INTO retentions (organization_id, months, due_at) VALUES ($1, $2, $3)
ON CONFLICT (organization_id) DO UPDATE
SET months = excluded.months, due_at = excluded.due_at, cutoff = NULL,
    changes = 0, incidents = 0, entries = 0";

const SELECT_DUE: &str = "
SELECT organization_id, due_at FROM retentions WHERE due_at IS NOT NULL AND due_at <= $1
ORDER BY due_at LIMIT 100";

/// Only the server that has seen the run at its last time goes on with it.
const CLAIM: &str = "
UPDATE retentions SET due_at = $3, cutoff = $4, 
    deleted_until = CASE WHEN deleted_until > $4 THEN deleted_until
        ELSE COALESCE($4, deleted_until) END
WHERE organization_id = $1 AND due_at = $2";

const COUNT: &str = "
UPDATE retentions SET changes = changes + $2, incidents = incidents + $3, entries = entries + $4
WHERE organization_id = $1";

const END: &str = "
UPDATE retentions SET due_at = $2, cutoff = NULL, changes = 0, incidents = 0, entries = 0
WHERE organization_id = $1";

const DELETE_INCIDENTS: &str = "
DELETE FROM incidents WHERE organization_id = $1 AND is_open = 0 AND started_at < $2 AND id IN
    (SELECT id FROM incidents WHERE organization_id = $1 AND is_open = 0 AND started_at < $2
     ORDER BY started_at, id LIMIT $3)";

const DELETE_ENTRIES: &str = "
DELETE FROM activity WHERE organization_id = $1 AND resource_type = $2 AND id IN
    (SELECT id FROM activity WHERE organization_id = $1 AND resource_type = $2 AND id < $3
     ORDER BY id LIMIT $4)";

const COUNT_INCIDENTS: &str = "
SELECT count(*) FROM (SELECT 1 FROM incidents
    WHERE organization_id = $1 AND is_open = 0 AND started_at < $2 LIMIT $3) AS old";

/// The time before which records of an organization may be gone.
pub(super) const SELECT_DELETED_UNTIL: &str = "
SELECT COALESCE(deleted_until, 0) FROM retentions WHERE organization_id = $1";

#[derive(Clone, Copy, Default, FromRow)]
struct Row {
    months: Option<i64>,
    due_at: Option<i64>,
    cutoff: Option<i64>,
    changes: i64,
    incidents: i64,
    entries: i64,
}

/// How long an organization keeps what it has recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For how long.
    pub months: RetentionMonths,
    /// When the next run begins, or was to begin.
    pub due_at: Timestamp,
    /// Whether a run is under way.
    pub is_running: bool,
}

/// What a run would delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPreview {
    /// What is older than this.
    pub cutoff: Timestamp,
    /// The number of changes.
    pub changes: u64,
    /// The number of resolved incidents; at most 10,000 are counted.
    pub incidents: u64,
    /// Before this nothing would be deleted, if it were set now.
    pub first_run_at: Timestamp,
}

/// A run of an organization that is due, or goes on.
#[derive(Clone, Copy, Debug)]
pub struct RetentionRun {
    /// The organization.
    pub tenant: Tenant,
    due_at: i64,
}

impl Database {
    /// Returns how long an organization keeps what it has recorded; `None` forever.
    pub async fn retention(&self, tenant: Tenant) -> Result<Option<Retention>, StoreError> {
        let row: Option<Row> = read!(self.point_reader(tenant).await?, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        row.unwrap_or_default().retention()
    }
}

impl Store {
    /// Returns what would be deleted now if records were kept for some months.
    pub async fn retention_preview(
        &self,
        tenant: Tenant,
        months: RetentionMonths,
        now: Timestamp,
    ) -> Result<RetentionPreview, StoreError> {
        let cutoff = months.cutoff(now);
        let filter = ChangeFilter {
            until: Some(cutoff),
            statuses: vec![Status::Completed, Status::RolledBack],
            ..ChangeFilter::default()
        };
        let changes = self.count_changes(tenant, &filter).await?;
        let (incidents,): (i64,) = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(COUNT_INCIDENTS)
                .bind(tenant.uuid())
                .bind(cutoff.millis())
                .bind(MAX_PREVIEWED_INCIDENTS.cast_signed())
                .fetch_one(&mut **db)
        })?;
        Ok(RetentionPreview {
            cutoff,
            changes,
            incidents: incidents.unsigned_abs(),
            first_run_at: now.plus(GRACE),
        })
    }
}

impl RetentionPreview {
    /// Returns whether there are more incidents than were counted.
    pub fn has_more_incidents(&self) -> bool {
        self.incidents >= MAX_PREVIEWED_INCIDENTS
    }
}

impl Database {
    /// Lists the runs that are due.
    pub async fn due_retention_runs(
        &self,
        now: Timestamp,
    ) -> Result<Vec<RetentionRun>, StoreError> {
        let rows: Vec<(Uuid, i64)> = read!(self.system().await?, |db| {
            sqlx::query_as(SELECT_DUE)
                .bind(now.millis())
                .fetch_all(&mut **db)
        })?;
        let run = |(id, due_at): (Uuid, i64)| RetentionRun {
            tenant: Tenant(id.into()),
            due_at,
        };
        Ok(rows.into_iter().map(run).collect())
    }

    /// Deletes a few records that are too old, and returns how the run goes on; `None` if it has
    /// ended, was turned off, or another server goes on with it.
    pub async fn retention_step(
        &self,
        run: RetentionRun,
        now: DateTime<Utc>,
    ) -> Result<Option<RetentionRun>, StoreError> {
        let tenant = run.tenant;
        let mut tx = self.begin_for(tenant).await?;
        let row: Option<Row> = on!(&mut tx.connection, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        let row = row.unwrap_or_default();
        let Some(retention) = row.retention()? else {
            return Ok(None);
        };
        let cutoff = match row.cutoff {
            Some(millis) => Timestamp::from_millis(millis),
            None => retention.months.cutoff(now.into()),
        };
        let is_late = row.cutoff.is_none() && retention.due_at.plus(MAX_LATE) < now.into();
        let lease = if is_late { GRACE } else { LEASE };
        // Later than what it was, whatever the clock says.
        let next = Timestamp::from(now)
            .plus(lease)
            .millis()
            .max(run.due_at + 1);
        let claimed = execute!(
            tx,
            sqlx::query(CLAIM)
                .bind(tenant.uuid())
                .bind(run.due_at)
                .bind(next)
                .bind((!is_late).then(|| cutoff.millis()))
        )?;
        if claimed == 0 {
            return Ok(None);
        }
        if is_late {
            tx.commit().await?;
            return Ok(None);
        }
        let [changes, incidents, entries] = tx.delete_old(tenant, cutoff).await?;
        if [changes, incidents, entries] == [0; 3] {
            tx.record_deleted(tenant, row, now).await?;
            let next = Timestamp::from(now).plus(INTERVAL);
            execute!(tx, sqlx::query(END).bind(tenant.uuid()).bind(next.millis()))?;
            tx.commit().await?;
            return Ok(None);
        }
        execute!(
            tx,
            sqlx::query(COUNT)
                .bind(tenant.uuid())
                .bind(changes)
                .bind(incidents)
                .bind(entries)
        )?;
        tx.commit().await?;
        Ok(Some(RetentionRun {
            tenant,
            due_at: next,
        }))
    }
}

impl Row {
    fn retention(&self) -> Result<Option<Retention>, StoreError> {
        let (Some(months), Some(due_at)) = (self.months, self.due_at) else {
            return Ok(None);
        };
        Ok(Some(Retention {
            months: RetentionMonths::try_from(months).map_err(|error| broken(&error))?,
            due_at: Timestamp::from_millis(due_at),
            is_running: self.cutoff.is_some(),
        }))
    }
}

impl Tx {
    /// Sets for how long an organization keeps what it has recorded; `None` is forever. Nothing
    /// is deleted before [`GRACE`] has passed. Returns what is set now.
    pub async fn set_retention(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        name: &str,
        months: Option<RetentionMonths>,
        now: DateTime<Utc>,
    ) -> Result<Option<Retention>, StoreError> {
        execute!(self, sqlx::query(LOCK).bind(tenant.uuid()))?;
        let row: Option<Row> = on!(&mut self.connection, |db| {
            sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_optional(&mut **db)
        })?;
        let row = row.unwrap_or_default();
        let before = row.retention()?;
        if before.map(|before| before.months) == months {
            return Ok(before);
        }
        // What a run has deleted that does not come to its end.
        self.record_deleted(tenant, row, now).await?;
        let after = months.map(|months| Retention {
            months,
            due_at: Timestamp::from(now).plus(GRACE),
            is_running: false,
        });
        execute!(
            self,
            sqlx::query(SET)
                .bind(tenant.uuid())
                .bind(after.map(|after| i64::from(after.months.get())))
                .bind(after.map(|after| after.due_at.millis()))
        )?;
        let shown = |months: Option<RetentionMonths>| months.map(RetentionMonths::get);
        let difference = json!({
            "from": shown(before.map(|before| before.months)), "to": shown(months),
        });
        let changes = [("retention_months".to_owned(), difference)];
        let metadata = changed(changes.into_iter().collect());
        self.record_of_organization(tenant, actor, (Action::Updated, name, metadata), now)
            .await?;
        Ok(after)
    }

    /// Deletes what is older than the cutoff, of one kind, and returns the numbers of changes,
    /// incidents and entries.
    async fn delete_old(
        &mut self,
        tenant: Tenant,
        cutoff: Timestamp,
    ) -> Result<[i64; 3], StoreError> {
        let changes = self
            .delete_old_changes(tenant, cutoff, CHANGES_PER_STEP)
            .await?;
        if changes > 0 {
            return Ok([i64::try_from(changes).unwrap_or(i64::MAX), 0, 0]);
        }
        let incidents = execute!(
            self,
            sqlx::query(DELETE_INCIDENTS)
                .bind(tenant.uuid())
                .bind(cutoff.millis())
                .bind(ROWS_PER_STEP)
        )?;
        if incidents > 0 {
            return Ok([0, i64::try_from(incidents).unwrap_or(i64::MAX), 0]);
        }
        for resource_type in ResourceType::WORDS {
            let entries = execute!(
                self,
                sqlx::query(DELETE_ENTRIES)
                    .bind(tenant.uuid())
                    .bind(resource_type)
                    .bind(first_uuid_at(cutoff))
                    .bind(ROWS_PER_STEP)
            )?;
            if entries > 0 {
                return Ok([0, 0, i64::try_from(entries).unwrap_or(i64::MAX)]);
            }
        }
        Ok([0; 3])
    }

    /// Records what a run has deleted, if anything.
    async fn record_deleted(
        &mut self,
        tenant: Tenant,
        deleted: Row,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if [deleted.changes, deleted.incidents, deleted.entries] == [0; 3] {
            return Ok(());
        }
        let name = self.database.organization(tenant).await?.name;
        let metadata = json!({
            "until": deleted.cutoff.map(Timestamp::from_millis),
            "changes_deleted": deleted.changes,
            "incidents_deleted": deleted.incidents,
            "entries_deleted": deleted.entries,
        });
        let metadata = metadata.as_object().cloned().unwrap_or_default();
        let service = Actor::service();
        self.record_of_organization(tenant, &service, (Action::Deleted, &name, metadata), now)
            .await
    }
}
