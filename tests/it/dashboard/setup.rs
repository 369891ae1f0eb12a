//! From an empty database to the first change.

use std::process::{Command, Stdio};

use super::{MENU, between};
use changelog_tests::chromium::Chromium;
use changelog_tests::{Server, TestApp, TestClient, in_browser, on_one, on_postgres, programs};

on_one!(
    only_the_printed_link_allows_setup,
    concurrent_setups_create_one_organization,
);

in_browser!(setup_leads_to_the_first_change);
on_postgres!(all_servers_of_a_database_have_one_link);

const FIELDS: [(&str, &str); 4] = [
    ("organization", "Umbrella"),
    ("name", "Grace"),
    ("email", "grace@example.com"),
    ("password", super::PASSWORD),
];

/// Starts the service on an empty database.
async fn start(app: &TestApp, database: &str) -> Server {
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", database);
    let server = Server::start(command).await;
    server.unwrap_or_else(|log| panic!("the server exited: {log}"))
}

/// Reads the link that a service prints on its first start.
fn link(server: &Server) -> String {
    let log = server.log();
    let start = format!("http://{}/setup?token=", server.address);
    let token = between(&log, &start, "\n").trim();
    assert!(token.len() >= 43, "256 bits take 43 characters: {token}");
    format!("{start}{token}")
}

/// Sets up a service, and creates a first change; also used without scripts.
pub(super) async fn setup_leads_to_the_first_change(app: TestApp, browser: Chromium) {
    let database = app.empty_database().await;
    let server = start(&app, &database).await;
    let link = link(&server);
    let url = format!("http://{}", server.address);

    // Each error is shown at its field, and the input is kept.
    browser.open(&link).await;
    browser.fill("form", &FIELDS).await;
    browser
        .fill("form", &[("organization", ""), ("password", "short")])
        .await;
    browser.press("Create organization").await;
    browser.wait_for("#organization-error-1").await;
    browser.wait_for("#password-error-1").await;
    assert_eq!(browser.value("#name").await, "Grace");
    assert_eq!(browser.value("#email").await, "grace@example.com");
    assert_eq!(
        browser.value("#password").await,
        "",
        "the password is not sent back"
    );
    browser.fill("form", &[FIELDS[0], FIELDS[3]]).await;
    browser.press("Create organization").await;
    browser.wait_for("#new-api-key").await;
    let key = browser.text_of("#new-api-key").await;
    assert!(key.starts_with("chlog_"), "{key}");

    // The commands on the page work in a shell.
    let commands = browser.text_of("#exports").await;
    assert!(commands.contains(&format!("CHLOG_API_KEY={key}")));
    let mut shell = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs::folder().display());
    let shell = shell
        .args(["-ec", &commands])
        .env_clear()
        .env("PATH", path)
        .env("HOME", app.folder())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    assert!(shell.status.success(), "{shell:?}");

    browser.press("Open the dashboard").await;
    browser.wait_for(MENU).await;
    assert_eq!(browser.address().await, "/");
    browser.wait_for_text("my first change").await;
    let page = browser.text().await;
    assert!(page.contains("View all 1"), "{page}");
    assert!(page.contains("Umbrella"), "{page}");

    // The link is valid once.
    browser.open(&link).await;
    browser.wait_for("main h1").await;
    assert!(browser.all("form").await.is_empty());
    TestClient::new(&server.address)
        .get(&link[url.len()..])
        .await
        .is(403);
    drop(server);
    let server = start(&app, &database).await;
    assert!(!server.log().contains("/setup?token="), "{}", server.log());
    TestClient::new(&server.address)
        .get("/setup?token=")
        .await
        .is(403);
}

async fn only_the_printed_link_allows_setup(app: TestApp) {
    let database = app.empty_database().await;
    let server = start(&app, &database).await;
    let link = link(&server);
    let (_, token) = link.split_once('=').expect("a token");
    let anonymous = TestClient::new(&server.address);
    let wrong = token.chars().rev().collect::<String>();
    assert_ne!(wrong, token);
    for token in ["", &wrong, &token[1..], &format!("{token}a")] {
        anonymous
            .get(&format!("/setup?token={token}"))
            .await
            .is(403);
        let fields = [&FIELDS[..], &[("token", token)]].concat();
        let answer = anonymous.post_form("/setup", &fields).await;
        answer.is(403);
        assert_eq!(answer.header("set-cookie"), "");
    }
    anonymous.get("/setup").await.is(403);
    let answer = anonymous.post_form("/setup", &FIELDS).await;
    answer.is(403);
    // None of these requests has created an organization.
    let fields = [&FIELDS[..], &[("token", token)]].concat();
    let answer = anonymous.post_form("/setup", &fields).await;
    answer.is(200);
    assert!(answer.header("cache-control").contains("no-store"));
    let owner = anonymous.clone().with("cookie", answer.cookie());
    let organization = owner.page("/settings/organization").await;
    assert!(organization.contains("Umbrella"));
    let members = owner.get("/settings/members").await.text;
    let main = between(&members, "<main", "</main>");
    assert_eq!(main.matches("@example.com").count(), 1, "{main}");
    anonymous.post_form("/setup", &fields).await.is(403);
    // A service that has organizations has no setup at all.
    app.anonymous().get("/setup").await.is(403);
}

async fn concurrent_setups_create_one_organization(app: TestApp) {
    let database = app.empty_database().await;
    let server = start(&app, &database).await;
    let link = link(&server);
    let (_, token) = link.split_once('=').expect("a token");
    let anonymous = TestClient::new(&server.address);
    let fields = [&FIELDS[..], &[("token", token)]].concat();
    let both =
        futures_util::future::join_all((0..4).map(|_| anonymous.post_form("/setup", &fields)));
    let mut statuses: Vec<u16> = both.await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403, 403, 403]);
}

async fn all_servers_of_a_database_have_one_link(app: TestApp) {
    let database = app.empty_database().await;
    let servers = [start(&app, &database).await, start(&app, &database).await];
    let links = servers.each_ref().map(link);
    let tokens = links
        .each_ref()
        .map(|link| link.split_once('=').expect("a token").1);
    assert_eq!(tokens[0], tokens[1]);
    let fields = [&FIELDS[..], &[("token", tokens[0])]].concat();
    let clients = servers
        .each_ref()
        .map(|server| TestClient::new(&server.address));
    let all = clients.iter().cycle().take(6);
    let all = futures_util::future::join_all(all.map(|client| client.post_form("/setup", &fields)));
    let mut statuses: Vec<u16> = all.await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403, 403, 403, 403, 403]);
    // A server that starts afterwards has none.
    let server = start(&app, &database).await;
    assert!(!server.log().contains("/setup?token="), "{}", server.log());
}
