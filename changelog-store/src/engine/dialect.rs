//! The differences of the two databases, for statements that are built from parts,
//! and parts that several statements share.

use serde_json::Map;
use sqlx::types::{Json, Uuid};
use sqlx::{Database, Encode, QueryBuilder, Type};
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

/// The differences of the two databases, for statements that are built from parts.
pub(crate) trait Dialect: Database {
    /// Whether several statements can be sent as one text.
    const SCRIPTS: bool;
    /// Whether a sort key is unique among the changes of all organizations, because
    /// it is the number of the row.
    const SORT_KEYS_ARE_GLOBAL: bool;
    /// Whether rows of several organizations are read by one statement. A database that is
    /// distributed by organization runs such a statement on every server, and one
    /// that names its organization on the one that has its rows.
    const MIXES_ORGANIZATIONS: bool;
    /// Whether a UNION ALL whose parts are indexed in the wanted order reads them
    /// only as far as its LIMIT needs.
    const MERGES_LAZILY: bool;
    /// What ends a SELECT that locks its rows.
    const FOR_UPDATE: &'static str;
    /// What follows it to leave out those that are locked already.
    const SKIP_LOCKED: &'static str;

    /// Adds a value to a query.
    fn bind(query: &mut QueryBuilder<Self>, value: Value<'_>);

    /// Adds the condition that the column before it has one of some values.
    fn push_in(query: &mut QueryBuilder<Self>, values: Vec<i64>);

    /// Adds the condition that the column before it has one of some ids.
    fn push_in_ids(query: &mut QueryBuilder<Self>, ids: Vec<Uuid>);

    /// Runs a query; `keep` says whether to keep the prepared statement.
    fn execute(
        query: &mut QueryBuilder<Self>,
        keep: bool,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Adds values to a query for either database.
pub(crate) trait PushValue {
    /// Adds a part of a query and a value after it.
    fn push_value<'v>(&mut self, before: &str, value: impl Into<Value<'v>>);
}

impl<DB: Dialect> PushValue for QueryBuilder<DB> {
    fn push_value<'v>(&mut self, before: &str, value: impl Into<Value<'v>>) {
        self.push(before);
        DB::bind(self, value.into());
    }
}

/// A value of a query for either database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    Uuid(Uuid),
    MaybeUuid(Option<Uuid>),
    Text(&'v str),
    MaybeText(Option<&'v str>),
    Number(i64),
    MaybeNumber(Option<i64>),
    Bytes(&'v [u8]),
    Json(&'v Map<String, serde_json::Value>),
    List(&'v [serde_json::Value]),
    /// What a search index holds of a row: words separated by spaces.
    Words(&'v str),
}

macro_rules! dialect {
    ($database:ty, scripts: $scripts:literal, shared: $shared:literal,
        lock: ($lock:literal, $skip:literal), words: $words:expr, in: $push_in:expr) => {
        impl Dialect for $database {
            const SCRIPTS: bool = $scripts;
            const SORT_KEYS_ARE_GLOBAL: bool = $shared;
            const MIXES_ORGANIZATIONS: bool = $shared;
            const MERGES_LAZILY: bool = $shared;
            const FOR_UPDATE: &'static str = $lock;
            const SKIP_LOCKED: &'static str = $skip;

            fn bind(query: &mut QueryBuilder<Self>, value: Value<'_>) {
                match value {
                    Value::Uuid(value) => query.push_bind(value),
                    Value::MaybeUuid(value) => query.push_bind(value),
                    Value::Text(value) => query.push_bind(value),
                    Value::MaybeText(value) => query.push_bind(value),
                    Value::Number(value) => query.push_bind(value),
                    Value::MaybeNumber(value) => query.push_bind(value),
                    Value::Bytes(value) => query.push_bind(value),
                    Value::Json(value) => query.push_bind(Json(value)),
                    Value::List(value) => query.push_bind(Json(value)),
                    Value::Words(value) => {
                        let (before, after) = $words;
                        query.push(before).push_bind(value).push(after)
                    }
                };
            }

            fn push_in(query: &mut QueryBuilder<Self>, values: Vec<i64>) {
                $push_in(query, values);
            }

            fn push_in_ids(query: &mut QueryBuilder<Self>, ids: Vec<Uuid>) {
                $push_in(query, ids);
            }

            async fn execute(
                query: &mut QueryBuilder<Self>,
                keep: bool,
                connection: &mut Self::Connection,
            ) -> Result<(), sqlx::Error> {
                query.build().persistent(keep).execute(connection).await?;
                Ok(())
            }
        }
    };
}
dialect!(Sqlite, scripts: true, shared: true, lock: ("", ""), words: ("", ""), in: push_list);
dialect!(Postgres, scripts: false, shared: false, lock: (" FOR UPDATE", " SKIP LOCKED"),
    words: ("array_to_tsvector(string_to_array(", ", ' '))"), in: push_array);

fn push_list<T>(query: &mut QueryBuilder<Sqlite>, values: Vec<T>)
where
    T: for<'q> Encode<'q, Sqlite> + Type<Sqlite>,
{
    query.push(" IN (");
    let mut list = query.separated(", ");
    for value in values {
        list.push_bind(value);
    }
    query.push(")");
}

/// One array, so that the statement is the same for any number of values.
fn push_array<T>(query: &mut QueryBuilder<Postgres>, values: Vec<T>)
where
    Vec<T>: for<'q> Encode<'q, Postgres> + Type<Postgres>,
{
    query.push(" = ANY(").push_bind(values).push(")");
}

impl From<Uuid> for Value<'_> {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

impl From<Option<Uuid>> for Value<'_> {
    fn from(value: Option<Uuid>) -> Self {
        Self::MaybeUuid(value)
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(value: &'v str) -> Self {
        Self::Text(value)
    }
}

impl<'v> From<Option<&'v str>> for Value<'v> {
    fn from(value: Option<&'v str>) -> Self {
        Self::MaybeText(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::MaybeNumber(value)
    }
}

impl<'v> From<&'v [u8]> for Value<'v> {
    fn from(value: &'v [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'v> From<&'v Map<String, serde_json::Value>> for Value<'v> {
    fn from(value: &'v Map<String, serde_json::Value>) -> Self {
        Self::Json(value)
    }
}

/// Writes `VALUES (…), (…)`; both databases name the columns `column1`,
/// `column2` and so on.
pub(crate) fn push_values<'v, DB: Dialect, const N: usize>(
    query: &mut QueryBuilder<DB>,
    rows: impl IntoIterator<Item = [Value<'v>; N]>,
) {
    for (number, row) in rows.into_iter().enumerate() {
        query.push(if number == 0 { "VALUES (" } else { "), (" });
        for (number, value) in row.into_iter().enumerate() {
            if number > 0 {
                query.push(", ");
            }
            DB::bind(query, value);
        }
    }
    query.push(")");
}

/// Writes the condition that rows are of one organization, where statements name
/// theirs ([`Dialect::MIXES_ORGANIZATIONS`]).
pub(crate) fn push_organization<DB: Dialect>(
    query: &mut QueryBuilder<DB>,
    column: &str,
    organization: Option<Uuid>,
) {
    if let Some(organization) = organization
        && !DB::MIXES_ORGANIZATIONS
    {
        query.push(" AND ").push(column).push(" = ");
        DB::bind(query, organization.into());
    }
}

/// Writes how many rows to read and how many to skip before them. The limit is a
/// literal, so that the planners of both databases know it.
pub(crate) fn push_limit<DB: Dialect>(query: &mut QueryBuilder<DB>, limit: u64, offset: i64) {
    query.push(" LIMIT ").push(limit);
    if offset > 0 {
        query.push_value(" OFFSET ", offset);
    }
}
