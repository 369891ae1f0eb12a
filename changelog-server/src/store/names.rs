//! The names of services, hosts and tags that begin with what was typed.

use std::ops::Range;

use sqlx::QueryBuilder;

use super::engine::{Dialect, end_lease, on, push_limit, read};
use super::{Database, StoreError, Tenant};

/// Comes after every string in the order of the databases.
const LAST: char = char::MAX;

/// The scopes of tags in `change_counts` begin with this.
const TAG_SCOPE: &str = "tag/";

/// The first count of a scope that lies in a range.
const SELECT_SCOPE: &str = "
SELECT scope FROM change_counts
WHERE organization_id = $1 AND scope >= $2 AND scope < $3
ORDER BY scope LIMIT 1";

impl Database {
    /// Lists at most `limit` names of services that begin with `prefix`, in their order;
    /// ASCII case is ignored.
    pub async fn service_names_from(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<String>, StoreError> {
        self.names_from("services", "name", tenant, prefix, limit)
            .await
    }

    /// Lists at most `limit` names of hosts that begin with `prefix`, in their order;
    /// ASCII case is ignored.
    pub async fn host_names_from(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<String>, StoreError> {
        self.names_from("hosts", "hostname", tenant, prefix, limit)
            .await
    }

    async fn names_from(
        &self,
        table: &'static str,
        column: &'static str,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<String>, StoreError> {
        let range = beginning_with(&prefix.to_ascii_lowercase());
        let rows: Vec<(String,)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_names(table, column, tenant, &range, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }

    /// Lists at most `limit` tags that begin with `prefix`, in their order. Each costs a
    /// lookup in the counts, however many changes have the tag.
    pub async fn tag_names_from(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let range = beginning_with(&format!("{TAG_SCOPE}{prefix}"));
        let mut reader = self.reader(tenant).await?;
        let mut from = range.start;
        let mut tags = Vec::new();
        while tags.len() < limit {
            let found: Option<(String,)> = on!(&mut reader, |db| {
                sqlx::query_as(SELECT_SCOPE)
                    .bind(tenant.uuid())
                    .bind(&from)
                    .bind(&range.end)
                    .fetch_optional(&mut **db)
            })?;
            let Some((scope,)) = found else {
                break;
            };
            tags.extend(scope.strip_prefix(TAG_SCOPE).map(str::to_owned));
            // Nothing lies between a string and the string with this character; NUL
            // would come earlier, which PostgreSQL does not accept and tags cannot have.
            from = scope + "\u{1}";
        }
        end_lease(reader);
        Ok(tags)
    }
}

fn beginning_with(prefix: &str) -> Range<String> {
    prefix.to_owned()..format!("{prefix}{LAST}")
}

fn select_names<DB: Dialect>(
    table: &'static str,
    column: &'static str,
    tenant: Tenant,
    range: &Range<String>,
    limit: u64,
) -> QueryBuilder<DB> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(column).push(" FROM ").push(table);
    query.push(" WHERE organization_id = ");
    DB::bind(&mut query, tenant.uuid().into());
    query.push(" AND ").push(column).push("_folded >= ");
    DB::bind(&mut query, range.start.as_str().into());
    query.push(" AND ").push(column).push("_folded < ");
    DB::bind(&mut query, range.end.as_str().into());
    query.push(" ORDER BY ").push(column).push("_folded");
    push_limit(&mut query, limit, 0);
    query
}
