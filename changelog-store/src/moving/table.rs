//! A table and its rows, whatever they are: the columns are read from PostgreSQL.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, ColumnIndex, Connection, Decode, Row, Type};
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqliteConnection;

use super::MoveError;
use super::cell::{Cell, bind, json};
use crate::engine::Engine;
use crate::engine::direct::Direct;

/// The most values that one statement of SQLite takes.
const MAX_SQLITE_VALUES: usize = 30_000;

const COLUMNS: &str = "
SELECT column_name::text, data_type::text FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position";

const PRIMARY_KEY: &str = "
SELECT a.attname::text FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS key (number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = key.number
WHERE i.indrelid = to_regclass($1) AND i.indisprimary ORDER BY key.place";

/// The tables of kept counts, and their columns that are added up: PostgreSQL spreads each count
/// over several rows.
const COUNTS: [&str; 2] = ["change_counts", "change_hours"];
const ADDED_UP: [&str; 2] = ["n", "undone"];

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    columns: Vec<Column>,
    /// The places of the columns of the primary key.
    key: Vec<usize>,
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: Kind,
}

/// A type of columns of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uuid,
    Number,
    /// A number of 32 bits.
    SmallNumber,
    Text,
    Bytes,
    Json,
}

impl Table {
    /// Reads the columns and the primary key of a table.
    pub(super) async fn read(name: &str, db: &mut PgConnection) -> Result<Self, MoveError> {
        let found: Vec<(String, String)> = sqlx::query_as(COLUMNS)
            .bind(name)
            .fetch_all(&mut *db)
            .await?;
        let mut columns = Vec::with_capacity(found.len());
        for (column, kind) in found {
            let kind = match kind.as_str() {
                "uuid" => Kind::Uuid,
                "bigint" => Kind::Number,
                "integer" => Kind::SmallNumber,
                "text" => Kind::Text,
                "bytea" => Kind::Bytes,
                "jsonb" => Kind::Json,
                _ => {
                    let table = name.to_owned();
                    return Err(MoveError::Type {
                        table,
                        column,
                        kind,
                    });
                }
            };
            columns.push(Column { name: column, kind });
        }
        let key: Vec<(String,)> = sqlx::query_as(PRIMARY_KEY).bind(name).fetch_all(db).await?;
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let key: Option<Vec<usize>> = key.iter().map(|(column,)| place(column)).collect();
        match key {
            Some(key) if !key.is_empty() => Ok(Self {
                name: name.to_owned(),
                columns,
                key,
            }),
            _ => Err(MoveError::Tables(format!("{name} has no primary key"))),
        }
    }

    fn key_names(&self) -> Vec<&str> {
        let name = |place: &usize| self.columns[*place].name.as_str();
        self.key.iter().map(name).collect()
    }

    /// Returns the text of a statement that reads the rows after a key, in the order of keys.
    fn select(&self, is_postgres: bool, after: bool) -> String {
        let is_counts = COUNTS.contains(&self.name.as_str());
        let column = |Column { name, kind }: &Column| match kind {
            _ if is_counts && name == "slot" => "CAST(0 AS bigint)".to_owned(),
            _ if is_counts && ADDED_UP.contains(&name.as_str()) => {
                format!("CAST(sum({name}) AS bigint)")
            }
            Kind::Json if is_postgres => format!("CAST({name} AS text)"),
            Kind::SmallNumber if is_postgres => format!("CAST({name} AS bigint)"),
            _ => name.clone(),
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let keys = self.key_names();
        // The rows of a count are one, which has the first of their keys.
        let keys: Vec<&str> = keys
            .into_iter()
            .filter(|name| !is_counts || *name != "slot")
            .collect();
        let key = keys.join(", ");
        let condition = if after {
            let values: Vec<String> = (1..=keys.len())
                .map(|number| format!("${number}"))
                .collect();
            format!(" WHERE ({key}) > ({})", values.join(", "))
        } else {
            String::new()
        };
        let group = if is_counts {
            format!(" GROUP BY {key}")
        } else {
            String::new()
        };
        let (columns, name) = (columns.join(", "), &self.name);
        format!("SELECT {columns} FROM {name}{condition}{group} ORDER BY {key}")
    }

    /// Returns the rows after a key, in the order of keys.
    pub(super) fn rows<'c>(
        &'c self,
        db: &'c mut Direct,
        after: Option<Vec<Cell>>,
    ) -> BoxStream<'c, Result<Vec<Cell>, sqlx::Error>> {
        let has_key = after.is_some();
        let after = after.into_iter().flatten();
        match db {
            Engine::Sqlite(db) => {
                let query = sqlx::query(AssertSqlSafe(self.select(false, has_key)));
                let query = after.fold(query, bind);
                let rows = query.fetch(db);
                rows.map(|row| self.cells(&row?)).boxed()
            }
            Engine::Postgres(db) => {
                let query = sqlx::query(AssertSqlSafe(self.select(true, has_key)));
                let query = after.fold(query, bind);
                let rows = query.fetch(db);
                rows.map(|row| self.cells(&row?)).boxed()
            }
        }
    }

    /// Returns the last key, without the part of a count that is added up; `None` if there are
    /// no rows.
    pub(super) async fn last_key(&self, db: &mut Direct) -> Result<Option<Vec<Cell>>, sqlx::Error> {
        let is_postgres = matches!(db, Engine::Postgres(_));
        let descending: Vec<String> = self
            .key_names()
            .into_iter()
            .map(|name| format!("{name} DESC"))
            .collect();
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|Column { name, kind }| match kind {
                Kind::Json if is_postgres => format!("CAST({name} AS text)"),
                Kind::SmallNumber if is_postgres => format!("CAST({name} AS bigint)"),
                _ => name.clone(),
            })
            .collect();
        let select = AssertSqlSafe(format!(
            "SELECT {} FROM {} ORDER BY {} LIMIT 1",
            columns.join(", "),
            self.name,
            descending.join(", ")
        ));
        let row = match db {
            Engine::Sqlite(db) => {
                let row = sqlx::query(select).fetch_optional(db).await?;
                row.map(|row| self.cells(&row)).transpose()?
            }
            Engine::Postgres(db) => {
                let row = sqlx::query(select).fetch_optional(db).await?;
                row.map(|row| self.cells(&row)).transpose()?
            }
        };
        let is_counts = COUNTS.contains(&self.name.as_str());
        Ok(row.map(|row| {
            let keys = self.key.iter();
            keys.filter(|place| !is_counts || self.columns[**place].name != "slot")
                .map(|place| row[*place].clone())
                .collect()
        }))
    }

    /// Reads the cells of a row.
    fn cells<'r, R: Row>(&self, row: &'r R) -> Result<Vec<Cell>, sqlx::Error>
    where
        usize: ColumnIndex<R>,
        Uuid: Decode<'r, R::Database> + Type<R::Database>,
        i64: Decode<'r, R::Database> + Type<R::Database>,
        String: Decode<'r, R::Database> + Type<R::Database>,
        Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    {
        let cell = |(place, column): (usize, &Column)| {
            Ok(match column.kind {
                Kind::Uuid => row.try_get::<Option<Uuid>, _>(place)?.map(Cell::Uuid),
                Kind::Number | Kind::SmallNumber => {
                    row.try_get::<Option<i64>, _>(place)?.map(Cell::Number)
                }
                Kind::Text => row.try_get::<Option<String>, _>(place)?.map(Cell::Text),
                Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(place)?.map(Cell::Bytes),
                Kind::Json => {
                    let text: Option<String> = row.try_get(place)?;
                    text.map(|text| json(&text)).transpose()?
                }
            }
            .unwrap_or(Cell::Null))
        };
        self.columns.iter().enumerate().map(cell).collect()
    }

    /// Inserts rows in a transaction.
    pub(super) async fn insert(
        &self,
        db: &mut Direct,
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), MoveError> {
        if rows.is_empty() {
            return Ok(());
        }
        let inserted = match db {
            Engine::Sqlite(db) => self.insert_sqlite(db, rows).await,
            Engine::Postgres(db) => self.insert_postgres(db, rows).await,
        };
        inserted.map_err(|source| MoveError::Write {
            table: self.name.clone(),
            source,
        })
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|one| one.name.as_str()).collect();
        names.join(", ")
    }

    async fn insert_sqlite(
        &self,
        db: &mut SqliteConnection,
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), sqlx::Error> {
        let mut transaction = db.begin().await?;
        let values = format!("({})", vec!["?"; self.columns.len()].join(", "));
        let most = (MAX_SQLITE_VALUES / self.columns.len()).max(1);
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let part: Vec<Vec<Cell>> = rows.by_ref().take(most).collect();
            let insert = format!(
                "INSERT INTO {} ({}) VALUES {}",
                self.name,
                self.names(),
                vec![values.as_str(); part.len()].join(", ")
            );
            let query = sqlx::query(AssertSqlSafe(insert)).persistent(false);
            let query = part.into_iter().flatten().fold(query, bind);
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }

    /// Inserts with one list of values for each column.
    async fn insert_postgres(
        &self,
        db: &mut PgConnection,
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), sqlx::Error> {
        let (mut lists, mut selected, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (number, column) in (1..).zip(&self.columns) {
            let (list, cast) = match column.kind {
                Kind::Uuid => ("uuid[]", ""),
                Kind::Number => ("bigint[]", ""),
                Kind::SmallNumber => ("bigint[]", "::integer"),
                Kind::Text => ("text[]", ""),
                Kind::Bytes => ("bytea[]", ""),
                Kind::Json => ("text[]", "::jsonb"),
            };
            lists.push(format!("${number}::{list}"));
            selected.push(format!("c{number}{cast}"));
            names.push(format!("c{number}"));
        }
        let insert = format!(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS rows ({})",
            self.name,
            self.names(),
            selected.join(", "),
            lists.join(", "),
            names.join(", ")
        );
        let mut query = sqlx::query(AssertSqlSafe(insert));
        let mut columns: Vec<Vec<Cell>> = vec![Vec::with_capacity(rows.len()); self.columns.len()];
        for row in rows {
            for (list, cell) in columns.iter_mut().zip(row) {
                list.push(cell);
            }
        }
        for (column, cells) in self.columns.iter().zip(columns) {
            query = match column.kind {
                Kind::Uuid => query.bind(list_of(cells, |cell| match cell {
                    Cell::Uuid(id) => Some(id),
                    _ => None,
                })),
                Kind::Number | Kind::SmallNumber => query.bind(list_of(cells, |cell| match cell {
                    Cell::Number(number) => Some(number),
                    _ => None,
                })),
                Kind::Text | Kind::Json => query.bind(list_of(cells, |cell| match cell {
                    Cell::Text(text) => Some(text),
                    _ => None,
                })),
                Kind::Bytes => query.bind(list_of(cells, |cell| match cell {
                    Cell::Bytes(bytes) => Some(bytes),
                    _ => None,
                })),
            };
        }
        query.execute(db).await.map(drop)
    }
}

fn list_of<T>(cells: Vec<Cell>, value: impl Fn(Cell) -> Option<T>) -> Vec<Option<T>> {
    cells.into_iter().map(value).collect()
}
