//! The state that all handlers share.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::change_streams::ChangeStreams;
use crate::clock::Clock;
use crate::config::Settings;
use crate::identity::Identity;
use crate::integrations::Integrations;
use crate::integrations::http::ReceiverClient;
use crate::last_used::LastUsed;
use crate::mail::Mailer;
use crate::markdown::Markdown;
use crate::metrics::Metrics;
use crate::open_files;
use crate::passwords::Passwords;
use crate::rate_limits::RateLimits;
use crate::readiness::Readiness;
use crate::response_memory::{self, ResponseMemory};
use crate::secrets::Secrets;
use crate::store::Store;

/// The store, the clock, the settings; cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What an [`App`] consists of.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The operator's configuration.
    pub settings: Settings,
    /// Whether this server should be sent requests.
    pub readiness: Readiness,
    /// The metrics for Prometheus.
    pub metrics: Metrics,
    /// When the process was started.
    pub started_at: DateTime<Utc>,
    /// The rate limits.
    pub rate_limits: RateLimits,
    /// The open streams of recorded changes.
    pub change_streams: ChangeStreams,
    /// The memory for responses that clients have not read yet.
    pub memory: ResponseMemory,
    /// What connections to receivers need.
    pub integrations: Integrations,
    /// What checks the tokens of identity providers.
    pub identity: Identity,
    /// The password hasher.
    pub passwords: Passwords,
    /// What sends mails; `None` if no mail server is configured.
    pub mailer: Option<Mailer>,
    /// The address that the service listens on.
    pub address: SocketAddr,
    /// The last uses of keys and sessions that are not written yet.
    pub(crate) last_used: LastUsed,
    /// The renderer of descriptions.
    pub(crate) markdown: Markdown,
}

impl App {
    /// Creates the state; must be called within a tokio runtime.
    pub fn new(
        store: Store,
        clock: Clock,
        settings: Settings,
        secrets: Secrets,
        mailer: Option<Mailer>,
        address: SocketAddr,
    ) -> Self {
        let mebibytes = settings
            .response_memory
            .map_or(response_memory::DEFAULT_MIB, NonZeroU32::get);
        let memory = ResponseMemory::new(mebibytes);
        let store = store.with_quotas((&settings.quotas).into());
        let receivers = ReceiverClient::new(settings.receivers.networks.clone());
        Self(Arc::new(Parts {
            readiness: Readiness::default(),
            metrics: Metrics::new(&store),
            started_at: Utc::now(),
            rate_limits: RateLimits::new(settings.rate_limit),
            change_streams: ChangeStreams::new(
                store.clone(),
                clock.clone(),
                memory.clone(),
                open_files::max_connections(),
            ),
            memory,
            last_used: LastUsed::default(),
            passwords: Passwords::new(),
            identity: Identity::new(receivers.clone(), clock.clone()),
            integrations: Integrations::new(secrets, receivers),
            markdown: Markdown::new(),
            store,
            clock,
            settings,
            mailer,
            address,
        }))
    }

    /// Returns the URL of the service, without a slash at the end: the configured
    /// public URL, or else the address that it listens on. The `Host` header of
    /// requests is not used.
    pub fn url(&self) -> String {
        self.settings.url(self.address)
    }

    /// Returns the host of that URL, by which the service introduces itself to mail servers.
    pub fn host(&self) -> String {
        self.settings.host(self.address)
    }

    /// Returns the current time, for recording it.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
