//! What a command works with: settings, keys, the client, the output.

use std::cell::{Cell, OnceCell};
use std::fs;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use changelog_client::{Client, ClientBuilder, IdTokenSource, RetryPolicy};
use changelog_core::api_key::is_well_formed;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use super::config::{Config, Overrides};
use super::context::agent::Recognized;
use super::context::{self, agent};
use super::credentials::{self, Credential, Credentials};
use super::global::Global;
use super::sourced::Sourced;
use crate::base::failure::{Cause, Failure, Outcome, warn};
use crate::output::Output;

/// The variable that names a file of certificates.
const CA_FILE_VARIABLE: &str = "CHLOG_CA_FILE";

/// How long a command waits for the server before it keeps a change in the
/// spool.
pub(crate) const SPOOL_AFTER: Duration = Duration::from_secs(3);

/// The surroundings of one command.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) credentials: Credentials,
    pub(crate) output: Output,
    /// The file of certificates to trust in addition to those of the system.
    ca_file: Option<PathBuf>,
    /// Built on first use, because building reads the system's certificates.
    client: OnceCell<Client>,
    /// The client that gives up after [`SPOOL_AFTER`].
    quick_client: OnceCell<Client>,
    /// Whether the server was found to be unavailable.
    unavailable: Cell<bool>,
}

impl App {
    /// Reads the settings and keys; sends nothing.
    pub(crate) fn new(global: Global) -> Outcome<Self> {
        let output = Output::new(&global.output)?;
        let credentials = Credentials::load()?;
        let overrides = Overrides {
            url_flag: global.url,
            url_env: std::env::var("CHLOG_URL").ok(),
            profile_flag: global.profile,
            profile_env: std::env::var("CHLOG_PROFILE").ok(),
        };
        let config = Config::load(&overrides, &credentials)?;
        let of_environment = || std::env::var_os(CA_FILE_VARIABLE).filter(|path| !path.is_empty());
        let ca_file = global.cacert.or_else(|| of_environment().map(Into::into));
        Ok(Self {
            config,
            credentials,
            output,
            ca_file,
            client: OnceCell::new(),
            quick_client: OnceCell::new(),
            unavailable: Cell::default(),
        })
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> Outcome<&Sourced<String>> {
        self.check_profile()?;
        self.config.url.as_ref().ok_or_else(|| no_url(&self.config))
    }

    /// Returns the key for the server's URL, if there is one.
    pub(crate) fn key(&self) -> Outcome<Option<Sourced<SecretString>>> {
        let Config {
            profile, key_order, ..
        } = &self.config;
        credentials::find(&self.credentials, profile, &self.url()?.value, *key_order)
    }

    /// Returns the key for the server's URL, or the failure that explains how
    /// to set one.
    pub(crate) fn required_key(&self) -> Outcome<Sourced<SecretString>> {
        self.key()?.map_or_else(|| Err(self.missing_key()?), Ok)
    }

    /// Returns by what requests to the server's URL are authenticated: the id token of the job,
    /// or else a key; or the failure that explains how to set one.
    pub(crate) fn required_credential(&self) -> Outcome<Credential> {
        match self.id_token()? {
            Some(source) => Ok(Credential::Token(source)),
            None => Ok(Credential::Key(self.required_key()?)),
        }
    }

    /// Returns where the job of a pipeline has its id token from.
    pub(crate) fn id_token(&self) -> Outcome<Option<IdTokenSource>> {
        // An error in the URL is reported first.
        self.url()?;
        Ok(credentials::id_token(self.config.key_order))
    }

    /// Returns the failure that explains how to set a key.
    pub(crate) fn missing_key(&self) -> Outcome<Failure> {
        let Config {
            profile, key_order, ..
        } = &self.config;
        let url = &self.url()?.value;
        Ok(credentials::missing(
            &self.credentials,
            profile,
            url,
            *key_order,
        ))
    }

    /// Returns a client with the key.
    pub(crate) fn client(&self) -> Outcome<Client> {
        self.client_in(&self.client, |builder| builder)
    }

    /// Returns a client with the key for requests that are kept in the spool
    /// when they fail: at most two attempts within [`SPOOL_AFTER`].
    pub(crate) fn quick_client(&self) -> Outcome<Client> {
        self.client_in(&self.quick_client, |builder| {
            builder
                .connect_timeout(SPOOL_AFTER)
                .attempt_timeout(SPOOL_AFTER)
                .total_timeout(SPOOL_AFTER)
                .retry(RetryPolicy {
                    max_retries: 1,
                    ..RetryPolicy::default()
                })
        })
    }

    fn client_in(
        &self,
        cell: &OnceCell<Client>,
        configure: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Outcome<Client> {
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let id_token = self.id_token()?;
        // With a token, a key is used only if the token is not accepted.
        let key = match id_token {
            Some(_) => self.key()?,
            None => Some(self.required_key()?),
        };
        if let Some(key) = &key
            && !is_well_formed(key.value.expose_secret())
        {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                warn(&format!(
                    "the key in {} looks mistyped or truncated (checksum mismatch)",
                    key.source
                ));
            });
        }
        let mut builder = self.builder(&self.url()?.value, key.map(|key| key.value))?;
        if let Some(source) = id_token {
            builder = builder.id_token(source);
        }
        let client = configure(builder).build()?;
        Ok(cell.get_or_init(|| client).clone())
    }

    /// Returns a client without a key.
    pub(crate) fn keyless_client(&self) -> Outcome<Client> {
        self.client_for(&self.url()?.value, None)
    }

    /// Returns a client that has only the id token of the job.
    pub(crate) fn token_client(&self, source: IdTokenSource) -> Outcome<Client> {
        let builder = self.builder(&self.url()?.value, None)?;
        Ok(builder.id_token(source).build()?)
    }

    /// Adds to a failure where the wrong setting probably is.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        if failure.cause == Cause::Unauthorized
            && let Ok(credential) = self.required_credential()
        {
            return match credential {
                Credential::Key(key) => failure.line(format!("the key is from {}", key.source)),
                Credential::Token(source) => failure
                    .of_token()
                    .line(format!("the id token is from {}", source.name()))
                    .hint("`chlog doctor` shows what the token claims"),
            };
        }
        match &self.config.url {
            Some(url) if url.value.trim_end_matches('/').ends_with("/api") => {
                failure.hint(format!(
                    "leave out /api at the end of the URL (from {}); chlog adds it",
                    url.source
                ))
            }
            _ => failure,
        }
    }

    /// Builds a client for a URL.
    pub(crate) fn client_for(&self, url: &str, key: Option<SecretString>) -> Outcome<Client> {
        Ok(self.builder(url, key)?.build()?)
    }

    fn builder(&self, url: &str, key: Option<SecretString>) -> Outcome<ClientBuilder> {
        let mut builder = Client::builder()
            .url(url)
            .user_agent(concat!("chlog/", env!("CARGO_PKG_VERSION")));
        if let Some(key) = key {
            builder = builder.api_key(key);
        }
        if let Some(organization) = credentials::organization()? {
            builder = builder.organization(organization);
        }
        if let Some(Recognized::Agent(agent, _)) = agent::recognized(context::is_ci()) {
            builder = builder.agent(agent);
        }
        if let Some(path) = &self.ca_file {
            let pem = fs::read(path).map_err(|error| {
                let path = path.display();
                Failure::usage(format!("cannot read the certificates in {path}: {error}"))
                    .hint(format!("--cacert and {CA_FILE_VARIABLE} name the file"))
            })?;
            builder = builder.root_certificates(pem);
        }
        Ok(builder)
    }

    /// Notes that the server is unavailable.
    pub(crate) fn set_unavailable(&self) {
        self.unavailable.set(true);
    }

    /// Returns whether the server was found to be unavailable.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.unavailable.get()
    }

    /// Rejects an unknown profile: it is probably mistyped, and another URL
    /// must not be used in its place.
    fn check_profile(&self) -> Outcome {
        if self.config.profile_known {
            return Ok(());
        }
        Err(unknown_profile(&self.config, &self.config.profile))
    }
}

/// Returns the failure for a profile that does not exist.
pub(crate) fn unknown_profile(config: &Config, profile: &str) -> Failure {
    let known = config.profiles.keys().map(String::as_str);
    let hint = match changelog_core::text::closest(profile, known) {
        Some(known) => format!("did you mean {known}?"),
        None => format!(
            "`chlog auth list` shows all profiles; `chlog auth login --profile {profile} --url \
             URL` adds one"
        ),
    };
    Failure::usage(format!("there is no profile {profile:?}")).hint(hint)
}

/// Runs a request that is kept in the spool when it fails, for at most
/// [`SPOOL_AFTER`].
pub(crate) async fn within_spool_time<T>(request: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    timeout(SPOOL_AFTER, request).await.unwrap_or_else(|_| {
        let seconds = SPOOL_AFTER.as_secs();
        Err(Failure::unavailable(format!(
            "no response from the server within {seconds} s"
        )))
    })
}

/// Explains how to set the server's URL.
pub(crate) fn no_url(config: &Config) -> Failure {
    let profiles: Vec<&str> = config.profiles.keys().map(String::as_str).collect();
    let failure = Failure::usage("no server URL is configured");
    if !profiles.is_empty() {
        return failure
            .line(format!("there are profiles: {}", profiles.join(", ")))
            .line(
                "use one with --profile NAME, or make it the default with `chlog auth switch NAME`",
            );
    }
    failure
        .line("use --url, for example --url https://changes.example.com")
        .line("or set CHLOG_URL")
        .line("or add url = \"https://changes.example.com\" to chlog/config.toml in your configuration directory")
        .line("or sign in with `chlog auth login --url URL`")
}
