//! Builds the search index of the target from its changes.

use changelog_core::HostId;
use sqlx::Connection;
use sqlx::types::Uuid;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use super::{MoveError, Mover, execute};
use crate::changes::{search_terms, stored};
use crate::engine::direct::{Direct, unlimited};
use crate::engine::{Engine, Script};
use crate::index::search::SearchDialect;
use crate::{StoreError, Tenant};

/// The changes that are indexed by one statement.
const BATCH: usize = 500;

const SELECT: &str = "
SELECT sort_key, document, author_key, host_id FROM changes
WHERE organization_id = $1 AND sort_key > $2 ORDER BY sort_key LIMIT 500";

type Row = (i64, String, Option<String>, Option<Uuid>);

impl Mover<'_> {
    /// Builds the index, from the beginning: it has the changes of an earlier attempt.
    pub(super) async fn build_search(&mut self) -> Result<u64, MoveError> {
        (self.note)("building the search index");
        let clear = match &self.to {
            Engine::Sqlite(_) => "DELETE FROM change_search",
            Engine::Postgres(_) => "TRUNCATE change_search",
        };
        execute(&mut self.to, clear).await?;
        let organizations: Vec<(Uuid,)> = unlimited!(&mut self.to, |db| sqlx::query_as(
            "SELECT id FROM organizations"
        )
        .fetch_all(&mut *db))?;
        let mut indexed = 0;
        for (organization,) in organizations {
            let tenant = Tenant(organization.into());
            let mut after = i64::MIN;
            loop {
                let rows: Vec<Row> = unlimited!(&mut self.to, |db| sqlx::query_as(SELECT)
                    .bind(organization)
                    .bind(after)
                    .fetch_all(&mut *db))?;
                let Some((last, ..)) = rows.last() else {
                    break;
                };
                after = *last;
                let is_last = rows.len() < BATCH;
                indexed += rows.len() as u64;
                index(&mut self.to, tenant, rows).await?;
                if is_last {
                    break;
                }
            }
        }
        Ok(indexed)
    }
}

/// Indexes some changes in a transaction.
async fn index(db: &mut Direct, tenant: Tenant, rows: Vec<Row>) -> Result<(), StoreError> {
    let mut words = Vec::with_capacity(rows.len());
    for (sort_key, document, author, host) in rows {
        let change = stored(&document, author.as_deref())?;
        words.push((sort_key, search_terms(tenant, &change, host.map(HostId))));
    }
    let entries: Vec<(Tenant, i64, &str)> = words
        .iter()
        .map(|(sort_key, words)| (tenant, *sort_key, words.as_str()))
        .collect();
    match db {
        Engine::Sqlite(db) => {
            let mut transaction = db.begin().await?;
            let mut script = Script::<Sqlite>::new();
            Sqlite::index_new(&mut script, &entries);
            script.run(&mut transaction).await?;
            transaction.commit().await?;
        }
        Engine::Postgres(db) => {
            let mut script = Script::<Postgres>::new();
            Postgres::index_new(&mut script, &entries);
            script.run(db).await?;
        }
    }
    Ok(())
}
