//! `changelog-server serve`

use std::io::Write;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Failure;
use crate::app::App;
use crate::clock::Clock;
use crate::config::{Common, Serve};
use crate::setup::Setup;
use crate::store::{Purpose, Store, StoreError};
use crate::web::session::new_token;

pub(super) async fn run(common: &Common, serve: Serve) -> Result<(), Failure> {
    start_log("info")?;
    crate::open_files::raise_limit();
    let capacity = serve.settings.capacity();
    let (store, serve_lock) = Store::open(&common.database_url, Purpose::Serve, capacity).await?;
    let listener = crate::serve::bind(serve.listen).await?;
    let address = listener.local_addr()?;
    // A database without an organization can be set up by whoever reads this.
    let is_new = !store.has_organizations().await?;
    let token = is_new.then(new_token);
    let setup = token.as_deref().map(Setup::with).unwrap_or_default();
    let clock = clock(&store, serve.trust_clock).await?;
    let app = App::new(store.clone(), clock, serve.settings, setup, address);
    let shutdown = signals()?;
    let mut out = std::io::stderr();
    if let Some(token) = token {
        let url = app.url();
        writeln!(
            out,
            "no organization yet; set one up: {url}/setup?token={token}"
        )?;
    }
    writeln!(out, "listening on http://{address}")?;
    crate::run(app, listener, shutdown).await;
    store.close().await;
    drop(serve_lock);
    Ok(())
}

/// Starts a clock that goes on from the latest moment that any server of this
/// database has seen, so that a clock that was set back meanwhile revives no key
/// and no session; unless the operator trusts the system's clock.
pub(super) async fn clock(store: &Store, trust_system: bool) -> Result<Clock, StoreError> {
    let clock = Clock::system();
    if trust_system {
        store.reset_latest_moment(clock.now().into()).await?;
    } else if let Some(latest) = store.latest_moment().await?
        && let Some(ahead) = clock.not_before(latest)
    {
        tracing::warn!(
            %latest,
            seconds_ahead = ahead.as_secs(),
            "the system's clock is behind a moment that this service has seen; keys and sessions \
             expire by the later one; start with --trust-clock if the system's clock is right"
        );
    }
    Ok(clock)
}

/// Starts the log on standard error; `CHANGELOG_LOG` filters it, and
/// `CHANGELOG_LOG_FORMAT=json` makes it one JSON object a line.
pub(super) fn start_log(default: &str) -> Result<(), Failure> {
    let wanted = std::env::var("CHANGELOG_LOG")
        .ok()
        .filter(|filter| !filter.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(default)).map_err(|error| {
        Failure::Usage(format!(
            "CHANGELOG_LOG must be a filter such as warn, got: {error}"
        ))
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match std::env::var("CHANGELOG_LOG_FORMAT").as_deref() {
        Ok("json") => log.json().init(),
        Ok("text" | "") | Err(_) => log.with_ansi(false).init(),
        Ok(other) => {
            let message = format!("CHANGELOG_LOG_FORMAT must be text or json, got {other:?}");
            return Err(Failure::Usage(message));
        }
    }
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
