//! Kept counts: how many changes there are by service or host, risk and status,
//! so that an exact total costs the same at ten changes and at ten million.
//!
//! A count is spread over slots, rows that are added up on reading: on
//! PostgreSQL a transaction keeps the row that it adds to until it commits, and
//! the writers of one organization would otherwise wait for each other.

use changelog_core::{Change, ChangeFilter, RiskLevel, Status};
use sqlx::types::Uuid;

use super::engine::{execute, on};
use super::{Store, StoreError, Tenant, Tx};

/// How many rows one count is spread over on PostgreSQL.
const SLOTS: i64 = 16;
const ADD: &str = "
INSERT INTO change_counts (organization_id, scope, scope_id, risk_level, status, slot, n)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (organization_id, scope, scope_id, risk_level, status, slot)
DO UPDATE SET n = change_counts.n + excluded.n";

/// PostgreSQL's sum of bigints is numeric, hence the cast.
const SUM: &str = "
SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM change_counts
WHERE organization_id = $1 AND scope = $2 AND scope_id = $3
  AND ($4 IS NULL OR risk_level = $4) AND ($5 IS NULL OR status = $5)";

/// What changes are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Organization,
    Service(Uuid),
    Host(Uuid),
}

impl Scope {
    /// Returns the word and the id that the database knows it by.
    fn key(self) -> (&'static str, Uuid) {
        match self {
            Self::Organization => ("organization", Uuid::nil()),
            Self::Service(id) => ("service", id),
            Self::Host(id) => ("host", id),
        }
    }
}

/// Picks the slot of a transaction.
pub(super) fn random_slot() -> i64 {
    rand::random_range(0..SLOTS)
}

/// The counts that a change is part of: scope, risk and status.
fn places(change: &Change) -> Vec<(Scope, String, String)> {
    let scopes = [
        Some(Scope::Organization),
        change
            .service
            .as_ref()
            .map(|service| Scope::Service(service.id.0)),
        change.host_ref.as_ref().map(|host| Scope::Host(host.id.0)),
    ];
    scopes
        .into_iter()
        .flatten()
        .map(|scope| {
            (
                scope,
                change.risk_level.to_string(),
                change.status.to_string(),
            )
        })
        .collect()
}

/// Returns the scope whose kept counts answer a filter, if any does: none does
/// for a service together with a host, or for words, tags and times.
pub(super) fn scope(filter: &ChangeFilter, words: &[String]) -> Option<Scope> {
    let kept = words.is_empty()
        && filter.tags.is_empty()
        && filter.since.is_none()
        && filter.until.is_none();
    match (filter.service_id, filter.host_id) {
        _ if !kept => None,
        (None, None) => Some(Scope::Organization),
        (Some(service), None) => Some(Scope::Service(service.0)),
        (None, Some(host)) => Some(Scope::Host(host.0)),
        (Some(_), Some(_)) => None,
    }
}

impl Store {
    /// Adds up a kept count.
    pub(super) async fn kept_count(
        &self,
        tenant: Tenant,
        scope: Scope,
        filter: &ChangeFilter,
    ) -> Result<u64, StoreError> {
        let risk = filter.risk_level.as_ref().map(RiskLevel::as_str);
        let status = filter.status.as_ref().map(Status::as_str);
        let (scope, scope_id) = scope.key();
        let (sum,): (i64,) = on!(&self.pool, |db| {
            sqlx::query_as(SUM)
                .bind(tenant.uuid())
                .bind(scope)
                .bind(scope_id)
                .bind(risk)
                .bind(status)
                .fetch_one(db)
        })?;
        Ok(u64::try_from(sum).unwrap_or(0))
    }
}

impl Tx {
    /// Counts a change in, out, or from one place to another.
    pub(super) async fn count(
        &mut self,
        tenant: Tenant,
        before: Option<&Change>,
        after: Option<&Change>,
    ) -> Result<(), StoreError> {
        let gone = before.map(places).unwrap_or_default();
        let come = after.map(places).unwrap_or_default();
        let mut steps: Vec<_> = gone
            .iter()
            .filter(|place| !come.contains(place))
            .map(|place| (place, -1_i64))
            .chain(
                come.iter()
                    .filter(|place| !gone.contains(place))
                    .map(|place| (place, 1)),
            )
            .collect();
        // Every transaction locks the rows in one order, so that none waits in
        // a circle.
        steps.sort();
        for ((scope, risk, status), step) in steps {
            let (scope, scope_id) = scope.key();
            execute!(
                self,
                sqlx::query(ADD)
                    .bind(tenant.uuid())
                    .bind(scope)
                    .bind(scope_id)
                    .bind(risk)
                    .bind(status)
                    .bind(self.slot)
                    .bind(step)
            )?;
        }
        Ok(())
    }
}
