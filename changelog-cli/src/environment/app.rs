//! What a command works with: the settings, the keys, the service, the output.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use changelog_client::{Client, ClientBuilder, RetryPolicy};
use changelog_core::api_key::is_well_formed;
use secrecy::{ExposeSecret, SecretString};

use crate::base::failure::{Failure, Outcome, warn};
use crate::environment::config::{Config, DEFAULT_PROFILE, Overrides, Sourced};
use crate::environment::credentials::{self, Credentials};
use crate::environment::global::Global;
use crate::output::Output;
use crate::recording::submit::PATIENCE;

/// The surroundings of one command.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) credentials: Credentials,
    pub(crate) output: Output,
    /// Made when it is first needed, and once: it reads the system's
    /// certificates.
    client: OnceCell<Client>,
    /// The same for who has no time.
    hurried: OnceCell<Client>,
    /// Whether the service has been found to be away; shared with what comes
    /// after the command.
    away: Rc<Cell<bool>>,
}

impl App {
    /// Reads the settings and keys; asks nobody yet.
    pub(crate) fn new(global: Global) -> Outcome<Self> {
        let output = Output::new(global.format());
        let credentials = Credentials::load()?;
        let overrides = Overrides {
            url_flag: global.url,
            url_env: std::env::var("CHLOG_URL").ok(),
            profile_flag: global.profile,
            profile_env: std::env::var("CHLOG_PROFILE").ok(),
        };
        let config = Config::load(&overrides, &credentials)?;
        Ok(Self {
            config,
            credentials,
            output,
            client: OnceCell::new(),
            hurried: OnceCell::new(),
            away: Rc::default(),
        })
    }

    /// Returns where the service is.
    pub(crate) fn url(&self) -> Outcome<&Sourced<String>> {
        self.known_profile()?;
        self.config.url.as_ref().ok_or_else(no_address)
    }

    /// Returns the key for that address, if there is one.
    pub(crate) fn key(&self) -> Outcome<Option<Sourced<SecretString>>> {
        credentials::find(&self.credentials, &self.config.profile, &self.url()?.value)
    }

    /// Returns a client that has a key.
    pub(crate) fn client(&self) -> Outcome<Client> {
        self.client_of(&self.client, |builder| builder)
    }

    /// Returns a client that has a key, for who keeps what cannot be sent: it
    /// tries twice, and waits no longer than that takes.
    pub(crate) fn hurried_client(&self) -> Outcome<Client> {
        self.client_of(&self.hurried, |builder| {
            builder
                .connect_timeout(PATIENCE)
                .attempt_timeout(PATIENCE)
                .total_timeout(PATIENCE)
                .retry(RetryPolicy {
                    max_retries: 1,
                    ..RetryPolicy::default()
                })
        })
    }

    fn client_of(
        &self,
        made: &OnceCell<Client>,
        set: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Outcome<Client> {
        if let Some(client) = made.get() {
            return Ok(client.clone());
        }
        let url = &self.url()?.value;
        let Some(key) = self.key()? else {
            return Err(credentials::missing(
                &self.credentials,
                &self.config.profile,
                url,
            ));
        };
        if !is_well_formed(key.value.expose_secret()) {
            warn(&format!(
                "the key from {} is mistyped or cut off: its checksum is not right",
                key.source
            ));
        }
        let client = set(builder(url, Some(key.value))).build()?;
        Ok(made.get_or_init(|| client).clone())
    }

    /// Notes that the service is away.
    pub(crate) fn found_nobody(&self) {
        self.away.set(true);
    }

    /// Returns the note whether the service is away, for when the app has
    /// ended.
    pub(crate) fn away(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.away)
    }

    /// Returns a client for what needs no key.
    pub(crate) fn keyless_client(&self) -> Outcome<Client> {
        client(&self.url()?.value, None)
    }

    /// Refuses a profile that nothing is known of: most likely it is mistyped,
    /// and another address must not take its place.
    fn known_profile(&self) -> Outcome {
        let profile = &self.config.profile;
        if self.config.profile_known {
            return Ok(());
        }
        let stored: Vec<&str> = self
            .credentials
            .profiles()
            .filter(|name| *name != DEFAULT_PROFILE)
            .collect();
        let hint = match changelog_core::text::closest(profile, stored) {
            Some(known) => format!("did you mean {known}?"),
            None => format!(
                "put it into config.toml as [profiles.{profile}] with its url, \
                 or sign in with `chlog auth login --profile {profile} --url URL`"
            ),
        };
        Err(Failure::usage(format!("there is no profile {profile:?}")).hint(hint))
    }
}

/// Makes a client for an address.
pub(crate) fn client(url: &str, key: Option<SecretString>) -> Outcome<Client> {
    Ok(builder(url, key).build()?)
}

fn builder(url: &str, key: Option<SecretString>) -> ClientBuilder {
    let mut builder = Client::builder()
        .url(url)
        .user_agent(concat!("chlog/", env!("CARGO_PKG_VERSION")));
    if let Some(key) = key {
        builder = builder.api_key(key);
    }
    builder
}

/// Says that no address is known, and how to give one.
pub(crate) fn no_address() -> Failure {
    Failure::usage("it is not known where the service is")
        .line("give the address with --url, for example --url https://changes.example.com")
        .line("or set CHLOG_URL")
        .line("or write url = \"https://changes.example.com\" into the chlog/config.toml of your configuration directory")
        .line("or sign in with `chlog auth login --url URL`")
}
