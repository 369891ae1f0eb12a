//! Clients of the Model Context Protocol that others wrote: the Python package `mcp` and the
//! inspector of npm list the tools and ask what changed.

use std::process::Command;

use changelog_tests::{TestApp, assert_contains, installed, on_one, programs};
use serde_json::{Value, json};

use super::openapi_tools::{SOURCES, succeed};

on_one!(
    the_python_package_asks_over_http_and_chlog,
    the_inspector_lists_tools_and_asks,
);

const TITLE: &str = "Deploy payments 2.3";

async fn record(app: &TestApp) {
    let key = app.key();
    key.service("payments").await;
    let change = json!({ "title": TITLE, "service_name": "payments", "status": "completed" });
    key.create("/api/changes", change).await;
}

async fn the_python_package_asks_over_http_and_chlog(app: TestApp) {
    let Some(python) = installed::api_tool("python/bin/python") else {
        return;
    };
    record(&app).await;
    let mut command = Command::new(python);
    command
        .arg(format!("{SOURCES}/agent.py"))
        .arg(programs::chlog());
    command.env("HOME", app.folder());
    let printed = succeed(&app, command);
    // By the handshake, without it, and by the choice of the client; then the same by chlog.
    let lines =
        ["2025-11-25", "2026-07-28", "2026-07-28"].map(|revision| format!("{revision} 7 {TITLE}"));
    let found: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains(TITLE))
        .collect();
    assert_eq!(found, [&lines[..], &lines[..]].concat(), "{printed}");
}

async fn the_inspector_lists_tools_and_asks(app: TestApp) {
    let Some(program) = installed::api_tool("node/node_modules/.bin/mcp-inspector") else {
        return;
    };
    record(&app).await;
    let inspect = |arguments: &[&str]| -> Value {
        let mut command = Command::new("node");
        command
            .arg(&program)
            .args(["--cli", &app.at("/mcp"), "--transport", "http"])
            .args([
                "--header",
                &format!("Authorization: Bearer {}", app.organization.key),
            ])
            .args(arguments)
            .env("HOME", app.folder());
        let printed = succeed(&app, command);
        let json = printed.find('{').map(|start| &printed[start..]);
        let mut values = serde_json::Deserializer::from_str(json.unwrap_or_default()).into_iter();
        let value = values.next().and_then(Result::ok);
        value.unwrap_or_else(|| panic!("no JSON: {printed}"))
    };
    // It exits with a failure if a schema is one that clients do not understand.
    let listed = inspect(&["--method", "tools/list", "--strict"]);
    assert_eq!(
        listed["tools"].as_array().map(Vec::len),
        Some(7),
        "{listed}"
    );
    let answer = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "what_changed",
        "--tool-arg",
        "service=payments",
    ]);
    let suspect = &answer["structuredContent"]["suspects"][0];
    assert_eq!(suspect["untrusted"]["title"], TITLE, "{answer}");
    assert_contains(&answer["content"][0]["text"].to_string(), TITLE);
}
