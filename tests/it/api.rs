//! The HTTP API, a file for each path or each rule that holds for all paths.

mod activity;
mod authentication;
mod bounded_work;
mod changes;
mod changes_around;
mod changes_bulk;
mod changes_list;
mod changes_list_model;
mod changes_search;
mod changes_stream;
mod changes_stream_updates;
mod concurrent_updates;
mod early_refusals;
mod field_limits;
mod health;
mod hosts;
mod idempotency;
mod json_snapshots;
mod malformed_requests;
mod one_millisecond;
mod openapi;
mod organization_quotas;
mod problems;
mod sdk;
mod services;
mod tenant_isolation;
