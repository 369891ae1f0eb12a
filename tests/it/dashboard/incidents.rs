//! The pages of incidents, the forms by which people work with them, and the ways that lead
//! there.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::sources::wait_for;
use super::{between, join, main_of, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::event_stream::EventStream;
use changelog_tests::{
    TestApp, TestClient, assert_contains, assert_lacks, in_browser, on_both, on_one, on_postgres,
    text,
};

on_both!(
    the_list_has_open_ones_first_filters_and_pages,
    an_incident_is_opened_edited_resolved_and_reopened,
    a_cause_is_marked_on_the_page_and_shown_on_the_change,
    timelines_have_incidents_as_bands,
);

on_one!(
    without_incidents_the_page_says_what_makes_them,
    a_form_does_not_replace_what_others_have_changed,
    suspects_that_were_shown_first_stay_readable,
    without_suspects_the_page_says_what_was_silent,
    incidents_of_a_service_at_the_same_time_are_shown_together,
    other_pages_lead_to_incidents,
    links_that_are_no_web_addresses_are_not_linked,
);

on_postgres!(incidents_of_another_server_are_noticed);

in_browser!(
    an_alert_appears_with_its_suspects_and_is_resolved,
    the_palette_finds_an_incident,
    a_printed_incident_has_no_controls,
);
in_browser!(without_scripts: an_incident_is_handled_without_scripts);

const UNKNOWN: &str = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";

fn ago(minutes: i64) -> String {
    written(Utc::now() - TimeDelta::minutes(minutes))
}

fn written(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Opens an incident by the API, and returns the path of its page.
async fn open(key: &TestClient, title: &str, mut more: Value) -> String {
    more["title"] = json!(title);
    let id = key.create("/api/incidents", more).await;
    format!("/incidents/{id}")
}

/// Records a change of a service that ended some minutes ago.
async fn changed(key: &TestClient, title: &str, service: &str, minutes: i64) -> String {
    let body = json!({
        "title": title, "service_id": service, "status": "completed", "environment": "prod",
        "started_at": ago(minutes), "ended_at": ago(minutes - 1),
    });
    key.create("/api/changes", body).await
}

/// Returns what Alertmanager sends about a group with one alert of the service checkout.
fn alert(title: &str, starts: &str, ends: Option<&str>) -> Value {
    let status = if ends.is_some() { "resolved" } else { "firing" };
    let labels = json!({ "service": "checkout", "env": "prod", "severity": "critical" });
    json!({
        "version": "4", "groupKey": title, "status": status, "receiver": "changes",
        "groupLabels": {}, "commonLabels": labels, "externalURL": "http://am.example.com",
        "commonAnnotations": { "summary": title },
        "alerts": [{
            "status": status, "labels": labels, "annotations": {}, "startsAt": starts,
            "endsAt": ends.unwrap_or("0001-01-01T00:00:00Z"),
            "generatorURL": "http://prometheus.example.com/graph",
        }],
    })
}

async fn an_alert_appears_with_its_suspects_and_is_resolved(app: TestApp, browser: Chromium) {
    let key = app.key();
    let (checkout, search) = (key.service("checkout").await, key.service("search").await);
    let culprit = changed(&key, "Deploy checkout 5.1", &checkout, 6).await;
    changed(&key, "Deploy search 7.9", &search, 4).await;
    let source = app.source("alertmanager", "Alerts", None);
    sign_in(&browser, &app, &app.organization).await;
    let live = "[data-freshness=live]";
    let stays = async |path: &str, title: &str| {
        browser.open(&format!("{}{path}", app.url())).await;
        browser.wait_for(live).await;
        browser.script("window.mark = 'the same page'").await;
        source.send(&alert(title, &ago(2), None)).await.is(202);
        browser.wait_for_text(title).await;
        let mark = browser.script("return window.mark").await;
        assert_eq!(mark, "the same page", "{path} was loaded again");
    };
    stays("/incidents", "Checkout returns 502").await;
    browser.wait_for_text("1 open incident").await;
    stays("/", "Checkout is slow").await;
    browser.wait_for_text("2 open incidents").await;

    // The suspects of its page are ranked, and a change that arrives late is among them.
    browser.open(&app.at("/incidents")).await;
    let page = browser.find(".incident:last-child .title a").await;
    let page = page.attr("href").await.expect("a link").expect("a path");
    browser.open(&format!("{}{page}", app.url())).await;
    browser.wait_for("ol.suspects").await;
    let first = ".suspects .first";
    let title = browser.text_of(&format!("{first} .title")).await;
    assert_eq!(title, "Deploy checkout 5.1");
    let reasons = browser.text_of(&format!("{first} .reasons")).await;
    assert_contains(&reasons, "same service: checkout");
    browser.wait_for(live).await;
    changed(&key, "Flip a flag of checkout", &checkout, 3).await;
    browser.wait_for_text("Flip a flag of checkout").await;
    browser.wait_for(".first-suspects").await;

    // It is marked, which proposes that it has failed.
    browser
        .click(&format!("form:has([value='{culprit}']) button"))
        .await;
    browser.wait_for_text("Marked as the cause").await;
    browser
        .open(&format!("{}/changes/{culprit}", app.url()))
        .await;
    browser.wait_for(".caused").await;
    browser.press("Set the outcome to failed").await;
    browser.wait_for(".status.failed").await;
    assert!(!browser.text().await.contains("Set the outcome to failed"));

    // The alert ends.
    browser.open(&format!("{}{page}", app.url())).await;
    browser.wait_for(live).await;
    browser.wait_for("[data-live=head] .status.open").await;
    let resolved = alert("Checkout returns 502", &ago(2), Some(&ago(0)));
    source.send(&resolved).await.is(202);
    browser.wait_for("[data-live=head] .status.completed").await;
    assert_eq!(browser.console().await, [""; 0]);
}

async fn the_palette_finds_an_incident(app: TestApp, browser: Chromium) {
    let page = open(&app.key(), "Checkout returns 502", json!({})).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    let control = fantoccini::key::Key::Control.to_string();
    browser.keys(&format!("{control}k{control}")).await;
    browser.wait_for(".palette[open]").await;
    browser.keys("returns").await;
    browser
        .wait_for_text("Incident: Checkout returns 502")
        .await;
    browser.keys("\n").await;
    browser.wait_for_url(&format!("{}{page}", app.url())).await;
}

async fn a_printed_incident_has_no_controls(app: TestApp, browser: Chromium) {
    let key = app.key();
    let service = key.service("checkout").await;
    changed(&key, "Deploy checkout 5.1", &service, 6).await;
    let page = open(&key, "Down", json!({ "service_id": service })).await;
    wait_for(&app.browser().await, &page, "ol class=\"suspects").await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&format!("{}{page}", app.url())).await;
    let shown = "return [...document.querySelectorAll('button, a.button, summary, header, footer')] \
        .filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())";
    assert!(browser.script(shown).await.to_string().contains("Resolve"));
    browser.set_media("print").await;
    let kept = browser.script(shown).await;
    assert_eq!(kept, json!(["Show as table"]));
    let text = browser.text().await;
    assert_contains(&text, "Deploy checkout 5.1");
    assert_contains(&text, "Activity");
}

async fn an_incident_is_handled_without_scripts(app: TestApp, browser: Chromium) {
    let key = app.key();
    let service = key.service("checkout").await;
    changed(&key, "Deploy checkout 5.1", &service, 6).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/incidents")).await;
    browser.press("Open an incident").await;
    let fields = [("title", "Down"), ("service_id", "checkout")];
    browser.fill("main form", &fields).await;
    browser.press("Open incident").await;
    browser.wait_for("#suspects").await;
    let path = browser.path().await;
    wait_for(&app.browser().await, &path, "ol class=\"suspects").await;
    browser.open(&format!("{}{path}", app.url())).await;
    browser.press("Mark as cause: Deploy checkout 5.1").await;
    browser.wait_for_text("Marked as the cause").await;
    browser.press("Remove the mark").await;
    browser.press("None of these").await;
    browser
        .wait_for_text("No recorded change is the cause.")
        .await;
    browser.press("Resolve").await;
    browser.wait_for_text("resolved").await;
    // The band of the incident is also text.
    let band = browser.text_of(".timeline-bands").await;
    assert_contains(&band, "Down");
}

async fn without_incidents_the_page_says_what_makes_them(app: TestApp) {
    let owner = app.browser().await;
    let page = main_of(&owner, "/incidents").await;
    assert_contains(&page, "No incidents yet");
    assert_contains(&page, "href=\"/settings/sources\"");
    let viewer = join(&app, &owner, "viewer", "viewer").await.browser;
    let page = main_of(&viewer, "/incidents").await;
    assert_contains(&page, "No incidents yet");
    assert_lacks(&page, "href=\"/settings/sources\"");
    assert_lacks(&page, "/incidents/new");
    let overview = main_of(&owner, "/").await;
    assert_lacks(&overview, "open incident");
    let filtered = main_of(&owner, "/incidents?status=open").await;
    assert_contains(&filtered, "No incident matches these filters");
}

/// Returns the titles of a list, in their order.
fn titles(page: &str) -> Vec<String> {
    let rows = page.split("<li class=\"incident\">").skip(1);
    let title = |row: &str| between(row, "dir=\"auto\">", "<").to_owned();
    rows.map(title).collect()
}

async fn the_list_has_open_ones_first_filters_and_pages(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("Payments").await;
    for number in 0..30 {
        let started = format!("2026-01-15T08:{number:02}:00.000Z");
        let mut more = json!({ "started_at": started });
        if number % 3 == 0 {
            more["service_id"] = json!(service);
        }
        let page = open(&key, &format!("Incident {number}"), more).await;
        if number >= 28 {
            owner.submit(&page, &[("status", "resolved")]).await;
        }
    }
    let page = main_of(&owner, "/incidents").await;
    let listed = titles(&page);
    assert_eq!(listed.len(), 25);
    assert_eq!(listed[..2], ["Incident 27", "Incident 26"]);
    assert_contains(&page, "28 open incidents");
    assert_contains(&page, "<option value=\"open\">open</option>");
    let next = between(&page, "rel=\"next\" href=\"", "\"");
    let next = main_of(&owner, next).await;
    assert_eq!(
        titles(&next),
        [
            "Incident 2",
            "Incident 1",
            "Incident 0",
            "Incident 29",
            "Incident 28"
        ]
    );
    assert_contains(&next, "rel=\"prev\" href=\"/incidents\"");
    assert_lacks(&next, "rel=\"next\"");
    let resolved = main_of(&owner, "/incidents?status=resolved").await;
    assert_eq!(titles(&resolved), ["Incident 29", "Incident 28"]);
    for name in ["payments", &service] {
        let of_service = main_of(&owner, &format!("/incidents?service={name}")).await;
        assert_eq!(titles(&of_service).len(), 10, "{name}");
        assert_contains(&of_service, "10 open incidents");
        assert_contains(&of_service, "value=\"Payments\"");
    }
    // A form sends its empty fields, too.
    let sent = owner.get("/incidents?status=&service=Payments").await;
    assert_eq!(
        (sent.status, sent.header("location")),
        (303, "/incidents?service=Payments")
    );
    for (query, error) in [
        ("status=closed", "id=\"status-error-1\""),
        ("service=nothing", "id=\"service-error-1\""),
        ("service=%00", "id=\"service-error-1\""),
        ("severity=critical", "Unknown filter: severity"),
        ("before=x", "before"),
    ] {
        let refused = owner.get(&format!("/incidents?{query}")).await;
        refused.is(400);
        assert_contains(&refused.text, error);
        assert!(titles(&refused.text).is_empty(), "{query}");
    }
    let unknown = format!("/incidents?before={UNKNOWN}");
    owner.get(&unknown).await.is(404);
}

async fn an_incident_is_opened_edited_resolved_and_reopened(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("Payments").await;
    let form = main_of(&owner, &format!("/incidents/new?service_id={service}")).await;
    assert_contains(&form, "value=\"Payments\"");
    for (fields, at) in [
        ([("title", "")], "title"),
        ([("title", "ab")], "title"),
        ([("service_id", "nothing")], "service_id"),
        ([("severity", "bad")], "severity"),
        ([("environment", "moon")], "environment"),
        ([("started_at", "2999-01-01T00:00")], "started_at"),
        ([("url", "javascript:alert(1)")], "url"),
    ] {
        let refused = owner.post_form("/incidents", &fields).await;
        refused.is(422);
        assert_contains(&refused.text, format!("id=\"{at}-error-1\""));
    }
    assert_eq!(key.read("/api/incidents").await, json!([]));
    let fields = [
        ("title", "Checkout returns 502"),
        ("severity", ""),
        ("service_id", "payments"),
        ("environment", "prod"),
        ("started_at", "2026-01-15T08:30"),
        ("url", "https://alerts.example.com/7"),
        ("time_zone", "Europe/Berlin"),
    ];
    let opened = owner.post_form("/incidents", &fields).await;
    opened.is(303);
    let page = opened.header("location").to_owned();
    let api = format!("/api{page}");
    let incident = key.read(&api).await;
    assert_eq!(incident["severity"], "warning");
    assert_eq!(incident["started_at"], "2026-01-15T07:30:00.000Z");
    assert_eq!(incident["service"]["name"], "Payments");
    assert_eq!(incident["created_by"]["type"], "person");
    let shown = main_of(&owner, &page).await;
    for expected in [
        "Checkout returns 502",
        "<a href=\"https://alerts.example.com/7\" rel=\"noreferrer noopener nofollow\"",
        &format!("href=\"/services/{service}\""),
        "opened this",
    ] {
        assert_contains(&shown, expected);
    }
    let form = main_of(&owner, &format!("{page}/edit")).await;
    assert_contains(&form, "value=\"2026-01-15T07:30:00");
    // An end needs the status.
    let early = [("resolved_at", "2026-01-15T09:00")];
    let refused = owner.post_form(&page, &early).await;
    refused.is(422);
    assert_contains(&refused.text, "id=\"resolved_at-error-1\"");
    assert_contains(&refused.text, "value=\"Checkout returns 502\"");
    let ended = [
        ("status", "resolved"),
        ("resolved_at", "2026-01-15T09:00"),
        ("service_id", ""),
        ("title", "Checkout was down"),
        ("severity", "critical"),
    ];
    owner.submit(&page, &ended).await;
    let incident = key.read(&api).await;
    assert_eq!(incident["resolved_at"], "2026-01-15T09:00:00.000Z");
    assert_eq!(
        (&incident["service_id"], &incident["severity"]),
        (&Value::Null, &json!("critical"))
    );
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, "lasted 1 h 30 min");
    assert_contains(&shown, ">Reopen</button>");
    owner.submit(&page, &[("status", "open")]).await;
    assert_eq!(key.read(&api).await["status"], "open");
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, ">Resolve</button>");
    let log = main_of(&owner, "/activity?resource=incident").await;
    assert_contains(&log, format!("href=\"{page}\""));
    assert_contains(&log, "as warning");
}

async fn a_form_does_not_replace_what_others_have_changed(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let page = open(&key, "Down", json!({})).await;
    let form = main_of(&owner, &format!("{page}/edit")).await;
    let shown = between(&form, "name=\"shown\" value=\"", "\"");
    let api = format!("/api{page}");
    key.update(&api, json!({ "title": "Checkout is down" }))
        .await;
    let fields = [
        ("title", "Payments are down"),
        ("severity", "critical"),
        ("shown", shown),
    ];
    let refused = owner.post_form(&page, &fields).await;
    refused.is(422);
    assert_contains(
        &refused.text,
        "was changed to \u{201c}Checkout is down\u{201d}",
    );
    // What others have changed meanwhile stays where the form changes nothing.
    let fields = [
        ("title", "Down"),
        ("severity", "critical"),
        ("shown", shown),
    ];
    owner.submit(&page, &fields).await;
    let incident = key.read(&api).await;
    assert_eq!(
        (&incident["title"], &incident["severity"]),
        (&json!("Checkout is down"), &json!("critical"))
    );
}

async fn a_cause_is_marked_on_the_page_and_shown_on_the_change(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("checkout").await;
    let culprit = changed(&key, "Deploy checkout 5.1", &service, 6).await;
    let page = open(&key, "Down", json!({ "service_id": service })).await;
    let api = format!("/api{page}");
    wait_for(&owner, &page, "ol class=\"suspects").await;
    let cause = format!("{page}/cause");
    let shown = main_of(&owner, &page).await;
    let form = format!("name=\"change_id\" value=\"{culprit}\"");
    assert_contains(&shown, &form);
    assert_contains(&shown, ">None of these</button>");
    owner.submit(&cause, &[("change_id", &culprit)]).await;
    assert_eq!(key.read(&api).await["cause_change_id"], json!(culprit));
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, "<strong>Cause:</strong>");
    assert_contains(&shown, "less than 1 min");
    assert_contains(&shown, "Marked as the cause");
    assert_lacks(&shown, &form);
    let list = main_of(&owner, "/incidents").await;
    assert_contains(&list, "Cause: <a");

    // The change has the mark, and may be set to failed.
    let change = format!("/changes/{culprit}");
    let shown = main_of(&owner, &change).await;
    assert_contains(&shown, "Marked as the cause of");
    assert_contains(&shown, format!("href=\"{page}\""));
    let proposal = between(&shown, "data-live=\"caused\"", "</form>");
    assert_contains(proposal, "Set the outcome to failed");
    let hidden = ["status", "outcome", "shown"].map(|name| {
        let value = between(proposal, &format!("name=\"{name}\" value=\""), "\"");
        (name, value)
    });
    owner.submit(&change, &hidden).await;
    let failed = key.read(&format!("/api{change}")).await;
    assert_eq!(failed["outcome"], "failed");
    let shown = main_of(&owner, &change).await;
    assert_contains(&shown, "Marked as the cause of");
    assert_lacks(&shown, "Set the outcome to failed");

    // Another one, by the address of its page; none; and no mark.
    let other = key.completed_change("Change a firewall").await;
    let address = format!("{}/changes/{other}?x=1#history", app.url());
    owner.submit(&cause, &[("change_id", &address)]).await;
    assert_eq!(key.read(&api).await["cause_change_id"], json!(other));
    for (given, error) in [
        (UNKNOWN, "must be the id of a change"),
        ("nonsense", "must be a UUID"),
        ("https://example.com/", "must be a UUID"),
    ] {
        let refused = owner.post_form(&cause, &[("change_id", given)]).await;
        refused.is(422);
        let error_at = between(&refused.text, "id=\"change_id-error-1\">", "<");
        assert_contains(error_at, error);
        assert_contains(&refused.text, format!("value=\"{given}\""));
    }
    owner.post_form(&cause, &[]).await.is(422);
    let none = [("change_id", ""), ("none_of_these", "true")];
    owner.submit(&cause, &none).await;
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, "No recorded change is the cause.");
    assert_lacks(&shown, ">None of these</button>");
    owner.submit(&cause, &[("change_id", "")]).await;
    assert_eq!(key.read(&api).await["cause"], Value::Null);
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, ">None of these</button>");
    let activity = between(&shown, "data-live=\"history\"", "</section>");
    assert_contains(activity, "<ins>none of the recorded changes</ins>");
    assert_lacks(activity, "cause change id");

    // The title of a deleted cause stays.
    owner.submit(&cause, &[("change_id", &other)]).await;
    owner.submit(&format!("/changes/{other}/delete"), &[]).await;
    let shown = main_of(&owner, &page).await;
    assert_contains(&shown, "Change a firewall</span>");
    assert_contains(&shown, "(deleted since)");
    assert_lacks(&shown, format!("href=\"/changes/{other}\""));
}

async fn suspects_that_were_shown_first_stay_readable(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("checkout").await;
    let first = changed(&key, "Deploy checkout 5.1", &service, 40).await;
    let page = open(&key, "Down", json!({ "service_id": service })).await;
    let shown = wait_for(&owner, &page, "ol class=\"suspects").await;
    assert_lacks(&shown, "What was shown first");
    changed(&key, "Flip a flag", &service, 3).await;
    let shown = wait_for(&owner, &page, "What was shown first").await;
    let suspects = between(&shown, "<ol class=\"suspects", "</ol>");
    assert_contains(suspects, "Flip a flag");
    let before = between(&shown, "What was shown first", "</details>");
    assert_contains(before, "Deploy checkout 5.1");
    assert_contains(before, "same service: checkout");
    assert_lacks(before, "Flip a flag");
    owner.submit(&format!("/changes/{first}/delete"), &[]).await;
    let shown = main_of(&owner, &page).await;
    let before = between(&shown, "What was shown first", "</details>");
    assert_contains(before, "(deleted since)");
}

async fn without_suspects_the_page_says_what_was_silent(app: TestApp) {
    let key = app.key();
    let service = key.service("checkout").await;
    let source = app.source("github", "Deployments", Some("secret"));
    // Eight days in which it is heard each hour, and five hours without it.
    let hour = std::time::Duration::from_hours(1);
    for number in 0..=8 * 24 {
        let body = json!({ "ref": "refs/heads/main" });
        let delivery = number.to_string();
        let sent = source.send_github("push", &delivery, &body).await;
        sent.is(202);
        app.clock.advance(hour);
        if number % 24 == 0 {
            source.outcomes().await;
        }
    }
    source.outcomes().await;
    app.clock.advance(4 * hour);
    let owner = app.browser().await;
    let page = open(&key, "Down", json!({ "service_id": service })).await;
    let shown = wait_for(
        &app.browser().await,
        &page,
        "was recorded before it started",
    )
    .await;
    let main = between(&shown, "<main", "</main>");
    assert_contains(main, "No change of <bdi>checkout</bdi> was recorded before");
    let gaps = between(main, "data-live=\"gaps\"", "data-live");
    assert_contains(
        gaps,
        "<bdi>Deployments</bdi></strong> has been silent since",
    );
    assert_contains(main, "url(#mark-missing)");
    assert_contains(main, "nothing was heard of <bdi>Deployments</bdi>");
    assert_lacks(main, "Mark as cause");
    assert_contains(main, "None of these");
    // An incident before the silence.
    let more = json!({ "started_at": written(Utc::now() - TimeDelta::days(400)) });
    let page = open(&key, "Earlier", more).await;
    let shown = wait_for(&owner, &page, "was recorded before it started").await;
    assert_lacks(&shown, "has been silent since");
}

async fn incidents_of_a_service_at_the_same_time_are_shown_together(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let (checkout, search) = (key.service("checkout").await, key.service("search").await);
    let at = |hour: i64, minute: i64| format!("2026-01-15T{hour:02}:{minute:02}:00.000Z");
    let record = async |title: &str, service: &str, start: String, end: Option<String>| {
        let more = json!({ "service_id": service, "started_at": start });
        let page = open(&key, title, more).await;
        if let Some(end) = end {
            let patch = json!({ "status": "resolved", "resolved_at": end });
            key.update(&format!("/api{page}"), patch).await;
        }
        page
    };
    let page = record("Checkout is down", &checkout, at(8, 30), Some(at(9, 0))).await;
    for (title, service, start, end) in [
        ("From another sender", &checkout, at(8, 40), None),
        ("Right before", &checkout, at(8, 0), Some(at(8, 20))),
        ("Right after", &checkout, at(9, 10), Some(at(9, 20))),
        ("Long before", &checkout, at(7, 0), Some(at(8, 0))),
        ("Later", &checkout, at(10, 0), None),
        ("Elsewhere", &search, at(8, 30), None),
    ] {
        record(title, service, start, end).await;
    }
    let shown = main_of(&owner, &page).await;
    let together = between(&shown, "id=\"others\"", "</section>");
    assert_eq!(
        titles(together),
        ["From another sender", "Right after", "Right before"]
    );
    let alone = open(&key, "Without a service", json!({})).await;
    let shown = main_of(&owner, &alone).await;
    assert_contains(&shown, "data-live=\"others\" hidden");
}

async fn timelines_have_incidents_as_bands(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("payments").await;
    let record = async |title: &str, start: &str, end: Option<&str>| {
        let page = open(&key, title, json!({ "started_at": start })).await;
        if let Some(end) = end {
            let patch = json!({ "status": "resolved", "resolved_at": end });
            key.update(&format!("/api{page}"), patch).await;
        }
        page
    };
    let over = record(
        "Checkout is down",
        "2026-03-01T10:30:00Z",
        Some("2026-03-01T10:45:00Z"),
    )
    .await;
    record(
        "Before",
        "2026-02-28T10:30:00Z",
        Some("2026-02-28T10:45:00Z"),
    )
    .await;
    let still = record("Still open", "2026-02-01T00:00:00Z", None).await;
    record("After", "2026-03-01T12:30:00Z", None).await;
    let check = async |query: &str, is_dense: bool| {
        let page = main_of(&owner, &format!("/around?{query}")).await;
        let timeline = between(&page, "data-live=\"timeline\"", "</section>");
        assert_eq!(timeline.contains("<a class=\"bar\""), is_dense, "{query}");
        assert_eq!(timeline.matches("class=\"band\"").count(), 2, "{query}");
        let bands = between(timeline, "class=\"timeline-bands", "</ul>");
        for (page, title) in [(&over, "Checkout is down"), (&still, "Still open")] {
            let link = format!("href=\"{page}\" dir=\"auto\">{title}</a>");
            assert_contains(bands, link);
        }
        assert_contains(bands, "2026-03-01 10:30 to 2026-03-01 10:45");
        assert_lacks(bands, "After");
        assert_lacks(bands, "Before");
    };
    let range =
        "at=2026-03-01T11%3A00%3A00Z&from=2026-03-01T10%3A00%3A00Z&to=2026-03-01T12%3A00%3A00Z";
    check(range, false).await;
    let changes = (0..400).map(|number| {
        json!({
            "title": "One of many", "service_id": service, "status": "completed",
            "started_at": format!("2026-03-01T10:{:02}:00Z", number % 60),
        })
    });
    key.create_changes(changes.collect::<Vec<_>>()).await;
    check(range, true).await;
    // The page of the incident has its own.
    let page = main_of(&owner, &over).await;
    assert_eq!(page.matches("class=\"band\"").count(), 2);
}

async fn other_pages_lead_to_incidents(app: TestApp) {
    let owner = app.browser().await;
    let source = app.source("alertmanager", "Alerts", None);
    let body = alert("Checkout returns 502", &ago(2), None);
    source.send(&body).await.is(202);
    let events = source.events().await;
    let page = format!("/incidents/{}", text(&events[0]["incident_id"]));
    let link = format!("<a href=\"{page}\" dir=\"auto\">Checkout returns 502</a>");
    // The events of the source, the overview, the service, and the activity log.
    let events = main_of(&owner, &format!("/settings/sources/{}", source.id)).await;
    assert_contains(&events, &link);
    let overview = main_of(&owner, "/").await;
    let note = between(&overview, "data-live=\"incidents\"", "</ul>");
    assert_contains(
        note,
        "<a href=\"/incidents?status=open\">1 open incident</a>",
    );
    assert_contains(note, &link);
    let service = app.key().read("/api/services").await;
    let service = main_of(&owner, &format!("/services/{}", text(&service[0]["id"]))).await;
    assert_contains(&service, &link);
    assert_contains(&service, "href=\"/incidents?service=checkout\"");
    let log = main_of(&owner, "/activity?resource=incident").await;
    assert_contains(&log, format!("href=\"{page}\""));
    let incident = main_of(&owner, &page).await;
    assert_contains(
        &incident,
        format!("href=\"/settings/sources/{}\"", source.id),
    );
    // Names for the palette.
    for (prefix, expected) in [
        ("RETURNS", json!(["Checkout returns 502"])),
        ("nothing", json!([])),
    ] {
        let names = owner
            .body(&format!("/names/incidents?prefix={prefix}"))
            .await;
        assert_eq!(names["names"], expected);
        let addresses = (expected != json!([])).then(|| json!([page]));
        assert_eq!(names.get("addresses"), addresses.as_ref());
    }
    let key = app.key();
    key.update(&format!("/api{page}"), json!({ "status": "resolved" }))
        .await;
    let overview = main_of(&owner, "/").await;
    assert_lacks(&overview, "1 open incident");
}

async fn links_that_are_no_web_addresses_are_not_linked(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let source = app.source("alertmanager", "Alerts", None);
    let mut body = alert("Down", &ago(2), None);
    body["alerts"][0]["generatorURL"] = json!("javascript:alert(1)");
    body["externalURL"] = json!("javascript:alert(2)");
    source.send(&body).await.is(202);
    source.events().await;
    let incident = key.read("/api/incidents").await;
    let page = format!("/incidents/{}", text(&incident[0]["id"]));
    let shown = main_of(&owner, &page).await;
    assert_lacks(&shown, "href=\"javascript");
}

async fn incidents_of_another_server_are_noticed(app: TestApp) {
    let server = app.another_server(&[]).await;
    let other = TestClient::new(&server.address).with("x-api-key", &app.organization.key);
    let owner = app.browser().await;
    let mut stream = EventStream::open(owner.request("GET", "/events")).await;
    assert_eq!(stream.event().await.name, "alive");
    open(&other, "Down", json!({})).await;
    let opened = std::time::Instant::now();
    while stream.event().await.name != "changed" {
        assert!(opened.elapsed().as_secs() < 15, "not noticed");
    }
}
