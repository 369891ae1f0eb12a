//! A throw-away PostgreSQL that keeps its promises: fsync stays on, and
//! everything else is as it is installed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use crate::{Failure, world};

/// How long it may take to answer for the first time.
const START: Duration = Duration::from_secs(30);

/// Waits for its input to end, whatever ends it: the kernel closes the pipe of
/// a process that is gone.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
folder=$1
shift
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$folder"
"#;

/// A running instance; gone when dropped.
pub(crate) struct Postgres {
    port: u16,
    /// The watchdog stops the server and removes its files when this closes.
    watched: Option<ChildStdin>,
    watchdog: Child,
    folder: TempDir,
}

impl Postgres {
    /// Starts an instance; none where the program is not installed.
    pub(crate) async fn start() -> Result<Option<Self>, Failure> {
        let Some(programs) = programs() else {
            return Ok(None);
        };
        let folder = world::folder()?;
        let data = folder.path().join("data");
        let user = unprivileged()?;
        if !user.is_empty() {
            let mut chown = Command::new("chown");
            run(chown.arg("postgres").arg(folder.path()))?;
        }
        let mut initdb = as_user(&user, &programs.join("initdb"));
        initdb
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8"])
            .args(["--locale=C.UTF-8", "-D"])
            .arg(&data)
            .current_dir(folder.path());
        run(&mut initdb)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = as_user(&user, &programs.join("postgres"));
        server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        server.args(["-c", "listen_addresses=127.0.0.1"]);
        server.args(["-c", "unix_socket_directories="]);
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder.path())
            .arg(server.get_program())
            .args(server.get_args())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own group: Ctrl-C in a terminal must not end it first.
            .process_group(0)
            .spawn()?;
        let postgres = Self {
            port,
            watched: watchdog.stdin.take(),
            watchdog,
            folder,
        };
        postgres.answers().await?;
        Ok(Some(postgres))
    }

    /// The address of its database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Cleans up, learns what is in the tables, and writes out what is pending.
    pub(crate) async fn vacuum(&self) -> Result<(), Failure> {
        let mut connection = PgConnection::connect(&self.url()).await?;
        for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
            sqlx::query(statement).execute(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    /// Waits until it answers.
    async fn answers(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + START;
        loop {
            let Err(error) = PgConnection::connect(&self.url()).await else {
                return Ok(());
            };
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL does not start, {error}: {log}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.watched.take());
        let _ = self.watchdog.wait();
    }
}

/// Finds the folder with `initdb` and `postgres`: in the search path, or where
/// Debian puts it, the newest first.
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

/// PostgreSQL refuses to run as root; returns the words that run it as its own
/// user then, and none otherwise.
fn unprivileged() -> Result<Vec<&'static str>, Failure> {
    let id = Command::new("id").arg("-u").output()?;
    if id.stdout.trim_ascii() != b"0" {
        return Ok(Vec::new());
    }
    let setpriv = Command::new("setpriv").arg("--version").output();
    Ok(if setpriv.is_ok() {
        vec![
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
        ]
    } else {
        vec!["runuser", "-u", "postgres", "--"]
    })
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

/// Runs a command, which must succeed.
fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().display();
    Err(format!("{program}: {said}").into())
}
