//! A value of a row, whatever it is.

use sha2::{Digest as _, Sha256};
use sqlx::query::Query;
use sqlx::types::Uuid;
use sqlx::{Database, Encode, Type};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Uuid(Uuid),
    Number(i64),
    /// Also JSON, in the form that `serde_json` writes.
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    /// Returns the bytes that it takes, apart from itself.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Null | Self::Uuid(_) | Self::Number(_) => 0,
        }
    }

    /// Adds it to a digest, so that no two lists of values have the same bytes.
    pub(super) fn add_to(&self, digest: &mut Sha256) {
        let number;
        let (kind, bytes): (u8, &[u8]) = match self {
            Self::Null => (0, &[]),
            Self::Uuid(id) => (1, id.as_bytes()),
            Self::Number(value) => {
                number = value.to_be_bytes();
                (2, &number)
            }
            Self::Text(text) => (3, text.as_bytes()),
            Self::Bytes(bytes) => (4, bytes),
        };
        digest.update([kind]);
        digest.update(bytes.len().to_be_bytes());
        digest.update(bytes);
    }
}

/// Returns JSON in one form: the members of objects in the order of their names.
pub(super) fn json(text: &str) -> Result<Cell, sqlx::Error> {
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))?;
    value.sort_all_objects();
    Ok(Cell::Text(value.to_string()))
}

/// Binds a value to a statement.
pub(super) fn bind<'q, DB: Database>(
    query: Query<'q, DB, DB::Arguments>,
    cell: Cell,
) -> Query<'q, DB, DB::Arguments>
where
    Option<i64>: Encode<'q, DB> + Type<DB>,
    Uuid: Encode<'q, DB> + Type<DB>,
    i64: Encode<'q, DB> + Type<DB>,
    String: Encode<'q, DB> + Type<DB>,
    Vec<u8>: Encode<'q, DB> + Type<DB>,
{
    match cell {
        Cell::Null => query.bind(None::<i64>),
        Cell::Uuid(id) => query.bind(id),
        Cell::Number(number) => query.bind(number),
        Cell::Text(text) => query.bind(text),
        Cell::Bytes(bytes) => query.bind(bytes),
    }
}
