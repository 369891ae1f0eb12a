//! A world to tell a story in: a fresh database, an organization on the Pro
//! plan with an owner and a key, and the real service listening.

pub(crate) mod binaries;
pub(crate) mod caller;
pub(crate) mod chromium;
pub(crate) mod database;
pub(crate) mod document;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod postgres;
pub(crate) mod requirement;
pub(crate) mod server;
pub(crate) mod shape;
mod watchdog;
pub(crate) mod wire;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use caller::{Answer, Caller, each, form, keys, send, text};
pub(crate) use database::Db;
pub(crate) use gateway::{Gateway, Mode};
pub(crate) use postgres::Postgres;
pub(crate) use server::Server;
pub(crate) use wire::Wire;

/// Which database a world stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

/// Runs each story once on each database, as `sqlite::name` and `postgres::name`.
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                if let Some(world) = crate::world::World::new(crate::world::Engine::Sqlite).await {
                    super::$story(world).await;
                }
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                if let Some(world) = crate::world::World::new(crate::world::Engine::Postgres).await {
                    super::$story(world).await;
                }
            })+
        }
    };
}
pub(crate) use on_both;

/// The name of the key that every world has.
pub(crate) const KEY_NAME: &str = "terraform";

/// An organization with its owner and a key.
#[derive(Clone, Debug)]
pub(crate) struct Organization {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) owner_id: String,
    pub(crate) owner_name: String,
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) key_id: String,
    pub(crate) key: String,
}

/// A running service with everything around it.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) organization: Organization,
    pub(crate) server: Server,
    /// The address of the database.
    pub(crate) database: String,
    folder: TempDir,
}

impl World {
    /// Makes a world; none where the database's program is not installed.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("changelog-world-")
            .tempdir()
            .expect("a temporary folder");
        watchdog::folder(folder.path());
        let database = match engine {
            Engine::Sqlite => format!("sqlite://{}/changelog.db", folder.path().display()),
            Engine::Postgres => Postgres::shared().await?.database().await,
        };
        Some(Self::on(engine, folder, database).await)
    }

    /// Makes a world on an instance of PostgreSQL that is this world's alone.
    pub(crate) async fn on_postgres(postgres: &Postgres) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = postgres.database().await;
        Self::on(Engine::Postgres, folder, database).await
    }

    async fn on(engine: Engine, folder: TempDir, database: String) -> Self {
        let organization = found(folder.path(), &database, "Acme", "ada");
        let server = Server::start(serve(folder.path(), &database)).await;
        Self {
            engine,
            organization,
            server: server.unwrap_or_else(|said| panic!("serve ends: {said}")),
            database,
            folder,
        }
    }

    /// A folder of this world's own.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of the database, on SQLite.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("changelog.db")
    }

    /// Where the service listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Somebody without a key or a session.
    pub(crate) fn anonymous(&self) -> Caller {
        Caller::new(&self.server.address)
    }

    /// The organization's key.
    pub(crate) fn key(&self) -> Caller {
        self.with_key(&self.organization.key)
    }

    /// Any key.
    pub(crate) fn with_key(&self, key: &str) -> Caller {
        self.anonymous().with("x-api-key", key)
    }

    /// The owner, signed in.
    pub(crate) async fn browser(&self) -> Caller {
        self.browser_of(&self.organization).await
    }

    /// The owner of an organization, signed in.
    pub(crate) async fn browser_of(&self, organization: &Organization) -> Caller {
        let cookie = sign_in(
            &self.anonymous(),
            &organization.email,
            &organization.password,
        )
        .await;
        self.anonymous().with("cookie", &cookie)
    }

    /// Makes another organization in the same service.
    pub(crate) fn second_organization(&self) -> Organization {
        found(self.folder(), &self.database, "Umbrella", "grace")
    }

    /// Returns the address of a database that nobody has used.
    pub(crate) async fn empty_database(&self) -> String {
        match self.engine {
            Engine::Sqlite => format!("sqlite://{}/empty.db", self.folder().display()),
            Engine::Postgres => {
                let postgres = Postgres::shared().await.expect("it runs already");
                postgres.database().await
            }
        }
    }

    /// Runs a statement in the database, past the service.
    pub(crate) async fn execute(&self, statement: &'static str) {
        let mut db = Db::open(self.engine, &self.database).await;
        database::execute!(&mut db, sqlx::query(statement));
        db.close().await;
    }

    /// Runs an admin command, which must succeed, and returns what it prints.
    #[track_caller]
    pub(crate) fn admin(&self, arguments: &[&str]) -> Value {
        admin(self.folder(), &self.database, arguments, "")
    }

    /// Runs an admin command and returns whatever happens.
    pub(crate) fn try_admin(&self, arguments: &[&str], input: &str) -> Output {
        run(
            admin_command(self.folder(), &self.database, arguments),
            input,
        )
    }

    /// Makes a key for this world's organization and returns what is printed.
    #[track_caller]
    pub(crate) fn create_key(&self, arguments: &[&str]) -> Value {
        let organization = &self.organization.id;
        let mut all = vec!["key", "create", "--org", organization, "--name", "another"];
        all.extend(arguments);
        self.admin(&all)
    }

    /// Kills the server and starts it again on the same database.
    pub(crate) async fn restart(&mut self) {
        self.restart_with(&[]).await;
    }

    /// The same, with more arguments.
    pub(crate) async fn restart_with(&mut self, arguments: &[&str]) {
        self.server.kill9();
        self.server = self.another_server(arguments).await;
    }

    /// Starts one more server on the same database.
    pub(crate) async fn another_server(&self, arguments: &[&str]) -> Server {
        let mut command = self.serve_command();
        command.args(arguments);
        let server = Server::start(command).await;
        server.unwrap_or_else(|said| panic!("serve ends: {said}"))
    }

    /// The command that starts a server on this database.
    pub(crate) fn serve_command(&self) -> Command {
        serve(self.folder(), &self.database)
    }

    /// Begins a `chlog` command that speaks to this service with this key and
    /// knows nothing of this machine's own settings.
    pub(crate) fn chlog(&self) -> assert_cmd::Command {
        let mut command = self.bare_chlog();
        command
            .env("CHLOG_URL", self.url())
            .env("CHLOG_API_KEY", &self.organization.key);
        command
    }

    /// Begins a `chlog` command that knows of no service.
    pub(crate) fn bare_chlog(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(binaries::chlog());
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

/// Signs in and returns the cookie as a browser would send it back.
pub(crate) async fn sign_in(caller: &Caller, email: &str, password: &str) -> String {
    let answer = caller
        .post_form("/sign-in", &[("email", email), ("password", password)])
        .await;
    answer.is(303);
    let cookie = answer.header("set-cookie");
    let (pair, _) = cookie.split_once(';').expect("a cookie with attributes");
    pair.to_owned()
}

/// Sends a signal to a process that this test started.
///
/// A group of processes is its first one's number behind a minus.
pub(crate) fn signal(who: impl Display, signal: &str) {
    // Gone already is as good as told.
    let _ = Command::new("kill")
        .args([&format!("-{signal}"), "--", &who.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Runs a command to its end with this standard input.
pub(crate) fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that reads nothing may be gone before this is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn serve(folder: &Path, database: &str) -> Command {
    let mut command = server::command(folder);
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("CHANGELOG_DATABASE_URL", database);
    command
}

fn admin_command(folder: &Path, database: &str, arguments: &[&str]) -> Command {
    let mut command = server::command(folder);
    command
        .args(arguments)
        .env("CHANGELOG_DATABASE_URL", database);
    command
}

#[track_caller]
fn admin(folder: &Path, database: &str, arguments: &[&str], input: &str) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    let output = run(admin_command(folder, database, &all), input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Makes an organization on the Pro plan with an owner and a key.
#[track_caller]
fn found(folder: &Path, database: &str, name: &str, owner: &str) -> Organization {
    let email = format!("{owner}@example.com");
    let owner_name = format!("{owner} of {name}");
    // Not a password that anybody uses, and one that a search for leaks finds.
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
