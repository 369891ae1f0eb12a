//! The change log service: the HTTP API and the dashboard, on SQLite or
//! PostgreSQL. ARCHITECTURE.md follows one request through it.

pub mod api;
pub mod app;
mod blocking_pool;
pub mod change_feed;
mod client_limit;
pub mod clock;
pub mod commands;
pub mod config;
mod dashboard;
mod key_last_used;
pub mod limits;
mod markdown;
pub mod memory;
mod open_files;
pub mod passwords;
mod serve;
pub mod setup;
pub mod store;
mod web;

use std::time::Duration;

use tokio::net::TcpListener;

use app::App;

/// How often what has outlived its time is deleted.
const HOUSEKEEPING: Duration = Duration::from_mins(10);
/// How often the time is noted in the database.
const NOTING_TIME: Duration = Duration::from_mins(1);

/// Serves on a listener until the shutdown resolves, then drains and returns.
pub async fn run(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let mut routes = api::routes(&app);
    routes.extend(dashboard::routes(&app));
    let housekeeping = tokio::spawn(keep_house(app.clone()));
    let noting_time = tokio::spawn(note_time(app.clone()));
    let failure = dashboard::failure;
    let routes = web::route::join(routes, failure);
    serve::serve(app, routes, failure, listener, shutdown).await;
    housekeeping.abort();
    noting_time.abort();
}

async fn keep_house(app: App) {
    let mut interval = tokio::time::interval(HOUSEKEEPING);
    loop {
        interval.tick().await;
        app.limits.forget_idle();
        match app.store.purge(app.now().into()).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "deleted what had outlived its time"),
            Err(error) => tracing::warn!(%error, "what has outlived its time could not be deleted"),
        }
    }
}

/// Notes the time, for a process that begins after the clock was set back.
async fn note_time(app: App) {
    let mut interval = tokio::time::interval(NOTING_TIME);
    loop {
        interval.tick().await;
        if let Some(latest) = app.clock.latest_confirmed()
            && let Err(error) = app.store.keep_latest_moment(latest).await
        {
            tracing::warn!(%error, "the time could not be noted");
        }
    }
}
