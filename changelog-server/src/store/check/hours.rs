//! Compares the counts by hour and service with the changes, and corrects them.

use std::collections::HashMap;

use sqlx::types::Uuid;

use super::changes::Expected;
use super::{CheckError, Checker, Found};
use crate::store::Tenant;
use crate::store::engine::direct::{run_unlimited, unlimited};
use crate::store::index::counts::HourKey;

const SELECT: &str = "
SELECT hour, service_id, CAST(sum(n) AS bigint), CAST(sum(undone) AS bigint)
FROM change_hours WHERE organization_id = $1 GROUP BY hour, service_id";

const DELETE: &str =
    "DELETE FROM change_hours WHERE organization_id = $1 AND hour = $2 AND service_id = $3";

const INSERT: &str = "
INSERT INTO change_hours (organization_id, hour, service_id, slot, n, undone)
VALUES ($1, $2, $3, 0, $4, $5)";

impl Checker<'_> {
    /// Compares the counts by hour of an organization.
    pub(super) async fn check_hours(
        &mut self,
        tenant: Tenant,
        expected: &Expected,
    ) -> Result<(), CheckError> {
        let rows: Vec<(i64, Uuid, i64, i64)> =
            unlimited!(&mut self.db, |db| sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .fetch_all(&mut *db))?;
        let stored: HashMap<HourKey, (i64, i64)> = rows
            .into_iter()
            .map(|(hour, service, changes, undone)| ((hour, service), (changes, undone)))
            .collect();
        let counted = |key: &HourKey| expected.hours.get(key).copied().unwrap_or_default();
        let missing = expected
            .hours
            .keys()
            .filter(|key| !stored.contains_key(key));
        let mut found = Found::default();
        let mut wrong = Vec::new();
        for key in stored.keys().chain(missing) {
            let (stored, counted) = (stored.get(key).copied().unwrap_or_default(), counted(key));
            if stored != counted {
                let (hour, service) = key;
                found.add(|| {
                    format!(
                        "organization {}, hour {hour}, service {service}: stored {stored:?}, \
                         counted {counted:?}",
                        tenant.id()
                    )
                });
                wrong.push((*key, counted));
            }
        }
        if self.repair {
            for (key, counted) in wrong {
                self.set_hour(tenant.uuid(), key, counted).await?;
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
