//! Tests through the real programs over real HTTP; README.md in the folder above
//! says what is where.
//!
//! `CHANGELOG_TEST_REQUIRE=postgres,pgbouncer,chromium` turns the skip of a missing program
//! into a failure.

mod api;
mod chlog;
mod dashboard;
mod operations;
mod store;
