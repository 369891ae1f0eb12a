//! A temporary PostgreSQL instance, removed when the test process ends in any way.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::app::Organization;
use crate::{installed, template};

/// The database that tests copy.
const TEMPLATE: &str = "prepared";

/// A running instance.
pub struct Postgres {
    folder: TempDir,
    port: u16,
    databases: AtomicU32,
    /// The organization in the database that [`Self::prepared_database`] copies.
    template: OnceCell<Organization>,
    /// The watchdog stops the server and removes its files when this closes.
    watchdog_input: Option<ChildStdin>,
    watchdog: Child,
}

/// Waits for the end of its input: the kernel closes the pipe of a test process that ends
/// in any way.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
read -r _
kill -CONT $(ps -o pid= --ppid $server 2>/dev/null) $server 2>/dev/null
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$folder"
"#;

impl Postgres {
    /// Returns the instance that all tests of this process share; `None` if PostgreSQL is
    /// not installed.
    pub async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Option<Postgres>> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await.as_ref()
    }

    /// Starts an instance; `None` if PostgreSQL is not installed.
    pub async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    /// Starts an instance with additional settings.
    pub async fn start_with(settings: &[&str]) -> Option<Self> {
        // The last setting of a name applies.
        let mut all = vec![
            "max_connections=300",
            "shared_buffers=64MB",
            "fsync=off",
            "full_page_writes=off",
            // It would visit hundreds of databases in turn, and change plans in between.
            "autovacuum=off",
        ];
        all.extend(settings);
        Self::start_in(&std::env::temp_dir(), &all).await
    }

    /// Starts an instance with the default settings, whose commits are durable, in a
    /// subfolder of `parent`.
    pub async fn start_durable(parent: &Path) -> Option<Self> {
        Self::start_in(parent, &[]).await
    }

    /// Starts a replica of this instance, which waits for its promotion and takes no writes. From
    /// now on this instance confirms nothing that the replica has not stored.
    pub async fn replica(&self) -> Self {
        let programs = programs().expect("this instance runs").join("postgres");
        // The folder in PATH may have links to some of the programs.
        let program = programs.canonicalize().expect("it runs");
        let programs = program.parent().expect("a folder");
        let port = self.port.to_string();
        let folder = prepare(
            &std::env::temp_dir(),
            &programs.join("pg_basebackup"),
            &[
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "postgres",
                "-R",
                "-c",
                "fast",
                "--no-sync",
            ],
        );
        let replica = Self::run(folder, programs, &["max_connections=300"]).await;
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ] {
            self.execute(statement.to_owned()).await;
        }
        replica
    }

    /// Makes a replica a primary, which takes writes when this returns.
    pub async fn promote(&self) {
        self.execute("SELECT pg_promote(true, 30)".to_owned()).await;
    }

    /// Ends the instance at once, as when its machine loses power.
    pub fn kill(&self) {
        self.signal("KILL");
    }

    async fn start_in(parent: &Path, settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            installed::missing("postgres", "PostgreSQL");
            return None;
        };
        let folder = prepare(
            parent,
            &programs.join("initdb"),
            &[
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
        );
        Some(Self::run(folder, &programs, settings).await)
    }

    /// Runs a server on the data in a folder.
    async fn run(folder: TempDir, programs: &Path, settings: &[&str]) -> Self {
        let port = free_port();
        let mut server = as_user(&user_prefix(), &programs.join("postgres"));
        server.arg("-D").arg(folder.path().join("data"));
        server.arg("-p").arg(port.to_string());
        server.args(["-c", "listen_addresses=127.0.0.1"]);
        server.args(["-c", "unix_socket_directories="]);
        for setting in settings {
            server.args(["-c", setting]);
        }
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder.path())
            .arg(server.get_program())
            .args(server.get_args())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal must not end the watchdog first.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let postgres = Self {
            watchdog_input: watchdog.stdin.take(),
            watchdog,
            databases: AtomicU32::new(0),
            template: OnceCell::new(),
            port,
            folder,
        };
        assert!(
            postgres.is_ready().await,
            "PostgreSQL does not start: {}",
            postgres.log()
        );
        postgres
    }

    /// Returns the address of the database that every instance has.
    pub fn default_database(&self) -> String {
        self.url("postgres")
    }

    /// Creates an empty database and returns its address.
    pub async fn database(&self) -> String {
        let name = self.next_name();
        self.execute(format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }

    /// Creates a database with an organization by copying a prepared one, and returns its
    /// address.
    pub(crate) async fn prepared_database(&self) -> (String, Organization) {
        let prepare = || async {
            self.execute(format!("CREATE DATABASE {TEMPLATE}")).await;
            template::prepare(&self.url(TEMPLATE)).await
        };
        let organization = self.template.get_or_init(prepare).await.clone();
        let name = self.next_name();
        self.execute(format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
            .await;
        (self.url(&name), organization)
    }

    fn next_name(&self) -> String {
        format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed))
    }

    async fn execute(&self, statement: String) {
        let mut connection = self.connect().await.expect("a connection to PostgreSQL");
        let done = sqlx::query(AssertSqlSafe(statement.clone()))
            .execute(&mut connection)
            .await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        connection.close().await.expect("the connection closes");
    }

    /// Suspends all processes, like a machine that hangs.
    pub fn suspend(&self) {
        self.signal("STOP");
    }

    /// Resumes the processes.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let pid_file = self.folder.path().join("data/postmaster.pid");
        let content = fs::read_to_string(pid_file).expect("PostgreSQL runs");
        let server: u32 = content
            .lines()
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("a pid");
        // The main process first, so that it starts no more children.
        crate::signal(server, signal);
        for child in children(server) {
            crate::signal(child, signal);
        }
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(&self.url("postgres")).await
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Waits until it accepts connections; returns false after 30 s.
    async fn is_ready(&self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if self.connect().await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Returns the path of the log file.
    pub fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the path of the data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.watchdog_input.take());
        let _ = self.watchdog.wait();
    }
}

/// Makes a folder with the data of a server by a program that writes them.
fn prepare(parent: &Path, program: &Path, arguments: &[&str]) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("changelog-postgres-")
        .tempdir_in(parent)
        .expect("a temporary folder");
    let user = user_prefix();
    if !user.is_empty() {
        let status = Command::new("chown")
            .arg("postgres")
            .arg(folder.path())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "chown");
    }
    let output = as_user(&user, program)
        .args(arguments)
        .arg("-D")
        .arg(folder.path().join("data"))
        .current_dir(folder.path())
        .output()
        .expect("the program runs");
    assert!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    folder
}

/// Finds the folder with `initdb` and `postgres`: in PATH, or in the newest version that
/// Debian has installed.
fn programs() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(folders.into_iter().rev())
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

/// Returns the command prefix that runs a program as the user `postgres`; empty unless
/// this process runs as root, which PostgreSQL refuses.
fn user_prefix() -> Vec<&'static str> {
    if !is_root() {
        Vec::new()
    } else if installed::in_path("setpriv").is_some() {
        vec![
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
        ]
    } else {
        vec!["runuser", "-u", "postgres", "--"]
    }
}

/// Returns whether this process runs as root, which PostgreSQL and pgbouncer refuse.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

fn as_user(user: &[&str], program: &Path) -> Command {
    match user {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("a system with /proc");
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // pid (name) state parent …; a name may contain anything.
            stat.rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok())
                == Some(parent)
        })
        .collect()
}
