//! A database, the service on it, and the process of the bare handlers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use changelog_tests::Postgres;
use serde_json::Value;
use sqlx::Connection;
use sqlx_postgres::PgConnection;
use tempfile::TempDir;

use crate::http_connection::HttpConnection;
use crate::lists::Expected;
use crate::server::Process;
use crate::settings::{Engine, Settings};
use crate::{Failure, bare, disk, text, watchdog, work};

/// The owner of the large organization.
pub(crate) const OWNER: &str = "bench@example.com";
pub(crate) const PASSWORD: &str = "a pear and 4711 plums";

/// The measured processes; stopped and removed with their data when dropped.
pub(crate) struct Testbed {
    pub(crate) engine: Engine,
    pub(crate) service: Process,
    pub(crate) bare: Process,
    /// The number of changes to store.
    pub(crate) changes: u64,
    /// The time of a measurement.
    pub(crate) window: Duration,
    home: Installation,
    postgres: Option<Postgres>,
    // After the processes that use it.
    _folder: TempDir,
}

/// The program, its folder and its database.
struct Installation {
    folder: PathBuf,
    program: PathBuf,
    database: String,
}

impl Testbed {
    /// Starts the processes; `None` if the database is not installed.
    pub(crate) async fn new(
        engine: Engine,
        changes: u64,
        settings: &Settings,
        program: &Path,
    ) -> Result<Option<Self>, Failure> {
        let folder = folder()?;
        watchdog::folder(folder.path());
        let (database, postgres) = match engine {
            Engine::Sqlite => {
                let file = folder.path().join("changelog.db");
                (format!("sqlite://{}", file.display()), None)
            }
            Engine::Postgres => {
                let Some(postgres) = Postgres::start_durable(&target_folder()?).await else {
                    return Ok(None);
                };
                (postgres.default_database(), Some(postgres))
            }
        };
        let home = Installation {
            folder: folder.path().to_owned(),
            program: folder.path().join("changelog-server"),
            database,
        };
        // A copy, because a build may replace the program.
        fs::copy(program, &home.program)?;
        let service = home.command(&["serve", "--listen", "127.0.0.1:0"]);
        Ok(Some(Self {
            engine,
            service: Process::start(service, &home.folder.join("service.log")).await?,
            bare: Process::start(bare::command()?, &home.folder.join("bare.log")).await?,
            changes,
            window: settings.window,
            home,
            postgres,
            _folder: folder,
        }))
    }

    pub(crate) fn title(&self) -> String {
        let engine = match self.engine {
            Engine::Sqlite => "SQLite, one file, `synchronous=FULL`",
            Engine::Postgres => "PostgreSQL on the same machine, its default settings",
        };
        let (changes, seconds) = (text::grouped(self.changes), self.window.as_secs());
        format!("{engine}: {changes} changes, {seconds} s per measurement")
    }

    /// Returns a folder on the disk of the data.
    pub(crate) fn folder(&self) -> &Path {
        &self.home.folder
    }

    /// Creates an organization and returns its key.
    pub(crate) fn organization(&self, name: &str) -> Result<String, Failure> {
        self.organization_with(name, &[])
    }

    /// Creates an organization with [`OWNER`], who has [`PASSWORD`], and returns its key.
    pub(crate) fn organization_with_owner(&self, name: &str) -> Result<String, Failure> {
        let file = self.home.folder.join("password.txt");
        fs::write(&file, PASSWORD)?;
        let file = file.to_str().ok_or("the folder is not UTF-8")?;
        let owner = ["--owner-email", OWNER, "--owner-name", "Bench"];
        self.organization_with(
            name,
            &[&owner[..], &["--owner-password-file", file]].concat(),
        )
    }

    fn organization_with(&self, name: &str, owner: &[&str]) -> Result<String, Failure> {
        let create = ["org", "create", "--name", name, "--plan", "pro"];
        let made = self.home.admin(&[&create[..], owner].concat())?;
        let id = made["organization"]["id"].as_str().ok_or("no id")?;
        let key = self
            .home
            .admin(&["key", "create", "--org", id, "--name", "bench"])?;
        Ok(key["key"].as_str().ok_or("no key")?.to_owned())
    }

    /// Requires the expected count of a list, and a full page.
    pub(crate) async fn expect(&self, expected: &Expected) -> Result<(), Failure> {
        let Expected {
            name,
            key,
            query,
            count,
            ..
        } = expected;
        let and = if query.is_empty() { "" } else { "&" };
        let request = work::get(key, &format!("/api/changes?per_page=25{and}{query}"));
        let mut http = HttpConnection::connect(&self.service.address).await?;
        let answer = http.exchange(&request).await?;
        answer.is(200, &request)?;
        let list: Value = serde_json::from_slice(answer.body)?;
        let listed = list["data"].as_array().map_or(0, Vec::len);
        if list["count"] == *count && listed == usize::try_from(25.min(*count))? {
            return Ok(());
        }
        let said = &list["count"];
        Err(format!("{name}: expected {count}, the list counts {said} and shows {listed}").into())
    }

    /// Completes the background work of an import, so that it does not affect
    /// measurements.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        if let Some(postgres) = &self.postgres {
            // Otherwise it would run during a measurement.
            let mut connection = PgConnection::connect(&postgres.default_database()).await?;
            for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
                sqlx::query(statement).execute(&mut connection).await?;
            }
            connection.close().await?;
        }
        disk::settle();
        Ok(())
    }
}

impl Installation {
    /// Returns a command that does not inherit the settings of this machine.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.folder)
            .env("TZ", "UTC")
            .env("CHANGELOG_DATABASE_URL", &self.database)
            .current_dir(&self.folder);
        command
    }

    /// Runs an admin command and returns what it prints.
    fn admin(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let output = self.command(arguments).arg("--json").output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{arguments:?}: {said}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Creates a folder in the target folder, which is on a disk; the temporary folder may be
/// in memory.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    Ok(builder
        .prefix("changelog-bench-")
        .tempdir_in(target_folder()?)?)
}

fn target_folder() -> Result<PathBuf, Failure> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(&target)?;
    Ok(target)
}
