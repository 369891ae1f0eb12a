//! Compares the kept counts with the changes, and corrects them.

use std::collections::HashMap;

use sqlx::types::Uuid;

use super::changes::Expected;
use super::{CheckError, Checker, Found};
use crate::store::Tenant;
use crate::store::engine::direct::{run_unlimited, unlimited};
use crate::store::index::counts::CountKey;

const SELECT: &str = "
SELECT scope, span, start, risk_level, status, environment, CAST(sum(n) AS bigint)
FROM change_counts WHERE organization_id = $1
GROUP BY scope, span, start, risk_level, status, environment";

const DELETE: &str = "
DELETE FROM change_counts
WHERE organization_id = $1 AND scope = $2 AND span = $3 AND start = $4 AND risk_level = $5
    AND status = $6 AND environment = $7";

const INSERT: &str = "
INSERT INTO change_counts
    (organization_id, scope, span, start, risk_level, status, environment, slot, n)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)";

type Row = (String, i64, i64, String, String, String, i64);

impl Checker<'_> {
    /// Compares the counts of an organization.
    pub(super) async fn check_counts(
        &mut self,
        tenant: Tenant,
        expected: &Expected,
    ) -> Result<(), CheckError> {
        let rows: Vec<Row> = unlimited!(&mut self.db, |db| sqlx::query_as(SELECT)
            .bind(tenant.uuid())
            .fetch_all(&mut *db))?;
        let mut stored: HashMap<CountKey, i64> = HashMap::with_capacity(rows.len());
        for (scope, span, start, risk_level, status, environment, n) in rows {
            let key = CountKey {
                scope,
                span,
                start,
                risk_level,
                status,
                environment,
            };
            stored.insert(key, n);
        }
        let mut found = Found::default();
        let mut wrong: Vec<(&CountKey, i64)> = Vec::new();
        for (key, expected) in &expected.counts {
            let stored = stored.get(key).copied().unwrap_or(0);
            if stored != *expected {
                found.add(|| describe(tenant, key, stored, *expected));
                wrong.push((key, *expected));
            }
        }
        for (key, stored) in &stored {
            if *stored != 0 && !expected.counts.contains_key(key) {
                found.add(|| describe(tenant, key, *stored, 0));
                wrong.push((key, 0));
            }
        }
        if self.repair {
            for (key, n) in wrong {
                self.set_count(tenant.uuid(), key, n).await?;
            }
            found.is_repaired = true;
        }
        let problem = "counts that differ from the changes";
        self.report.add("counts", problem, found);
        Ok(())
    }

    async fn set_count(
        &mut self,
        organization: Uuid,
        key: &CountKey,
        n: i64,
    ) -> Result<(), sqlx::Error> {
        run_unlimited!(&mut self.db, |db| sqlx::query(DELETE)
            .bind(organization)
            .bind(&key.scope)
            .bind(key.span)
            .bind(key.start)
            .bind(&key.risk_level)
            .bind(&key.status)
            .bind(&key.environment)
            .execute(&mut *db))?;
        if n == 0 {
            return Ok(());
        }
        run_unlimited!(&mut self.db, |db| sqlx::query(INSERT)
            .bind(organization)
            .bind(&key.scope)
            .bind(key.span)
            .bind(key.start)
            .bind(&key.risk_level)
            .bind(&key.status)
            .bind(&key.environment)
            .bind(n)
            .execute(&mut *db))
    }
}

fn describe(tenant: Tenant, key: &CountKey, stored: i64, expected: i64) -> String {
    let CountKey {
        scope,
        span,
        start,
        risk_level,
        status,
        environment,
    } = key;
    format!(
        "organization {}, {scope}, span {span}, start {start}, {risk_level} {status} \
         {environment:?}: stored {stored}, counted {expected}",
        tenant.id()
    )
}
