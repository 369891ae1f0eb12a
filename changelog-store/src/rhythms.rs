//! When sources and API keys that record changes were heard, and their gaps.

use std::collections::HashMap;

use changelog_core::{ApiKeyId, SourceId, Timestamp};
use sqlx::types::Uuid;
use sqlx::{FromRow, QueryBuilder};

use super::engine::{Dialect, execute, on, read};
use super::{Database, StoreError, Tenant, Tx};
use crate::rhythm::Rhythm;

/// The limit on sources and keys that are read: all sources, and the keys heard last. As many
/// that should have been heard are read with them: those that have long been silent come last.
const MAX_READ: usize = 300;
/// The limit on gaps that are kept of each; the oldest are forgotten.
const MAX_GAPS: usize = 100;

const SELECT_ONE: &str = "
SELECT last_seen_at, rhythm, expected_by, is_missed, gaps FROM rhythms
WHERE organization_id = $1 AND id = $2";

/// The literals are [`MAX_READ`].
const SELECT_ALL: &str = "
SELECT id, is_key, last_seen_at, expected_by, gaps FROM (
    SELECT id, is_key, last_seen_at, expected_by, gaps FROM rhythms
    WHERE organization_id = $1 ORDER BY is_key, last_seen_at DESC LIMIT 300) AS latest
UNION
SELECT id, is_key, last_seen_at, expected_by, gaps FROM (
    SELECT id, is_key, last_seen_at, expected_by, gaps FROM rhythms
    WHERE organization_id = $1 AND expected_by < $2 ORDER BY expected_by DESC LIMIT 300) AS silent";

const PUT: &str = "
INSERT INTO rhythms (organization_id, id, is_key, last_seen_at, rhythm, expected_by, is_missed,
                     gaps)
VALUES ($1, $2, $3, $4, $5, $6, 0, $7)
ON CONFLICT (organization_id, id) DO UPDATE SET
    last_seen_at = excluded.last_seen_at, rhythm = excluded.rhythm,
    expected_by = excluded.expected_by, is_missed = 0, gaps = excluded.gaps";

/// Those that should have been heard between two times.
const OVERDUE: &str = "
SELECT organization_id, id, is_key, last_seen_at FROM rhythms
WHERE is_missed = 0 AND expected_by > $1 AND expected_by <= $2 ORDER BY expected_by LIMIT 100";

const MISS: &str = "
UPDATE rhythms SET is_missed = 1
WHERE organization_id = $1 AND id = $2 AND is_missed = 0 AND last_seen_at = $3";

const FORGET: &str = "DELETE FROM rhythms WHERE organization_id = $1 AND id = $2";

/// Who is heard: a source, or an API key that records changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reporter {
    /// A source.
    Source(SourceId),
    /// A key.
    Key(ApiKeyId),
}

impl Reporter {
    fn of(id: Uuid, is_key: i64) -> Self {
        if is_key == 1 {
            Self::Key(id.into())
        } else {
            Self::Source(id.into())
        }
    }

    /// Returns its id.
    pub fn id(self) -> Uuid {
        match self {
            Self::Source(id) => id.0,
            Self::Key(id) => id.0,
        }
    }
}

/// When one was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who.
    pub reporter: Reporter,
    /// The last time.
    pub last_seen_at: Timestamp,
    /// When it is to be heard again at the latest; `None` without a rhythm.
    pub expected_by: Option<Timestamp>,
    /// The gaps that have ended, oldest first: when it was last heard before, and when it was
    /// heard again.
    pub gaps: Vec<(Timestamp, Timestamp)>,
}

/// One that should have been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Its organization.
    pub tenant: Tenant,
    /// Who.
    pub reporter: Reporter,
    /// When it was last heard.
    pub last_seen_at: Timestamp,
}

#[derive(FromRow)]
struct OneRow {
    last_seen_at: i64,
    rhythm: Vec<u8>,
    expected_by: Option<i64>,
    is_missed: i64,
    gaps: String,
}

#[derive(FromRow)]
struct HeardRow {
    id: Uuid,
    is_key: i64,
    last_seen_at: i64,
    expected_by: Option<i64>,
    gaps: String,
}

impl Heard {
    /// Returns what is known of one that was heard for the first time.
    pub fn first(reporter: Reporter, at: Timestamp) -> Self {
        Self {
            reporter,
            last_seen_at: at,
            expected_by: None,
            gaps: Vec::new(),
        }
    }

    /// Adds that it was heard at a time that is not stored yet.
    pub fn hear(&mut self, at: Timestamp) {
        if self.expected_by.is_some_and(|expected| expected < at) {
            self.gaps.push((self.last_seen_at, at));
            self.expected_by = None;
        }
        self.last_seen_at = self.last_seen_at.max(at);
    }

    /// Returns the gaps that are known at a time, oldest first: since when and until when, which
    /// is `None` for one that has not ended.
    pub fn gaps_at(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Option<Timestamp>)> {
        let ended = self
            .gaps
            .iter()
            .map(|(since, until)| (*since, Some(*until)));
        let is_late = self.expected_by.is_some_and(|expected| expected < now);
        ended.chain(is_late.then_some((self.last_seen_at, None)))
    }
}

impl From<HeardRow> for Heard {
    fn from(row: HeardRow) -> Self {
        Self {
            reporter: Reporter::of(row.id, row.is_key),
            last_seen_at: Timestamp::from_millis(row.last_seen_at),
            expected_by: row.expected_by.map(Timestamp::from_millis),
            gaps: read_gaps(&row.gaps),
        }
    }
}

impl From<(Reporter, OneRow)> for Heard {
    fn from((reporter, row): (Reporter, OneRow)) -> Self {
        Self {
            reporter,
            last_seen_at: Timestamp::from_millis(row.last_seen_at),
            expected_by: row.expected_by.map(Timestamp::from_millis),
            gaps: read_gaps(&row.gaps),
        }
    }
}

fn read_gaps(json: &str) -> Vec<(Timestamp, Timestamp)> {
    let gaps: Vec<(i64, i64)> = serde_json::from_str(json).unwrap_or_default();
    let times = |(since, until)| (Timestamp::from_millis(since), Timestamp::from_millis(until));
    gaps.into_iter().map(times).collect()
}

fn write_gaps(gaps: &[(Timestamp, Timestamp)]) -> String {
    let kept = &gaps[gaps.len().saturating_sub(MAX_GAPS)..];
    let millis: Vec<(i64, i64)> = kept
        .iter()
        .map(|(since, until)| (since.millis(), until.millis()))
        .collect();
    serde_json::json!(millis).to_string()
}

impl Database {
    /// Returns when the sources and keys of an organization were heard: all sources, and the
    /// keys that were heard last, [`MAX_READ`] together, and as many of those that should have
    /// been heard by now.
    pub async fn heard(&self, tenant: Tenant, now: Timestamp) -> Result<Vec<Heard>, StoreError> {
        let rows: Vec<HeardRow> = read!(self.reader(tenant).await?, |db| {
            sqlx::query_as(SELECT_ALL)
                .bind(tenant.uuid())
                .bind(now.millis())
                .fetch_all(&mut **db)
        })?;
        debug_assert!(rows.len() <= 2 * MAX_READ);
        Ok(rows.into_iter().map(Heard::from).collect())
    }

    /// Returns the names of those keys of an organization that are neither revoked nor
    /// expired, and of its workload identities.
    pub async fn valid_key_names(
        &self,
        tenant: Tenant,
        ids: impl IntoIterator<Item = ApiKeyId>,
        now: Timestamp,
    ) -> Result<HashMap<ApiKeyId, String>, StoreError> {
        let ids: Vec<Uuid> = ids.into_iter().map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(Uuid, String)> = read!(self.system().await?, |db| async {
            let mut query = select_names(tenant, ids, now);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let named = rows.into_iter().map(|(id, name)| (id.into(), name));
        Ok(named.collect())
    }

    /// Returns some of those that should have been heard after one time and before the other,
    /// and were not reported as missed yet.
    pub async fn overdue(
        &self,
        after: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Overdue>, StoreError> {
        let rows: Vec<(Uuid, Uuid, i64, i64)> = read!(self.system().await?, |db| {
            sqlx::query_as(OVERDUE)
                .bind(after.millis())
                .bind(now.millis())
                .fetch_all(&mut **db)
        })?;
        let overdue = |(organization, id, is_key, last_seen_at): (Uuid, _, _, _)| Overdue {
            tenant: Tenant(organization.into()),
            reporter: Reporter::of(id, is_key),
            last_seen_at: Timestamp::from_millis(last_seen_at),
        };
        Ok(rows.into_iter().map(overdue).collect())
    }
}

impl Tx {
    /// Records that one was heard at these times. Returns since when it had not been heard, if
    /// it was reported as missed.
    pub async fn hear(
        &mut self,
        tenant: Tenant,
        reporter: Reporter,
        times: &[Timestamp],
    ) -> Result<Option<Timestamp>, StoreError> {
        let mut times = times.to_vec();
        times.sort_unstable();
        let Some(first) = times.first() else {
            return Ok(None);
        };
        let row: Option<OneRow> = on!(&mut self.connection, |db| sqlx::query_as(SELECT_ONE)
            .bind(tenant.uuid())
            .bind(reporter.id())
            .fetch_optional(&mut **db))?;
        let missed = row.as_ref().filter(|row| row.is_missed == 1);
        let missed = missed.map(|row| Timestamp::from_millis(row.last_seen_at));
        let known = row.and_then(|row| Some((Rhythm::from_bytes(&row.rhythm)?, row)));
        let (mut rhythm, mut heard) = match known {
            Some((rhythm, row)) => (rhythm, Heard::from((reporter, row))),
            None => (Rhythm::new(*first), Heard::first(reporter, *first)),
        };
        for at in &times {
            heard.hear(*at);
            // It depends on the hours only.
            if rhythm.hear(*at) || heard.expected_by.is_none() {
                heard.expected_by = rhythm.expected_by();
            }
        }
        execute!(
            self,
            sqlx::query(PUT)
                .bind(tenant.uuid())
                .bind(reporter.id())
                .bind(i64::from(matches!(reporter, Reporter::Key(_))))
                .bind(heard.last_seen_at.millis())
                .bind(rhythm.to_bytes())
                .bind(heard.expected_by.map(Timestamp::millis))
                .bind(write_gaps(&heard.gaps))
        )?;
        Ok(missed.filter(|since| heard.last_seen_at > *since))
    }

    /// Records that one was reported as missed. Returns `false` if it was before, or was
    /// heard meanwhile.
    pub async fn miss(&mut self, overdue: &Overdue) -> Result<bool, StoreError> {
        let missed = execute!(
            self,
            sqlx::query(MISS)
                .bind(overdue.tenant.uuid())
                .bind(overdue.reporter.id())
                .bind(overdue.last_seen_at.millis())
        )?;
        Ok(missed > 0)
    }

    /// Forgets when one was heard.
    pub async fn forget_rhythm(
        &mut self,
        tenant: Tenant,
        reporter: Reporter,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(FORGET).bind(tenant.uuid()).bind(reporter.id())
        )?;
        Ok(())
    }
}

fn select_names<DB: Dialect>(tenant: Tenant, ids: Vec<Uuid>, now: Timestamp) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT id, name FROM api_keys WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ");
    DB::bind(&mut query, now.millis().into());
    query.push(") AND id");
    DB::push_in_ids(&mut query, ids.clone());
    query.push(" UNION ALL SELECT id, name FROM workloads WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND id");
    DB::push_in_ids(&mut query, ids);
    query
}
