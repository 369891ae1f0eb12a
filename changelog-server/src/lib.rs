//! The change log service: the HTTP API and the dashboard, on SQLite or
//! PostgreSQL. ARCHITECTURE.md follows one request through it.

pub mod api;
pub mod app;
mod blocking_pool;
pub mod change_streams;
mod client_limit;
pub mod clock;
pub mod commands;
pub mod config;
mod dashboard;
mod key_last_used;
mod markdown;
mod open_files;
pub mod passwords;
pub mod rate_limits;
pub mod response_memory;
mod serve;
pub mod service;
pub mod setup_token;
pub mod store;
mod web;

use std::time::Duration;

use tokio::net::TcpListener;

use app::App;

/// How often expired rows are deleted.
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(10);
/// How often the current time is saved in the database.
const CLOCK_SAVE_INTERVAL: Duration = Duration::from_mins(1);

/// Serves on a listener until the shutdown resolves, then finishes the running
/// requests and returns.
pub async fn run(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let mut routes = api::routes(&app);
    routes.extend(dashboard::routes(&app));
    let maintenance = tokio::spawn(run_maintenance(app.clone()));
    let clock_saving = tokio::spawn(save_clock(app.clone()));
    let failure = dashboard::failure;
    let routes = web::route::join(routes, failure);
    serve::serve(app, routes, failure, listener, shutdown).await;
    maintenance.abort();
    clock_saving.abort();
}

async fn run_maintenance(app: App) {
    let mut interval = tokio::time::interval(MAINTENANCE_INTERVAL);
    loop {
        interval.tick().await;
        app.rate_limits.forget_idle();
        match app.store.purge(app.now().into()).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "deleted expired rows"),
            Err(error) => tracing::warn!(%error, "expired rows could not be deleted"),
        }
    }
}

/// Saves the current time for the next process: the clock may be set back meanwhile.
async fn save_clock(app: App) {
    let mut interval = tokio::time::interval(CLOCK_SAVE_INTERVAL);
    loop {
        interval.tick().await;
        if let Some(latest) = app.clock.latest_confirmed()
            && let Err(error) = app.store.save_latest_time(latest).await
        {
            tracing::warn!(%error, "the time could not be saved");
        }
    }
}
