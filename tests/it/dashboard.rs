//! The dashboard, in Chromium or with requests like those of a browser.

mod accounts;
mod activity;
mod api_keys;
mod around;
mod authors;
mod changes;
mod compression;
mod cross_site_requests;
mod dependencies;
mod downloads;
mod failures;
mod feeds;
mod freshness;
mod incidents;
mod integrations;
mod keyboard;
mod list_filters;
mod list_makers;
mod live_updates;
mod mails;
mod members;
mod names;
mod one_time_forms;
mod overview;
mod pages;
mod progress;
mod reference;
mod roles;
mod routes;
mod rows;
mod screenshots;
mod sessions;
mod setup;
mod sign_in;
mod sign_in_attempts;
mod sources;
mod sso;
mod subscriptions;
mod upcoming;
mod without_scripts;
mod workloads;

use changelog_tests::chromium::Chromium;
use changelog_tests::{Organization, TestApp, TestClient, form, send, text};

use serde_json::json;

/// An element of every page for signed-in users.
const MENU: &str = "details.person";

/// Signs in with the form, and waits for the overview.
pub(crate) async fn sign_in(browser: &Chromium, app: &TestApp, organization: &Organization) {
    browser.open(&app.at("/sign-in")).await;
    try_sign_in(browser, &organization.email, &organization.password).await;
    browser.wait_for(MENU).await;
    assert_eq!(browser.path().await, "/");
}

/// Fills the form for the sign-in and sends it.
async fn try_sign_in(browser: &Chromium, email: &str, password: &str) {
    let fields = [("email", email), ("password", password)];
    browser.fill("form", &fields).await;
    browser.press("Sign in").await;
}

/// Returns the text between two strings.
#[track_caller]
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before:?} is missing: {text}"));
    let (found, _) = rest
        .split_once(after)
        .unwrap_or_else(|| panic!("{after:?} is missing: {rest}"));
    found
}

/// Returns the main part of a page.
async fn main_of(browser: &TestClient, path: &str) -> String {
    let page = browser.page(path).await;
    between(&page, "<main", "</main>").to_owned()
}

/// Creates an invitation, and returns the path of its link.
pub(crate) async fn invite(by: &TestClient, email: &str, role: &str) -> String {
    let fields = [("email", email), ("role", role)];
    let answer = by.post_form("/settings/members/invite", &fields).await;
    answer.is(200);
    let link = between(&answer.text, "id=\"invitation-link\">", "<");
    let (_, token) = link.split_once("/invitations/").expect("a link");
    format!("/invitations/{token}")
}

/// The password of invited members.
const PASSWORD: &str = "a pear and 4711 plums";

/// A member who has accepted an invitation, with a session.
pub(crate) struct Person {
    pub(crate) id: String,
    pub(crate) email: String,
    /// The cookie of the session.
    pub(crate) cookie: String,
    pub(crate) browser: TestClient,
}

/// Invites a person to the organization of the inviting user, and accepts the invitation.
pub(crate) async fn join(app: &TestApp, by: &TestClient, name: &str, role: &str) -> Person {
    let email = format!("{name}@example.org");
    let link = invite(by, &email, role).await;
    let fields = [("name", name), ("password", PASSWORD)];
    let answer = app.anonymous().post_form(&link, &fields).await;
    answer.is(303);
    let cookie = answer.cookie().to_owned();
    let browser = app.anonymous().with("cookie", &cookie);
    let members = by.get("/settings/members").await.text;
    let (_, row) = members.split_once(email.as_str()).expect("a row of them");
    let id = between(row, "/settings/members/", "/").to_owned();
    Person {
        id,
        email,
        cookie,
        browser,
    }
}

/// One resource of every kind that has a page or a form.
struct Resources {
    change: String,
    service: String,
    host: String,
    incident: String,
    key: String,
    workload: String,
    member: String,
    invitation: String,
    view: String,
    connection: String,
    source: String,
    /// What was sent to the source.
    request: String,
    /// The token of the link of the invitation.
    token: String,
}

impl Resources {
    /// Creates the resources in an organization.
    async fn of(app: &TestApp, organization: &Organization) -> Self {
        let key = app.with_key(&organization.key);
        let owner = app.browser_of(organization).await;
        let name = &organization.name;
        let service = json!({ "name": format!("payments of {name}") });
        let service = key.create("/api/services", service).await;
        let host = json!({ "hostname": format!("web-1.{name}") });
        let host = key.create("/api/hosts", host).await;
        let change = json!({
            "title": format!("Deploy at {name}"),
            "description": "**Bold**, and [a link](https://example.com).",
            "impact": "none",
            "risk_level": "high",
            "status": "in_progress",
            "service_id": service,
            "host_id": host,
            "tags": ["prod"],
            "links": [{ "label": "run", "url": "https://ci.example.com/42" }],
        });
        let change = key.create("/api/changes", change).await;
        let incident = json!({
            "title": format!("Down at {name}"), "service_id": service, "environment": "prod",
            "url": "https://alerts.example.com/7",
        });
        let incident = key.create("/api/incidents", incident).await;
        let address = format!("guest-of-{name}@example.org");
        let link = invite(&owner, &address, "viewer").await;
        let members = owner.get("/settings/members").await.text;
        let invitation = between(&members, "/settings/members/invitations/", "/").to_owned();
        let (_, token) = link.rsplit_once('/').expect("a token");
        let view = [("name", "Saved by its owner"), ("query", "risk_level=low")];
        owner.submit("/views", &view).await;
        let views = owner.get("/views").await.text;
        let view = between(&views, "action=\"/views/", "\"").to_owned();
        // A webhook: its page has everything.
        let connection = [
            ("kind", "webhook"),
            ("name", &format!("Hook of {name}")),
            ("url", "https://hooks.invalid/path-of-the-hook"),
            ("events", "change.deleted"),
        ];
        let answer = owner.post_form("/settings/integrations", &connection).await;
        answer.is(200);
        let connection = between(&answer.text, "action=\"/settings/integrations/", "/").to_owned();
        let workload = [
            ("name", format!("Workload of {name}")),
            ("issuer", "https://issuer.invalid".to_owned()),
            ("audience", app.url()),
            ("claims", "sub=shop".to_owned()),
        ];
        let workload = workload
            .each_ref()
            .map(|(field, value)| (*field, value.as_str()));
        let answer = owner.post_form("/settings/workloads", &workload).await;
        answer.is(200);
        let workload = between(&answer.text, "action=\"/settings/workloads/", "/").to_owned();
        let source = [("kind", "generic"), ("name", &format!("Source of {name}"))];
        let made = sources::make(app, &owner, &source).await;
        let body = json!({ "title": format!("Deploy of {name}"), "list": [1, 2] });
        app.anonymous().post(&made.posted_to, body).await.is(202);
        let page = sources::wait_for(&owner, &made.page, "/events/").await;
        let request = sources::newest_request(&page, &made.page).to_owned();
        let (_, source) = made.page.rsplit_once('/').expect("an id");
        Self {
            workload,
            change,
            service,
            host,
            incident,
            key: organization.key_id.clone(),
            member: organization.owner_id.clone(),
            invitation,
            view,
            connection,
            source: source.to_owned(),
            request,
            token: token.to_owned(),
        }
    }
}

/// Posts a form with an additional header.
async fn post_with(
    caller: &TestClient,
    path: &str,
    fields: &[(&str, &str)],
    (name, value): (&str, &str),
) -> changelog_tests::TestResponse {
    send(form(
        caller.request("POST", path).header(name, value),
        fields,
    ))
    .await
}

/// Returns the ids of the newest activity entries.
async fn entries(browser: &TestClient) -> Vec<String> {
    let log = browser.body("/api/activity?limit=100").await;
    let entries = log["items"].as_array().expect("a list").iter();
    entries.map(|entry| text(&entry["id"])).collect()
}
