//! `changelog-server serve`

use std::io::Write;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Failure;
use crate::app::App;
use crate::clock::Clock;
use crate::config::{Common, Serve};
use crate::store::{Purpose, Store};

pub(super) async fn run(common: &Common, serve: Serve) -> Result<(), Failure> {
    start_log("info");
    let (store, serve_lock) = Store::open(&common.database_url, Purpose::Serve).await?;
    let listener = crate::serve::bind(serve.listen).await?;
    let address = listener.local_addr()?;
    let app = App::new(store.clone(), Clock::system(), serve.settings);
    let shutdown = signals()?;
    writeln!(std::io::stderr(), "listening on http://{address}")?;
    crate::run(app, listener, shutdown).await;
    store.close().await;
    drop(serve_lock);
    Ok(())
}

/// Starts the log on standard error; `CHANGELOG_LOG` filters it, and
/// `CHANGELOG_LOG_FORMAT=json` makes it one JSON object a line.
pub(super) fn start_log(default: &str) {
    let filter =
        EnvFilter::try_from_env("CHANGELOG_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::env::var("CHANGELOG_LOG_FORMAT").is_ok_and(|format| format == "json") {
        log.json().init();
    } else {
        log.with_ansi(false).init();
    }
}

/// Resolves at the first SIGTERM or SIGINT.
pub(super) fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
