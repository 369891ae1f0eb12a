//! Sources in the dashboard: other systems that send what changes.

use serde_json::json;

use super::{between, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{
    TestApp, TestClient, assert_contains, assert_lacks, in_browser, on_one, text,
};

on_one!(
    every_kind_has_a_form_and_a_guide,
    a_source_is_made_once,
    forms_are_refused_at_their_fields,
    a_secret_is_removed_only_where_the_sender_needs_none,
    a_form_does_not_replace_what_another_admin_has_saved,
    a_box_stays_unchecked_when_another_field_is_refused,
    a_form_keeps_what_another_admin_has_saved_of_a_source,
    what_was_set_aside_is_replayed_by_other_templates,
    a_source_is_turned_off_renewed_and_deleted,
    notices_are_shown_until_they_are_dismissed,
    nothing_secret_is_on_any_page,
    only_owners_and_admins_see_what_is_sent,
    sources_are_separate_per_organization,
);
in_browser!(a_source_is_set_up_in_a_browser);
in_browser!(without_scripts: templates_are_corrected_without_scripts);

const PATH: &str = "/settings/sources";
const SECRET: &str = "a secret of the sender";

/// A source that was just made by the form.
pub(super) struct Made {
    /// The path of its page.
    pub(super) page: String,
    /// The path that the sender posts to.
    pub(super) posted_to: String,
    /// The answer to the form.
    answer: String,
}

/// Makes a source.
pub(super) async fn make(app: &TestApp, by: &TestClient, fields: &[(&str, &str)]) -> Made {
    let answer = by.post_form(PATH, fields).await;
    answer.is(200);
    let url = between(&answer.text, "id=\"new-address\">", "<");
    let posted_to = url.strip_prefix(&app.url()).expect("a URL of the service");
    let id = between(&answer.text, "action=\"/settings/sources/", "/");
    Made {
        page: format!("{PATH}/{id}"),
        posted_to: posted_to.to_owned(),
        answer: answer.text.clone(),
    }
}

/// Posts JSON that no kind but the generic one reads.
async fn post_json(app: &TestApp, made: &Made, body: serde_json::Value) {
    app.anonymous().post(&made.posted_to, body).await.is(202);
}

/// Reads a page until its main part shows a string.
pub(super) async fn wait_for(by: &TestClient, path: &str, expected: &str) -> String {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let page = by.get(path).await;
        page.is(200);
        if page.text.contains(expected) {
            return page.text.clone();
        }
        assert!(
            std::time::Instant::now() < deadline,
            "no {expected:?}: {}",
            page.text
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Returns the path of the request of the newest event.
pub(super) fn newest_request<'p>(page: &'p str, of: &str) -> &'p str {
    between(page, &format!("href=\"{of}/events/"), "\"")
}

async fn every_kind_has_a_form_and_a_guide(app: TestApp) {
    let owner = app.browser().await;
    let chosen = owner.get(&format!("{PATH}/new")).await.text;
    let links = chosen.matches("href=\"/settings/sources/new?kind=").count();
    assert_eq!(links, changelog_core::SourceKind::ALL.len());
    for kind in changelog_core::SourceKind::WORDS {
        let form = owner.get(&format!("{PATH}/new?kind={kind}")).await;
        form.is(200);
        let takes_secret = form.text.contains("name=\"secret\"");
        let fields = [("kind", *kind), ("name", *kind), ("generate", "true")];
        let made = make(&app, &owner, &fields).await;
        let guide = between(&made.answer, "Set up the sender", "</details>");
        assert_contains(guide, format!("{}{}", app.url(), made.posted_to));
        assert_eq!(made.answer.contains("id=\"new-secret\""), takes_secret);
        let later = owner.get(&made.page).await.text;
        let guide = between(&later, "Set up the sender", "</details>");
        assert_contains(guide, format!("/api/ingest/{kind}/YOUR-TOKEN"));
        assert_eq!(guide.contains("YOUR-SECRET"), takes_secret, "{guide}");
        assert_contains(&later, "Waiting for the first event");
    }
    owner
        .get(&format!("{PATH}/new?kind=nonsense"))
        .await
        .is(200);
}

async fn a_source_is_made_once(app: TestApp) {
    let owner = app.browser().await;
    assert_contains(&owner.get(PATH).await.text, "No sources yet");
    let form = owner.get(&format!("{PATH}/new?kind=github")).await.text;
    let id = between(&form, "name=\"new_id\" value=\"", "\"");
    let fields = [
        ("kind", "github"),
        ("name", "Acme on GitHub"),
        ("secret", SECRET),
        ("service", "payments"),
        ("environment", "prod"),
        ("create_missing", "true"),
        ("new_id", id),
    ];
    let made = make(&app, &owner, &fields).await;
    assert_contains(&made.posted_to, "/api/ingest/github/src_");
    assert_lacks(&made.answer, "id=\"new-secret\"");
    let again = owner.post_form(PATH, &fields).await;
    again.is(409);
    assert_contains(&again.text, "already sent");
    assert_lacks(&again.text, "new-address");
    let list = owner.get(PATH).await.text;
    assert_eq!(list.matches("<bdi>Acme on GitHub</bdi>").count(), 1);
    assert_contains(&list, "No events yet");
    let page = owner.get(&made.page).await.text;
    for shown in [
        "value=\"payments\"",
        "<option value=\"prod\" selected>",
        "name=\"create_missing\" value=\"true\" checked",
    ] {
        assert_contains(&page, shown);
    }
    let log = owner.get("/activity?resource=source").await.text;
    assert_contains(&log, "created the source");
    assert_contains(&log, format!("href=\"{}\"", made.page));
    // Another organization cannot make one with the same id, by which the operator names it.
    let (_, taken) = made.page.rsplit_once('/').expect("an id");
    let second = app.second_organization();
    let grace = app.browser_of(&second).await;
    for chosen in [id, taken] {
        let name = format!("Theirs {chosen}");
        let fields = [
            ("kind", "github"),
            ("name", &*name),
            ("secret", SECRET),
            ("new_id", chosen),
        ];
        let theirs = make(&app, &grace, &fields).await;
        assert_ne!(theirs.page, made.page);
    }
}

async fn forms_are_refused_at_their_fields(app: TestApp) {
    let owner = app.browser().await;
    let refused = async |path: &str, fields: &[(&str, &str)], at: &str| {
        let answer = owner.post_form(path, fields).await;
        answer.is(422);
        let at = format!("id=\"{at}-error-1\"");
        assert_contains(&answer.text, at);
        assert_lacks(&answer.text, SECRET);
    };
    owner.post_form(PATH, &[("name", "one")]).await.is(422);
    refused(PATH, &[("kind", "generic"), ("name", "")], "name").await;
    // A sender that signs needs a secret.
    refused(PATH, &[("kind", "github"), ("name", "one")], "secret").await;
    let long = "x".repeat(300);
    let signed = [("kind", "github"), ("name", &long), ("secret", SECRET)];
    refused(PATH, &signed, "secret").await;
    let made = make(&app, &owner, &[("kind", "generic"), ("name", "one")]).await;
    refused(PATH, &[("kind", "generic"), ("name", "ONE")], "name").await;
    let rules = [
        ("name", "one"),
        ("environments", "a=prod\nno rule\nb=nowhere"),
    ];
    refused(&made.page, &rules, "environments").await;
    let long = "x".repeat(3_000);
    let templates = [("name", "one"), ("templates/title", &long)];
    refused(&made.page, &templates, "templates/title").await;
    let preview = format!("{}/preview", made.page);
    refused(&preview, &templates, "templates/title").await;
}

async fn a_secret_is_removed_only_where_the_sender_needs_none(app: TestApp) {
    let owner = app.browser().await;
    let remove = [("name", "one"), ("remove_secret", "true")];
    let generic = [("kind", "generic"), ("name", "one"), ("secret", SECRET)];
    let made = make(&app, &owner, &generic).await;
    let anonymous = app.anonymous();
    let send = async |made: &Made| {
        let body = json!({ "title": "Deploy" });
        anonymous.post(&made.posted_to, body).await.status
    };
    assert_eq!(send(&made).await, 401);
    assert_contains(&owner.get(&made.page).await.text, "Remove the secret");
    owner.post_form(&made.page, &remove).await.is(303);
    assert_eq!(send(&made).await, 202);
    assert_lacks(&owner.get(&made.page).await.text, "Remove the secret");
    let signed = [("kind", "github"), ("name", "two"), ("secret", SECRET)];
    let made = make(&app, &owner, &signed).await;
    assert_lacks(&owner.get(&made.page).await.text, "Remove the secret");
    let remove = [("name", "two"), ("remove_secret", "true")];
    owner.post_form(&made.page, &remove).await.is(303);
    assert_eq!(send(&made).await, 401);
}

async fn a_form_does_not_replace_what_another_admin_has_saved(app: TestApp) {
    let owner = app.browser().await;
    let made = make(&app, &owner, &[("kind", "generic"), ("name", "one")]).await;
    let page = owner.get(&made.page).await.text;
    let shown = between(&page, "name=\"shown\" value=\"", "\"");
    let save = async |service: &str| {
        let fields = [("name", "one"), ("service", service), ("shown", shown)];
        owner.post_form(&made.page, &fields).await
    };
    save("payments").await.is(303);
    let refused = save("ledger").await;
    refused.is(422);
    assert_contains(&refused.text, "was changed to \u{201c}payments\u{201d}");
    assert_contains(&owner.get(&made.page).await.text, "value=\"payments\"");
}

async fn a_form_keeps_what_another_admin_has_saved_of_a_source(app: TestApp) {
    let owner = app.browser().await;
    let fields = [("kind", "github"), ("name", "one"), ("secret", SECRET)];
    let made = make(&app, &owner, &fields).await;
    let page = owner.get(&made.page).await.text;
    let shown = between(&page, "name=\"shown\" value=\"", "\"");
    let save = async |name: &str, workflows: &str, risk: &str| {
        let fields = [
            ("name", name),
            ("secret", ""),
            ("workflows", workflows),
            ("risk_production", risk),
            ("shown", shown),
        ];
        owner.submit(&made.page, &fields).await;
    };
    let risk = between(&page, "id=\"risk_production\"", "\" selected");
    let (_, risk) = risk.rsplit_once("value=\"").expect("a choice");
    save("one", "deploy", "low").await;
    // The form of the other admin was opened before.
    save("two", "", risk).await;
    let after = owner.get(&made.page).await.text;
    for kept in ["value=\"two\"", "\ndeploy</textarea>", "<dd>Set</dd>"] {
        assert_contains(&after, kept);
    }
    let risk = between(&after, "id=\"risk_production\"", "</select>");
    assert_contains(risk, "value=\"low\" selected");
}

async fn a_box_stays_unchecked_when_another_field_is_refused(app: TestApp) {
    let owner = app.browser().await;
    let fields = [
        ("kind", "github"),
        ("name", "one"),
        ("secret", SECRET),
        ("create_missing", "true"),
    ];
    let made = make(&app, &owner, &fields).await;
    let page = owner.get(&made.page).await.text;
    let shown = between(&page, "name=\"shown\" value=\"", "\"");
    let of_another = [
        ("name", "one"),
        ("service", "payments"),
        ("create_missing", "true"),
        ("shown", shown),
    ];
    owner.submit(&made.page, &of_another).await;
    let fields = [("name", "one"), ("service", "ledger"), ("shown", shown)];
    let refused = owner.post_form(&made.page, &fields).await;
    refused.is(422);
    assert_contains(&refused.text, "was changed to \u{201c}payments\u{201d}");
    let create_missing = between(&refused.text, "id=\"create_missing\"", ">");
    assert_lacks(create_missing, "checked");
}

async fn what_was_set_aside_is_replayed_by_other_templates(app: TestApp) {
    let owner = app.browser().await;
    let fields = [
        ("kind", "generic"),
        ("name", "Builds"),
        ("create_missing", "true"),
    ];
    let made = make(&app, &owner, &fields).await;
    for version in ["1.4.2", "1.4.3"] {
        let release = json!({ "version": version, "stage": "eu-1" });
        let body = json!({ "app": "ledger", "node": "web-1", "release": release });
        post_json(&app, &made, body).await;
    }
    let page = wait_for(&owner, &made.page, "Replay all that were set aside").await;
    assert_contains(&page, "Set aside");
    let list = owner.get(PATH).await.text;
    assert_lacks(&list, "No events yet");

    // The preview reads what has arrived, and saves nothing.
    let templates = [
        ("name", "Builds"),
        ("create_missing", "true"),
        ("templates/title", "Deploy {{ app }} {{ release.version }}"),
        ("templates/service", "{{ app }}"),
        ("templates/host", "{{ node }}"),
        ("templates/environment", "{{ release.stage }}"),
        ("environments", "eu-1=staging"),
    ];
    let preview = format!("{}/preview", made.page);
    let bad = [("name", "Builds"), ("templates/title", "{{ app")];
    let previewed = owner.post_form(&preview, &bad).await;
    previewed.is(200);
    let section = between(&previewed.text, "id=\"preview\"", "</section>");
    assert_contains(section, "Set aside: ");
    let previewed = owner.post_form(&preview, &templates).await;
    previewed.is(200);
    let section = between(&previewed.text, "id=\"preview\"", "</section>");
    for shown in [
        "Deploy ledger 1.4.2",
        "Deploy ledger 1.4.3",
        "staging",
        "ledger",
    ] {
        assert_contains(section, shown);
    }
    let page = owner.get(&made.page).await.text;
    assert_lacks(&page, "Deploy {{ app }}");

    owner.submit(&made.page, &templates).await;
    let page = owner.get(&made.page).await.text;
    assert_contains(&page, "Deploy {{ app }} {{ release.version }}");
    let log = owner.get("/activity?resource=source").await.text;
    assert_contains(&log, "title: <del>");
    assert_contains(&log, "eu-1: <del>–</del> → <ins>staging</ins>");
    assert_lacks(&log, "create_missing");
    let event = newest_request(&page, &made.page);
    owner
        .submit(&format!("{}/replay", made.page), &[("event", event)])
        .await;
    wait_for(&owner, &made.page, ">Deploy ledger 1.4.3</a>").await;
    owner
        .submit(&format!("{}/replay-set-aside", made.page), &[])
        .await;
    let page = wait_for(&owner, &made.page, ">Deploy ledger 1.4.2</a>").await;
    assert_lacks(&page, "Replay all that were set aside");
    let changes = app.key().get("/api/changes").await.body(200);
    assert_eq!(changes["count"], 2, "{changes}");
    assert_eq!(changes["data"][0]["environment"], "staging");
    assert_eq!(changes["data"][0]["host_ref"]["hostname"], "web-1");
    let gone = [("event", "00000000-0000-7000-8000-000000000000")];
    let answer = owner
        .post_form(&format!("{}/replay", made.page), &gone)
        .await;
    answer.is(409);
    assert_contains(&answer.text, "no longer kept");

    // The request as it arrived.
    let request = owner.get(&format!("{}/events/{event}", made.page)).await;
    request.is(200);
    assert_contains(&request.text, "&#34;version&#34;: &#34;1.4.3&#34;");
    owner
        .get(&format!("{}/events/{}", made.page, gone[0].1))
        .await
        .is(404);
}

async fn a_source_is_turned_off_renewed_and_deleted(app: TestApp) {
    let owner = app.browser().await;
    let made = make(&app, &owner, &[("kind", "generic"), ("name", "Builds")]).await;
    let body = json!({ "title": "Deploy" });
    owner.submit(&format!("{}/disable", made.page), &[]).await;
    assert_contains(&owner.get(&made.page).await.text, "Turn on");
    let off = app.anonymous().post(&made.posted_to, body.clone()).await;
    off.is(404);
    owner.submit(&format!("{}/enable", made.page), &[]).await;
    post_json(&app, &made, body.clone()).await;
    let renewed = owner.post_form(&format!("{}/renew", made.page), &[]).await;
    renewed.is(200);
    let url = between(&renewed.text, "id=\"new-address\">", "<");
    assert!(!url.ends_with(&made.posted_to), "the same address");
    let path = url.strip_prefix(&app.url()).expect("a URL of the service");
    app.anonymous()
        .post(&made.posted_to, body.clone())
        .await
        .is(404);
    app.anonymous().post(path, body.clone()).await.is(202);
    owner.submit(&format!("{}/delete", made.page), &[]).await;
    owner.get(&made.page).await.is(404);
    app.anonymous().post(path, body).await.is(404);
    let log = owner.get("/api/activity?resource=source").await.body(200);
    let items = log["items"].as_array().expect("a list").iter();
    let actions: Vec<String> = items.map(|item| text(&item["action"])).collect();
    assert_eq!(
        actions,
        ["deleted", "updated", "updated", "updated", "created"]
    );
}

async fn notices_are_shown_until_they_are_dismissed(app: TestApp) {
    let owner = app.browser().await;
    let fields = [("kind", "github"), ("name", "GitHub"), ("secret", SECRET)];
    let github = make(&app, &owner, &fields).await;
    app.anonymous()
        .post(&github.posted_to, json!({}))
        .await
        .is(401);
    let page = owner.get(&github.page).await.text;
    assert_contains(&page, "1 request was refused");
    assert_contains(&owner.get(PATH).await.text, "1 request refused");
    let trail = make(&app, &owner, &[("kind", "cloudtrail"), ("name", "AWS")]).await;
    let link = "https://sns.example.com/?Action=ConfirmSubscription&Token=1";
    let question = json!({ "Type": "SubscriptionConfirmation", "SubscribeURL": link });
    app.anonymous()
        .post(&trail.posted_to, question)
        .await
        .is(200);
    let page = owner.get(&trail.page).await.text;
    assert_contains(&page, "href=\"https://sns.example.com/?Action");
    for made in [github, trail] {
        owner.submit(&format!("{}/dismiss", made.page), &[]).await;
        let page = owner.get(&made.page).await.text;
        assert_lacks(&page, "/dismiss");
    }
}

async fn nothing_secret_is_on_any_page(app: TestApp) {
    let owner = app.browser().await;
    let fields = [("kind", "github"), ("name", "GitHub"), ("secret", SECRET)];
    let made = make(&app, &owner, &fields).await;
    let fields = [("kind", "gitlab"), ("name", "GitLab"), ("generate", "true")];
    let generated = make(&app, &owner, &fields).await;
    let secret = between(&generated.answer, "id=\"new-secret\">", "<").to_owned();
    assert!(secret.len() >= 32, "{secret}");
    let fields = [("name", "GitHub"), ("generate", "true")];
    let replaced = owner.post_form(&made.page, &fields).await;
    replaced.is(200);
    let other = between(&replaced.text, "id=\"new-secret\">", "<").to_owned();
    assert_ne!(other, secret);
    let sender = app.anonymous().with("x-gitlab-token", &secret);
    let push = json!({ "object_kind": "push" });
    sender.post(&generated.posted_to, push).await.is(202);
    let tokens = [&made, &generated].map(|made| {
        let (_, token) = made.posted_to.rsplit_once('/').expect("a token");
        token.to_owned()
    });
    let secrets = [
        SECRET.to_owned(),
        secret,
        other,
        tokens[0].clone(),
        tokens[1].clone(),
    ];
    for path in [
        PATH,
        &made.page,
        &generated.page,
        "/activity",
        "/activity.ndjson",
        "/api/activity",
    ] {
        let page = owner.get(path).await;
        page.is(200);
        for secret in &secrets {
            assert_lacks(&page.text, secret);
        }
    }
}

async fn only_owners_and_admins_see_what_is_sent(app: TestApp) {
    let owner = app.browser().await;
    let made = make(&app, &owner, &[("kind", "generic"), ("name", "Builds")]).await;
    post_json(
        &app,
        &made,
        json!({ "title": "Deploy", "more": "of the body" }),
    )
    .await;
    let page = wait_for(&owner, &made.page, ">Deploy</a>").await;
    let request = format!("{}/events/{}", made.page, newest_request(&page, &made.page));
    let admin = join(&app, &owner, "admin", "admin").await.browser;
    assert_contains(&admin.get(&request).await.text, "of the body");
    for role in ["member", "viewer"] {
        let person = join(&app, &owner, role, role).await.browser;
        for path in [PATH, &made.page] {
            let page = person.get(path).await;
            page.is(200);
            assert_contains(&page.text, "Builds");
            let main = between(&page.text, "<main", "</main>");
            for hidden in ["<form", "/events/", "YOUR-TOKEN"] {
                assert_lacks(main, hidden);
            }
        }
        person.get(&request).await.is(403);
        person.get(&format!("{PATH}/new")).await.is(403);
        let renewed = person.post_form(&format!("{}/renew", made.page), &[]).await;
        renewed.is(403);
    }
}

async fn sources_are_separate_per_organization(app: TestApp) {
    let owner = app.browser().await;
    let made = make(&app, &owner, &[("kind", "generic"), ("name", "Builds")]).await;
    post_json(&app, &made, json!({ "title": "Deploy" })).await;
    let page = wait_for(&owner, &made.page, ">Deploy</a>").await;
    let event = newest_request(&page, &made.page);
    let second = app.second_organization();
    let grace = app.browser_of(&second).await;
    let theirs = make(&app, &grace, &[("kind", "generic"), ("name", "Builds")]).await;
    assert_lacks(&grace.get(PATH).await.text, &made.page);
    grace.get(&made.page).await.is(404);
    grace
        .get(&format!("{}/events/{event}", theirs.page))
        .await
        .is(404);
    let replayed = grace
        .post_form(&format!("{}/replay", theirs.page), &[("event", event)])
        .await;
    replayed.is(409);
    // Nor by another source of the same organization.
    let other = make(&app, &owner, &[("kind", "generic"), ("name", "Other")]).await;
    owner
        .get(&format!("{}/events/{event}", other.page))
        .await
        .is(404);
}

async fn a_source_is_set_up_in_a_browser(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/members")).await;
    browser.press("Sources").await;
    browser.wait_for(".kinds").await;
    browser.press("GitHub").await;
    browser.wait_for("#secret").await;
    let fields = [("name", "Acme on GitHub"), ("secret", SECRET)];
    browser.fill("main form", &fields).await;
    browser.press("Add the source").await;
    browser.wait_for("#new-address").await;
    let url = browser.text_of("#new-address").await;
    let page = browser.path().await;
    assert_contains(&page, "/settings/sources/0");
    let waiting = browser.text_of("[data-live='events']").await;
    assert_contains(&waiting, "Waiting for the first event");

    // The event and its change appear without a reload, and the address stays until then.
    let posted_to = url.strip_prefix(&app.url()).expect("a URL of the service");
    let id = page.rsplit_once('/').expect("an id").1;
    let source = app.source_at(id, posted_to, Some(SECRET));
    let body = json!({
        "action": "created",
        "deployment": {
            "id": 1, "sha": "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d", "ref": "main",
            "task": "deploy", "environment": "production", "description": null,
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z",
            "creator": { "login": "ada" },
        },
        "repository": { "name": "payments", "full_name": "acme/payments",
            "html_url": "https://github.example.com/acme/payments" },
    });
    source.send_github("deployment", "d-1", &body).await.is(202);
    browser.wait_for_text("Change recorded").await;
    assert!(browser.has("#new-address").await);
    let title = browser.text_of(".source-events a[href^='/changes/']").await;
    assert_contains(&title, "payments");

    // A reload shows the page without the address.
    browser.tab.refresh().await.expect("a page");
    browser.wait_for(".source-events").await;
    assert!(!browser.has("#new-address").await);
    assert_eq!(browser.console().await, [""; 0]);
}

async fn templates_are_corrected_without_scripts(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/sources/new")).await;
    browser.press("Any JSON").await;
    browser.wait_for("#name").await;
    browser.fill("main form", &[("name", "Builds")]).await;
    browser.press("Add the source").await;
    browser.wait_for("#new-address").await;
    let url = browser.text_of("#new-address").await;
    let posted_to = url.strip_prefix(&app.url()).expect("a URL of the service");
    let owner = app.browser().await;
    let list = owner.get(PATH).await.text;
    let id = between(&list, "data-key=\"", "\"");
    let page = format!("{PATH}/{id}");
    app.anonymous()
        .post(posted_to, json!({ "app": "ledger" }))
        .await
        .is(202);
    wait_for(&owner, &page, "Set aside").await;
    browser.open(&format!("{}{page}", app.url())).await;
    let template = [("templates/title", "Deploy {{ app }}")];
    browser.fill("form.short", &template).await;
    browser.press("Preview").await;
    browser.wait_for("#preview").await;
    assert_contains(&browser.text_of("#preview").await, "Deploy ledger");
    browser.press("Save").await;
    browser.wait_for("p.good").await;
    browser.press("Replay all that were set aside").await;
    wait_for(&owner, &page, ">Deploy ledger</a>").await;
}
