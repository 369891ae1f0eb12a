//! Compares the kept counts with the changes, and corrects them.

use futures_util::TryStreamExt;
use sqlx::types::Uuid;

use super::changes::Expected;
use super::{CheckError, Checker, Found};
use crate::Tenant;
use crate::engine::direct::{run_unlimited, unlimited};
use crate::index::counts::CountKey;

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
    /// Compares the counts of an organization, and takes those that were expected.
    pub(super) async fn check_counts(
        &mut self,
        tenant: Tenant,
        expected: &mut Expected,
    ) -> Result<(), CheckError> {
        let mut counted = std::mem::take(&mut expected.counts);
        let mut found = Found::default();
        let mut wrong: Vec<(CountKey, i64)> = Vec::new();
        unlimited!(&mut self.db, |db| async {
            let rows = sqlx::query_as::<_, Row>(SELECT).bind(tenant.uuid());
            let mut rows = rows.fetch(&mut *db);
            while let Some((scope, span, start, risk_level, status, environment, stored)) =
                rows.try_next().await?
            {
                let key = CountKey {
                    scope,
                    span,
                    start,
                    risk_level,
                    status,
                    environment,
                };
                let n = counted.remove(&key).unwrap_or(0);
                if n != stored {
                    found.add(|| describe(tenant, &key, stored, n));
                    wrong.push((key, n));
                }
            }
            Ok::<_, sqlx::Error>(())
        })?;
        for (key, n) in counted {
            found.add(|| describe(tenant, &key, 0, n));
            wrong.push((key, n));
        }
        if self.repair {
            for (key, n) in &wrong {
                self.set_count(tenant.uuid(), key, *n).await?;
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
