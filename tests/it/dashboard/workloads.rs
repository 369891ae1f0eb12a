//! `/settings/workloads`: pipelines that may act without a key.

use chrono::Utc;
use serde_json::json;

use super::{between, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::issuer::{Issuer, SigningKey};
use changelog_tests::{TestApp, assert_contains, assert_lacks, in_browser, on_one};

on_one!(
    workloads_are_made_and_deleted_by_admins,
    a_narrowed_workload_refuses_at_once,
    a_form_keeps_what_another_admin_has_saved,
    unchecking_all_boxes_does_not_replace_what_another_admin_has_saved,
    a_change_shows_what_is_verified,
);
in_browser!(a_workload_is_made_in_the_browser);

const GITHUB: &str = "https://token.actions.githubusercontent.com";

async fn workloads_are_made_and_deleted_by_admins(app: TestApp) {
    let owner = app.browser().await;
    let path = "/settings/workloads";
    let page = owner.page(path).await;
    for words in [
        "No workload identities yet",
        "id-token: write",
        "CHLOG_ID_TOKEN",
        &app.url(),
    ] {
        assert_contains(&page, words);
    }
    let fields = |claims: &'static str| {
        [
            ("name", "shop"),
            ("issuer", GITHUB),
            ("audience", "https://changes.example"),
            ("claims", claims),
            ("scopes", ""),
            ("scopes", "record"),
            ("environments", "prod"),
        ]
    };
    let answer = owner
        .post_form(path, &fields("environment=production"))
        .await;
    answer.is(422);
    assert_contains(&answer.text, "say whose jobs");
    assert_contains(&answer.text, "environment=production");
    let answer = owner.post_form(path, &fields("repository")).await;
    answer.is(422);
    let claims = "repository=acme/shop\r\nenvironment=production\r\n";
    let page = owner.post_form(path, &fields(claims)).await;
    page.is(200);
    for words in [
        "repository=acme/shop",
        "environment=production",
        "in prod only",
        "“shop” created",
    ] {
        assert_contains(&page.text, words);
    }
    // The name is taken.
    owner.post_form(path, &fields(claims)).await.is(422);
    let (_, row) = page
        .text
        .split_once("/settings/workloads/")
        .expect("a form");
    let (id, _) = row.split_once('/').expect("an id");
    let delete = format!("{path}/{id}/delete");
    let member = join(&app, &owner, "Mia", "member").await.browser;
    assert_lacks(&member.page(path).await, "New workload identity");
    member.post_form(path, &fields(claims)).await.is(403);
    member.post_form(&delete, &[]).await.is(403);
    let other = app.browser_of(&app.second_organization()).await;
    other.post_form(&delete, &[]).await.is(404);
    owner.post_form(&delete, &[]).await.is(303);
    assert_contains(&owner.page(path).await, "No workload identities yet");
    let log = owner.page("/activity?resource=workload").await;
    assert_contains(&log, "created the workload identity");
    assert_contains(&log, "deleted the workload identity");
}

async fn a_narrowed_workload_refuses_at_once(app: TestApp) {
    let key = SigningKey::ed25519("k");
    let issuer = Issuer::start(&[&key]).await;
    let (url, audience) = (issuer.url(), app.url());
    let path = bound(&app, &url);
    let token = key.sign(&issuer.claims(&audience, Utc::now()));
    let pipeline = app
        .anonymous()
        .with("authorization", &format!("Bearer {token}"));
    pipeline.change("Deploy shop").await;
    let owner = app.browser().await;
    let edit = format!("{path}/edit");
    let page = owner.page(&edit).await;
    for words in ["repository=acme/*", &url, "Save"] {
        assert_contains(&page, words);
    }
    let shown = between(&page, "name=\"shown\" value=\"", "\"").to_owned();
    let fields = |claims: &'static str, scopes: &'static str| {
        vec![
            ("shown", shown.clone()),
            ("name", "shop".to_owned()),
            ("issuer", url.clone()),
            ("audience", audience.clone()),
            ("claims", claims.to_owned()),
            ("scopes", String::new()),
            ("scopes", scopes.to_owned()),
        ]
    };
    let save = async |fields: &[(&str, String)]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (*a, b.as_str())).collect();
        owner.post_form(&path, &fields).await
    };
    // Fewer scopes.
    save(&fields("repository=acme/*", "read")).await.is(303);
    let refused = pipeline
        .post("/api/changes", json!({ "title": "no" }))
        .await;
    refused.problem(403, "scope_required");
    pipeline.get("/api/changes").await.is(200);
    // What another admin has changed meanwhile is not replaced without a word.
    let overtaken = save(&fields("repository=acme/*", "record")).await;
    overtaken.is(422);
    assert_contains(&overtaken.text, "was changed to");
    // Another claim.
    save(&fields("repository=acme/other", "")).await.is(422);
    save(&fields("repository=acme/other", "read")).await.is(303);
    pipeline.get("/api/changes").await.is(401);
    let list = owner.page("/settings/workloads").await;
    assert_contains(&list, "Insecure issuer");
    assert_contains(&list, "acme/other");
    // Another issuer is not reached in any way because the first one is.
    let mut other = fields("repository=acme/*", "read");
    other[2] = ("issuer", "https://issuer.example.org".to_owned());
    save(&other).await.is(303);
    assert_lacks(&owner.page("/settings/workloads").await, "Insecure issuer");
    let log = owner.body("/api/activity?resource=workload").await;
    let changes = &log["items"][0]["metadata"]["changes"];
    assert_eq!(changes["issuer"]["from"], url.as_str(), "{log}");
    assert_eq!(changes["allow_insecure_issuer"]["to"], false, "{log}");

    let member = join(&app, &owner, "Mia", "member").await.browser;
    member.get(&edit).await.is(403);
    member.post_form(&path, &[]).await.is(403);
    let stranger = app.browser_of(&app.second_organization()).await;
    stranger.get(&edit).await.is(404);
    stranger.post_form(&path, &[]).await.is(404);
}

/// Binds a pipeline, and returns the path of its page.
fn bound(app: &TestApp, issuer: &str) -> String {
    let audience = app.url();
    let mut arguments = vec!["workload", "create", "--org", &app.organization.id];
    arguments.extend([
        "--name",
        "shop",
        "--issuer",
        issuer,
        "--audience",
        &audience,
    ]);
    arguments.extend(["--claim", "repository=acme/*", "--allow-insecure-issuer"]);
    let id = app.admin(&arguments)["id"].as_str().map(str::to_owned);
    format!("/settings/workloads/{}", id.expect("an id"))
}

async fn a_form_keeps_what_another_admin_has_saved(app: TestApp) {
    let path = bound(&app, "https://issuer.example.org");
    let owner = app.browser().await;
    let page = owner.page(&format!("{path}/edit")).await;
    let shown = between(&page, "name=\"shown\" value=\"", "\"");
    let scopes = ["read", "record", "admin"];
    let is_checked =
        |scope: &&str| page.contains(&format!("name=\"scopes\" value=\"{scope}\" checked"));
    let former: Vec<&str> = scopes.into_iter().filter(is_checked).collect();
    assert!(former.contains(&"record"), "{page}");
    let audience = app.url();
    let save = async |name: &str, claims: &str, scopes: &[&str]| {
        let mut fields = vec![
            ("shown", shown),
            ("name", name),
            ("issuer", "https://issuer.example.org"),
            ("audience", audience.as_str()),
            ("claims", claims),
            ("scopes", ""),
        ];
        fields.extend(scopes.iter().map(|scope| ("scopes", *scope)));
        owner.submit(&path, &fields).await;
    };
    save("shop", "repository=acme/shop", &["read"]).await;
    // The form of the other admin was opened before.
    save("renamed", "repository=acme/*", &former).await;
    let after = owner.page(&format!("{path}/edit")).await;
    for kept in [
        "value=\"renamed\"",
        "repository=acme/shop</textarea>",
        "name=\"scopes\" value=\"read\" checked",
    ] {
        assert_contains(&after, kept);
    }
    assert_lacks(&after, "name=\"scopes\" value=\"record\" checked");
}

async fn unchecking_all_boxes_does_not_replace_what_another_admin_has_saved(app: TestApp) {
    let path = bound(&app, "https://issuer.example.org");
    let owner = app.browser().await;
    let audience = app.url();
    let save = async |shown: &str, environments: &[&'static str]| {
        let mut fields = vec![
            ("shown", shown),
            ("name", "shop"),
            ("issuer", "https://issuer.example.org"),
            ("audience", audience.as_str()),
            ("claims", "repository=acme/*"),
            ("scopes", "record"),
        ];
        fields.extend(environments.iter().map(|word| ("environments", *word)));
        owner.post_form(&path, &fields).await
    };
    let shown = async || {
        let page = owner.page(&format!("{path}/edit")).await;
        between(&page, "name=\"shown\" value=\"", "\"").to_owned()
    };
    save(&shown().await, &["prod"]).await.is(303);
    let stale = shown().await;
    save(&stale, &["staging", "prod"]).await.is(303);
    let refused = save(&stale, &[]).await;
    refused.is(422);
    assert_contains(&refused.text, "id=\"environments-error-1\"");
    assert_lacks(
        &refused.text,
        "name=\"environments\" value=\"prod\" checked",
    );
    // An admin who has seen the current form may clear them.
    save(&shown().await, &[]).await.is(303);
}

async fn a_change_shows_what_is_verified(app: TestApp) {
    let key = SigningKey::ed25519("k");
    let issuer = Issuer::start(&[&key]).await;
    let (url, audience) = (issuer.url(), app.url());
    bound(&app, &url);
    let token = key.sign(&issuer.claims(&audience, Utc::now()));
    let pipeline = app
        .anonymous()
        .with("authorization", &format!("Bearer {token}"));
    let change = pipeline.change("Deploy shop").await;
    let owner = app.browser().await;
    let page = owner.page(&format!("/changes/{change}")).await;
    for words in [
        "github acme/shop",
        ">pipeline<",
        ">verified<",
        "refs/heads/main",
        "run 4711",
        "(verified)",
    ] {
        assert_contains(&page, words);
    }
    let log = owner.page("/activity").await;
    assert_contains(&log, "github acme/shop");
    assert_contains(&owner.page("/settings/workloads").await, "Insecure issuer");
}

async fn a_workload_is_made_in_the_browser(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/workloads")).await;
    browser.press("Create workload identity").await;
    browser.wait_for("#name-error-1").await;
    let form = "main form[action='/settings/workloads']";
    let fields = [("name", "shop <b>&"), ("claims", "repository=acme/shop")];
    browser.fill(form, &fields).await;
    browser.press("Create workload identity").await;
    browser
        .wait_for_text(
            "“shop <b>&” created. Its pipelines can log changes from now on, without a key.",
        )
        .await;
    browser.wait_for_text("repository=acme/shop").await;
}
