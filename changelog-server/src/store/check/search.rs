//! Compares the search index with the changes, and corrects it.
//!
//! SQLite's index has no text of its own: its terms are read one after the other, each with
//! its changes, and added up by change.

use std::collections::HashMap;

use changelog_core::{Change, HostId};
use futures_util::TryStreamExt;
use sqlx::types::Uuid;
use sqlx::{Postgres, Sqlite};

use super::changes::hash;
use super::{CheckError, Checker, Found};
use crate::store::Tenant;
use crate::store::changes::{search_terms, stored};
use crate::store::engine::direct::unlimited;
use crate::store::engine::{Engine, Script};
use crate::store::index::search::SearchDialect;

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

/// The document of a change, the key of its author, and its host.
type Row = (String, Option<String>, Option<Uuid>);

/// Where a change is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Only on PostgreSQL: on SQLite sort keys are those of all organizations.
    organization: Option<Uuid>,
    sort_key: i64,
}

/// The terms of all changes.
#[derive(Default)]
pub(super) struct ExpectedTerms(HashMap<i64, Vec<(Tenant, u64)>>);

impl ExpectedTerms {
    pub(super) fn add(
        &mut self,
        tenant: Tenant,
        sort_key: i64,
        change: &Change,
        host: Option<HostId>,
    ) {
        let terms = search_terms(tenant, change, host);
        let digest = sum(terms.split(' '));
        self.0.entry(sort_key).or_default().push((tenant, digest));
    }
}

/// Adds up the distinct terms of a change.
fn sum<'t>(terms: impl Iterator<Item = &'t str>) -> u64 {
    let mut terms: Vec<&str> = terms.filter(|term| !term.is_empty()).collect();
    terms.sort_unstable();
    terms.dedup();
    terms
        .into_iter()
        .fold(0, |sum, term| sum.wrapping_add(hash(term)))
}

impl Checker<'_> {
    /// Compares the whole index.
    pub(super) async fn check_search(&mut self, expected: ExpectedTerms) -> Result<(), CheckError> {
        let mut indexed = self.indexed().await?;
        let mut wrong: Vec<(Place, Option<Tenant>)> = Vec::new();
        let (mut different, mut unknown) = (Found::default(), Found::default());
        for (sort_key, changes) in expected.0 {
            for (tenant, terms) in changes {
                let is_sqlite = matches!(self.db, Engine::Sqlite(_));
                let place = Place {
                    organization: (!is_sqlite).then(|| tenant.uuid()),
                    sort_key,
                };
                if indexed.remove(&place) != Some(terms) {
                    different.add(|| format!("organization {}, {sort_key}", tenant.id()));
                    wrong.push((place, Some(tenant)));
                }
            }
        }
        for place in indexed.keys() {
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

    /// Reads the sums of the terms of the index.
    async fn indexed(&mut self) -> Result<HashMap<Place, u64>, CheckError> {
        let mut indexed = HashMap::new();
        match &mut self.db {
            Engine::Sqlite(db) => {
                let place = |sort_key| Place {
                    organization: None,
                    sort_key,
                };
                let mut rows = sqlx::query_as::<_, (i64,)>(SQLITE_ROWS).fetch(&mut *db);
                while let Some((sort_key,)) = rows.try_next().await? {
                    indexed.insert(place(sort_key), 0);
                }
                drop(rows);
                sqlx::raw_sql(SQLITE_TERMS).execute(&mut *db).await?;
                let mut rows = sqlx::query_as::<_, (String, i64)>(SQLITE_SELECT).fetch(&mut *db);
                // Rows of one term follow each other.
                let mut last: Option<(String, u64)> = None;
                while let Some((term, sort_key)) = rows.try_next().await? {
                    let digest = match &last {
                        Some((known, digest)) if *known == term => *digest,
                        _ => last.insert((term.clone(), hash(term.as_str()))).1,
                    };
                    let sum: &mut u64 = indexed.entry(place(sort_key)).or_default();
                    *sum = sum.wrapping_add(digest);
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
                    indexed.insert(place, sum(terms.iter().map(String::as_str)));
                }
            }
        }
        Ok(indexed)
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
