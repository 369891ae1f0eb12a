//! The change log service: the HTTP API and the dashboard, on SQLite or
//! PostgreSQL. ARCHITECTURE.md follows one request through it.

pub mod api;
pub mod app;
mod around;
mod background;
mod blocking_pool;
pub mod change_streams;
mod client_limit;
pub mod commands;
pub mod config;
mod coverage;
mod dashboard;
mod findings;
mod format;
pub mod identity;
mod ingest;
pub mod integrations;
mod last_used;
pub mod mail;
mod markdown;
pub mod metrics;
mod open_files;
pub mod passwords;
pub mod rate_limits;
pub mod readiness;
pub mod response_memory;
pub mod secrets;
mod serve;
pub mod service;
mod sso;
mod suspects;
mod systemd;
mod web;

pub use changelog_store as store;
pub use changelog_store::{clock, trace_parent};

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use app::App;

/// How long messages to receivers may take to be finished after the last request.
const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves on a listener until the shutdown resolves and for the drain delay after that, then
/// finishes the running requests and returns.
pub async fn run(
    app: App,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    drain_delay: Duration,
) {
    let mut endpoints = api::endpoints();
    endpoints.extend(dashboard::endpoints(api::document));
    let tasks = background::start(&app);
    let (stop, stopped) = watch::channel(false);
    let reader = tokio::spawn(ingest::worker::run(app.clone(), stopped.clone()));
    let ranker = tokio::spawn(suspects::run(app.clone(), stopped.clone()));
    let worker = tokio::spawn(integrations::worker::run(app.clone(), stopped));
    let shutdown = async {
        shutdown.await;
        // Proxies find out that the server is not ready while it still takes requests.
        app.readiness.stop();
        if !drain_delay.is_zero() {
            tracing::info!(seconds = drain_delay.as_secs(), "stopping after a delay");
            tokio::time::sleep(drain_delay).await;
        }
        // Receivers get what is being sent while requests are finished.
        let _ = stop.send(true);
    };
    let failure = dashboard::failure;
    let routes = web::route::join(&app, endpoints, failure);
    serve::serve(app.clone(), routes, failure, listener, shutdown).await;
    if timeout(WORKER_TIMEOUT, worker).await.is_err() {
        tracing::warn!("a message was still being sent; it is sent again after the next start");
    }
    if timeout(WORKER_TIMEOUT, reader).await.is_err() {
        tracing::warn!(
            "requests of sources were still being read; they are read after the next start"
        );
    }
    if timeout(WORKER_TIMEOUT, ranker).await.is_err() {
        tracing::warn!("suspects were still being ranked; they are ranked after the next start");
    }
    for task in tasks {
        task.abort();
    }
    app.last_used.write(&app.store).await;
}
