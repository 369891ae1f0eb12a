//! Three servers on one PostgreSQL database act as one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::durability::{assert_nothing_lost, assert_revocations_recorded};
use changelog_tests::client::try_send;
use changelog_tests::event_stream::EventStream;
use changelog_tests::{Server, TestApp, TestClient, on_postgres, text};

on_postgres!(process:
    nothing_is_lost_or_doubled_while_servers_are_killed,
    a_revoked_key_is_refused_by_all_servers,
    a_revocation_survives_its_server_while_the_log_is_locked,
    an_event_reaches_the_other_servers_at_once,
);

/// How many clients create changes at the same time.
const CLIENTS: usize = 12;
/// How often each server is killed.
const ROUNDS: usize = 2;
/// How many creates are acknowledged between two kills.
const CREATES_PER_KILL: usize = 100;

/// An event of another server arrives within this time, at the median.
const MAX_MEDIAN_DELAY: Duration = Duration::from_millis(300);

/// Three servers, the first of which is that of the app.
struct Cluster {
    app: TestApp,
    others: [Server; 2],
}

impl Cluster {
    /// Starts two more servers.
    async fn of(app: TestApp) -> Self {
        let others = [app.another_server(&[]).await, app.another_server(&[]).await];
        Self { app, others }
    }

    fn servers(&self) -> [&Server; 3] {
        [&self.app.server, &self.others[0], &self.others[1]]
    }

    /// Clients of each server with the same header.
    fn clients(&self, header: &'static str, value: &str) -> [TestClient; 3] {
        self.servers()
            .map(|server| TestClient::new(&server.address).with(header, value))
    }

    fn clients_with_key(&self) -> [TestClient; 3] {
        self.clients("x-api-key", &self.app.organization.key)
    }

    fn server_mut(&mut self, number: usize) -> &mut Server {
        match number {
            0 => &mut self.app.server,
            _ => &mut self.others[number - 1],
        }
    }
}

/// Clients that create changes, and send each again to the next server until one has
/// acknowledged it.
struct Load {
    /// A client of each server.
    servers: Arc<RwLock<[TestClient; 3]>>,
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let servers = Arc::new(RwLock::new(cluster.clients_with_key()));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number| {
            let (servers, acknowledged) = (Arc::clone(&servers), Arc::clone(&acknowledged));
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut titles = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let title = format!("client {number} change {}", titles.len());
                    create(&servers, &title, number + titles.len()).await;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                    titles.push(title);
                }
                titles
            })
        };
        Self {
            clients: (0..CLIENTS).map(client).collect(),
            servers,
            acknowledged,
            stop,
        }
    }

    /// Waits until so many more creates are acknowledged.
    async fn wait_for(&self, more: usize) {
        let count = self.acknowledged.load(Ordering::SeqCst) + more;
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.acknowledged.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "too few creates succeed");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Returns the titles of the acknowledged changes.
    async fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        let mut titles = Vec::new();
        for client in self.clients {
            titles.extend(client.await.expect("a client panicked"));
        }
        titles
    }
}

/// Creates a change, beginning with one of the servers.
async fn create(servers: &RwLock<[TestClient; 3]>, title: &str, first: usize) {
    for number in first.. {
        let server = servers.read().expect("no panic")[number % 3].clone();
        let request = server
            .request("POST", "/api/changes")
            .header("idempotency-key", title)
            .json(&json!({ "title": title }));
        match try_send(request).await {
            Ok(response) if response.status == 201 => return,
            // Busy, or the first attempt is still being written.
            Ok(response) => assert!([409, 503].contains(&response.status), "{}", response.text),
            // The server was killed.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn nothing_is_lost_or_doubled_while_servers_are_killed(app: TestApp) {
    let mut cluster = Cluster::of(app).await;
    let load = Load::start(&cluster);
    for number in (0..3).cycle().take(3 * ROUNDS) {
        load.wait_for(CREATES_PER_KILL).await;
        cluster.server_mut(number).kill9();
        load.wait_for(CREATES_PER_KILL / 2).await;
        let server = cluster.app.another_server(&[]).await;
        *cluster.server_mut(number) = server;
        *load.servers.write().expect("no panic") = cluster.clients_with_key();
    }
    let acknowledged = load.finish().await;
    assert!(acknowledged.len() >= 3 * ROUNDS * CREATES_PER_KILL);
    assert_nothing_lost(&cluster.app, &acknowledged).await;
}

async fn a_revoked_key_is_refused_by_all_servers(app: TestApp) {
    let cluster = Cluster::of(app).await;
    let owner = &cluster.app.organization;
    let cookie = cluster.app.cookie_of(owner).await;
    let browsers = cluster.clients("cookie", &cookie);
    for round in 0..6 {
        let key = cluster.app.create_key(&[]);
        let clients = cluster.clients("x-api-key", &text(&key["key"]));
        for client in &clients {
            client.get("/api/key").await.is(200);
        }
        let path = format!("/settings/api-keys/{}/revoke", text(&key["id"]));
        browsers[round % 3].submit(&path, &[]).await;
        for client in &clients {
            client.get("/api/key").await.problem(401, "unauthorized");
        }
    }
}

async fn a_revocation_survives_its_server_while_the_log_is_locked(app: TestApp) {
    let mut cluster = Cluster::of(app).await;
    let owner = &cluster.app.organization;
    let cookie = cluster.app.cookie_of(owner).await;
    let key = cluster.app.create_key(&[]);
    let other = cluster.clients("x-api-key", &text(&key["key"]))[1].clone();
    other.get("/api/key").await.is(200);

    let mut connection = cluster.app.postgres().await;
    let mut transaction = connection.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE activity")
        .execute(&mut *transaction)
        .await
        .expect("the lock");
    let path = format!("/settings/api-keys/{}/revoke", text(&key["id"]));
    let revoking = tokio::spawn({
        let browser = cluster.clients("cookie", &cookie)[0].clone();
        async move {
            try_send(changelog_tests::client::form(
                browser.request("POST", &path),
                &[],
            ))
            .await
        }
    });
    let started = Instant::now();
    while other.get("/api/key").await.status != 401 {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the key still works"
        );
    }
    assert!(
        !revoking.is_finished(),
        "the server still waits for the log"
    );
    cluster.server_mut(0).kill9();
    assert!(revoking.await.expect("no panic").is_err());
    transaction.rollback().await.expect("the lock is released");

    // Several servers find the entry when they start, and one moves it.
    let (first, second) = tokio::join!(
        cluster.app.another_server(&[]),
        cluster.app.another_server(&[])
    );
    let ids = [text(&key["id"])];
    for server in [first, second] {
        let browser = TestClient::new(&server.address).with("cookie", &cookie);
        assert_revocations_recorded(&browser, &ids).await;
    }
}

async fn an_event_reaches_the_other_servers_at_once(app: TestApp) {
    let cluster = Cluster::of(app).await;
    let clients = cluster.clients_with_key();
    let mut streams = Vec::new();
    for client in &clients[1..] {
        streams.push(EventStream::open(client.request("GET", "/api/changes/stream")).await);
    }
    let mut delays = Vec::new();
    for number in 0..20 {
        let title = format!("change {number}");
        clients[0].change(&title).await;
        let created = Instant::now();
        for stream in &mut streams {
            assert_eq!(stream.titles(1).await, [title.as_str()]);
            delays.push(created.elapsed());
        }
    }
    delays.sort();
    let median = delays[delays.len() / 2];
    eprintln!(
        "an event took {median:?} at the median, {:?} at most",
        delays[delays.len() - 1]
    );
    assert!(median < MAX_MEDIAN_DELAY, "{delays:?}");
}
