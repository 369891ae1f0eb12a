//! What the store is built on: two databases behind one interface, connections
//! and how organizations share them, the one writer of SQLite, locks, batches.
//! Nothing in here imports from the rest of the store.

mod backend;
pub(crate) mod backup;
mod batcher;
mod checkpoint;
mod connections;
mod data_file;
mod dialect;
pub(crate) mod direct;
pub(crate) mod error;
#[cfg(test)]
pub(crate) mod explain;
mod fair_share;
mod files;
mod generation;
mod merged;
mod open;
mod postgres_begin;
mod postgres_pool;
mod readers;
pub(crate) mod restore;
mod script;
mod statement_costs;
mod wal_index;
mod write_lock;
mod write_outcomes;
mod writer;

pub(crate) use backend::{Engine, bounded, committed, execute, on, read, run_script};
pub use backup::BackupError;
pub(crate) use batcher::{BatchLimits, Batcher, Results, batch_histogram};
pub(crate) use connections::{Connections, TxConnection};
pub(crate) use dialect::{Dialect, PushValue, Value, push_limit, push_organization, push_values};
pub use error::StoreError;
pub(crate) use fair_share::Permit;
pub use fair_share::ShareUsage;
pub(crate) use generation::{Generation, Generations};
pub(crate) use merged::push_merged;
pub use open::{Capacity, OpenError, Purpose};
pub(crate) use open::{ServeLock, newest_schema, open};
pub(crate) use postgres_pool::Planning;
pub(crate) use readers::{Lease, end_lease};
pub(crate) use script::{Script, groups_of_equal, push_rounded_values};
pub(crate) use writer::Writer;
