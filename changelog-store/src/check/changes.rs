//! Reads all changes of an organization, and computes what should be stored for them.

use std::collections::HashMap;

use changelog_core::{Change, Environment, HostId};
use sqlx::types::Uuid;

use super::search::{Blocks, Place, terms_of};
use super::{CheckError, Checker, Found};
use crate::changes::stored;
use crate::engine::direct::unlimited;
use crate::index::counts::{CountKey, HourKey};
use crate::{Tenant, index};

/// The changes that are read together.
const BATCH: usize = 2_000;

const SELECT: &str = "
SELECT sort_key, id, title, risk_level, status, environment, service_id, host_id, author_key,
    document
FROM changes WHERE organization_id = $1 AND sort_key > $2 ORDER BY sort_key LIMIT 2000";

/// What should be stored for the changes of an organization.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) changes: u64,
    pub(super) counts: HashMap<CountKey, i64>,
    /// The number of changes, and of those that were undone.
    pub(super) hours: HashMap<HourKey, (i64, i64)>,
    pub(super) tags: Digest,
    pub(super) services: Digest,
}

/// A set of rows, by the sum of their hashes, which is the same in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) rows: u64,
    sum: u64,
}

impl Digest {
    /// Adds a row.
    pub(super) fn add(&mut self, row: impl std::hash::Hash) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash(row));
    }
}

/// Returns the same number for the same value, in this process.
pub(super) fn hash(value: impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[derive(sqlx::FromRow)]
struct Row {
    sort_key: i64,
    id: Uuid,
    title: String,
    risk_level: String,
    status: String,
    environment: Option<String>,
    service_id: Option<Uuid>,
    host_id: Option<Uuid>,
    author_key: Option<String>,
    document: String,
}

impl Row {
    /// Returns whether the columns are those of the change in the document.
    fn agrees(&self, change: &Change) -> bool {
        let environment = change.environment.as_ref().map(Environment::as_str);
        change.id.0 == self.id
            && change.title == self.title
            && change.risk_level.as_str() == self.risk_level
            && change.status.as_str() == self.status
            && environment == self.environment.as_deref()
            && change.service_ids.first().map(|id| id.0) == self.service_id
            && index::sort_key::millis(self.sort_key) == change.effective_at().millis()
    }
}

impl Checker<'_> {
    /// Reads the changes of an organization.
    pub(super) async fn read_changes(
        &mut self,
        tenant: Tenant,
        expected: &mut Expected,
        terms: &mut Blocks,
    ) -> Result<(), CheckError> {
        let (mut unreadable, mut different) = (Found::default(), Found::default());
        let is_sqlite = self.is_sqlite();
        let mut after = i64::MIN;
        loop {
            let rows: Vec<Row> = unlimited!(&mut self.db, |db| sqlx::query_as(SELECT)
                .bind(tenant.uuid())
                .bind(after)
                .fetch_all(&mut *db))?;
            for row in &rows {
                after = row.sort_key;
                expected.changes += 1;
                let Ok(change) = stored(&row.document, row.author_key.as_deref()) else {
                    unreadable.add(|| row.id.to_string());
                    continue;
                };
                if !row.agrees(&change) {
                    different.add(|| row.id.to_string());
                }
                let host = row.host_id.map(HostId);
                expected.add(tenant, row.sort_key, &change, host);
                let place = Place::of(is_sqlite, tenant, row.sort_key);
                for term in terms_of(tenant, &change, host) {
                    terms.add(place, term);
                }
            }
            if rows.len() < BATCH {
                break;
            }
        }
        let report = &mut self.report;
        report.add(
            "changes",
            "changes whose document cannot be read",
            unreadable,
        );
        let problem = "changes whose columns differ from their document";
        report.add("changes", problem, different);
        Ok(())
    }
}

impl Expected {
    fn add(&mut self, tenant: Tenant, sort_key: i64, change: &Change, host: Option<HostId>) {
        for tag in &change.tags {
            self.tags.add((tag.as_str(), sort_key));
        }
        for (id, place) in change.service_ids.iter().zip(0_i64..).skip(1) {
            self.services.add((id.0, sort_key, place));
        }
        let delta = crate::changes::count_delta(tenant, sort_key, change, host);
        for key in delta.keys() {
            *self.counts.entry(key).or_default() += 1;
        }
        if let Some((hour, is_undone)) = delta.in_hour() {
            let (changes, undone) = self.hours.entry(hour).or_default();
            *changes += 1;
            *undone += i64::from(is_undone);
        }
    }
}
