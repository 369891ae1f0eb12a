//! `chlog mcp`: the tools over standard input and output.

use serde_json::{Value, json};

use changelog_tests::{TestApp, assert_contains, on_one};

use super::chlog;

on_one!(
    an_agent_asks_over_standard_input,
    failures_are_answers,
    configurations_are_printed,
);

/// Runs the command with messages and returns its answers.
fn talk(command: &mut assert_cmd::Command, messages: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = messages.iter().map(ToString::to_string).collect();
    let output = command
        .arg("mcp")
        .write_stdin(lines.join("\n") + "\n")
        .output();
    let output = output.expect("chlog runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    answers.collect()
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

async fn an_agent_asks_over_standard_input(app: TestApp) {
    app.key().completed_change("Deploy payments 2.3").await;
    let handshake = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "editor", "version": "1" },
    });
    let stateless = json!({
        "name": "what_changed",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "editor", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let call = json!({ "name": "what_changed", "arguments": { "at": "now" } });
    let log = json!({ "name": "log_change", "arguments": { "title": "Raise the limit" } });
    let messages = [
        request(1, "initialize", &handshake),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        request(2, "tools/list", &json!({})),
        request(3, "tools/call", &call),
        request(4, "tools/call", &stateless),
        request(5, "nonsense", &json!({})),
        request(6, "tools/call", &log),
    ];
    let answers = tokio::task::spawn_blocking(move || (talk(&mut app.chlog(), &messages), app));
    let (answers, _app) = answers.await.expect("answers");
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
    let tools = answers[1]["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 7);
    for answer in &answers[2..4] {
        let suspect = &answer["result"]["structuredContent"]["suspects"][0];
        assert_eq!(suspect["untrusted"]["title"], "Deploy payments 2.3");
    }
    assert_eq!(answers[4]["error"]["code"], -32601);
    // The service has no sessions: the client of the handshake is named by the command.
    let logged = &answers[5]["result"]["structuredContent"]["changes"][0];
    assert_eq!(logged["untrusted"]["claimed"]["agent"], "editor");
}

async fn failures_are_answers(app: TestApp) {
    let messages = [request(7, "tools/list", &json!({}))];
    let key = changelog_core::api_key::assemble("0123456789abcdefghijABCDEFGHIJ01");
    let task = tokio::task::spawn_blocking(move || {
        let mut command = app.chlog();
        (talk(command.env("CHLOG_API_KEY", key), &messages), app)
    });
    let (answers, _app) = task.await.expect("answers");
    assert_eq!(answers[0]["id"], 7);
    let message = answers[0]["error"]["message"].to_string();
    assert_contains(&message, "does not accept the API key");
}

async fn configurations_are_printed(app: TestApp) {
    for (client, words) in [
        ("claude", "claude mcp add changelog -- chlog mcp"),
        ("cursor", "\"mcpServers\""),
        ("vscode", "\"servers\""),
        ("codex", "[mcp_servers.changelog]"),
    ] {
        let output = chlog(&app, &format!("mcp --print-config {client}")).succeeds();
        assert_contains(&output.stdout, words);
    }
}
