//! No query that a request runs walks a whole table.
//!
//! Which queries those are is not written down anywhere: the service is asked
//! for everything that it can be asked for, and what it has run is read in the
//! log, of the service on SQLite and of the database on PostgreSQL.

mod explained;
mod postgres;
mod requests;
mod seed;
mod sql;
mod sqlite;
