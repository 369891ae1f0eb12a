//! Opening the database: from an address to connections to the newest schema.

mod capacity;
mod error;
mod postgres;
mod schema;
mod sqlite;

use super::connections::Connections;

pub use capacity::Capacity;
pub use error::{OpenError, Purpose};
pub(crate) use schema::{VERSION, version_of};
pub(crate) use sqlite::ServeLock;

/// Returns the number of the newest schema that this program knows for a database.
pub(crate) fn newest_schema(address: &str) -> i64 {
    let migrator = if address.starts_with("sqlite:") {
        sqlite::migrator()
    } else {
        postgres::migrator()
    };
    schema::newest(&migrator)
}

/// Opens the database at an address and migrates its schema. The lock that is
/// returned with it must be held for as long as the process serves.
pub(crate) async fn open(
    address: &str,
    purpose: Purpose,
    capacity: Capacity,
) -> Result<(Connections, ServeLock), OpenError> {
    if address.starts_with("sqlite:") {
        sqlite::open(address, purpose, capacity).await
    } else if address.starts_with("postgres://") || address.starts_with("postgresql://") {
        Ok((postgres::open(address, purpose, capacity).await?, None))
    } else {
        Err(OpenError::Address)
    }
}
