//! A database, the service on it, and the bare handlers beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use changelog_tests::Postgres;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::lists::Expected;
use crate::server::Process;
use crate::settings::{Engine, Settings};
use crate::wire::Wire;
use crate::{Failure, bare, disk, text, watchdog, work};

/// What is measured; gone when dropped, with everything that it stored.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) service: Process,
    pub(crate) bare: Process,
    /// How many changes are to be stored.
    pub(crate) changes: u64,
    /// How long a measure takes.
    pub(crate) window: Duration,
    home: Home,
    postgres: Option<Postgres>,
    // After the processes that use it.
    _folder: TempDir,
}

/// Where the program finds its things.
struct Home {
    folder: PathBuf,
    program: PathBuf,
    database: String,
}

impl World {
    /// Starts everything; none where the database's program is not installed.
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
        let home = Home {
            folder: folder.path().to_owned(),
            program: folder.path().join("changelog-server"),
            database,
        };
        // A copy: a build meanwhile must not change what is measured.
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
        format!("{engine}: {changes} changes, {seconds} s a measure")
    }

    /// The folder on the disk that the data is on.
    pub(crate) fn folder(&self) -> &Path {
        &self.home.folder
    }

    /// Makes an organization and returns its key.
    pub(crate) fn organization(&self, name: &str) -> Result<String, Failure> {
        let made = self
            .home
            .admin(&["org", "create", "--name", name, "--plan", "pro"])?;
        let id = made["organization"]["id"].as_str().ok_or("no id")?;
        let key = self
            .home
            .admin(&["key", "create", "--org", id, "--name", "bench"])?;
        Ok(key["key"].as_str().ok_or("no key")?.to_owned())
    }

    /// Requires a list to count what was stored, and to be a page of that.
    pub(crate) async fn expect(&self, expected: &Expected) -> Result<(), Failure> {
        let Expected {
            name,
            key,
            query,
            count,
        } = expected;
        let and = if query.is_empty() { "" } else { "&" };
        let request = work::get(key, &format!("/api/changes?per_page=25{and}{query}"));
        let mut wire = Wire::connect(&self.service.address).await?;
        let answer = wire.exchange(&request).await?;
        answer.is(200, &request)?;
        let list: Value = serde_json::from_slice(answer.body)?;
        let listed = list["data"].as_array().map_or(0, Vec::len);
        if list["count"] == *count && listed == usize::try_from(25.min(*count))? {
            return Ok(());
        }
        let said = &list["count"];
        Err(format!("{name}: expected {count}, the list counts {said} and shows {listed}").into())
    }

    /// Ends what an import left behind, so that no measure pays for it.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        if let Some(postgres) = &self.postgres {
            // It would do so by itself a minute later, in the middle of a measure.
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

impl Home {
    /// Begins a command that knows nothing of this machine's own settings.
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

    /// Runs an admin command to its end and returns what it prints.
    fn admin(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let output = self.command(arguments).arg("--json").output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{arguments:?}: {said}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Makes a folder below the target folder: on a disk, where the system's
/// temporary folder may be memory.
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
