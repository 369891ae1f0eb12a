//! `changelog-server serve`

use std::io::Write;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use super::Failure;
use crate::config::{Common, Serve};
use crate::metrics::slow_statements;
use crate::service::Service;
use crate::systemd;

pub(super) async fn run(common: &Common, serve: Serve) -> Result<(), Failure> {
    // rmcp logs the beginning and the end of each request of an agent.
    start_log("info,rmcp=warn")?;
    crate::open_files::raise_limit();
    let service = Service::start(&common.database_url, serve).await?;
    let shutdown = signals()?;
    let mut out = std::io::stderr();
    if let Some(url) = service.setup_url() {
        writeln!(out, "no organization yet; create one: {url}")?;
    }
    if let Some(url) = service.metrics_url() {
        writeln!(out, "metrics on {url}")?;
    }
    let address = service.address();
    writeln!(out, "listening on http://{address}")?;
    systemd::ready(&format!("http://{address}"));
    let watchdog = tokio::spawn(systemd::feed_watchdog(service.store().clone()));
    let shutdown = async {
        shutdown.await;
        systemd::stopping();
    };
    service.run(shutdown).await;
    watchdog.abort();
    Ok(())
}

/// Starts the log on standard error; `CHANGELOG_LOG` filters it, and
/// `CHANGELOG_LOG_FORMAT=json` prints one JSON object per line.
pub(super) fn start_log(default: &str) -> Result<(), Failure> {
    let wanted = std::env::var("CHANGELOG_LOG")
        .ok()
        .filter(|filter| !filter.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(default)).map_err(|error| {
        Failure::Usage(format!(
            "CHANGELOG_LOG must be a filter such as warn, got: {error}"
        ))
    })?;
    let log = fmt::layer().with_writer(std::io::stderr);
    let log = match std::env::var("CHANGELOG_LOG_FORMAT").as_deref() {
        Ok("json") => log.json().boxed(),
        Ok("text" | "") | Err(_) => log.with_ansi(false).boxed(),
        Ok(other) => {
            let message = format!("CHANGELOG_LOG_FORMAT must be text or json, got {other:?}");
            return Err(Failure::Usage(message));
        }
    };
    registry()
        .with(log.with_filter(filter))
        .with(slow_statements::layer())
        .init();
    Ok(())
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
