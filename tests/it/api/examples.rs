//! Each example of `/api/docs` runs as the page shows it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use changelog_client::Error;
use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::sdk;
use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, on_one, programs, run, signal, text};

#[path = "../../../examples/api/operations.rs"]
#[expect(clippy::print_stdout, reason = "examples print what they read")]
mod operations;

const SOURCE: &str = include_str!("../../../examples/api/operations.rs");

on_one!(
    every_operation_has_examples,
    examples_with_curl_and_chlog_run,
    examples_in_rust_run,
);

/// The examples of an operation on the page; `None` where it says that there is none.
struct Shown {
    curl: String,
    chlog: Option<String>,
    rust: Option<String>,
}

/// Returns what the page shows of an operation.
fn shown(page: &str, operation: &str) -> Shown {
    let start = format!("<article class=\"operation\" id=\"{operation}\">");
    let (_, article) = page.split_once(&start).expect("the operation");
    let (article, _) = article.split_once("</article>").expect("its end");
    let of = |tool: &str| {
        let (_, rest) = article.split_once(&format!("class=\"{tool}\">"))?;
        let (text, _) = rest.split_once("</pre>")?;
        Some(unescaped(text))
    };
    for tool in ["chlog", "rust"] {
        assert!(
            of(tool).is_some() || article.contains(&format!("<p class=\"{tool} quiet\">None: ")),
            "{operation}: neither an example with {tool} nor a reason"
        );
    }
    let curl = of("curl");
    Shown {
        curl: curl.unwrap_or_else(|| panic!("{operation}: no example with curl")),
        chlog: of("chlog"),
        rust: of("rust"),
    }
}

fn unescaped(html: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(html.to_owned(), |text, (entity, character)| {
            text.replace(entity, character)
        })
}

/// Returns the method, the path and the id of every operation.
fn documented(document: &Document) -> Vec<(String, String, String)> {
    let paths = document.0["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().expect("operations").iter();
        operations.map(move |(method, operation)| {
            let id = text(&operation["operationId"]);
            (method.to_uppercase(), path.clone(), id)
        })
    });
    operations.collect()
}

async fn page(app: &TestApp) -> String {
    app.anonymous().page("/api/docs").await
}

async fn every_operation_has_examples(app: TestApp) {
    let page = page(&app).await;
    let operations = documented(&Document::of(&app).await);
    assert!(operations.len() >= 23, "{operations:?}");
    for (method, path, id) in &operations {
        let shown = shown(&page, id);
        // The example is one of this operation.
        let path = path.replace("{id}", "$ID").replace("{kind}", "generic");
        let address = format!("\"$CHLOG_URL{}", path.replace("{token}", "$TOKEN"));
        let (_, after) = shown.curl.split_once(&address).expect("its address");
        assert!(after.starts_with(['"', '?']), "{id}: {}", shown.curl);
        let sent = match method.as_str() {
            "GET" => !shown.curl.contains(" -d ") && !shown.curl.contains(" -X "),
            "POST" => shown.curl.contains(" -d ") && !shown.curl.contains(" -X "),
            method => shown.curl.contains(&format!(" -X {method} ")),
        };
        assert!(sent, "{id}: {}", shown.curl);
        // The code is that of the function, which the other test calls.
        let Some(code) = shown.rust else { continue };
        let function = format!("async fn {id}(");
        let (_, function) = SOURCE.split_once(&function).expect("its function");
        let (body, _) = function.split_once("\n}").expect("its end");
        for line in code.lines().filter(|line| !line.is_empty()) {
            assert!(body.contains(&format!("\n    {line}\n")), "{id}: {line}");
        }
    }
    for section in SOURCE.split("\n\n// # ").skip(1) {
        let heading = section.lines().next();
        let is_known = operations
            .iter()
            .any(|(_, _, id)| Some(id.as_str()) == heading);
        assert!(is_known, "{heading:?} is not an operation");
    }
}

/// What the examples need to exist.
struct Records {
    change: String,
    host: String,
    service: String,
    incident: String,
}

impl Records {
    async fn of(app: &TestApp) -> Self {
        let key = app.key();
        let service = key.service("payments").await;
        let host = key.host("web-1").await;
        let change = json!({
            "title": "Deploy payments 2.3.0", "service_id": service, "status": "in_progress",
            "risk_level": "high", "tags": ["deploy"],
        });
        let change = key.create("/api/changes", change).await;
        let planned = json!({ "title": "Move DNS", "scheduled_for": "2030-01-01T00:00:00Z" });
        key.create("/api/changes", planned).await;
        let incident = json!({ "title": "Cards are declined" });
        let incident = key.create("/api/incidents", incident).await;
        Self {
            change,
            host,
            service,
            incident,
        }
    }

    /// Returns the id for the path of an operation.
    fn id(&self, path: &str) -> &str {
        match path.split('/').nth(2) {
            Some("hosts") => &self.host,
            Some("services") => &self.service,
            Some("incidents") => &self.incident,
            _ => &self.change,
        }
    }
}

/// Returns a shell that runs an example.
fn shell(app: &TestApp, example: &str) -> Command {
    // With a deadline, also for what does not end.
    let mut shell = Command::new("timeout");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs::folder().display());
    shell
        .args(["60", "sh", "-ec", example])
        .env_clear()
        .env("PATH", path)
        .env("HOME", app.folder())
        .env("TZ", "UTC")
        .env("CURL_HOME", app.folder())
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", &app.organization.key)
        .current_dir(app.folder());
    shell
}

async fn examples_with_curl_and_chlog_run(app: TestApp) {
    let page = page(&app).await;
    let records = Records::of(&app).await;
    // An answer with an error status is a failure of curl.
    std::fs::write(app.folder().join(".curlrc"), "fail-with-body\n").expect("a file");
    let anonymous = app.anonymous();
    let cookie = changelog_tests::sign_in(
        &anonymous,
        &app.organization.email,
        &app.organization.password,
    );
    let cookie = cookie.await;
    let source = app.source("generic", "Deployments", None);
    let (_, token) = source.path.rsplit_once('/').expect("a token");
    for (_, path, id) in documented(&Document::of(&app).await) {
        let shown = shown(&page, &id);
        for example in [Some(&shown.curl), shown.chlog.as_ref()]
            .into_iter()
            .flatten()
        {
            let mut shell = shell(&app, example);
            shell
                .env("ID", records.id(&path))
                .env("SERVICE_ID", &records.service)
                .env("TOKEN", token)
                .env("COOKIE", &cookie);
            if id == "watch_changes" {
                watch(&app, shell, example).await;
                continue;
            }
            let output = run(shell, "");
            let stdout = String::from_utf8_lossy(&output.stdout);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{id}: {example}\n{stdout}\n{stderr}"
            );
            if example == &shown.curl {
                let body: Value = serde_json::from_str(&stdout).expect("JSON");
                assert!(body["code"].is_null(), "{id}: {body}");
            }
        }
    }
    // Each of both examples has recorded its change.
    for title in ["Deploy+payments+2.3.1", "Rotate+the+certificates"] {
        let list = app.key().get(&format!("/api/changes?q={title}")).await;
        assert_eq!(list.body(200)["count"], 2, "{title}");
    }
}

async fn examples_in_rust_run(app: TestApp) {
    let page = page(&app).await;
    let records = Records::of(&app).await;
    let client = &sdk::client(&app);
    let change = records.change.parse().expect("an id");
    let host = records.host.parse().expect("an id");
    let service = records.service.parse().expect("an id");
    let incident = records.incident.parse().expect("an id");
    let watch = async {
        let watch = async { operations::watch_changes(client).await.expect("a change") };
        while_recording(&app, watch).await;
        Ok(())
    };
    let examples: Vec<(&str, LocalBoxFuture<'_, Result<(), Error>>)> = vec![
        ("list_changes", Box::pin(operations::list_changes(client))),
        ("create_change", Box::pin(operations::create_change(client))),
        (
            "create_changes",
            Box::pin(operations::create_changes(client)),
        ),
        ("watch_changes", Box::pin(watch)),
        (
            "upcoming_changes",
            Box::pin(operations::upcoming_changes(client)),
        ),
        (
            "changes_around",
            Box::pin(operations::changes_around(client)),
        ),
        (
            "get_change",
            Box::pin(operations::get_change(client, change)),
        ),
        (
            "update_change",
            Box::pin(operations::update_change(client, change)),
        ),
        (
            "change_history",
            Box::pin(operations::change_history(client, change)),
        ),
        ("list_hosts", Box::pin(operations::list_hosts(client))),
        ("create_host", Box::pin(operations::create_host(client))),
        ("get_host", Box::pin(operations::get_host(client, host))),
        (
            "update_host",
            Box::pin(operations::update_host(client, host)),
        ),
        ("list_services", Box::pin(operations::list_services(client))),
        (
            "create_service",
            Box::pin(operations::create_service(client)),
        ),
        (
            "get_service",
            Box::pin(operations::get_service(client, service)),
        ),
        (
            "update_service",
            Box::pin(operations::update_service(client, service)),
        ),
        (
            "list_incidents",
            Box::pin(operations::list_incidents(client)),
        ),
        (
            "create_incident",
            Box::pin(operations::create_incident(client)),
        ),
        (
            "get_incident",
            Box::pin(operations::get_incident(client, incident)),
        ),
        (
            "update_incident",
            Box::pin(operations::update_incident(client, incident)),
        ),
        (
            "mark_cause",
            Box::pin(operations::mark_cause(client, incident, change)),
        ),
        ("get_key", Box::pin(operations::get_key(client))),
        ("get_health", Box::pin(operations::get_health(client))),
    ];
    let mut ran = Vec::new();
    for (id, example) in examples {
        example
            .await
            .unwrap_or_else(|error| panic!("{id}: {error}"));
        ran.push(id);
    }
    for (_, _, id) in documented(&Document::of(&app).await) {
        let has_example = shown(&page, &id).rust.is_some();
        assert_eq!(has_example, ran.contains(&id.as_str()), "{id}");
    }
}

/// Runs an example that does not end until it prints a change that is recorded meanwhile.
async fn watch(app: &TestApp, mut shell: Command, example: &str) {
    let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = shell.spawn().expect("a shell");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let seen = tokio::task::spawn_blocking(move || {
        lines.any(|line| line.is_ok_and(|line| line.contains("Seen meanwhile")))
    });
    let seen = async { assert!(seen.await.expect("its output"), "{example} ended") };
    while_recording(app, seen).await;
    signal(child.id(), "TERM");
    child.wait().expect("an exit");
}

/// Waits for something that happens after a change is recorded.
async fn while_recording(app: &TestApp, seen: impl Future<Output = ()>) {
    let record = async {
        // The first one may precede the beginning of the stream.
        for _ in 0..100 {
            let change = json!({ "title": "Seen meanwhile", "risk_level": "high" });
            app.key().create("/api/changes", change).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = seen => {}
        () = record => panic!("nothing was seen"),
    }
}
