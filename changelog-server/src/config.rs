//! The command line and the environment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use changelog_core::{
    ApiKeyId, ConnectionId, ConnectionKind, Environment, Plan, RiskLevel, Scope, SourceEventId,
    SourceId, SourceKind, Timestamp,
};
use clap::{Args, Parser, Subcommand, value_parser};
use ipnet::IpNet;
use url::Url;

use crate::mail::MailSettings;
use crate::secrets::Secrets;
use crate::store::{Capacity, DeliveryId, Quotas};

/// The change log service.
#[derive(Debug, Parser)]
#[command(name = "changelog-server", version, about, propagate_version = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of every command.
    #[command(flatten)]
    pub common: Common,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The database
    #[arg(
        long,
        global = true,
        help = "The database: sqlite://PATH or postgres://USER@HOST/NAME",
        env = "CHANGELOG_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://changelog.db",
        value_name = "URL"
    )]
    pub database_url: String,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service
    Serve(Serve),
    /// Try the service: a database in a folder, sample changes, and a key for chlog
    Demo(Demo),
    /// Create organizations and set their plans
    #[command(subcommand)]
    Org(Org),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(Key),
    /// Manage users
    #[command(subcommand)]
    User(User),
    /// Connect Slack, Teams, Grafana, PagerDuty and webhooks
    #[command(subcommand)]
    Integration(Integration),
    /// Let other systems send what changes: GitHub, Argo CD, clouds and others
    #[command(subcommand)]
    Source(SourceCommand),
    /// Manage the key that encrypts stored secrets
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Write a consistent copy of the SQLite database, even while it is being served
    Backup {
        /// The file to write; it must not exist
        path: PathBuf,
    },
    /// Print the OpenAPI document
    Openapi,
    /// Print SQL for the operator of the database
    #[command(subcommand)]
    Schema(Schema),
}

/// The arguments of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// The address to listen on; port 0 picks a free one
    #[arg(
        long,
        env = "CHANGELOG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// Trust the system's clock although the database has seen a later time
    #[arg(
        long,
        long_help = "Trust the system's clock although the database has seen a later time. Use this \
                     after the clock was ahead for some minutes and keys and sessions expired"
    )]
    pub trust_clock: bool,
    /// The configuration of the service.
    #[command(flatten)]
    pub settings: Settings,
}

/// The configuration of the service.
#[derive(Clone, Debug, Default, Args)]
pub struct Settings {
    /// The URL that users open; cookies are Secure when it is https
    #[arg(
        help = "The URL that users open, such as https://changes.example.com; cookies are \
                Secure when it is https",
        long, env = "CHANGELOG_PUBLIC_URL", value_name = "URL", value_parser = public_url)]
    pub public_url: Option<Url>,
    /// Proxies whose X-Forwarded-For header is trusted, such as 10.0.0.0/8; comma-separated
    #[arg(
        long = "trusted-proxy",
        env = "CHANGELOG_TRUSTED_PROXIES",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network
    )]
    pub trusted_proxies: Vec<IpNet>,
    /// The most requests per second of one API key; no limit when absent
    #[arg(long, env = "CHANGELOG_RATE_LIMIT", value_name = "N")]
    pub rate_limit: Option<NonZeroU32>,
    /// The most connections to PostgreSQL that this server opens; 24 when absent
    #[arg(
        long,
        env = "CHANGELOG_DATABASE_CONNECTIONS",
        value_name = "N",
        value_parser = value_parser!(u32).range(i64::from(Capacity::MIN_CONNECTIONS)..=1_000)
    )]
    pub database_connections: Option<u32>,
    /// How much of the database one organization may use at once, in percent;
    /// 50 when absent
    #[arg(
        long,
        help = "How much of the connections for lists, searches and writes one organization may \
                use at once, in percent; 50 when absent. Requests beyond it wait for up to 2 s \
                and are then answered with 429",
        env = "CHANGELOG_ORGANIZATION_SHARE",
        value_name = "PERCENT",
        value_parser = value_parser!(u8).range(1..=100)
    )]
    pub organization_share: Option<u8>,
    /// The memory for responses that clients have not read yet, in MiB; 256 when absent
    #[arg(
        help = "The memory for responses that clients have not read yet, in MiB; an organization \
                may use a quarter of it [default: 256]",
        long,
        env = "CHANGELOG_RESPONSE_MEMORY",
        value_name = "MIB"
    )]
    pub response_memory: Option<NonZeroU32>,
    /// The mail server.
    #[command(flatten)]
    pub mail: MailSettings,
    /// Networks whose receivers are allowed.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
    /// The quotas of an organization.
    #[command(flatten)]
    pub quotas: QuotaSettings,
}

/// Networks whose receivers are allowed.
#[derive(Clone, Debug, Default, Args)]
pub struct AllowedReceivers {
    /// Networks whose receivers are allowed although they are private, also over plain http
    #[arg(
        long = "allow-receivers",
        help = "Networks, such as 10.0.0.0/8, whose receivers are allowed although they are \
                private or local, also over plain http; comma-separated",
        env = "CHANGELOG_ALLOW_RECEIVERS",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network
    )]
    pub networks: Vec<IpNet>,
}

/// The key of stored secrets.
#[derive(Clone, Debug, Default, Args)]
pub struct SecretsFile {
    /// The file with the key that encrypts stored secrets; made if there is none
    #[arg(
        long = "secrets-key-file",
        help = "The file with the key that encrypts the secrets of connections, made if there is \
                none [default: the SQLite file with .key after its name, or \
                changelog-secrets.key]",
        env = "CHANGELOG_SECRETS_KEY_FILE",
        value_name = "PATH"
    )]
    pub path: Option<PathBuf>,
}

impl SecretsFile {
    /// Returns the path of the file for a database.
    pub fn path(&self, database_url: &str) -> PathBuf {
        let path = self.path.clone();
        path.unwrap_or_else(|| Secrets::default_path(database_url))
    }
}

/// The quotas of one organization.
#[derive(Clone, Debug, Args)]
pub struct QuotaSettings {
    /// The most hosts of an organization
    #[arg(
        long,
        env = "CHANGELOG_MAX_HOSTS",
        default_value_t = DEFAULT_QUOTAS.max_hosts,
        value_name = "N"
    )]
    pub max_hosts: u32,
    /// The most services of an organization
    #[arg(
        long,
        env = "CHANGELOG_MAX_SERVICES",
        default_value_t = DEFAULT_QUOTAS.max_services,
        value_name = "N"
    )]
    pub max_services: u32,
    /// The most members of an organization, including invitations
    #[arg(
        long,
        env = "CHANGELOG_MAX_MEMBERS",
        default_value_t = DEFAULT_QUOTAS.max_members,
        value_name = "N"
    )]
    pub max_members: u32,
    /// The most API keys of an organization, not counting revoked ones
    #[arg(
        long,
        env = "CHANGELOG_MAX_API_KEYS",
        default_value_t = DEFAULT_QUOTAS.max_api_keys,
        value_name = "N"
    )]
    pub max_api_keys: u32,
}

impl From<&QuotaSettings> for Quotas {
    fn from(settings: &QuotaSettings) -> Self {
        Self {
            hosts: Some(settings.max_hosts),
            services: Some(settings.max_services),
            members: Some(settings.max_members),
            api_keys: Some(settings.max_api_keys),
        }
    }
}

/// More than organizations need, and few enough to be listed.
const DEFAULT_QUOTAS: QuotaSettings = QuotaSettings {
    max_hosts: 10_000,
    max_services: 10_000,
    max_members: 1_000,
    max_api_keys: 1_000,
};

impl Default for QuotaSettings {
    fn default() -> Self {
        DEFAULT_QUOTAS
    }
}

impl Settings {
    /// Returns how much of the database the service uses.
    pub fn capacity(&self) -> Capacity {
        let default = Capacity::default();
        Capacity {
            postgres_connections: self
                .database_connections
                .unwrap_or(default.postgres_connections),
            organization_share: self
                .organization_share
                .unwrap_or(default.organization_share),
        }
    }

    /// Returns the public URL, or else that of the address that the service listens on,
    /// without a slash at the end.
    pub fn url(&self, listening: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.origin().ascii_serialization(),
            None => format!("http://{}", reachable(listening)),
        }
    }

    /// Returns the host of the public URL, or else of the address that the service listens
    /// on.
    pub fn host(&self, listening: SocketAddr) -> String {
        let url = self.public_url.as_ref();
        let host = url.and_then(|url| url.host_str());
        host.map_or_else(|| reachable(listening).ip().to_string(), str::to_owned)
    }

    /// Returns whether the public URL is https.
    pub fn is_https(&self) -> bool {
        self.public_url
            .as_ref()
            .is_some_and(|url| url.scheme() == "https")
    }
}

/// Returns the address at which the local machine reaches a listener.
fn reachable(mut listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() {
        listening.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    listening
}

/// The arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub struct Demo {
    /// The address to listen on; port 0 picks a free one
    #[arg(
        long,
        env = "CHANGELOG_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// The folder for the database, the sign-in and the key
    #[arg(long, default_value = "changelog-demo", value_name = "DIR")]
    pub data_dir: PathBuf,
}

/// Organizations.
#[derive(Debug, Subcommand)]
pub enum Org {
    /// Create an organization, with its owner
    Create {
        /// Its name
        #[arg(long)]
        name: String,
        /// Its plan: free (dashboard only) or pro (API as well)
        #[arg(long, default_value = "free", value_name = "free|pro")]
        plan: Plan,
        /// The email address of its owner
        #[arg(long, value_name = "E", requires_all = ["owner_name", "owner_password_file"])]
        owner_email: Option<String>,
        /// The name of its owner
        #[arg(long, value_name = "N", requires = "owner_email")]
        owner_name: Option<String>,
        /// A file with its owner's password, or - for standard input
        #[arg(long, value_name = "PATH", requires = "owner_email")]
        owner_password_file: Option<PathBuf>,
    },
    /// List the organizations
    List,
    /// Set the plan of an organization
    SetPlan {
        /// The organization's id or name
        org: String,
        /// free (dashboard only) or pro (API as well)
        #[arg(value_name = "free|pro")]
        plan: Plan,
    },
}

/// API keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create a key; its value is shown only now
    Create(CreateKey),
    /// List the keys of an organization, masked
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Revoke a key: it stops working at the next request
    Revoke {
        /// The key's id, as `key list` shows it
        id: ApiKeyId,
    },
}

/// A key to create.
#[derive(Debug, clap::Args)]
pub struct CreateKey {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// A name for the key: who will use it
    #[arg(long)]
    pub name: String,
    /// When the key expires
    #[arg(long, value_name = "RFC3339")]
    pub expires_at: Option<Timestamp>,
    /// What the key may do: read (everything), record (create and update changes) or admin
    /// (create and update hosts and services); several times for several, all when absent
    #[arg(long = "scope", value_name = "read|record|admin")]
    pub scopes: Vec<Scope>,
    /// An environment that the key may record changes in, several times for several; any
    /// when absent
    #[arg(long = "environment", value_name = "ENVIRONMENT")]
    pub environments: Vec<Environment>,
    /// The name of a service that the key may record changes of, several times for several;
    /// any when absent
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
}

/// People.
#[derive(Debug, Subcommand)]
pub enum User {
    /// Set a person's password and end their sessions
    SetPassword {
        /// The address that they sign in with
        #[arg(long)]
        email: String,
        /// The organization, by id or name, that the person is a member of; needed where the
        /// address has several accounts
        #[arg(long)]
        org: Option<String>,
        /// A file with the password, or - for standard input
        #[arg(long, value_name = "PATH")]
        password_file: PathBuf,
    },
}

/// Connections to receivers.
#[derive(Debug, Subcommand)]
pub enum Integration {
    /// Connect a receiver: it is sent what happens to changes from now on
    Create(CreateIntegration),
    /// List the connections of an organization
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// Send a sample event, and print the receiver's answer
    Test {
        /// The connection's id, as `integration list` shows it
        id: ConnectionId,
        /// The key of stored secrets.
        #[command(flatten)]
        secrets: SecretsFile,
        /// Networks whose receivers are allowed.
        #[command(flatten)]
        receivers: AllowedReceivers,
    },
    /// List the last deliveries of a connection, newest first
    Deliveries {
        /// The connection's id
        id: ConnectionId,
        /// Only those that failed and are not sent again by themselves
        #[arg(long)]
        dead: bool,
    },
    /// Send a delivery again
    Replay {
        /// The delivery, as `integration deliveries` shows it
        delivery: DeliveryId,
    },
    /// Let a connection send again that was disabled
    Enable {
        /// The connection's id
        id: ConnectionId,
    },
    /// Delete a connection; what is queued for it is not sent
    Delete {
        /// The connection's id
        id: ConnectionId,
    },
}

/// The arguments of `integration create`.
#[derive(Debug, Args)]
pub struct CreateIntegration {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// What to connect: webhook, slack, teams, grafana or pagerduty
    #[arg(long, value_name = "KIND")]
    pub kind: ConnectionKind,
    /// A name for the connection
    #[arg(long)]
    pub name: String,
    /// The address of the receiver; for Grafana, its base URL
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file with the token of a Slack bot or Grafana, or PagerDuty's routing key, or -
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// The id of the channel that a Slack bot writes to
    #[arg(long, value_name = "ID")]
    pub channel: Option<String>,
    /// Send only changes of at least this risk
    #[arg(long, value_name = "RISK")]
    pub min_risk: Option<RiskLevel>,
    /// Send only changes of this service, by name; repeatable
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
    /// Networks whose receivers are allowed.
    #[command(flatten)]
    pub receivers: AllowedReceivers,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
}

/// Sources, to which other systems send what changes.
#[derive(Debug, Subcommand)]
pub enum SourceCommand {
    /// Make a source, and print the path that the sender posts to
    Create(CreateSource),
    /// List the sources of an organization
    List {
        /// The organization's id or name
        #[arg(long)]
        org: String,
    },
    /// List the last events of a source and what became of them, newest first
    Events {
        /// The source's id, as `source list` shows it
        id: SourceId,
        /// The number of events
        #[arg(long, value_name = "N", default_value_t = 200,
            value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
    },
    /// Read an event again, for example after its settings were corrected
    Replay {
        /// The event, as `source events` shows it
        event: SourceEventId,
    },
    /// Make a new address; the present one is no longer valid
    Renew {
        /// The source's id
        id: SourceId,
    },
    /// Delete a source; its changes stay
    Delete {
        /// The source's id
        id: SourceId,
    },
}

/// The arguments of `source create`.
#[derive(Debug, Args)]
pub struct CreateSource {
    /// The organization's id or name
    #[arg(long)]
    pub org: String,
    /// What sends to it: github, gitlab, argocd, cloudtrail or another kind
    #[arg(long, value_name = "KIND")]
    pub kind: SourceKind,
    /// A name for the source
    #[arg(long)]
    pub name: String,
    /// The service of changes for which the sender names none
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// The environment of changes for which the sender names none
    #[arg(long, value_name = "ENV")]
    pub environment: Option<Environment>,
    /// A file with the secret by which the sender proves its requests, or -
    #[arg(long, value_name = "PATH")]
    pub secret_file: Option<PathBuf>,
    /// Create the services that the sender names and the organization lacks
    #[arg(long)]
    pub create_missing: bool,
    /// The key of stored secrets.
    #[command(flatten)]
    pub secrets: SecretsFile,
}

/// The key that encrypts stored secrets.
#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Make a new key, encrypt everything by it, and delete the old one
    Rotate {
        /// The key of stored secrets.
        #[command(flatten)]
        secrets: SecretsFile,
    },
}

/// SQL for the operator.
#[derive(Debug, Subcommand)]
pub enum Schema {
    /// Print the statements that distribute a PostgreSQL database by Citus, for psql; the
    /// schema must exist already
    Citus {
        /// Let servers connect to every node: accounts and keys are copied to all nodes, and
        /// changing them needs all nodes
        #[arg(long)]
        every_node: bool,
    },
}

fn public_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if plain {
        Ok(url)
    } else {
        Err("must be http:// or https:// and a host, without a path".into())
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| "must be an address or a network such as 10.0.0.0/8".to_owned())
}
