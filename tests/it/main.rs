//! Stories through the real programs over real HTTP, each once on SQLite and
//! once on PostgreSQL.
//!
//! [`world`] makes the service and everybody who speaks to it; then one file
//! a story. `CHANGELOG_TEST_REQUIRE=postgres,chromium` turns the skip of a
//! missing program into a failure.

mod accounts;
mod activity;
mod admin;
mod answers;
mod around;
mod blocked;
mod bulk;
mod carry_over;
mod changes;
mod chlog;
mod chlog_changes;
mod chlog_completion;
mod chlog_context;
mod chlog_doctor;
mod chlog_export;
mod chlog_git;
mod chlog_import;
mod chlog_keys;
mod chlog_output;
mod chlog_owner;
mod chlog_run;
mod chlog_signals;
mod chlog_spool;
mod chlog_terraform;
mod chlog_typed;
mod connections;
mod counts;
mod dashboard;
mod deep;
mod demo;
mod durability;
mod fairness;
mod floods;
mod health;
mod hosts;
mod idempotency;
mod keys;
mod leaps;
mod limits;
mod list;
mod nasty;
mod openapi;
mod places;
mod plans;
mod polls;
mod problems;
mod proxies;
mod quotas;
mod refusals;
mod screenshots;
mod sdk;
mod search;
mod secrets;
mod servers;
mod services;
mod sessions;
mod shapes;
mod sign_ins;
mod startup;
mod store;
mod stream;
mod tenancy;
mod terraform;
mod wal;
mod world;
