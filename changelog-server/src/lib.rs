//! The change log service: the HTTP API and the dashboard, on SQLite or
//! PostgreSQL. ARCHITECTURE.md follows one request through it.

pub mod api;
pub mod app;
mod around;
mod background;
mod blocking_pool;
pub mod change_streams;
mod client_limit;
pub mod clock;
pub mod commands;
pub mod config;
mod dashboard;
mod format;
pub mod integrations;
mod last_used;
pub mod mail;
mod markdown;
mod open_files;
pub mod passwords;
pub mod rate_limits;
pub mod response_memory;
pub mod secrets;
mod serve;
pub mod service;
pub mod store;
mod web;

use tokio::net::TcpListener;

use app::App;

/// Serves on a listener until the shutdown resolves, then finishes the running
/// requests and returns.
pub async fn run(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let mut routes = api::routes(&app);
    routes.extend(dashboard::routes(&app));
    let tasks = background::start(&app);
    let failure = dashboard::failure;
    let routes = web::route::join(routes, failure);
    serve::serve(app.clone(), routes, failure, listener, shutdown).await;
    for task in tasks {
        task.abort();
    }
    app.last_used.write(&app.store).await;
}
