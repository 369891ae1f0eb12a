//! Tests through the real programs and HTTP; see `tests/README.md`.
//!
//! `CHANGELOG_TEST_REQUIRE=postgres,pgbouncer,chromium,api-tools` fails tests whose program is
//! missing, instead of skipping them.

mod all_requests;
mod api;
mod chlog;
mod dashboard;
mod deliveries;
mod documentation;
mod integrations;
mod operations;
mod sources;
mod sso;
mod store;
