//! Every kind of request: no statement of one scans a table, is prepared twice, or is
//! about several organizations.
//!
//! The tests send every kind of request, and read the statements from the log: of the
//! service on SQLite, of the database on PostgreSQL.

mod api_reads;
mod api_writes;
mod commands;
mod explained;
mod fixture;
mod forms;
mod growth;
mod moves;
mod organizations;
mod pages;
mod postgres;
mod prepared;
mod requests;
mod seed;
mod sql;
mod sqlite;

/// Tables that tasks write and read, and no request.
const WRITTEN_BY_A_TIMER: [&str; 2] = ["latest_time", "receiver_messages"];
