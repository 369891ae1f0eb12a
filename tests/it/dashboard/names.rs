//! Names that are completed while one types, and views under which filters are saved.

use serde_json::{Value, json};

use super::{between, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, TestClient, in_browser, on_both};

on_both!(
    names_begin_with_the_prefix,
    views_are_saved_renamed_and_deleted,
    shared_views_are_changed_by_admins,
);
in_browser!(names_are_completed_in_the_browser);

async fn names(browser: &TestClient, path: &str) -> Value {
    browser.body(&format!("/names/{path}")).await
}

async fn names_begin_with_the_prefix(app: TestApp) {
    let (key, browser) = (app.key(), app.browser().await);
    for name in ["payments", "Pay-out", "search"] {
        key.service(name).await;
        key.host(name).await;
    }
    let body = json!({ "title": "Tagged", "tags": ["eu", "eu-1", "deploy", "日本"] });
    key.create("/api/changes", body).await;
    let all = |names: Value| json!({ "names": names, "has_more": false });
    for kind in ["services", "hosts"] {
        for (prefix, expected) in [
            ("", json!(["Pay-out", "payments", "search"])),
            ("?prefix=PAY", json!(["Pay-out", "payments"])),
            ("?prefix=payments", json!(["payments"])),
            ("?prefix=x", json!([])),
            ("?prefix=%00", json!([])),
            (&*format!("?prefix={}", "x".repeat(3_000)), json!([])),
        ] {
            let path = format!("{kind}{prefix}");
            assert_eq!(names(&browser, &path).await, all(expected), "{path}");
        }
    }
    for (prefix, expected) in [
        ("", json!(["deploy", "eu", "eu-1", "日本"])),
        ("?prefix=eu", json!(["eu", "eu-1"])),
        ("?prefix=%E6%97%A5", json!(["日本"])),
        ("?prefix=EU", json!([])),
    ] {
        let path = format!("tags{prefix}");
        assert_eq!(names(&browser, &path).await, all(expected), "{path}");
    }
    let people = names(&browser, "people?prefix=TERRA").await;
    assert_eq!(people, all(json!(["terraform"])));
    for name in ["AWS production", "aws staging", "GitHub"] {
        app.source("generic", name, None);
    }
    let sources = names(&browser, "sources?prefix=AWS").await;
    assert_eq!(sources, all(json!(["AWS production", "aws staging"])));
    browser.get("/names/secrets").await.is(404);
    app.anonymous().get("/names/services").await.is(303);
    let theirs = app.browser_of(&app.second_organization()).await;
    for kind in ["services", "hosts", "tags", "sources"] {
        assert_eq!(names(&theirs, kind).await, all(json!([])), "{kind}");
    }
}

async fn names_are_completed_in_the_browser(app: TestApp, browser: Chromium) {
    let service = json!({ "name": "payments" });
    app.key().create("/api/services", service).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes")).await;
    // The driver takes the field for hidden; see `open_filters`.
    browser
        .script("document.getElementById('service').focus()")
        .await;
    browser
        .wait_for("#service-names option[value='payments']")
        .await;
}

/// Returns the names of the views on a page, with their ids.
async fn views(browser: &TestClient) -> Vec<String> {
    let page = browser.page("/views").await;
    let main = between(&page, "<main", "</main>");
    let items = main.split("<li>").skip(1);
    items
        .map(|item| between(item, "dir=\"auto\">", "<").to_owned())
        .collect()
}

async fn views_are_saved_renamed_and_deleted(app: TestApp) {
    let owner = app.browser().await;
    let viewer = join(&app, &owner, "viewer", "viewer").await.browser;
    let save = |name: &str, query: &str| {
        let fields = [("name", name.to_owned()), ("query", query.to_owned())];
        let viewer = viewer.clone();
        async move {
            let fields = fields
                .each_ref()
                .map(|(name, value)| (*name, value.as_str()));
            viewer.post_form("/views", &fields).await
        }
    };
    let answer = save(" High risk ", "risk_level=high&page=3").await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/changes?risk_level=high");
    assert_eq!(views(&viewer).await, ["High risk"]);
    // It is on the list, and marked there.
    let list = viewer.get("/changes?risk_level=high").await;
    let link = "<a href=\"/changes?risk_level=high\" dir=\"auto\" aria-current=\"true\">High risk<";
    assert!(list.text.contains(link), "{}", list.text);
    // Nobody else sees it.
    assert_eq!(views(&owner).await, [""; 0]);
    for (name, query, expected) in [
        ("", "risk_level=high", "Enter a name"),
        ("a\u{0}b", "risk_level=high", "control characters"),
        ("HIGH RISK", "risk_level=low", "already exists"),
        ("None", "", "no filter"),
        ("None", "page=3", "no filter"),
        ("Wrong", "risk_level=huge", "not valid"),
        ("Wrong", "unknown=1", "not valid"),
        ("Long", &format!("q={}", "a".repeat(1_999)), "at most 2,000"),
    ] {
        let answer = save(name, query).await;
        answer.is(422);
        let error = between(&answer.text, "role=\"alert\"><p>", "</p>");
        assert!(error.contains(expected), "{name:?}: {error}");
    }
    save(&"n".repeat(61), "risk_level=high").await.is(422);
    save("<b>\u{5d0}", "range=4h").await.is(303);
    assert_eq!(views(&viewer).await, ["&#60;b&#62;\u{5d0}", "High risk"]);
    // Of another person, it can neither be renamed nor deleted.
    let page = viewer.get("/views").await.text;
    let (_, rest) = page.split_once("High risk").expect("the view");
    let path = format!("/views/{}", between(rest, "action=\"/views/", "\""));
    let delete = format!("{path}/delete");
    owner.post_form(&path, &[("name", "Mine")]).await.is(404);
    owner.post_form(&delete, &[]).await.is(404);
    owner.post_form(&delete, &[("shared", "1")]).await.is(404);
    let taken = "<b>\u{5d0} ";
    let refused = viewer.post_form(&path, &[("name", taken)]).await;
    refused.is(422);
    let kept = between(
        &refused.text,
        "<details class=\"menu choose\" open>",
        "</form>",
    );
    assert!(kept.contains(&format!("action=\"{path}\"")), "{kept}");
    assert!(kept.contains("value=\"&#60;b&#62;\u{5d0} \""), "{kept}");
    viewer.submit(&path, &[("name", "Risky")]).await;
    assert_eq!(views(&viewer).await, ["&#60;b&#62;\u{5d0}", "Risky"]);
    viewer.submit(&delete, &[]).await;
    assert_eq!(views(&viewer).await, ["&#60;b&#62;\u{5d0}"]);
    // The limit.
    for number in 1..50 {
        save(&format!("View {number}"), "range=1h").await.is(303);
    }
    let answer = save("One too many", "range=1h").await;
    answer.is(422);
    assert!(answer.text.contains("At most 50 views"), "{}", answer.text);
}

async fn shared_views_are_changed_by_admins(app: TestApp) {
    let owner = app.browser().await;
    let member = join(&app, &owner, "member", "member").await.browser;
    let shared = [
        ("name", "Prod"),
        ("query", "environment=prod"),
        ("shared", "1"),
    ];
    member.post_form("/views", &shared).await.is(403);
    owner.submit("/views", &shared).await;
    assert_eq!(views(&member).await, ["Prod"]);
    let page = owner.get("/views").await.text;
    let path = format!("/views/{}", between(&page, "action=\"/views/", "\""));
    let delete = format!("{path}/delete");
    for (path, fields) in [
        (&path, vec![("name", "Mine"), ("shared", "1")]),
        (&delete, vec![("shared", "1")]),
    ] {
        member.post_form(path, &fields).await.is(403);
    }
    // As a view of their own, it does not exist.
    member.post_form(&delete, &[]).await.is(404);
    let theirs = app.browser_of(&app.second_organization()).await;
    assert_eq!(views(&theirs).await, [""; 0]);
    theirs.post_form(&delete, &[("shared", "1")]).await.is(404);
    owner.submit(&delete, &[("shared", "1")]).await;
    assert_eq!(views(&member).await, [""; 0]);
}
