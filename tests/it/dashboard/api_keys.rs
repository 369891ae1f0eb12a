//! API keys in the settings, and the Free plan.

use super::{MENU, sign_in};
use crate::chlog::ChlogOutput;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, assert_contains, in_browser, keys, on_one};
use fantoccini::key::Key;
use serde_json::{Value, json};

on_one!(keys_that_expire_soon_are_marked);

in_browser!(
    a_key_is_created_used_and_revoked,
    an_agent_is_connected,
    commands_are_copied_without_https,
    the_dashboard_works_on_the_free_plan,
);

/// On pages of plain http, browsers give scripts no access to the clipboard.
async fn commands_are_copied_without_https(app: TestApp, browser: Chromium) {
    let id = app.key().change("To be copied").await;
    let url = app.url().replace("127.0.0.1", "plain.test");
    browser
        .open(&format!("{url}/sign-in?next=/changes/{id}"))
        .await;
    let owner = &app.organization;
    super::try_sign_in(&browser, &owner.email, &owner.password).await;
    browser.wait_for("#copy-chlog").await;
    let has_clipboard = browser.script("return navigator.clipboard !== undefined");
    assert_eq!(has_clipboard.await, false);
    browser
        .click("[data-copy='copy-chlog']:not([hidden])")
        .await;
    browser.wait_for_text("Copied").await;
    let search = browser.find("#search").await;
    let control = Key::Control.to_string();
    let pasted = search.send_keys(&format!("{control}v{control}")).await;
    pasted.expect("keys");
    assert_eq!(browser.value("#search").await, format!("chlog show {id}"));
}

/// Runs `chlog` with a key.
fn chlog(app: &TestApp, key: &str, arguments: &[&str]) -> ChlogOutput {
    let mut command = app.bare_chlog();
    command
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", key)
        .args(arguments);
    ChlogOutput::of(&mut command)
}

/// Creates, uses and revokes a key; also used without scripts.
pub(super) async fn a_key_is_created_used_and_revoked(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    let address = app.at("/settings/api-keys");
    browser.open(&address).await;
    // An error is shown at its field.
    browser.press("Create key").await;
    browser.wait_for("#name-error-1").await;
    let form = "main form[action='/settings/api-keys']";
    browser.fill(form, &[("name", "pipeline <b>&")]).await;
    browser.press("Create key").await;
    browser.wait_for("#new-api-key").await;
    let key = browser.text_of("#new-api-key").await;
    assert!(changelog_core::api_key::is_well_formed(&key), "{key}");
    let exports = browser.text_of("#exports").await;
    assert_contains(&exports, format!("export CHLOG_API_KEY={key}\n"));
    let url = app.url();
    assert_contains(&exports, format!("export CHLOG_URL={url}\n"));

    // The key is shown once.
    browser.open(&address).await;
    browser.wait_for_text("pipeline <b>&").await;
    assert!(!browser.has("#new-api-key").await);
    let source = browser.tab.source().await.expect("a page");
    assert!(!source.contains(&key));
    let masked = browser.texts("td.mono").await;
    let end = &key[key.len() - 4..];
    assert!(
        masked
            .iter()
            .any(|text| text.starts_with("chlog_") && text.ends_with(end)),
        "{masked:?}"
    );

    chlog(&app, &key, &["log", "By the new key"]).succeeds();
    browser.open(&app.at("/changes")).await;
    browser.wait_for_text("By the new key").await;
    browser
        .open(&app.at("/activity?actor_id=__api_key__"))
        .await;
    let log = browser.text_of("[data-live='entries']").await;
    assert_contains(&log, "By the new key");
    assert_contains(&log, "pipeline <b>&");

    // A revoked key is refused at once.
    browser.open(&address).await;
    browser.press("Revoke pipeline <b>&").await;
    browser.press("Revoke permanently").await;
    browser.wait_for_text("Revoked").await;
    let output = chlog(&app, &key, &["log", "Too late"]).exits_with(4);
    assert!(!output.stderr.contains(&key));
    app.with_key(&key)
        .get("/api/changes")
        .await
        .problem(401, "unauthorized");
    // The other key still works.
    app.key().get("/api/changes").await.is(200);
    assert_eq!(browser.all("form[action$='/revoke']").await.len(), 1);
}

/// Makes a key for an agent and uses what is shown for it; also used without scripts.
pub(super) async fn an_agent_is_connected(app: TestApp, browser: Chromium) {
    app.key().completed_change("Deploy payments 2.3").await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/api-keys")).await;
    browser.press("Create key and show how").await;
    browser.wait_for("#new-api-key").await;
    let key = browser.text_of("#new-api-key").await;
    // The first is open, the others are on request.
    let command = browser.text_of("#agent-claude").await;
    let address = app.at("/mcp");
    assert_eq!(
        command,
        format!(
            "claude mcp add --transport http changelog {address} --header \"Authorization: Bearer \
             {key}\""
        )
    );
    for client in ["Cursor", "Visual Studio Code", "Codex"] {
        browser.press(client).await;
    }
    for client in ["cursor", "vscode"] {
        let config = browser.text_of(&format!("#agent-{client}")).await;
        let config: Value = serde_json::from_str(&config).expect("JSON");
        let servers = if client == "cursor" {
            "mcpServers"
        } else {
            "servers"
        };
        let server = &config[servers]["changelog"];
        assert_eq!(server["url"], address.as_str());
        // The file of the second one asks for the key, and does not have it.
        let sent = match client {
            "cursor" => &key,
            _ => "${input:changelog-key}",
        };
        assert_eq!(server["headers"]["Authorization"], format!("Bearer {sent}"));
    }
    let codex = browser.text_of("#agent-codex").await;
    assert_contains(&codex, format!("url = \"{address}\""));
    assert_contains(&codex, format!("CHLOG_API_KEY={key}"));

    // What is pasted asks, and may not record.
    let agent = app
        .anonymous()
        .with("authorization", &format!("Bearer {key}"))
        .with("accept", "application/json, text/event-stream");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "what_changed", "arguments": {} } });
    let answer = agent.post("/mcp", call).await;
    assert_contains(&answer.body(200).to_string(), "Deploy payments 2.3");
    let change = json!({ "title": "By the agent" });
    let refused = app.with_key(&key).post("/api/changes", change).await;
    refused.problem(403, "scope_required");
    // The same key is not made twice, and a name is required.
    let owner = app.browser().await;
    let fields = [("name", ""), ("scopes", "read")];
    let answer = owner.post_form("/settings/api-keys", &fields).await;
    answer.is(422);
    assert_contains(&answer.text, "id=\"name-error-1\"");
}

async fn keys_that_expire_soon_are_marked(app: TestApp) {
    let owner = app.browser().await;
    let after = |days: i64| {
        let at = chrono::Utc::now() + chrono::TimeDelta::days(days);
        at.format("%Y-%m-%dT%H:%M").to_string()
    };
    let mut created = Vec::new();
    for (name, expires_at) in [("soon", after(13)), ("later", after(15))] {
        let fields = [("name", name), ("expires_at", &expires_at)];
        let answer = owner.post_form("/settings/api-keys", &fields).await;
        answer.is(200);
        let key = super::between(&answer.text, "id=\"new-api-key\">", "<").to_owned();
        app.with_key(&key).get("/api/changes").await.is(200);
        created.push(key);
    }
    let page = owner.get("/settings/api-keys").await.text;
    let row = |name: &str| super::between(&page, &format!(">{name}</td>"), "</tr>").to_owned();
    assert!(row("soon").contains("Expires soon"), "{page}");
    assert!(!row("later").contains("Expires soon"), "{page}");
    assert!(row(changelog_tests::KEY_NAME).contains("Never"), "{page}");
    // The expiry must be in the future.
    let fields = [("name", "past"), ("expires_at", "2020-01-01T00:00")];
    let answer = owner.post_form("/settings/api-keys", &fields).await;
    answer.is(422);
    assert!(answer.text.contains("id=\"expires_at-error-1\""));
    assert!(
        answer.text.contains("value=\"2020-01-01T00:00\""),
        "it is kept"
    );

    app.execute("UPDATE api_keys SET expires_at = 1 WHERE name = 'soon'")
        .await;
    let page = owner.get("/settings/api-keys").await.text;
    let row = super::between(&page, ">soon</td>", "</tr>");
    assert_contains(&row, ">Expired</td>");
    assert!(!row.contains("/revoke"), "the key has expired: {row}");
    let refused = app.with_key(&created[0]).get("/api/changes").await;
    refused.problem(401, "unauthorized");
}

async fn the_dashboard_works_on_the_free_plan(app: TestApp, browser: Chromium) {
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    let output = chlog(&app, &app.organization.key, &["log", "Not paid for"]).exits_with(4);
    assert_contains(&output.stderr, "plan");
    let refused = app
        .key()
        .get("/api/changes")
        .await
        .problem(403, "plan_required");
    assert!(keys(&refused).contains(&"detail"));

    sign_in(&browser, &app, &app.organization).await;
    assert!(browser.has(MENU).await);
    browser.open(&app.at("/settings/api-keys")).await;
    let note = browser.text_of(".note").await;
    assert!(note.contains("Free") && note.contains("Pro"), "{note}");
    browser.open(&app.at("/changes/new")).await;
    browser.fill("main form", &[("title", "By hand")]).await;
    browser.press("Log change").await;
    browser.wait_for("#history").await;
    browser.open(&app.at("/changes")).await;
    assert_eq!(browser.text_of("#count").await, "1 change");
    let title = browser.text_of("main .title").await;
    assert_eq!(title, "By hand");
}
