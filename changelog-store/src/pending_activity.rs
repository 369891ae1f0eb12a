//! Entries of the activity log about keys and members, on their way to the log.
//!
//! Whether a key is valid and who is a member must not depend on the log: its rows
//! may be locked, and in a distributed database they are on another server, which may
//! be away. So such an entry is inserted into `pending_activity`, in the transaction
//! of what it records, and moved to the log by another transaction: right after the
//! commit, or later by any server. One transaction moves an entry, so that it is in
//! exactly one of the two tables. docs/decisions/pending-activity.md has the reasons.

use std::collections::HashSet;
use std::slice;
use std::time::Duration;

use changelog_core::{ActivityId, ApiKeyId, Timestamp, UserId};
use chrono::{DateTime, Utc};
use sqlx::FromRow;
use sqlx::types::Uuid;

use super::activity::{Entry, NewEntry, Row, push_rows};
use super::engine::{Dialect, Script, on, read, run_script};
use super::{Actor, Database, StoreError, Tenant, Tx, new_id};

/// How long a caller waits for its entry to be moved, after the commit.
const MOVE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many entries one statement reads; the statement has the number too.
const PAGE: usize = 100;

const NEXT: &str = "
SELECT id, organization_id FROM pending_activity WHERE id > $1 ORDER BY id LIMIT 100";

const TAKE: &str = "
DELETE FROM pending_activity WHERE id = $1
RETURNING organization_id, id, actor_id, key_id, actor_name, action, resource_type,
          resource_id, resource_label, metadata, created_at, address";

#[derive(FromRow)]
struct PendingRow {
    organization_id: Uuid,
    #[sqlx(flatten)]
    entry: Row,
}

impl Tx {
    /// Records who did what to a key or a member, in the transaction of what was done.
    /// After the commit the entry is moved to the activity log, if that takes less
    /// than two seconds.
    pub(super) async fn record_pending(
        &mut self,
        tenant: Tenant,
        actor: &Actor,
        entry: Entry<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let id = ActivityId(new_id(now));
        let new = NewEntry::new(tenant, id, actor, entry, now);
        run_script!(self, |DB| script::<DB>(&new))?;
        let database = self.database.clone();
        self.after_commit.push(Box::pin(async move {
            let moved = tokio::time::timeout(MOVE_TIMEOUT, database.move_to_log(id)).await;
            if !matches!(moved, Ok(Ok(()))) {
                tracing::warn!(%id, "an entry could not be moved to the activity log yet");
            }
        }));
        Ok(())
    }

    /// Moves an entry to the activity log, unless that was done already.
    async fn move_to_log(&mut self, id: ActivityId) -> Result<(), StoreError> {
        let row: Option<PendingRow> = on!(&mut self.connection, |db| sqlx::query_as(TAKE)
            .bind(id.0)
            .fetch_optional(&mut **db))?;
        let Some(row) = row else {
            return Ok(());
        };
        let PendingRow {
            organization_id,
            entry: row,
        } = row;
        let actor = Actor {
            person: row.actor_id.map(UserId),
            key: row.key_id.map(ApiKeyId),
            source: None,
            pipeline: None,
            name: row.actor_name,
            address: row.address.and_then(|address| address.parse().ok()),
            has_receivers: false,
            agent: None,
            trace: None,
        };
        let entry = Entry {
            action: row.action.0,
            resource_type: row.resource_type.0,
            resource_id: row.resource_id,
            label: &row.resource_label,
            metadata: row.metadata.0.as_object().cloned().unwrap_or_default(),
        };
        let created_at = Timestamp::from_millis(row.created_at).to_datetime();
        let tenant = Tenant(organization_id.into());
        let new = NewEntry::new(tenant, row.id, &actor, entry, created_at);
        self.insert_entry(new).await
    }
}

impl Database {
    async fn move_to_log(&self, id: ActivityId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        tx.move_to_log(id).await?;
        tx.commit().await
    }

    /// Moves all pending entries to the activity log. An entry that cannot be moved
    /// does not keep those of other organizations. Returns the numbers of entries that
    /// were moved and that are still pending.
    ///
    /// # Errors
    /// When the pending entries cannot be read.
    pub async fn move_pending_activity(&self) -> Result<(usize, usize), StoreError> {
        let (mut moved, mut pending) = (0, 0);
        let mut failed = HashSet::new();
        let mut last = Uuid::nil();
        loop {
            let page: Vec<(Uuid, Uuid)> = read!(self.system().await?, |db| sqlx::query_as(NEXT)
                .bind(last)
                .fetch_all(&mut **db))?;
            for (id, organization) in &page {
                last = *id;
                if failed.contains(organization) {
                    pending += 1;
                } else if let Err(error) = self.move_to_log(ActivityId(*id)).await {
                    tracing::debug!(%error, %id, "an entry could not be moved to the activity log");
                    failed.insert(*organization);
                    pending += 1;
                } else {
                    moved += 1;
                }
            }
            if page.len() < PAGE {
                return Ok((moved, pending));
            }
        }
    }
}

fn script<DB: Dialect>(new: &NewEntry<'_>) -> Script<DB> {
    let mut script = Script::new();
    push_rows(&mut script, "pending_activity", slice::from_ref(new));
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn pending_entries_are_found_by_their_key() {
        for statement in [NEXT, TAKE] {
            let plan = explain::of(statement).await;
            assert!(
                plan.iter().all(|step| step.starts_with("SEARCH")),
                "{plan:?}"
            );
        }
    }
}
