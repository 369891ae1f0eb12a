//! The pages of changes, services and hosts, and the escaping of their text.

use serde_json::json;

use super::{between, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, assert_contains, in_browser, on_one, text};

on_one!(
    concurrent_edits_keep_untouched_fields,
    a_conflict_keeps_the_zone_of_the_form,
    tags_may_contain_commas,
    the_longest_texts_can_be_edited,
);

in_browser!(
    a_change_is_created_edited_and_deleted,
    services_and_hosts_are_created_and_edited,
    html_is_escaped_on_every_page,
    markdown_is_rendered_and_sanitized,
);

async fn the_longest_texts_can_be_edited(app: TestApp) {
    let long = "変".repeat(20_000);
    let body = json!({ "title": "Long", "description": long, "impact": long });
    let id = app.key().create("/api/changes", body).await;
    let edited = [
        ("title", "Long and edited"),
        ("description", &long),
        ("impact", &long),
    ];
    let path = format!("/changes/{id}");
    app.browser().await.submit(&path, &edited).await;
    let change = app.key().read(&format!("/api{path}")).await;
    assert_eq!(change["title"], "Long and edited");
    assert_eq!(change["description"], long.as_str());
}

/// Creates, edits and deletes a change; also used without scripts.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(super) async fn a_change_is_created_edited_and_deleted(app: TestApp, browser: Chromium) {
    let key = app.key();
    let service = key.service("payments").await;
    sign_in(&browser, &app, &app.organization).await;

    // Each error is shown at its field, and the input is kept.
    browser.press("Log a change").await;
    browser.wait_for("form [name='title']").await;
    assert_eq!(browser.path().await, "/changes/new");
    let form = "main form";
    let refused = [
        ("title", "ab"),
        ("risk_level", "high"),
        ("description", "Line one\nLine two"),
        ("service_id", &service),
        ("tags", "prod, eu"),
        ("links", "pipeline=nowhere"),
    ];
    browser.click("details.more > summary").await;
    browser.fill(form, &refused).await;
    browser.press("Log change").await;
    browser.wait_for("[role='alert']").await;
    for (name, error) in [("title", "3"), ("links", "http")] {
        let field = browser.find(&format!("#{name}")).await;
        let attribute = async |name| field.attr(name).await.expect("an element");
        assert_eq!(attribute("aria-invalid").await.as_deref(), Some("true"));
        let described = attribute("aria-describedby").await.expect("its errors");
        let said = browser.text_of(&format!("#{described}")).await;
        assert!(said.contains(error), "{name}: {said}");
    }
    for name in ["risk_level", "description", "service_id", "tags"] {
        let kept = refused.iter().find(|(kept, _)| *kept == name);
        let (_, typed) = kept.expect("it was typed");
        assert_eq!(browser.value(&format!("#{name}")).await, *typed, "{name}");
        assert!(!browser.has(&format!("#{name}-error-1")).await, "{name}");
    }
    let all = key.body("/api/changes").await;
    assert_eq!(all["count"], 0, "nothing was saved");

    // The corrected form creates the change.
    let links = "pipeline=https://ci.example.com/runs/42?a=b";
    let title = "Deploy payments 2.3 & \"more\"";
    browser
        .fill(form, &[("title", title), ("links", links)])
        .await;
    browser.press("Log change").await;
    browser.wait_for("#history").await;
    assert_eq!(browser.text_of("h1").await, title);
    let path = browser.path().await;
    let (_, id) = path.rsplit_once('/').expect("an id");
    let read = async || key.read(&format!("/api/changes/{id}")).await;
    let change = read().await;
    assert_eq!(change["risk_level"], "high");
    assert_eq!(
        change["status"], "completed",
        "made by hand, and not scheduled"
    );
    assert_eq!(change["description"], "Line one\nLine two");
    assert_eq!(change["service"]["name"], "payments");
    assert_eq!(change["tags"], json!(["prod", "eu"]));
    let link = json!([{"label": "pipeline", "url": "https://ci.example.com/runs/42?a=b"}]);
    assert_eq!(change["links"], link);

    // A name that does not exist is refused with one that does.
    let cookie = browser.cookie().await;
    let caller = app.anonymous().with("cookie", &cookie);
    let fields = [("title", "Another"), ("service_id", "paymets")];
    let refused = caller.post_form("/changes", &fields).await;
    refused.is(422);
    let error = super::between(&refused.text, "id=\"service_id-error-1\">", "</p>");
    assert_eq!(
        error,
        "No service named &#34;paymets&#34;. Did you mean payments?"
    );

    // The edit form has the current values, and the history has the differences.
    browser.press("Edit").await;
    browser.wait_for("form [name='title']").await;
    assert_eq!(browser.value("#title").await, title);
    assert_eq!(browser.value("#tags").await, "prod, eu");
    assert_eq!(browser.value("#links").await, links);
    assert_eq!(browser.value("#service_id").await, "payments");
    let edited = [
        ("risk_level", "low"),
        ("status", "in_progress"),
        ("tags", "prod"),
        ("service_id", ""),
        ("impact", "Two minutes"),
    ];
    browser.fill(form, &edited).await;
    browser.press("Save").await;
    browser.wait_for("#history").await;
    assert_eq!(browser.path().await, path);
    browser.click(".head details.menu > summary").await;
    let history = browser.text_of("[data-live='history']").await;
    for words in [
        "risk level: high → low",
        "status: completed → in progress",
        "tags: prod, eu → prod",
        "service: payments → –",
        "impact: – → Two minutes",
        &app.organization.owner_name,
    ] {
        assert!(history.contains(words), "{words}: {history}");
    }
    assert!(!history.contains("title:"), "an unchanged field: {history}");
    let change = read().await;
    assert_eq!(change["service"], json!(null));
    assert_eq!(change["links"], link, "unchanged fields");

    // A button sets the status, with a reason.
    let reason = [("reason", "Too slow")];
    browser.fill("[data-live='head']", &reason).await;
    browser.press("Mark as rolled back").await;
    browser.wait_for("main .status.rolled_back").await;
    assert_eq!(read().await["status"], "rolled_back");
    let history = browser.text_of("[data-live='history']").await;
    assert_contains(&history, "in progress → rolled back");
    assert_contains(&history, "reason: Too slow");

    // Deleting needs a second click.
    browser.press("Delete this change").await;
    browser.click("form[action$='/delete'] button").await;
    browser.wait_for("#count").await;
    assert_eq!(browser.address().await, "/changes");
    assert_eq!(browser.text_of("#count").await, "0 changes");
    key.get(&format!("/api/changes/{id}")).await.is(404);
    browser.open(&format!("{}{path}", app.url())).await;
    let page = browser.text().await;
    assert_contains(&page, "404");
    browser.open(&app.at("/activity")).await;
    let log = browser.text_of("[data-live='entries']").await;
    assert!(log.contains(title) && log.contains("deleted"), "{log}");
    let sentence = format!("{} deleted the change {title}", app.organization.owner_name);
    assert_contains(&log, &sentence);
}

#[expect(clippy::too_many_lines, reason = "one table")]
async fn html_is_escaped_on_every_page(app: TestApp, browser: Chromium) {
    let key = app.key();
    let script = |what: &str| format!("<script>document.title='{what}'</script><b>\"'&amp;");
    let service = json!({ "name": script("service"), "description": script("about") });
    let service = key.create("/api/services", service).await;
    let host = json!({
        "hostname": script("host"), "os": script("os"), "roles": [script("role")],
        "description": script("about"),
    });
    let host = key.create("/api/hosts", host).await;
    let body = json!({
        "title": script("title"),
        "tags": [script("tag")],
        "description": script("description"),
        "impact": script("impact"),
        "links": [{ "label": script("label"), "url": "https://example.com/?q=%3Cscript%3E" }],
        "service_id": service,
        "host_id": host,
        "status": "in_progress",
        "scheduled_for": "2030-01-01T00:00:00Z",
    });
    let change = key.create("/api/changes", body).await;
    let planned = json!({
        "title": script("planned"), "status": "planned", "service_id": service,
        "scheduled_for": "2030-01-01T00:00:00Z",
    });
    key.create("/api/changes", planned).await;
    let other = json!({ "tags": [script("other")] });
    let path = format!("/api/changes/{change}");
    key.update(&path, other).await;
    sign_in(&browser, &app, &app.organization).await;

    let pages = [
        (
            "/".to_owned(),
            vec!["title", "tag", "service", "host", "planned"],
        ),
        (
            "/changes".to_owned(),
            vec!["title", "other", "service", "host"],
        ),
        (
            format!("/changes/{change}"),
            vec!["title", "other", "service", "host", "label", "tag"],
        ),
        (format!("/changes/{change}/edit"), vec!["title"]),
        (format!("/changes/new?service_id={service}"), vec![]),
        ("/services".to_owned(), vec!["service", "about"]),
        (
            format!("/services/{service}"),
            vec!["service", "about", "title"],
        ),
        ("/hosts".to_owned(), vec!["host"]),
        (
            format!("/hosts/{host}"),
            vec!["host", "os", "role", "about", "title"],
        ),
        (
            "/activity".to_owned(),
            vec!["title", "service", "host", "other"],
        ),
    ];
    for (page, shown) in pages {
        let shown: Vec<&str> = match page.as_str() {
            // Tags were changed since.
            "/" => shown
                .into_iter()
                .map(|word| if word == "tag" { "other" } else { word })
                .collect(),
            _ => shown,
        };
        browser.open(&format!("{}{page}", app.url())).await;
        browser.wait_for("main h1").await;
        let title = browser.tab.title().await.expect("a title");
        assert!(title.ends_with(" · Change log"), "{page}: {title} has run");
        // The only script is in the head.
        assert_eq!(browser.all("body script").await.len(), 0, "{page}");
        // Markdown may have bold text.
        let bold =
            "return [...document.querySelectorAll('b')].filter((b) => !b.closest('.prose')).length";
        assert_eq!(browser.script(bold).await, 0, "{page}");
        let text = browser.script("return document.body.textContent").await;
        let text = text.as_str().expect("a string");
        for word in shown {
            assert!(
                text.contains(&script(word)),
                "{page} without {word}: {text}"
            );
        }
        assert_eq!(browser.console().await, [""; 0], "{page}");
    }
    // Fields have the original text.
    browser
        .open(&app.at(&format!("/changes/{change}/edit")))
        .await;
    for (field, word) in [
        ("#title", "title"),
        ("#description", "description"),
        ("#service_id", "service"),
        ("#host_id", "host"),
    ] {
        assert_eq!(browser.value(field).await, script(word), "{field}");
    }
    // Downloads are not interpreted as HTML.
    let caller = app.anonymous().with("cookie", &browser.cookie().await);
    for ending in ["csv", "ndjson"] {
        let answer = caller.get(&format!("/changes.{ending}")).await;
        answer.is(200);
        assert!(!answer.header("content-type").contains("html"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(
            answer
                .header("content-disposition")
                .starts_with("attachment")
        );
        assert_contains(&answer.text, "document.title='title'");
    }
}

async fn markdown_is_rendered_and_sanitized(app: TestApp, browser: Chromium) {
    let description = "## What\n\n**Bold** `code`\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n\
        [good](https://example.com/a) [bad](javascript:alert(1)) [worse](data:text/html,x)\n\n\
        ![picture](https://example.com/pixel.png) <img src=x onerror=alert(1)>\n\n\
        <a href=\"javascript:alert(1)\" onclick=\"alert(1)\" style=\"position:fixed\">raw</a>\n\n\
        <form action=/sign-out method=post><button>press</button></form>\n\n\
        <style>main { display: none }</style><iframe src=/account></iframe>";
    let body = json!({ "title": "Described", "description": description, "impact": "*little*" });
    let change = app.key().create("/api/changes", body).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at(&format!("/changes/{change}"))).await;
    for (css, text) in [
        (".prose strong", "Bold"),
        (".prose code", "code"),
        (".prose li", "one"),
        (".prose td", "1"),
        (".prose em", "little"),
        (".prose a[href='https://example.com/a']", "good"),
    ] {
        assert_eq!(browser.text_of(css).await, text, "{css}");
    }
    let rel = browser.find(".prose a[href='https://example.com/a']").await;
    let rel = rel.attr("rel").await.expect("an element");
    assert!(rel.is_some_and(|rel| rel.contains("noopener") && rel.contains("nofollow")));
    for css in [
        "img", "form", "button", "style", "iframe", "script", "input",
    ] {
        assert!(!browser.has(&format!(".prose {css}")).await, "{css}");
    }
    let links = browser
        .script("return [...document.querySelectorAll('.prose a[href]')].map((a) => a.protocol)");
    assert_eq!(links.await, json!(["https:"]));
    let odd = "return [...document.querySelectorAll('.prose *')].flatMap((e) => \
        [...e.attributes].map((a) => a.name)).filter((n) => n === 'style' || n.startsWith('on'))";
    assert_eq!(browser.script(odd).await, json!([]));
    // No remote content was requested, and no policy was violated.
    assert_eq!(browser.console().await, [""; 0]);
}

async fn concurrent_edits_keep_untouched_fields(app: TestApp) {
    let owner = app.browser().await;
    let id = app.key().change("Shared").await;
    let path = format!("/changes/{id}");
    // A button sends one field only.
    app.key()
        .update(
            &format!("/api{path}"),
            json!({ "tags": ["a"], "impact": "some" }),
        )
        .await;
    owner.submit(&path, &[("status", "rolled_back")]).await;
    let change = app.key().read(&format!("/api{path}")).await;
    assert_eq!(change["status"], "rolled_back");
    assert_eq!(change["tags"], json!(["a"]));
    assert_eq!(change["impact"], "some");
    assert_eq!(change["title"], "Shared");
    // Saving without changes adds no entry.
    let before = super::entries(&owner).await;
    owner.submit(&path, &[("title", "Shared")]).await;
    assert_eq!(super::entries(&owner).await, before);
}

async fn a_conflict_keeps_the_zone_of_the_form(app: TestApp) {
    let key = app.key();
    let body = json!({
        "title": "Deploy", "status": "completed",
        "started_at": "2026-03-01T10:00:00Z", "ended_at": "2026-03-01T10:05:00Z",
    });
    let path = format!("/changes/{}", key.create("/api/changes", body).await);
    let zone = async |name: &str| app.browser().await.with("cookie", name);
    let tokyo = zone("changelog_zone=Asia/Tokyo").await;
    let form = tokyo.page(&format!("{path}/edit")).await;
    assert_contains(&form, "value=\"2026-03-01T19:00:00\"");
    key.update(&format!("/api{path}"), json!({ "title": "Deploy 2" }))
        .await;
    let fields = [
        ("title", "Deploy 3"),
        ("started_at", "2026-03-01T19:00"),
        ("ended_at", "2026-03-01T19:05"),
        ("time_zone", "Asia/Tokyo"),
        ("shown", between(&form, "name=\"shown\" value=\"", "\"")),
    ];
    // The reader has switched the zone meanwhile.
    let berlin = zone("changelog_zone=Europe/Berlin").await;
    let refused = berlin.post_form(&path, &fields).await;
    refused.is(422);
    for shown in [
        "name=\"time_zone\" value=\"Asia/Tokyo\"",
        "value=\"2026-03-01T19:00:00\"",
        "value=\"2026-03-01T19:05:00\"",
    ] {
        assert_contains(&refused.text, shown);
    }
}

async fn tags_may_contain_commas(app: TestApp) {
    let owner = app.browser().await;
    for (typed, tags) in [
        ("prod, eu", json!(["prod", "eu"])),
        ("\"a, b\",c", json!(["a, b", "c"])),
        ("c, \"a, b\"", json!(["c", "a, b"])),
        ("a \"b\" c", json!(["a \"b\" c"])),
        (" , ,x, ", json!(["x"])),
    ] {
        let fields = [("title", "Tagged"), ("tags", typed)];
        let answer = owner.post_form("/changes", &fields).await;
        answer.is(303);
        let path = answer.header("location").to_owned();
        let read = async || app.key().read(&format!("/api{path}")).await["tags"].clone();
        assert_eq!(read().await, tags, "{typed}");
        // Saving what the form shows changes nothing.
        let form = owner.get(&format!("{path}/edit")).await.text;
        let shown = between(between(&form, "id=\"tags\"", ">"), "value=\"", "\"");
        let shown = shown.replace("&#34;", "\"").replace("&quot;", "\"");
        owner.submit(&path, &[("tags", &shown)]).await;
        assert_eq!(read().await, tags, "{typed}, shown as {shown}");
    }
}

/// Creates and edits a service and a host; also used without scripts.
pub(super) async fn services_and_hosts_are_created_and_edited(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    let kinds = [
        (
            "services",
            "service",
            "name",
            "depends_on",
            "nowhere",
            "needed",
        ),
        (
            "hosts",
            "host",
            "hostname",
            "ip_address",
            "300.1.1.1",
            "192.0.2.7",
        ),
    ];
    let needed = json!({ "name": "needed", "color": "#0af" });
    let needed = app.key().create("/api/services", needed).await;
    for (path, noun, name, other, bad, good) in kinds {
        let address = app.at(&format!("/{path}"));
        browser.open(&address).await;
        browser.press(&format!("New {noun}")).await;
        browser.wait_for(&format!("#{name}:focus")).await;
        let address = format!("{address}/new");
        let form = "main form";
        browser.fill(form, &[(name, "first"), (other, bad)]).await;
        browser.press(&format!("Create {noun}")).await;
        // The first field with an error has the focus.
        browser.wait_for(&format!("#{other}-error-1")).await;
        browser.wait_for(&format!("#{other}:focus")).await;
        assert_eq!(browser.value(&format!("#{name}")).await, "first");
        assert_eq!(browser.value(&format!("#{other}")).await, bad);
        browser.fill(form, &[(other, good)]).await;
        browser.press(&format!("Create {noun}")).await;
        browser.wait_for("#calendar").await;
        assert_eq!(browser.text_of("h1").await, "first");
        let here = browser.path().await;
        assert!(here.starts_with(&format!("/{path}/")), "{here}");

        // Names are unique, ignoring case.
        browser.open(&address).await;
        browser.fill(form, &[(name, "FIRST")]).await;
        browser.press(&format!("Create {noun}")).await;
        browser.wait_for(&format!("#{name}-error-1")).await;
        let error = browser.text_of(&format!("#{name}-error-1")).await;
        assert_contains(&error, "already exists");

        // The edit form has the current values, and the log has the differences.
        browser.open(&format!("{}{here}", app.url())).await;
        browser.press("Edit").await;
        browser.wait_for(&format!("#{other}")).await;
        assert_eq!(browser.value(&format!("#{other}")).await, good);
        browser
            .fill(form, &[(name, "second"), ("description", "what for")])
            .await;
        browser.press("Save").await;
        browser.wait_for_text("what for").await;
        assert_eq!(browser.text_of("h1").await, "second");
        let thing = app.key().read(&format!("/api{here}")).await;
        assert_eq!(text(&thing[name]), "second");
        match other {
            "depends_on" => assert_eq!(thing[other], json!([needed])),
            _ => assert_eq!(text(&thing[other]), good),
        }
        let owner = app.anonymous().with("cookie", &browser.cookie().await);
        let log = owner.page(&format!("/activity?resource={noun}")).await;
        let entry = between(&log, "<li class=\"entry\"", "</li>");
        assert_contains(&entry, "<del>first</del>");
        assert_contains(&entry, "<ins>second</ins>");
    }
}
