//! When a change happened and how it ended, as the pages show it.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{between, main_of, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{
    TestApp, TestClient, assert_contains, assert_lacks, in_browser, on_both, on_one, text,
};

on_both!(a_planned_change_moves_to_the_day_on_which_it_was_made);

on_one!(
    planned_changes_are_upcoming_and_not_among_the_latest,
    a_failed_change_was_not_rolled_back,
    a_rollback_has_a_reason,
    a_status_is_undone_unless_others_changed_it,
    fields_that_contradict_the_status_are_named,
);

in_browser!(saving_a_form_sends_only_what_was_changed);

/// Returns a part of a page that is updated live.
fn live<'p>(page: &'p str, name: &str) -> &'p str {
    between(page, &format!("data-live=\"{name}\""), "</section>")
}

/// Returns the name of a day as charts have it: `Sun, 22 Nov 2026`.
fn brief(day: &str) -> String {
    let date = chrono::NaiveDate::parse_from_str(day, "%A, %d %B %Y").expect("a day");
    date.format("%a, %-d %b %Y").to_string()
}

/// Returns the name of a day, as pages have it.
fn day(at: &Value) -> String {
    let at: DateTime<Utc> = text(at).parse().expect("a time");
    at.format("%A, %-d %B %Y").to_string()
}

async fn a_planned_change_moves_to_the_day_on_which_it_was_made(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let then = Utc::now() - TimeDelta::days(6);
    let at = |minutes| {
        let at = then + TimeDelta::minutes(minutes);
        at.to_rfc3339_opts(SecondsFormat::Millis, true)
    };
    let made = async |title: &str, more: Value| {
        let mut body = json!({ "title": title, "status": "completed" });
        let more = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(more);
        key.create("/api/changes", body).await
    };
    let old = made("Neighbour of then", json!({ "occurred_at": at(3) })).await;
    let planned = json!({ "status": "planned", "occurred_at": at(0) });
    let id = made("Switch the provider", planned).await;
    let now = made("Neighbour of now", json!({})).await;
    let read = async |id: &str| key.read(&format!("/api/changes/{id}")).await;
    let (old, now) = (read(&old).await, read(&now).await);
    let (old_day, today) = (day(&old["started_at"]), day(&now["started_at"]));

    // Before: not in the charts, and around the time at which it was planned.
    let overview = main_of(&owner, "/").await;
    for (chart, name) in [("bars", &old_day), ("calendar", &old_day)] {
        let counted = format!("{}: 1 change", brief(name));
        assert!(live(&overview, chart).contains(&counted), "{overview}");
    }
    let page = main_of(&owner, &format!("/changes/{id}")).await;
    let around = between(&page, "id=\"around\"", "</section>");
    assert_contains(&around, "Neighbour of then");
    assert_lacks(&around, "Neighbour of now");

    // It is made.
    let path = format!("/changes/{id}");
    for status in ["in_progress", "completed"] {
        owner.submit(&path, &[("status", status)]).await;
    }
    let change = read(&id).await;
    assert_eq!(day(&change["started_at"]), today, "past midnight");
    let list = main_of(&owner, "/changes").await;
    let headings: Vec<&str> = list
        .split("<h3 class=\"day\">")
        .skip(1)
        .map(|part| part.split_once('<').expect("a heading").0)
        .collect();
    assert_eq!(headings, [today.as_str(), old_day.as_str()]);
    let (of_today, of_then) = list.split_once(&old_day).expect("two days");
    assert!(of_today.contains("Switch the provider"), "{list}");
    assert!(!of_then.contains("Switch the provider"), "{list}");
    let overview = main_of(&owner, "/").await;
    let latest = live(&overview, "latest");
    assert_contains(&latest, "Switch the provider");
    for chart in ["bars", "calendar"] {
        for (name, count) in [(&today, "2 changes"), (&old_day, "1 change")] {
            let counted = format!("{}: {count}", brief(name));
            assert!(live(&overview, chart).contains(&counted), "{overview}");
        }
    }
    let page = main_of(&owner, &path).await;
    let around = between(&page, "id=\"around\"", "</section>");
    assert_contains(&around, "Neighbour of now");
    assert_lacks(&around, "Neighbour of then");
    let facts = live(&page, "facts");
    for (label, field) in [
        ("Started", "started_at"),
        ("Ended", "ended_at"),
        ("Logged for", "occurred_at"),
    ] {
        let fact = between(facts, &format!("<dt>{label}</dt>"), "</dd>");
        let at = format!("<time datetime=\"{}\"", text(&change[field]));
        assert!(fact.contains(&at), "{fact}: {facts}");
    }

    // The duration is that of the corrected start.
    let ended: DateTime<Utc> = text(&change["ended_at"]).parse().expect("a time");
    let started = ended - TimeDelta::seconds(3_720);
    let started = started.to_rfc3339_opts(SecondsFormat::Millis, true);
    let corrected = json!({ "started_at": started });
    key.update(&format!("/api{path}"), corrected).await;
    let page = main_of(&owner, &path).await;
    let duration = between(live(&page, "facts"), "<dt>Duration</dt><dd>", "</dd>");
    assert_eq!(duration, "1 h 2 min");
}

async fn planned_changes_are_upcoming_and_not_among_the_latest(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let service = key.service("payments").await;
    let planned = |title: &str, scheduled_for: &str| json!({ "title": title, "scheduled_for": scheduled_for, "service_id": service });
    let late = planned("Forgotten", "2026-01-01T00:00:00Z");
    key.create("/api/changes", late).await;
    let next = planned("Coming", "2040-01-01T00:00:00Z");
    key.create("/api/changes", next).await;

    let overview = main_of(&owner, "/").await;
    assert_lacks(&overview, "No changes yet");
    let latest = live(&overview, "latest");
    assert_contains(&latest, "No change has happened yet");
    let scheduled = live(&overview, "upcoming");
    let (first, second) = scheduled.split_once("title=\"Coming\"").expect("both");
    assert!(
        first.contains("Forgotten") && first.contains("overdue"),
        "{scheduled}"
    );
    assert!(!second.contains("overdue"), "{scheduled}");
    assert!(second.contains("/upcoming"), "{scheduled}");

    // The list has them, with the time for which they are scheduled; the page of the
    // service has them apart.
    let list = main_of(&owner, "/changes").await;
    assert_contains(&list, "2 changes");
    assert_contains(&list, "2040-01-01");
    let page = main_of(&owner, &format!("/services/{service}")).await;
    assert!(live(&page, "changes").contains("0 changes"), "{page}");
    let link = format!("/changes?service_id={service}&amp;status=planned");
    assert_contains(&page, &link);
    let made = json!({ "title": "Done", "status": "completed", "service_id": service });
    key.create("/api/changes", made).await;
    let overview = main_of(&owner, "/").await;
    let latest = live(&overview, "latest");
    assert_contains(&latest, "Done");
    assert_lacks(&latest, "Coming");
    // The link to all of them leads to as many.
    let all = between(latest, "<p><a href=\"", "\">View all 1<");
    let all = all.replace("&amp;", "&").replace("&#38;", "&");
    let list = main_of(&owner, &all).await;
    assert_contains(&list, "1 change<");
    assert_lacks(&list, "Coming");
}

async fn a_failed_change_was_not_rolled_back(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    for (title, outcome) in [("Failed apply", "failed"), ("Undone deploy", "undone")] {
        let body = json!({ "title": title, "status": "rolled_back", "outcome": outcome });
        let id = key.create("/api/changes", body).await;
        let label = match outcome {
            "failed" => "<span class=\"status failed\">failed</span>",
            _ => "<span class=\"status rolled_back\">rolled back</span>",
        };
        for path in ["/", "/changes", &format!("/changes/{id}")] {
            let page = main_of(&owner, path).await;
            assert!(page.contains(label), "{path}: {page}");
        }
    }
    // The history says it, too.
    let id = key.change("Apply").await;
    let end = json!({ "status": "rolled_back", "outcome": "failed" });
    key.update(&format!("/api/changes/{id}"), end).await;
    let page = main_of(&owner, &format!("/changes/{id}")).await;
    let history = live(&page, "history");
    assert_contains(&history, "<del>planned</del> → <ins>failed</ins>");
}

async fn saving_a_form_sends_only_what_was_changed(app: TestApp, browser: Chromium) {
    let key = app.key();
    sign_in(&browser, &app, &app.organization).await;
    let body = json!({
        "title": "Deploy", "status": "completed", "outcome": "succeeded",
        "description": "Line one\nLine two", "tags": ["a, b", "c"],
        "occurred_at": "2026-02-01T10:00:00.123Z", "ended_at": "2026-02-01T11:00:00.456Z",
    });
    let id = key.create("/api/changes", body).await;
    let path = format!("/api/changes/{id}");
    let read = async || key.read(&path).await;
    let open = async || {
        let address = app.at(&format!("/changes/{id}/edit"));
        browser.open(&address).await;
        browser.wait_for("form [name='title']").await;
    };
    let save = async || {
        browser.press("Save").await;
        browser.wait_for("#history").await;
    };

    // Saving without a change leaves even the milliseconds.
    let before = read().await;
    open().await;
    save().await;
    assert_eq!(read().await, before);

    // A rollback has an end and an outcome of its own.
    open().await;
    browser
        .fill("main form", &[("status", "rolled_back")])
        .await;
    save().await;
    let after = read().await;
    assert_eq!(after["outcome"], "undone");
    assert!(
        text(&after["ended_at"]) > text(&before["ended_at"]),
        "{after}"
    );
    assert_eq!(after["started_at"], before["started_at"]);

    // A change that ends while its form is open has still ended afterwards.
    key.update(&path, json!({ "status": "in_progress" })).await;
    open().await;
    let end = json!({ "status": "completed", "outcome": "succeeded", "tags": ["other"] });
    let ended = key.update(&path, end).await;
    browser.fill("main form", &[("impact", "None")]).await;
    save().await;
    let after = read().await;
    assert_eq!(after["impact"], "None");
    for field in ["status", "outcome", "ended_at", "tags", "description"] {
        assert_eq!(after[field], ended[field], "{field}");
    }

    // A refused form keeps what it showed.
    open().await;
    key.update(&path, json!({ "tags": ["another"] })).await;
    browser.fill("main form", &[("title", "ab")]).await;
    browser.press("Save").await;
    browser.wait_for("#title-error-1").await;
    browser.fill("main form", &[("title", "Deployed")]).await;
    save().await;
    let after = read().await;
    assert_eq!(after["title"], "Deployed");
    assert_eq!(after["tags"], json!(["another"]));
}

async fn a_rollback_has_a_reason(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let body = json!({ "title": "Deploy", "status": "completed", "impact": "Some" });
    let id = key.create("/api/changes", body).await;
    let path = format!("/changes/{id}");
    let page = main_of(&owner, &path).await;
    let head = between(&page, "data-live=\"head\"", "data-edit");
    assert_contains(&head, "name=\"reason\"");
    // Longer than an excerpt.
    let reason = format!("{}<em>&", "The error rate was above 5 %. ".repeat(8));
    let fields = [("status", "rolled_back"), ("reason", &reason)];
    owner.submit(&path, &fields).await;
    let page = main_of(&owner, &path).await;
    let history = live(&page, "history");
    let shown = reason
        .replace('&', "&#38;")
        .replace('<', "&#60;")
        .replace('>', "&#62;");
    assert_contains(&history, format!("reason: <ins>{shown}"));

    // A reason of something else is refused at its field, with the values of the change.
    let fields = [("status", "completed"), ("reason", "It works")];
    let answer = owner.post_form(&path, &fields).await;
    answer.is(422);
    assert_contains(&answer.text, "id=\"reason-error-1\"");
    assert_contains(&answer.text, "value=\"It works\"");
    assert_contains(&answer.text, "value=\"Deploy\"");
    assert_contains(&answer.text, "Some</textarea>");
    let change = key.read(&format!("/api{path}")).await;
    assert_eq!(change["status"], "rolled_back");
}

async fn fields_that_contradict_the_status_are_named(app: TestApp) {
    let owner = app.browser().await;
    let id = app.key().change("Planned").await;
    for (field, value, status) in [
        ("outcome", "failed", "planned"),
        ("outcome", "great", "completed"),
        ("started_at", "2026-02-01T10:00", "planned"),
        ("started_at", "2999-02-01T10:00", "completed"),
        ("started_at", "yesterday", "completed"),
        ("ended_at", "2026-02-01T10:00", "in_progress"),
        ("ended_at", "1969-02-01T10:00", "completed"),
        ("environment", "production", "completed"),
        ("service_ids", "nothing", "completed"),
        ("service_id", "nothing", "completed"),
        ("on_behalf_of", "a\nb", "completed"),
    ] {
        for path in ["/changes".to_owned(), format!("/changes/{id}")] {
            let fields = [("title", "Refused"), ("status", status), (field, value)];
            let answer = owner.post_form(&path, &fields).await;
            answer.is(422);
            let error = format!("id=\"{field}-error-1\"");
            assert!(
                answer.text.contains(&error),
                "{path} {field}: {}",
                answer.text
            );
        }
    }
}

/// Returns the hidden fields of the form that undoes a change of the status.
async fn undo_of(owner: &TestClient, path: &str) -> Vec<(String, String)> {
    let page = main_of(owner, path).await;
    let form = between(&page, "class=\"note undo\"", "</form>");
    assert_contains(&form, "You marked this change as rolled back");
    let fields = form.split("<input type=\"hidden\" ").skip(1);
    let field = |field: &str| {
        let (name, value) = (
            between(field, "name=\"", "\""),
            between(field, "value=\"", "\""),
        );
        (name.to_owned(), value.to_owned())
    };
    fields.map(field).collect()
}

async fn a_status_is_undone_unless_others_changed_it(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    let body = json!({
        "title": "Deploy", "status": "completed", "outcome": "succeeded",
        "started_at": "2026-03-01T10:00:00Z", "ended_at": "2026-03-01T10:05:00Z",
    });
    let id = key.create("/api/changes", body).await;
    let path = format!("/changes/{id}");
    let read = async || key.read(&format!("/api{path}")).await;
    let before = read().await;
    let roll_back = async || {
        owner.submit(&path, &[("status", "rolled_back")]).await;
    };
    let send = async |fields: &[(String, String)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        owner.post_form(&path, &fields).await
    };

    roll_back().await;
    assert_eq!(read().await["outcome"], "undone");
    send(&undo_of(&owner, &path).await).await.is(303);
    let after = read().await;
    for field in ["status", "outcome", "started_at", "ended_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }

    // Meanwhile, a pipeline opens it again.
    roll_back().await;
    let undo = undo_of(&owner, &path).await;
    let opened = json!({ "status": "in_progress" });
    key.update(&format!("/api{path}"), opened).await;
    let refused = send(&undo).await;
    refused.is(422);
    let said = between(&refused.text, "id=\"status-error-1\">", "<");
    assert_contains(&said, "since you opened this page");
    assert_eq!(read().await["status"], "in_progress");
}
