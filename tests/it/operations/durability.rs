//! Acknowledged writes survive a kill, SIGTERM and SIGINT.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use changelog_tests::client::try_send;
use changelog_tests::{RawConnection, TestApp, TestClient, assert_lacks, each, on_both, text};

on_both!(
    process:
    acknowledged_writes_survive_a_kill,
    sigterm_loses_no_acknowledged_write,
    sigint_shuts_down_too,
    a_write_without_its_activity_entry_fails,
    a_revocation_does_not_need_the_activity_log,
);

/// Tasks that create changes until the service stops.
pub(super) struct Load {
    tasks: Vec<JoinHandle<Vec<String>>>,
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn start(key: &TestClient, name: &str) -> Self {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..12)
            .map(|task| {
                let (key, acknowledged, stop) = (key.clone(), acknowledged.clone(), stop.clone());
                let name = name.to_owned();
                tokio::spawn(async move {
                    let mut titles = Vec::new();
                    for number in 0.. {
                        let title = format!("{name} hand {task} number {number}");
                        let request = key.request("POST", "/api/changes");
                        match try_send(request.json(&json!({ "title": title }))).await {
                            Ok(answer) if answer.status == 201 => {
                                acknowledged.fetch_add(1, Ordering::SeqCst);
                                titles.push(title);
                            }
                            // During the shutdown it may respond with 503.
                            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
                            Err(_) => break,
                        }
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                    titles
                })
            })
            .collect();
        Self {
            tasks,
            acknowledged,
            stop,
        }
    }

    /// Waits until this many creates were acknowledged.
    pub(super) async fn wait_for(&self, count: usize) {
        while self.acknowledged.load(Ordering::SeqCst) < count {
            assert!(
                self.tasks.iter().any(|task| !task.is_finished()),
                "the service stopped"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Stops the tasks, and returns the titles of acknowledged changes.
    pub(super) async fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        let mut titles = Vec::new();
        for task in self.tasks {
            titles.extend(task.await.expect("the task does not panic"));
        }
        titles
    }
}

/// Returns all elements of a list, page by page.
async fn all(caller: &TestClient, path: &str, list: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for page in 0.. {
        let place = match list {
            "items" => format!("limit=100&offset={}", page * 100),
            _ => format!("per_page=100&page={}", page + 1),
        };
        let mut body = caller.body(&format!("{path}{place}")).await;
        let Value::Array(page) = body[list].take() else {
            panic!("no list: {body}");
        };
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    all
}

/// Requires that every acknowledged change exists, that no title exists twice, and that
/// each change has one activity entry; entries and counts match the changes.
pub(super) async fn assert_nothing_lost(app: &TestApp, acknowledged: &[String]) {
    let key = app.key();
    let changes = all(&key, "/api/changes?", "data").await;
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for change in &changes {
        *found
            .entry(change["title"].as_str().expect("a string"))
            .or_default() += 1;
    }
    for title in acknowledged {
        assert!(found.contains_key(title.as_str()), "{title} was lost");
    }
    found.retain(|_, times| *times > 1);
    assert!(found.is_empty(), "recorded more than once: {found:?}");
    let browser = app.browser().await;
    let entries = all(&browser, "/api/activity?resource=change&", "items").await;
    let ids = |list: &[Value], member: &str| {
        let list = Value::Array(list.to_vec());
        let mut ids: Vec<String> = each(&list, member).into_iter().map(text).collect();
        ids.sort();
        ids
    };
    assert_eq!(
        ids(&entries, "resource_id"),
        ids(&changes, "id"),
        "not one entry per change"
    );
    // The stored counts match the changes.
    let count = changes.len();
    for query in ["", "?risk_level=low", "?status=planned"] {
        let body = key.body(&format!("/api/changes{query}")).await;
        assert_eq!(body["count"], count, "{query}");
    }
}

async fn acknowledged_writes_survive_a_kill(mut app: TestApp) {
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let load = Load::start(&app.key(), &format!("round {round}"));
        load.wait_for(30 + round * 17).await;
        app.server.kill9();
        acknowledged.extend(load.finish().await);
        app.restart().await;
        app.anonymous().body("/api/health").await;
        assert_nothing_lost(&app, &acknowledged).await;
    }
    assert!(acknowledged.len() > 150);
}

async fn sigterm_loses_no_acknowledged_write(mut app: TestApp) {
    let key = app.key();
    // One incomplete request and one idle connection are open.
    let mut half = RawConnection::connect(&app.server.address).await;
    let head = format!(
        "POST /api/changes HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"title\":",
        app.organization.key
    );
    half.send(head).await;
    let _idle = RawConnection::connect(&app.server.address).await;
    let load = Load::start(&key, "drained");
    load.wait_for(100).await;
    app.server.terminate();
    let status = app.server.wait_for_exit(Duration::from_secs(15)).await;
    let status = status.unwrap_or_else(|| panic!("it still runs: {}", app.server.log()));
    assert!(status.success(), "{status}: {}", app.server.log());
    let refused = tokio::net::TcpStream::connect(&app.server.address).await;
    assert!(refused.is_err(), "the port is still open");
    let acknowledged = load.finish().await;
    app.restart().await;
    assert_nothing_lost(&app, &acknowledged).await;
}

async fn sigint_shuts_down_too(mut app: TestApp) {
    app.key().change("before").await;
    changelog_tests::signal(app.server.pid(), "INT");
    let status = app.server.wait_for_exit(Duration::from_secs(15)).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    app.restart().await;
    assert_nothing_lost(&app, &["before".to_owned()]).await;
}

/// Renames the table of the activity log under the running service, and back.
const HIDE_ACTIVITY: &str = "ALTER TABLE activity RENAME TO hidden";
const SHOW_ACTIVITY: &str = "ALTER TABLE hidden RENAME TO activity";

async fn a_write_without_its_activity_entry_fails(app: TestApp) {
    let key = app.key();
    let id = key.change("before").await;
    let path = format!("/api/changes/{id}");
    let before = key.read(&path).await;
    app.execute(HIDE_ACTIVITY).await;
    for (path, body) in [
        ("/api/changes", json!({ "title": "not made" })),
        ("/api/hosts", json!({ "hostname": "not-made" })),
        ("/api/services", json!({ "name": "not made" })),
    ] {
        let answer = key.post(path, body).await;
        assert!(answer.status >= 500, "{path}: {}", answer.text);
        let problem = answer.json().to_string();
        assert_lacks(&problem, "activity");
        assert_lacks(&problem, "SQL");
    }
    let answer = key.patch(&path, json!({ "status": "completed" })).await;
    assert!(answer.status >= 500, "{}", answer.text);
    app.execute(SHOW_ACTIVITY).await;
    assert_eq!(key.read(&path).await, before);
    for list in ["/api/hosts", "/api/services"] {
        assert_eq!(key.read(list).await, json!([]), "{list}");
    }
    key.change("after").await;
    assert_nothing_lost(&app, &["before".to_owned(), "after".to_owned()]).await;
}

async fn a_revocation_does_not_need_the_activity_log(mut app: TestApp) {
    let (first, second) = (app.create_key(&[]), app.create_key(&[]));
    app.execute(HIDE_ACTIVITY).await;
    app.admin(&["key", "revoke", &text(&first["id"])]);
    // Signing in has an entry, too.
    let cookie = app.cookie_of(&app.organization).await;
    let browser = app.anonymous().with("cookie", &cookie);
    let path = format!("/settings/api-keys/{}/revoke", text(&second["id"]));
    browser.submit(&path, &[]).await;
    for key in [&first, &second] {
        let refused = app.with_key(&text(&key["key"])).get("/api/key").await;
        refused.problem(401, "unauthorized");
    }
    app.execute(SHOW_ACTIVITY).await;
    // Each start moves what is pending.
    for _ in 0..2 {
        app.restart().await;
        let browser = app.anonymous().with("cookie", &cookie);
        let ids = [&first, &second].map(|key| text(&key["id"]));
        assert_revocations_recorded(&browser, &ids).await;
    }
}

/// Waits until the activity log has an entry about the revocation of each key, and
/// requires that there is one of each.
pub(super) async fn assert_revocations_recorded(browser: &TestClient, keys: &[String]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = all(browser, "/api/activity?resource=api_key&", "items").await;
        let mut revoked: Vec<String> = entries
            .iter()
            .filter(|entry| entry["action"] == "revoked")
            .map(|entry| text(&entry["resource_id"]))
            .collect();
        revoked.sort();
        let is_complete = keys.iter().all(|key| revoked.contains(key));
        if is_complete {
            let mut expected = keys.to_vec();
            expected.sort();
            assert_eq!(revoked, expected);
            return;
        }
        assert!(Instant::now() < deadline, "{revoked:?} of {keys:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
