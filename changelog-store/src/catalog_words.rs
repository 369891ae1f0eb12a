//! The words of the names of services and hosts, by which a search finds them.

use std::collections::BTreeSet;

use changelog_core::text::words;
use changelog_core::{Host, HostId, Named, Service, ServiceId};
use sqlx::QueryBuilder;
use sqlx::types::Uuid;

use super::engine::{Dialect, PushValue, Script, push_limit, read, run_script};
use super::{Database, StoreError, Tenant, Tx};

const SERVICE: &str = Service::NOUN;
const HOST: &str = Host::NOUN;

impl Database {
    /// Finds the services and hosts whose names have a word that begins with `prefix`, in
    /// the order of these words. Reads at most `limit` words of services and as many
    /// of hosts.
    ///
    /// `prefix` must be folded: one of the words that [`words`] returns, or its beginning.
    pub async fn catalog_matches(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<(Vec<ServiceId>, Vec<HostId>), StoreError> {
        let rows: Vec<(String, Uuid)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_matches(tenant, &[SERVICE, HOST], prefix, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let (mut services, mut hosts) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        // An id is there once for each of its words.
        for (kind, id) in rows.into_iter().filter(|(_, id)| seen.insert(*id)) {
            if kind == SERVICE {
                services.push(id.into());
            } else {
                hosts.push(id.into());
            }
        }
        Ok((services, hosts))
    }

    /// Finds only the services or only the hosts.
    pub async fn items_matching<T: Named>(
        &self,
        tenant: Tenant,
        prefix: &str,
        limit: u64,
    ) -> Result<Vec<T::Id>, StoreError> {
        let rows: Vec<(String, Uuid)> = read!(self.reader(tenant).await?, |db| async {
            let mut query = select_matches(tenant, &[T::NOUN], prefix, limit);
            query.build_query_as().fetch_all(&mut **db).await
        })?;
        let mut seen = BTreeSet::new();
        let ids = rows.into_iter().map(|(_, id)| id);
        let ids = ids.filter(|id| seen.insert(*id));
        Ok(ids.map(T::Id::from).collect())
    }
}

impl Tx {
    /// Replaces the words of the name of a service or host by those of its new name.
    pub(super) async fn write_words<T: Named>(
        &mut self,
        tenant: Tenant,
        before: Option<&T>,
        item: &T,
    ) -> Result<(), StoreError> {
        let of = |item: &T| BTreeSet::from_iter(words(item.name()));
        let (before, after) = (before.map(of).unwrap_or_default(), of(item));
        let (kind, id) = (T::NOUN, item.id().into());
        run_script!(self, |DB| replace::<DB>(tenant, kind, id, &before, &after))
    }
}

/// Returns the statements that replace the words of a name.
fn replace<DB: Dialect>(
    tenant: Tenant,
    kind: &'static str,
    id: Uuid,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
) -> Script<DB> {
    let mut script = Script::new();
    for word in before.difference(after) {
        let query = script.statement("DELETE FROM catalog_words WHERE organization_id = ");
        DB::bind(query, tenant.uuid().into());
        query.push_value(" AND kind = ", kind);
        query.push_value(" AND word = ", word.as_str());
        query.push_value(" AND id = ", id);
    }
    let added = after.difference(before).map(|word| {
        [
            tenant.uuid().into(),
            kind.into(),
            word.as_str().into(),
            id.into(),
        ]
    });
    let rows: Vec<_> = added.collect();
    script.insert(
        "INSERT INTO catalog_words (organization_id, kind, word, id) ",
        &rows,
        "",
    );
    script
}

/// Selects the first rows of each kind whose words begin with a prefix.
fn select_matches<DB: Dialect>(
    tenant: Tenant,
    kinds: &[&'static str],
    prefix: &str,
    limit: u64,
) -> QueryBuilder<DB> {
    // Folded words have letters and digits only, which all come before it.
    let end = format!("{prefix}{}", char::MAX);
    let mut query = QueryBuilder::new("");
    for (number, kind) in kinds.iter().copied().enumerate() {
        if number > 0 {
            query.push(" UNION ALL ");
        }
        query.push("SELECT * FROM (SELECT kind, id FROM catalog_words WHERE organization_id = ");
        DB::bind(&mut query, tenant.uuid().into());
        query.push_value(" AND kind = ", kind);
        query.push_value(" AND word >= ", prefix);
        query.push_value(" AND word < ", end.as_str());
        query.push(" ORDER BY word, id");
        push_limit(&mut query, limit, 0);
        query.push(") AS ").push(kind).push("s");
    }
    query
}

#[cfg(test)]
mod tests {
    use sqlx_sqlite::Sqlite;

    use super::*;
    use crate::engine::explain;

    #[tokio::test]
    async fn the_words_of_each_kind_are_read_as_a_range() {
        let id = Uuid::from_u128(1);
        let query = select_matches::<Sqlite>(Tenant(id.into()), &[SERVICE, HOST], "pay", 200);
        let plan = explain::of(&query.into_string()).await;
        let range = "SEARCH catalog_words USING PRIMARY KEY \
                     (organization_id=? AND kind=? AND word>? AND word<?)";
        assert_eq!(
            plan.iter().filter(|step| *step == range).count(),
            2,
            "{plan:?}"
        );
        assert!(
            !plan.iter().any(|step| step.contains("TEMP B-TREE")),
            "{plan:?}"
        );
    }
}
