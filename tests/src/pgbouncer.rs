//! A pgbouncer in front of the PostgreSQL of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{installed, postgres, watchdog};

/// Where Debian installs it, which is not in the PATH of every user.
const DEBIAN_PATH: &str = "/usr/sbin/pgbouncer";

/// For how long a client has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as it is connected.
    Session,
    /// For a transaction.
    Transaction,
}

/// A running pgbouncer with its default settings.
pub struct PgBouncer {
    /// The address of the database through pgbouncer.
    pub database: String,
    /// Whether it knows which client prepared a statement, which it does since 1.21.
    pub tracks_statements: bool,
    process: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pgbouncer that has this many sessions of a database; `None` if it is not
    /// installed.
    pub async fn start(database: &str, mode: PoolMode, sessions: usize) -> Option<Self> {
        let Some(program) = find_program() else {
            installed::missing("pgbouncer", "PgBouncer");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("changelog-pgbouncer-")
            .tempdir()
            .expect("a temporary folder");
        watchdog::folder(folder.path());
        let tracks_statements = version(&program) >= (1, 21);
        let mut database: url::Url = database.parse().expect("a URL");
        let server_port = database.port().expect("a port");
        let port = postgres::free_port();
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        // An older one does not know the setting.
        let prepared = if tracks_statements {
            "max_prepared_statements = 200"
        } else {
            ""
        };
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={server_port} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = {mode}\n\
             default_pool_size = {sessions}\n\
             max_client_conn = 500\n\
             {prepared}\n"
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("a writable folder");
        let log = fs::File::create(folder.path().join("log")).expect("a writable folder");
        let mut command = Command::new(program);
        if postgres::is_root() {
            // It refuses to run as root.
            command.args(["-u", "postgres"]);
        }
        let process = command
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("pgbouncer runs");
        watchdog::server(process.id());
        database.set_port(Some(port)).expect("a host");
        let pgbouncer = Self {
            database: database.into(),
            tracks_statements,
            process,
            _folder: folder,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "pgbouncer does not start"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Some(pgbouncer)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn find_program() -> Option<PathBuf> {
    let debian = PathBuf::from(DEBIAN_PATH);
    installed::in_path("pgbouncer").or_else(|| debian.is_file().then_some(debian))
}

/// Returns the first two numbers of the version.
fn version(program: &Path) -> (u32, u32) {
    let output = Command::new(program).arg("-V").output();
    let stdout = output.expect("pgbouncer runs").stdout;
    let text = String::from_utf8_lossy(&stdout);
    let mut numbers = text
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    numbers.next().zip(numbers.next()).expect("a version")
}
