//! The service under test: a new database, an organization on the Pro plan
//! with an owner and an API key, and the real service.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::Value;
use sqlx::Connection;
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqliteConnection;
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::{TestClient, text};
use crate::database::{self, Db};
use crate::postgres::Postgres;
use crate::process::{run, secrets_key_file, server_command};
use crate::server::Server;
use crate::template;
use crate::test_clock::TestClock;
use crate::{programs, watchdog};

/// The database of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite, in a file of the app's folder.
    Sqlite,
    /// PostgreSQL, on the instance that all tests of the process share.
    Postgres,
}

/// The name of the API key that every app has.
pub const KEY_NAME: &str = "terraform";

/// An organization with its owner and a key.
#[derive(Clone, Debug)]
pub struct Organization {
    /// The organization's id.
    pub id: String,
    /// The organization's name.
    pub name: String,
    /// The owner's id.
    pub owner_id: String,
    /// The owner's name.
    pub owner_name: String,
    /// The owner's email address.
    pub email: String,
    /// The owner's password.
    pub password: String,
    /// The id of the API key.
    pub key_id: String,
    /// The API key.
    pub key: String,
}

/// A running service with its database and folder.
pub struct TestApp {
    /// The database's engine.
    pub engine: Engine,
    /// The organization that every app has.
    pub organization: Organization,
    /// The running service.
    pub server: Server,
    /// The address of the database.
    pub database: String,
    /// The clock of the services in this process.
    pub clock: TestClock,
    folder: TempDir,
}

impl TestApp {
    /// Starts the service in this process; `None` if the database is not installed.
    pub async fn new(engine: Engine) -> Option<Self> {
        let (folder, database, organization) = prepare(engine).await?;
        let clock = TestClock::default();
        let key = secrets_key_file(folder.path());
        let server = Server::start_with(&database, &[], &key, &clock).await;
        Some(Self {
            clock,
            engine,
            organization,
            server: server.unwrap_or_else(|error| panic!("the server does not start: {error}")),
            database,
            folder,
        })
    }

    /// Starts the service in a process of its own, for tests that kill it, read its log
    /// or measure it; `None` if the database is not installed.
    pub async fn with_process(engine: Engine) -> Option<Self> {
        let (folder, database, organization) = prepare(engine).await?;
        Some(Self::serve_on(engine, folder, database, organization).await)
    }

    /// Starts the service as a process, on a PostgreSQL instance that no other test uses.
    pub async fn on_postgres(postgres: &Postgres) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = postgres.database().await;
        let organization = template::prepare(&database).await;
        Self::serve_on(Engine::Postgres, folder, database, organization).await
    }

    async fn serve_on(
        engine: Engine,
        folder: TempDir,
        database: String,
        organization: Organization,
    ) -> Self {
        let server = Server::start(serve(folder.path(), &database)).await;
        Self {
            clock: TestClock::default(),
            engine,
            organization,
            server: server.unwrap_or_else(|log| panic!("the server exited: {log}")),
            database,
            folder,
        }
    }

    /// Returns the folder of this app.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the database file on SQLite.
    pub fn file(&self) -> PathBuf {
        self.folder().join("changelog.db")
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Returns the URL of a path of the service.
    pub fn at(&self, path: &str) -> String {
        self.url() + path
    }

    /// Returns a client without a key or a session.
    pub fn anonymous(&self) -> TestClient {
        TestClient::new(&self.server.address)
    }

    /// Returns a client with the organization's key.
    pub fn key(&self) -> TestClient {
        self.with_key(&self.organization.key)
    }

    /// Returns a client with a given key.
    pub fn with_key(&self, key: &str) -> TestClient {
        self.anonymous().with("x-api-key", key)
    }

    /// Signs in the owner and returns a client with the session.
    pub async fn browser(&self) -> TestClient {
        self.browser_of(&self.organization).await
    }

    /// Signs in the owner of an organization and returns a client with the session.
    pub async fn browser_of(&self, organization: &Organization) -> TestClient {
        let cookie = self.cookie_of(organization).await;
        self.anonymous().with("cookie", &cookie)
    }

    /// Signs in the owner of an organization and returns the cookie of the session.
    pub async fn cookie_of(&self, organization: &Organization) -> String {
        let (email, password) = (&organization.email, &organization.password);
        sign_in(&self.anonymous(), email, password).await
    }

    /// Creates another organization in the same service.
    pub fn second_organization(&self) -> Organization {
        self.organization("Umbrella", "grace")
    }

    /// Creates another organization, with an owner of this name, in the same service.
    pub fn organization(&self, name: &str, owner: &str) -> Organization {
        let given = (name.to_owned(), owner.to_owned());
        let created = self.server.with_store(|store| async move {
            template::create_organization(&store, &given.0, &given.1).await
        });
        created.unwrap_or_else(|| create_organization(self.folder(), &self.database, name, owner))
    }

    /// Returns the address of an empty database.
    pub async fn empty_database(&self) -> String {
        match self.engine {
            Engine::Sqlite => format!("sqlite://{}/empty.db", self.folder().display()),
            Engine::Postgres => {
                let postgres = Postgres::shared().await.expect("it runs already");
                postgres.database().await
            }
        }
    }

    /// Connects to the SQLite file.
    pub async fn sqlite(&self) -> SqliteConnection {
        let connection = SqliteConnection::connect(&self.database).await;
        connection.expect("a connection to SQLite")
    }

    /// Connects to the PostgreSQL database.
    pub async fn postgres(&self) -> PgConnection {
        let connection = PgConnection::connect(&self.database).await;
        connection.expect("a connection to PostgreSQL")
    }

    /// Runs a statement directly in the database.
    pub async fn execute(&self, statement: &'static str) {
        let mut db = Db::open(self.engine, &self.database).await;
        database::execute!(&mut db, sqlx::query(statement));
        db.close().await;
    }

    /// Runs a statement whose parameter is the id of the organization, and returns the number of
    /// rows that it has changed.
    pub async fn update_own(&self, statement: &'static str) -> u64 {
        let organization: Uuid = self.organization.id.parse().expect("an id");
        let mut db = Db::open(self.engine, &self.database).await;
        let rows = database::execute!(&mut db, sqlx::query(statement).bind(organization));
        db.close().await;
        rows
    }

    /// Runs an admin command, which must succeed, and returns what it prints.
    #[track_caller]
    pub fn admin(&self, arguments: &[&str]) -> Value {
        admin(self.folder(), &self.database, arguments, "")
    }

    /// Runs an admin command with this standard input, which must succeed, and returns what
    /// it prints.
    #[track_caller]
    pub fn admin_with(&self, arguments: &[&str], input: &str) -> Value {
        admin(self.folder(), &self.database, arguments, input)
    }

    /// Runs an admin command and returns its output.
    pub fn try_admin(&self, arguments: &[&str], input: &str) -> Output {
        run(
            admin_command(self.folder(), &self.database, arguments),
            input,
        )
    }

    /// Connects a receiver, with further flags of `integration create`, and returns what it
    /// prints.
    #[track_caller]
    pub fn connect(&self, kind: &str, name: &str, url: &str, flags: &[&str]) -> Value {
        let mut arguments = vec!["integration", "create", "--org", &self.organization.id];
        arguments.extend(["--kind", kind, "--name", name, "--url", url]);
        arguments.extend(flags);
        self.admin(&arguments)
    }

    /// Creates a key for this app's organization and returns what the command prints.
    #[track_caller]
    pub fn create_key(&self, arguments: &[&str]) -> Value {
        let organization = &self.organization.id;
        let mut all = vec!["key", "create", "--org", organization, "--name", "another"];
        all.extend(arguments);
        self.admin(&all)
    }

    /// Kills the service and starts it again on the same database.
    pub async fn restart(&mut self) {
        self.restart_with(&[]).await;
    }

    /// Kills the service and starts it again with these flags of `serve`.
    pub async fn restart_with(&mut self, flags: &[&str]) {
        self.server.kill9();
        // A program that another test starts at this moment has the lock of the file until it runs.
        for _ in 0..40 {
            match self.try_another_server(flags).await {
                Err(error) if error.contains("another changelog-server is serving") => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                started => {
                    self.server = started_server(started);
                    return;
                }
            }
        }
        self.server = self.another_server(flags).await;
    }

    /// Kills the service and starts it again at an address of 127.0.0.0/8 that no other test
    /// uses, for [`Self::restart_in_place`].
    pub async fn move_to_own_address(&mut self) {
        static MOVED: AtomicU8 = AtomicU8::new(0);
        let last = 2 + MOVED.fetch_add(1, Ordering::Relaxed) % 250;
        self.restart_with(&["--listen", &format!("127.0.0.{last}:0")])
            .await;
    }

    /// Starts the service again at the address that it had.
    ///
    /// At 127.0.0.1 another test could take the port while the service is down:
    /// see [`Self::move_to_own_address`].
    pub async fn restart_in_place(&mut self) {
        let address = self.server.address.clone();
        assert!(!address.starts_with("127.0.0.1:"), "not an own address");
        self.restart_with(&["--listen", &address]).await;
    }

    /// Starts another service on the same database, in a process of its own if the first
    /// one has one.
    pub async fn another_server(&self, flags: &[&str]) -> Server {
        started_server(self.try_another_server(flags).await)
    }

    async fn try_another_server(&self, flags: &[&str]) -> Result<Server, String> {
        if self.server.is_process() {
            let mut command = self.serve_command();
            command.args(flags);
            Server::start(command).await
        } else {
            let key = secrets_key_file(self.folder());
            Server::start_with(&self.database, flags, &key, &self.clock).await
        }
    }

    /// Returns an admin command for this database.
    pub fn admin_command(&self, arguments: &[&str]) -> Command {
        admin_command(self.folder(), &self.database, arguments)
    }

    /// Returns the command that starts a server on this database.
    pub fn serve_command(&self) -> Command {
        serve(self.folder(), &self.database)
    }

    /// Returns a `chlog` command that uses this service and its key, and does not inherit
    /// the settings of this machine.
    pub fn chlog(&self) -> assert_cmd::Command {
        let mut command = self.bare_chlog();
        command
            .env("CHLOG_URL", self.url())
            .env("CHLOG_API_KEY", &self.organization.key);
        command
    }

    /// Returns a `chlog` command without a configured service.
    pub fn bare_chlog(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(programs::chlog());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder())
            .env("XDG_CONFIG_HOME", self.folder().join("config"))
            .env("XDG_STATE_HOME", self.folder().join("state"))
            .env("XDG_DATA_HOME", self.folder().join("data"))
            .env("XDG_CACHE_HOME", self.folder().join("cache"))
            .env("TZ", "UTC")
            .current_dir(self.folder())
            .timeout(Duration::from_mins(1));
        command
    }
}

/// Signs in and returns the session cookie as a browser sends it.
pub async fn sign_in(caller: &TestClient, email: &str, password: &str) -> String {
    let answer = caller.try_sign_in(email, password).await;
    answer.is(303);
    answer.cookie().to_owned()
}

/// Creates a folder with a database that has an organization.
async fn prepare(engine: Engine) -> Option<(TempDir, String, Organization)> {
    let folder = tempfile::Builder::new()
        .prefix("changelog-test-")
        .tempdir()
        .expect("a temporary folder");
    watchdog::folder(folder.path());
    let (database, organization) = match engine {
        Engine::Sqlite => {
            let file = folder.path().join("changelog.db");
            let organization = template::copy_sqlite(&file).await;
            (format!("sqlite://{}", file.display()), organization)
        }
        Engine::Postgres => Postgres::shared().await?.prepared_database().await,
    };
    Some((folder, database, organization))
}

fn serve(folder: &Path, database: &str) -> Command {
    let mut command = server_command(folder);
    command
        .args(["serve"])
        .env("CHANGELOG_LISTEN", "127.0.0.1:0")
        .env("CHANGELOG_DATABASE_URL", database);
    command
}

fn admin_command(folder: &Path, database: &str, arguments: &[&str]) -> Command {
    let mut command = server_command(folder);
    command
        .args(arguments)
        .env("CHANGELOG_DATABASE_URL", database)
        // Receivers of tests.
        .env("CHANGELOG_ALLOW_RECEIVERS", "127.0.0.0/8");
    command
}

#[track_caller]
fn admin(folder: &Path, database: &str, arguments: &[&str], input: &str) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    let output = run(admin_command(folder, database, &all), input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Creates an organization on the Pro plan with an owner and a key.
#[track_caller]
fn create_organization(folder: &Path, database: &str, name: &str, owner: &str) -> Organization {
    let email = format!("{owner}@example.com");
    let owner_name = format!("{owner} of {name}");
    // Unique, so that tests can search for it where it must not appear.
    let password = format!("plum-{}", uuid::Uuid::new_v4());
    let made = admin(
        folder,
        database,
        &[
            "org",
            "create",
            "--name",
            name,
            "--plan",
            "pro",
            "--owner-email",
            &email,
            "--owner-name",
            &owner_name,
            "--owner-password-file",
            "-",
        ],
        &password,
    );
    let id = text(&made["organization"]["id"]);
    let key = admin(
        folder,
        database,
        &["key", "create", "--org", &id, "--name", KEY_NAME],
        "",
    );
    Organization {
        id,
        name: name.to_owned(),
        owner_id: text(&made["owner"]["id"]),
        owner_name,
        email,
        password,
        key_id: text(&key["id"]),
        key: text(&key["key"]),
    }
}

fn started_server(started: Result<Server, String>) -> Server {
    started.unwrap_or_else(|error| panic!("the server does not start: {error}"))
}
