//! Which services a service depends on, in the form and on the page of a service.

use serde_json::json;

use super::between;
use changelog_tests::{TestApp, TestClient, on_one, text};

on_one!(
    a_form_takes_names_and_ids,
    a_form_names_what_it_does_not_know,
    a_form_keeps_what_others_have_changed,
    the_page_of_a_service_shows_both_directions,
);

/// Creates services with these names, and returns their ids.
async fn services<const N: usize>(app: &TestApp, names: [&str; N]) -> [String; N] {
    let mut ids = names.map(str::to_owned);
    for id in &mut ids {
        *id = app.key().service(id).await;
    }
    ids
}

/// Returns the list in the form of a service's page.
async fn shown(browser: &TestClient, path: &str) -> String {
    let page = browser.page(&format!("{path}/edit")).await;
    let input = between(&page, "<input id=\"depends_on\"", ">");
    between(input, "value=\"", "\"").to_owned()
}

async fn a_form_takes_names_and_ids(app: TestApp) {
    let browser = app.browser().await;
    let [ledger, cafe, comma] = services(&app, ["Ledger", "café", "a, b"]).await;
    let typed = format!(" cafe\u{301}, {ledger},, \"A, B\", ledger");
    let fields = [("name", "payments"), ("depends_on", typed.as_str())];
    let answer = browser.post_form("/services", &fields).await;
    answer.is(303);
    let path = answer.header("location").to_owned();
    let service = app.key().read(&format!("/api{path}")).await;
    assert_eq!(service["depends_on"], json!([cafe, ledger, comma]));
    let typed = shown(&browser, &path).await;
    assert_eq!(typed, "café, Ledger, &#34;a, b&#34;");

    // What the form shows is what it takes; without the field the list stays.
    for fields in [
        vec![("depends_on", typed.replace("&#34;", "\""))],
        vec![("name", "Payments".to_owned())],
    ] {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        browser.submit(&path, &fields).await;
        let after = app.key().read(&format!("/api{path}")).await;
        assert_eq!(after["depends_on"], service["depends_on"], "{fields:?}");
    }
    browser.submit(&path, &[("depends_on", "")]).await;
    let after = app.key().read(&format!("/api{path}")).await;
    assert_eq!(after["depends_on"], json!([]));
    assert_eq!(shown(&browser, &path).await, "");
    let log = browser.get("/activity?resource=service").await;
    let entry = between(&log.text, "<li class=\"entry\"", "</li>");
    assert_eq!(between(entry, "<del>", "</del>"), "café, Ledger, a, b");
}

async fn a_form_keeps_what_others_have_changed(app: TestApp) {
    let browser = app.browser().await;
    let [ledger, mail] = services(&app, ["ledger", "mail"]).await;
    let path = format!("/services/{ledger}");
    let shown = browser.get(&format!("{path}/edit")).await.text;
    let shown = between(&shown, "name=\"shown\" value=\"", "\"").to_owned();
    let meanwhile = json!({ "description": "Of others", "depends_on": [mail] });
    let address = format!("/api{path}");
    app.key().update(&address, meanwhile).await;
    // The form sends all fields, of which the person has changed one.
    let form = |name: &'static str, description: &'static str| {
        [
            ("name", name),
            ("color", "#6366f1"),
            ("depends_on", ""),
            ("description", description),
            ("shown", shown.as_str()),
        ]
    };
    let save = async |fields: [(&str, &str); 5]| browser.post_form(&path, &fields).await;
    save(form("Ledger", "")).await.is(303);
    let after = app.key().read(&address).await;
    assert_eq!(after["name"], "Ledger");
    assert_eq!(after["description"], "Of others");
    assert_eq!(after["depends_on"], json!([mail]));
    // What both have changed is shown.
    let refused = save(form("Ledger", "Of this person")).await;
    refused.is(422);
    let error = between(&refused.text, "id=\"description-error-1\">", "</p>");
    assert!(error.contains("was changed to “Of others”"), "{error}");
    assert!(refused.text.contains("Of this person"));
}

async fn a_form_names_what_it_does_not_know(app: TestApp) {
    let browser = app.browser().await;
    let [ledger] = services(&app, ["ledger"]).await;
    let other = app.with_key(&app.second_organization().key);
    let foreign = other.service("mail").await;
    let path = format!("/services/{ledger}");
    for (typed, message) in [
        ("mail", "service 1: No service named &#34;mail&#34;"),
        ("ledger, mail", "service 2: No service named &#34;mail&#34;"),
        (&foreign, "service 1: must be a service of the organization"),
        (
            "ledger",
            "service 1: must be another service, got the id of ledger itself",
        ),
    ] {
        let answer = browser.post_form(&path, &[("depends_on", typed)]).await;
        answer.is(422);
        let error = between(&answer.text, "id=\"depends_on-error-1\">", "</p>");
        assert!(error.starts_with(message), "{typed}: {error}");
        let input = between(&answer.text, "<input id=\"depends_on\"", ">");
        assert_eq!(between(input, "value=\"", "\""), typed);
    }
    let fields = [("name", "payments"), ("depends_on", "mail")];
    browser.post_form("/services", &fields).await.is(422);
    let list = app.key().read("/api/services").await;
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(list[0]["depends_on"], json!([]));
}

async fn the_page_of_a_service_shows_both_directions(app: TestApp) {
    let browser = app.browser().await;
    let [ledger, mail] = services(&app, ["ledger", "mail <b>"]).await;
    let new = json!({ "name": "payments", "depends_on": [ledger, mail] });
    let payments = app.key().post("/api/services", new).await.data(201);
    let payments = text(&payments["id"]);
    for (id, depends_on, needed_by) in [
        (
            &payments,
            vec![(&ledger, "ledger"), (&mail, "mail &#60;b&#62;")],
            vec![],
        ),
        (&ledger, vec![], vec![(&payments, "payments")]),
    ] {
        let page = browser.page(&format!("/services/{id}")).await;
        for (heading, expected) in [("Depends on", depends_on), ("Needed by", needed_by)] {
            let listed = between(&page, &format!("<dt>{heading}</dt><dd>"), "</dd>");
            if expected.is_empty() {
                assert_eq!(listed, "–", "{heading}");
            }
            for (id, name) in expected {
                let start = format!("href=\"/services/{id}\">");
                let link = between(listed, &start, "</a>");
                let is_named = link.ends_with(&format!("<bdi>{name}</bdi>"));
                assert!(is_named, "{heading}: {listed}");
            }
        }
    }
    let host = app.key().host("web-1").await;
    let page = browser.get(&format!("/hosts/{host}")).await;
    assert!(!page.text.contains("Needed by"), "hosts depend on nothing");
}
