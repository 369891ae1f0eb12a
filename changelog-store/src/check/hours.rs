//! Compares the counts by hour and service with the changes, and corrects them.

use futures_util::TryStreamExt;
use sqlx::types::Uuid;

use super::changes::Expected;
use super::{CheckError, Checker, Found};
use crate::Tenant;
use crate::engine::direct::{run_unlimited, unlimited};
use crate::index::counts::HourKey;

const SELECT: &str = "
SELECT hour, service_id, CAST(sum(n) AS bigint), CAST(sum(undone) AS bigint)
FROM change_hours WHERE organization_id = $1 GROUP BY hour, service_id";

const DELETE: &str =
    "DELETE FROM change_hours WHERE organization_id = $1 AND hour = $2 AND service_id = $3";

const INSERT: &str = "
INSERT INTO change_hours (organization_id, hour, service_id, slot, n, undone)
VALUES ($1, $2, $3, 0, $4, $5)";

impl Checker<'_> {
    /// Compares the counts by hour of an organization, and takes those that were expected.
    pub(super) async fn check_hours(
        &mut self,
        tenant: Tenant,
        expected: &mut Expected,
    ) -> Result<(), CheckError> {
        let mut counted = std::mem::take(&mut expected.hours);
        let mut found = Found::default();
        let mut wrong: Vec<(HourKey, (i64, i64))> = Vec::new();
        unlimited!(&mut self.db, |db| async {
            let rows = sqlx::query_as::<_, (i64, Uuid, i64, i64)>(SELECT).bind(tenant.uuid());
            let mut rows = rows.fetch(&mut *db);
            while let Some((hour, service, changes, undone)) = rows.try_next().await? {
                let (key, stored) = ((hour, service), (changes, undone));
                let counts = counted.remove(&key).unwrap_or_default();
                if stored != counts {
                    found.add(|| describe(tenant, key, stored, counts));
                    wrong.push((key, counts));
                }
            }
            Ok::<_, sqlx::Error>(())
        })?;
        for (key, counts) in counted {
            found.add(|| describe(tenant, key, (0, 0), counts));
            wrong.push((key, counts));
        }
        if self.repair {
            for (key, counts) in wrong {
                self.set_hour(tenant.uuid(), key, counts).await?;
            }
            found.is_repaired = true;
        }
        let problem = "counts by hour (changes, undone) that differ from the changes";
        self.report.add("counts", problem, found);
        Ok(())
    }

    async fn set_hour(
        &mut self,
        organization: Uuid,
        (hour, service): HourKey,
        (changes, undone): (i64, i64),
    ) -> Result<(), sqlx::Error> {
        run_unlimited!(&mut self.db, |db| sqlx::query(DELETE)
            .bind(organization)
            .bind(hour)
            .bind(service)
            .execute(&mut *db))?;
        if changes == 0 {
            return Ok(());
        }
        run_unlimited!(&mut self.db, |db| sqlx::query(INSERT)
            .bind(organization)
            .bind(hour)
            .bind(service)
            .bind(changes)
            .bind(undone)
            .execute(&mut *db))
    }
}

fn describe(
    tenant: Tenant,
    (hour, service): HourKey,
    stored: (i64, i64),
    counted: (i64, i64),
) -> String {
    format!(
        "organization {}, hour {hour}, service {service}: stored {stored:?}, counted {counted:?}",
        tenant.id()
    )
}
