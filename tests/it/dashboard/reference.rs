//! The reference of the API (`/api/docs`) and the pages of the problem codes.

use std::collections::BTreeSet;

use changelog_core::ProblemCode;
use serde_json::{Value, json};

use changelog_tests::chromium::Chromium;
use changelog_tests::openapi::Document;
use changelog_tests::{TestApp, in_browser, on_one, text};

use super::between;

on_one!(
    the_reference_has_what_the_document_has,
    the_reference_knows_its_reader,
    every_problem_code_has_a_page,
    the_type_of_an_error_leads_to_its_page,
);

in_browser!(no_width_scrolls_sideways);
in_browser!(without_scripts: tabs_work_without_scripts);

/// Returns the text of the operation or object with this id.
fn article<'p>(page: &'p str, id: &str) -> &'p str {
    let start = format!("<article class=\"operation\" id=\"{id}\">");
    between(page, &start, "</article>")
}

async fn the_reference_has_what_the_document_has(app: TestApp) {
    let page = app.anonymous().get("/api/docs").await;
    page.is(200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let page = page.text;
    let document = Document::of(&app).await;
    let paths = document.0["paths"].as_object().expect("paths");
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            let id = text(&operation["operationId"]);
            let shown = article(&page, &id);
            let method = method.to_uppercase();
            assert!(
                shown.contains(path) && shown.contains(&method),
                "{id}: {shown}"
            );
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for parameter in parameters {
                let name = format!("<dt><code>{}</code>", text(&parameter["name"]));
                assert!(shown.contains(&name), "{id}: {name}");
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert_shows(&document, shown, &id, body);
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let content = response["content"].as_object().into_iter().flatten();
                for (media_type, content) in content {
                    if media_type == "application/problem+json" {
                        for code in response["x-codes"].as_array().expect("codes") {
                            let link = format!("href=\"/problems/{}\"", text(code));
                            assert!(shown.contains(&link), "{id} {status}: {code}");
                        }
                    } else {
                        assert_shows(&document, shown, &id, &content["schema"]);
                    }
                }
            }
        }
    }
    // Whatever is referred to is there, once.
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for link in page
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(unique.contains(link), "#{link} does not exist");
    }
    // Limits, requirements, words and nullability.
    let create = article(&page, "create_change");
    for expected in [
        "<code>title</code> <span class=\"kind\">string, 3 to 300 characters",
        "<span class=\"needed\">required</span>",
        "<code>low</code> <code>medium</code> <code>high</code> or null",
        "array of <a href=\"#NewLink\">NewLink</a> or null, at most 10 elements",
        "header, string, 1 to 255 characters",
    ] {
        assert!(create.contains(expected), "{expected}: {create}");
    }
}

/// Requires the fields of an object that an operation takes or answers.
fn assert_shows(document: &Document, shown: &str, id: &str, schema: &Value) {
    let properties = document.resolve(schema)["properties"].as_object();
    for name in properties.into_iter().flat_map(|all| all.keys()) {
        let field = format!("<dt><code>{name}</code>");
        assert!(shown.contains(&field), "{id}: {name}");
    }
}

async fn the_reference_knows_its_reader(mut app: TestApp) {
    let owner = app.browser().await;
    let signed_out = app.anonymous().get("/api/docs").await.text;
    let signed_in = owner.get("/api/docs").await.text;
    // The address of a service without a public URL is for its members only.
    assert!(signed_out.contains("$CHLOG_URL/api/changes") && !signed_out.contains(&app.url()));
    assert!(signed_out.contains("/sign-in?next=") && !signed_out.contains("aria-label=\"Main\""));
    assert!(!signed_in.contains("$CHLOG_URL/") && !signed_in.contains("/sign-in"));
    assert!(signed_in.contains(&format!("{}/api/changes?risk_level", app.url())));
    assert!(signed_in.contains(&format!("export CHLOG_URL={}\n", app.url())));
    assert!(signed_in.contains("href=\"/settings/api-keys\">Make an API key"));
    assert!(signed_in.contains("aria-label=\"Main\""));
    // A chosen theme.
    let dark = app.anonymous().with("cookie", "changelog_theme=dark");
    let dark = dark.get("/api/docs").await.text;
    assert!(dark.contains("<html lang=\"en\" data-theme=\"dark\">"));
    let overview = owner.get("/").await.text;
    assert!(
        overview.contains("<a href=\"/api/docs\">API</a>"),
        "{overview}"
    );
    // The public URL is for everyone.
    let public = ["--public-url", "https://changes.example.org"];
    app.restart_with(&public).await;
    let page = app.anonymous().get("/api/docs").await.text;
    assert!(page.contains("https://changes.example.org/api/changes?risk_level"));
}

async fn every_problem_code_has_a_page(app: TestApp) {
    let anonymous = app.anonymous();
    let docs = anonymous.get("/api/docs").await.text;
    for code in ProblemCode::ALL {
        let page = anonymous.page(&format!("/problems/{code}")).await;
        let main = between(&page, "<main", "</main>");
        for expected in [code.as_str(), code.title(), &code.status().to_string()] {
            assert!(main.contains(expected), "{code}: {main}");
        }
        // Up to the first word that is code.
        for words in [code.cause(), code.remedy()] {
            let (words, _) = words.split_once('`').unwrap_or((words, ""));
            assert!(
                main.contains(&words.replace('\'', "&#39;")),
                "{code}: {main}"
            );
        }
        // The operations link to it, and it to them.
        for id in main
            .split("/api/docs#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
        {
            if id != "errors" {
                let link = format!("href=\"/problems/{code}\"");
                assert!(article(&docs, id).contains(&link), "{code}: {id}");
            }
        }
        assert!(
            docs.contains(&format!("href=\"/problems/{code}\"")),
            "{code}"
        );
    }
    let creates = anonymous.get("/problems/idempotency_key_reused").await.text;
    assert_eq!(creates.matches("/api/docs#create_").count(), 5, "{creates}");
    for unknown in ["nonsense", "Not_Found", "unknown", "%00"] {
        anonymous.get(&format!("/problems/{unknown}")).await.is(404);
    }
    anonymous.get("/problems").await.is(404);
}

async fn the_type_of_an_error_leads_to_its_page(app: TestApp) {
    let key = app.key();
    for answer in [
        key.post("/api/changes", json!({ "title": "" })).await,
        key.get("/api/changes/nonsense").await,
        key.get("/api/changes?page=0").await,
        app.anonymous().get("/api/changes").await,
        key.get("/api/nothing").await,
        key.patch("/api/changes", json!({})).await,
    ] {
        let problem = answer.json();
        let page = app
            .anonymous()
            .page(problem["type"].as_str().expect("a path"))
            .await;
        assert!(page.contains(&text(&problem["code"])), "{}", page);
    }
}

async fn tabs_work_without_scripts(app: TestApp, browser: Chromium) {
    browser.open(&format!("{}/api/docs", app.url())).await;
    let example = "#list_changes .example";
    for (tool, words) in [
        ("chlog", "chlog list"),
        ("rust", "ChangeQuery"),
        ("curl", "curl -s"),
    ] {
        browser
            .click(&format!("{example} label:has([value='{tool}'])"))
            .await;
        let mut shown = Vec::new();
        for pre in browser.all(&format!("{example} pre")).await {
            if pre.is_displayed().await.expect("an example") {
                shown.push(pre.text().await.expect("its text"));
            }
        }
        assert!(
            shown.len() == 1 && shown[0].contains(words),
            "{tool}: {shown:?}"
        );
    }
}

async fn no_width_scrolls_sideways(app: TestApp, browser: Chromium) {
    browser.open(&format!("{}/api/docs", app.url())).await;
    for width in [320, 768, 1024, 1280, 2560] {
        browser.set_width(width).await;
        let wider = "return document.scrollingElement.scrollWidth - innerWidth";
        let wider = browser.script(wider).await;
        assert!(
            wider.as_f64().is_some_and(|wider| wider <= 0.0),
            "{width}: {wider}"
        );
    }
}
