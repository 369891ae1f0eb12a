//! Compares the search index with the changes, and corrects it.
//!
//! What is indexed of a change, and what should be, are added up with those of many others, so
//! that memory does not grow with the changes. Only where these sums differ, changes are compared
//! one by one. SQLite's index has no text of its own: its terms are read one after the other, each
//! with its changes.

use std::collections::{BTreeSet, HashMap};

use changelog_core::{Change, HostId};
use futures_util::TryStreamExt;
use sqlx::types::Uuid;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use super::changes::hash;
use super::{CheckError, Checker, Found};
use crate::Tenant;
use crate::changes::{search_terms, stored};
use crate::engine::direct::unlimited;
use crate::engine::{Engine, Script};
use crate::index::search::SearchDialect;

/// A table of the terms of the index with their changes, for this connection.
const SQLITE_TERMS: &str = "
CREATE VIRTUAL TABLE IF NOT EXISTS temp.search_terms
USING fts5vocab(main, change_search, instance)";
const SQLITE_SELECT: &str = "SELECT term, doc FROM temp.search_terms";
/// The rows of the index, with those whose terms are all gone.
const SQLITE_ROWS: &str = "SELECT rowid FROM change_search";
const POSTGRES_SELECT: &str =
    "SELECT organization_id, sort_key, tsvector_to_array(words) FROM change_search";

const SELECT_CHANGE: &str = "
SELECT document, author_key, host_id FROM changes WHERE organization_id = $1 AND sort_key = $2";
const SELECT_CHANGES: &str =
    "SELECT organization_id, sort_key, document, author_key, host_id FROM changes";

/// The document of a change, the key of its author, and its host.
type Row = (String, Option<String>, Option<Uuid>);

/// A term of a change that is or should be indexed; see [`hash`].
type Term = u64;

/// The term that stands for the row of a change.
const ROW: &str = "";

/// The number of sums.
const BLOCKS: u64 = 1 << 16;

/// Where a change is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// Only on PostgreSQL: on SQLite sort keys are those of all organizations.
    organization: Option<Uuid>,
    sort_key: i64,
}

impl Place {
    pub(super) fn of(is_sqlite: bool, tenant: Tenant, sort_key: i64) -> Self {
        Self {
            organization: (!is_sqlite).then(|| tenant.uuid()),
            sort_key,
        }
    }

    fn block(self) -> usize {
        usize::try_from(hash(self) % BLOCKS).unwrap_or(0)
    }
}

/// The sums of the terms of changes, by block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocks(Vec<u64>);

impl Default for Blocks {
    fn default() -> Self {
        Self((0..BLOCKS).map(|_| 0).collect())
    }
}

impl Blocks {
    pub(super) fn add(&mut self, place: Place, term: Term) {
        let sum = &mut self.0[place.block()];
        *sum = sum.wrapping_add(hash((place, term)));
    }
}

/// Returns the distinct terms of a change, with [`ROW`].
pub(super) fn terms_of(tenant: Tenant, change: &Change, host: Option<HostId>) -> BTreeSet<Term> {
    let terms = search_terms(tenant, change, host);
    terms.split(' ').chain([ROW]).map(hash).collect()
}

impl Checker<'_> {
    /// Compares the whole index.
    pub(super) async fn check_search(&mut self, expected: &Blocks) -> Result<(), CheckError> {
        let mut indexed = Blocks::default();
        self.read_index(|place, term| indexed.add(place, term))
            .await?;
        if indexed == *expected {
            return Ok(());
        }
        let differs = |place: Place| {
            let block = place.block();
            indexed.0[block] != expected.0[block]
        };
        let mut sums: HashMap<Place, u64> = HashMap::new();
        self.read_index(|place, term| {
            if differs(place) {
                let sum = sums.entry(place).or_default();
                *sum = sum.wrapping_add(term);
            }
        })
        .await?;
        let mut wrong: Vec<(Place, Option<Tenant>)> = Vec::new();
        let (mut different, mut unknown) = (Found::default(), Found::default());
        let is_sqlite = self.is_sqlite();
        unlimited!(&mut self.db, |db| async {
            let rows = sqlx::query_as::<_, (Uuid, i64, String, Option<String>, Option<Uuid>)>(
                SELECT_CHANGES,
            );
            let mut rows = rows.fetch(&mut *db);
            while let Some((organization, sort_key, document, author, host)) =
                rows.try_next().await?
            {
                let tenant = Tenant(organization.into());
                let place = Place::of(is_sqlite, tenant, sort_key);
                if !differs(place) {
                    continue;
                }
                let Ok(change) = stored(&document, author.as_deref()) else {
                    // Reported already; its entry stays.
                    sums.remove(&place);
                    continue;
                };
                let terms = terms_of(tenant, &change, host.map(HostId));
                let sum = terms.into_iter().fold(0, u64::wrapping_add);
                if sums.remove(&place) != Some(sum) {
                    different.add(|| format!("organization {}, {sort_key}", tenant.id()));
                    wrong.push((place, Some(tenant)));
                }
            }
            Ok::<_, sqlx::Error>(())
        })?;
        for place in sums.keys() {
            unknown.add(|| place.sort_key.to_string());
            wrong.push((*place, None));
        }
        if self.repair {
            for (place, tenant) in wrong {
                self.index_again(place, tenant).await?;
            }
            different.is_repaired = true;
            unknown.is_repaired = true;
        }
        let report = &mut self.report;
        let problem = "changes that the search index has other words for";
        report.add("search", problem, different);
        let problem = "entries of the search index without their change";
        report.add("search", problem, unknown);
        Ok(())
    }

    /// Reads all terms of the index.
    async fn read_index(&mut self, mut add: impl FnMut(Place, Term)) -> Result<(), CheckError> {
        match &mut self.db {
            Engine::Sqlite(db) => {
                let place = |sort_key| Place {
                    organization: None,
                    sort_key,
                };
                let row = hash(ROW);
                let mut rows = sqlx::query_as::<_, (i64,)>(SQLITE_ROWS).fetch(&mut *db);
                while let Some((sort_key,)) = rows.try_next().await? {
                    add(place(sort_key), row);
                }
                drop(rows);
                sqlx::raw_sql(SQLITE_TERMS).execute(&mut *db).await?;
                let mut rows = sqlx::query_as::<_, (String, i64)>(SQLITE_SELECT).fetch(&mut *db);
                while let Some((term, sort_key)) = rows.try_next().await? {
                    add(place(sort_key), hash(term.as_str()));
                }
            }
            Engine::Postgres(db) => {
                let rows = sqlx::query_as::<_, (Uuid, i64, Vec<String>)>(POSTGRES_SELECT);
                let mut rows = rows.fetch(&mut *db);
                while let Some((organization, sort_key, terms)) = rows.try_next().await? {
                    let place = Place {
                        organization: Some(organization),
                        sort_key,
                    };
                    for term in terms.iter().map(String::as_str).chain([ROW]) {
                        add(place, hash(term));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the entry of a change again, or removes an entry without a change.
    async fn index_again(
        &mut self,
        place: Place,
        tenant: Option<Tenant>,
    ) -> Result<(), CheckError> {
        let Some(tenant) = tenant else {
            return self.remove(place).await;
        };
        let row: Option<Row> = unlimited!(&mut self.db, |db| sqlx::query_as(SELECT_CHANGE)
            .bind(tenant.uuid())
            .bind(place.sort_key)
            .fetch_optional(&mut *db))?;
        let Some((document, author, host)) = row else {
            return Ok(());
        };
        let change = stored(&document, author.as_deref())?;
        let terms = search_terms(tenant, &change, host.map(HostId));
        let entry = (tenant, place.sort_key, terms.as_str());
        match &mut self.db {
            Engine::Sqlite(db) => {
                let mut script = Script::<Sqlite>::new();
                Sqlite::replace(&mut script, entry);
                script.run(db).await?;
            }
            Engine::Postgres(db) => {
                let mut script = Script::<Postgres>::new();
                Postgres::remove(&mut script, tenant, vec![place.sort_key]);
                Postgres::index_new(&mut script, &[entry]);
                script.run(db).await?;
            }
        }
        Ok(())
    }

    async fn remove(&mut self, place: Place) -> Result<(), CheckError> {
        let tenant = Tenant(place.organization.unwrap_or_default().into());
        match &mut self.db {
            Engine::Sqlite(db) => {
                let mut script = Script::<Sqlite>::new();
                Sqlite::remove(&mut script, tenant, vec![place.sort_key]);
                script.run(db).await?;
            }
            Engine::Postgres(db) => {
                let mut script = Script::<Postgres>::new();
                Postgres::remove(&mut script, tenant, vec![place.sort_key]);
                script.run(db).await?;
            }
        }
        Ok(())
    }
}
