//! What goes wrong. Each fault ends before it returns.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use changelog_tests::postgres::Postgres;
use changelog_tests::{TestApp, signal};
use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::{Connection, Executor};
use sqlx_postgres::PgConnection;
use tokio::time::sleep;

use super::{FLAGS, is_well};

/// How long what is away stays away.
const AWAY: Duration = Duration::from_secs(2);
/// How soon health must tell that the database is away.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// How long the service may take to exit.
const EXIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// `kill -9`.
    Kill,
    /// SIGTERM: it answers what it has received, and exits.
    Terminate,
    /// `kill -9`, and again while it starts.
    KillStart,
    /// The process is suspended.
    Hang,
    /// The file is renamed, and renamed back.
    Rename,
    /// Another process writes for a long time.
    WriteLock,
    /// PostgreSQL ends all sessions.
    EndSessions,
    /// A process of PostgreSQL is killed, and so all sessions end and it recovers.
    CrashPostgres,
    /// PostgreSQL is suspended.
    HangPostgres,
    /// Others take all connections.
    TakeConnections,
    /// A table is locked.
    LockTable,
}

pub(super) const OF_SQLITE: [Fault; 6] = [
    Fault::Kill,
    Fault::Rename,
    Fault::WriteLock,
    Fault::Hang,
    Fault::KillStart,
    Fault::Terminate,
];

pub(super) const OF_POSTGRES: [Fault; 9] = [
    Fault::Kill,
    Fault::EndSessions,
    Fault::CrashPostgres,
    Fault::HangPostgres,
    Fault::TakeConnections,
    Fault::LockTable,
    Fault::Hang,
    Fault::KillStart,
    Fault::Terminate,
];

impl Fault {
    pub(super) async fn happen(
        self,
        app: &mut TestApp,
        postgres: Option<&Postgres>,
        random: &mut StdRng,
    ) {
        match self {
            Self::Kill => app.restart_with(&FLAGS).await,
            Self::Terminate => {
                app.server.terminate();
                let status = app.server.wait_for_exit(EXIT).await;
                let is_success = status.is_some_and(|status| status.success());
                assert!(is_success, "{status:?}: {}", app.server.log());
                app.restart_with(&FLAGS).await;
            }
            Self::KillStart => {
                app.server.kill9();
                for _ in 0..3 {
                    let mut starting = app.serve_command();
                    let starting = starting.stderr(Stdio::null()).spawn();
                    let mut starting = starting.expect("the server is built");
                    sleep(Duration::from_millis(random.random_range(1..150))).await;
                    starting.kill().expect("it is killed");
                    starting.wait().expect("it ends");
                }
                app.restart_with(&FLAGS).await;
            }
            Self::Hang => {
                signal(app.server.pid(), "STOP");
                sleep(AWAY).await;
                signal(app.server.pid(), "CONT");
            }
            Self::Rename => rename(app).await,
            Self::WriteLock => {
                let mut other = app.sqlite().await;
                let begin = "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE";
                other.execute(begin).await.expect("it begins");
                sleep(AWAY).await;
                other.execute("ROLLBACK").await.expect("it ends");
            }
            Self::EndSessions => {
                let mut other = app.postgres().await;
                for _ in 0..5 {
                    other.execute(END_SESSIONS).await.expect("they end");
                    sleep(Duration::from_millis(random.random_range(1..100))).await;
                }
            }
            Self::CrashPostgres => {
                let mut other = app.postgres().await;
                let session: (i32,) = sqlx::query_as(A_SESSION)
                    .fetch_one(&mut other)
                    .await
                    .expect("the service is connected");
                signal(session.0, "KILL");
            }
            Self::HangPostgres => {
                let postgres = postgres.expect("an instance of its own");
                postgres.suspend();
                tell(app).await;
                postgres.resume();
            }
            Self::TakeConnections => take_connections(app).await,
            Self::LockTable => {
                let mut other = app.postgres().await;
                let lock = "BEGIN; LOCK TABLE changes IN ACCESS EXCLUSIVE MODE";
                other.execute(lock).await.expect("it is locked");
                sleep(AWAY).await;
                other.execute("ROLLBACK").await.expect("it ends");
            }
        }
    }
}

const END_SESSIONS: &str = "
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'changelog-server'";

/// One that writes, if there is one.
const A_SESSION: &str = "
SELECT pid FROM pg_stat_activity WHERE application_name = 'changelog-server'
ORDER BY state = 'active' DESC, query ILIKE '%INSERT%' DESC LIMIT 1";

/// Requires that the service tells that its database is away.
async fn tell(app: &TestApp) {
    let started = Instant::now();
    while is_well(app).await {
        assert!(started.elapsed() < TOLD_WITHIN, "health does not tell");
        sleep(Duration::from_millis(50)).await;
    }
    sleep(AWAY.saturating_sub(started.elapsed())).await;
}

async fn rename(app: &TestApp) {
    let names = ["", "-wal", "-shm"].map(|end| {
        let here = format!("{}{end}", app.file().display());
        let away = format!("{}.away{end}", app.file().display());
        (here, away)
    });
    for (here, away) in &names {
        fs::rename(here, away).expect("it is renamed");
    }
    tell(app).await;
    for (here, away) in &names {
        fs::rename(away, here).expect("it is renamed back");
    }
}

async fn take_connections(app: &TestApp) {
    let mut taken: Vec<PgConnection> = Vec::new();
    let until = Instant::now() + AWAY;
    while Instant::now() < until {
        match PgConnection::connect(&app.database).await {
            Ok(connection) => taken.push(connection),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    // The service has had to open new ones meanwhile.
    if let Some(one) = taken.first_mut() {
        one.execute(END_SESSIONS).await.expect("they end");
    }
    sleep(AWAY).await;
}
