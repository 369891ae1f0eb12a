//! The service with its database open and its listener bound.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::app::App;
use crate::clock::Clock;
use crate::config::Serve;
use crate::integrations::key_file::{self, KeyFileError, Opener};
use crate::metrics::listener;
use crate::store::{OpenError, Purpose, Store, StoreError};
use crate::web::session::new_token;

/// A service that is ready to run: connections to its address are accepted
/// once [`Service::run`] is polled.
#[derive(Debug)]
pub struct Service {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    setup_token: Option<String>,
    drain_delay: Duration,
    metrics: Option<TcpListener>,
    /// Keeps other processes from serving the same SQLite file.
    _serve_lock: Option<std::fs::File>,
}

/// Why a service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The database cannot be read.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The key of stored secrets cannot be read or made.
    #[error("{0}")]
    Secrets(#[from] KeyFileError),
    /// The address cannot be listened on.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Service {
    /// Opens the database and binds the listener.
    pub async fn start(database_url: &str, serve: Serve) -> Result<Self, StartError> {
        Self::start_at(database_url, serve, Clock::system()).await
    }

    /// The same with another clock, for tests.
    pub async fn start_at(
        database_url: &str,
        serve: Serve,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let capacity = serve.settings.capacity();
        let (store, serve_lock) = Store::open(database_url, Purpose::Serve, capacity).await?;
        let listener = crate::serve::bind(serve.listen, "--listen").await?;
        let address = listener.local_addr()?;
        let metrics = match serve.metrics_listen {
            Some(address) => Some(crate::serve::bind(address, "--metrics-listen").await?),
            None => None,
        };
        // The first organization is created by the holder of this token.
        let setup_token = store.setup_token(&new_token()).await?;
        let mailer = serve.settings.mail.mailer(&serve.settings.host(address))?;
        set_clock(&clock, &store, serve.trust_clock).await?;
        let path = serve.settings.secrets.path(database_url);
        let secrets = key_file::open(&store, &path, Opener::Server).await?;
        Ok(Self {
            app: App::new(store, clock, serve.settings, secrets, mailer, address),
            listener,
            address,
            setup_token,
            metrics,
            drain_delay: Duration::from_secs(serve.drain_delay),
            _serve_lock: serve_lock,
        })
    }

    /// Returns the address that the service listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the metrics, if there are any.
    pub fn metrics_url(&self) -> Option<String> {
        let address = self.metrics.as_ref()?.local_addr().ok()?;
        Some(format!("http://{address}{}", listener::PATH))
    }

    /// Returns the database.
    pub fn store(&self) -> &Store {
        &self.app.store
    }

    /// Returns the link that creates the first organization; `None` when the
    /// database has one.
    pub fn setup_url(&self) -> Option<String> {
        let token = self.setup_token.as_ref()?;
        Some(format!("{}/setup?token={token}", self.app.url()))
    }

    /// Serves until the shutdown resolves, then drains and closes the database.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let store = self.app.store.clone();
        let app = self.app.clone();
        let metrics = self
            .metrics
            .map(|listener| tokio::spawn(listener::serve(app, listener)));
        crate::run(self.app, self.listener, shutdown, self.drain_delay).await;
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        store.close().await;
    }
}

/// Makes a clock never be behind the latest time that a server of this database has
/// recorded: a system clock that was set back must not make expired keys and sessions
/// valid again. With `trust_system`, the recorded time is reset.
pub(crate) async fn set_clock(
    clock: &Clock,
    store: &Store,
    trust_system: bool,
) -> Result<(), StoreError> {
    if trust_system {
        store.reset_latest_time(clock.now().into()).await?;
    } else if let Some(latest) = store.latest_time().await?
        && let Some(ahead) = clock.not_before(latest)
    {
        tracing::warn!(
            %latest,
            seconds_ahead = ahead.as_secs(),
            "the system clock is behind a time that this service has recorded; keys and sessions \
             expire by the recorded time; if the system clock is right, start with --trust-clock"
        );
    }
    Ok(())
}
