//! The database itself, rows without what they belong to, and rows of changes.

use futures_util::TryStreamExt;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Row};

use super::changes::{Digest, Expected};
use super::{CheckError, Checker, Found, MAX_EXAMPLES};
use crate::changes::stored;
use crate::engine::Engine;
use crate::engine::direct::unlimited;
use crate::retention::SELECT_DELETED_UNTIL;
use crate::{Tenant, placement};

/// Pending deliveries whose event is gone: they can never be sent.
const WITHOUT_EVENT: &str = "
SELECT count(*) FROM deliveries d WHERE d.state = 'pending' AND NOT EXISTS
    (SELECT 1 FROM events e
     WHERE e.organization_id = d.organization_id AND e.sequence = d.sequence)";

/// Events that were queued for a connection that is gone.
const WITHOUT_CONNECTION: &str = "
SELECT count(*) FROM deliveries d WHERE NOT EXISTS
    (SELECT 1 FROM connections c
     WHERE c.organization_id = d.organization_id AND c.id = d.connection_id)";

/// Organizations without anybody who may manage them are made by commands, so that only
/// members without an account are wrong.
const WITHOUT_USER: &str = "
SELECT count(*) FROM memberships m WHERE NOT EXISTS
    (SELECT 1 FROM users u WHERE u.id = m.user_id)";

const TAGS: &str = "SELECT tag, sort_key FROM change_tags WHERE organization_id = $1";
const SERVICES: &str =
    "SELECT service_id, sort_key, place FROM change_services WHERE organization_id = $1";
/// Changes without the entry of their creation.
const UNRECORDED: &str = "
SELECT id, document, author_key FROM changes WHERE organization_id = $1 AND id IN
    (SELECT id FROM changes WHERE organization_id = $1
     EXCEPT
     SELECT resource_id FROM activity
     WHERE organization_id = $1 AND resource_type = 'change' AND action = 'created')";

impl Checker<'_> {
    /// Checks the file of SQLite, and its foreign keys. PostgreSQL keeps its own.
    pub(super) async fn check_integrity(&mut self) -> Result<(), CheckError> {
        let Engine::Sqlite(db) = &mut self.db else {
            return Ok(());
        };
        let verdicts: Vec<(String,)> = sqlx::query_as("PRAGMA integrity_check(100)")
            .fetch_all(&mut *db)
            .await?;
        let mut damaged = Found::default();
        for (verdict,) in verdicts.into_iter().filter(|(verdict,)| verdict != "ok") {
            damaged.add(|| verdict);
        }
        let rows = sqlx::query("PRAGMA foreign_key_check")
            .fetch_all(&mut *db)
            .await?;
        let mut unrelated = Found::default();
        for row in &rows {
            let (table, to): (String, String) = (row.try_get(0)?, row.try_get(2)?);
            unrelated.add(|| format!("a row of {table} without its row of {to}"));
        }
        self.report
            .add("integrity", "damages of the database", damaged);
        let problem = "rows without the row that they refer to";
        self.report.add("integrity", problem, unrelated);
        Ok(())
    }

    /// Checks that rows have what they belong to.
    pub(super) async fn check_orphans(&mut self) -> Result<(), CheckError> {
        let mut found = Found::default();
        for table in placement::tables_of_organizations() {
            let select = format!(
                "SELECT count(*) FROM {table} t WHERE NOT EXISTS \
                 (SELECT 1 FROM organizations o WHERE o.id = t.organization_id)"
            );
            // SQLite's search index has no column for it.
            if table == "change_search" && matches!(self.db, Engine::Sqlite(_)) {
                continue;
            }
            let rows = self.count(select).await?;
            if rows > 0 {
                found.rows += rows;
                found.examples.push(format!("{rows} of {table}"));
            }
        }
        found.examples.truncate(MAX_EXAMPLES);
        let problem = "rows of organizations that do not exist";
        self.report.add("orphans", problem, found);
        for (check, select, problem) in [
            (
                "events",
                WITHOUT_EVENT,
                "deliveries to be sent without their event",
            ),
            (
                "events",
                WITHOUT_CONNECTION,
                "deliveries without their connection",
            ),
            ("orphans", WITHOUT_USER, "members without an account"),
        ] {
            let rows = self.count(select.to_owned()).await?;
            let found = Found {
                rows,
                ..Found::default()
            };
            self.report.add(check, problem, found);
        }
        Ok(())
    }

    /// Runs a statement of this file that counts.
    async fn count(&mut self, select: String) -> Result<u64, sqlx::Error> {
        let select = AssertSqlSafe(select);
        let (rows,): (i64,) = unlimited!(&mut self.db, |db| sqlx::query_as(select)
            .fetch_one(&mut *db))?;
        Ok(rows.unsigned_abs())
    }

    /// Checks the tags and the further services of the changes of an organization.
    pub(super) async fn check_rows_of_changes(
        &mut self,
        tenant: Tenant,
        expected: &Expected,
    ) -> Result<(), CheckError> {
        let (mut tags, mut services) = (Digest::default(), Digest::default());
        let id = tenant.uuid();
        unlimited!(&mut self.db, |db| async {
            let mut rows = sqlx::query_as::<_, (String, i64)>(TAGS)
                .bind(id)
                .fetch(&mut *db);
            while let Some((tag, sort_key)) = rows.try_next().await? {
                tags.add((tag.as_str(), sort_key));
            }
            Ok::<_, sqlx::Error>(())
        })?;
        unlimited!(&mut self.db, |db| async {
            let rows = sqlx::query_as::<_, (Uuid, i64, i64)>(SERVICES).bind(id);
            let mut rows = rows.fetch(&mut *db);
            while let Some(row) = rows.try_next().await? {
                services.add(row);
            }
            Ok::<_, sqlx::Error>(())
        })?;
        for (table, stored, expected) in [
            ("change_tags", tags, expected.tags),
            ("change_services", services, expected.services),
        ] {
            let mut found = Found::default();
            if stored != expected {
                found.add(|| {
                    format!(
                        "organization {}: {} rows of {table}, and the changes have {}",
                        tenant.id(),
                        stored.rows,
                        expected.rows
                    )
                });
            }
            let problem = "tables that differ from the changes";
            self.report.add("changes", problem, found);
        }
        Ok(())
    }

    /// Checks that the creation of each change is in the activity log.
    pub(super) async fn check_activity(&mut self, tenant: Tenant) -> Result<(), CheckError> {
        let id = tenant.uuid();
        let deleted_until: Option<(i64,)> = unlimited!(&mut self.db, |db| {
            sqlx::query_as(SELECT_DELETED_UNTIL)
                .bind(id)
                .fetch_optional(&mut *db)
        })?;
        let deleted_until = deleted_until.map_or(i64::MIN, |(millis,)| millis);
        let mut found = Found::default();
        unlimited!(&mut self.db, |db| async {
            let rows = sqlx::query_as::<_, (Uuid, String, Option<String>)>(UNRECORDED).bind(id);
            let mut rows = rows.fetch(&mut *db);
            while let Some((change, document, author)) = rows.try_next().await? {
                // The entries of older ones may be gone. What cannot be read is reported already.
                let is_expected = stored(&document, author.as_deref())
                    .is_ok_and(|change| change.created_at.millis() >= deleted_until);
                if is_expected {
                    found.add(|| change.to_string());
                }
            }
            Ok::<_, sqlx::Error>(())
        })?;
        let problem = "changes whose creation is not in the activity log";
        self.report.add("activity", problem, found);
        Ok(())
    }
}
