//! No query that a request runs walks a whole table.
//!
//! Which queries those are is not written down anywhere: the service is asked
//! for everything that it can be asked for, and what it has run is read in the
//! log, of the service on SQLite and of the database on PostgreSQL.

mod explained;
mod organizations;
mod postgres;
mod prepared;
mod requests;
mod seed;
mod sql;
mod sqlite;

/// A table of one row that no request reads or writes, but a task once a minute.
const WRITTEN_BY_A_TIMER: &str = "latest_time";
