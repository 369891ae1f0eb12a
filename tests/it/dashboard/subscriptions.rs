//! Subscriptions to services, and the notifications that they lead to.

use std::time::Duration;

use changelog_tests::chromium::Chromium;
use changelog_tests::{
    Db, TestApp, TestClient, assert_contains, assert_lacks, database, in_browser, on_both,
    on_sqlite, text,
};
use serde_json::json;

use super::{between, join, sign_in};

on_both!(
    subscribers_are_notified_of_what_others_do,
    notifications_end_with_the_membership,
    subscriptions_are_in_the_activity_log,
);

on_sqlite!(many_subscribers_are_notified_of_many_changes);

in_browser!(a_subscription_is_started_and_stopped_in_a_browser);

/// Adds 300 members who are subscribed to each service.
const SUBSCRIBE_MANY: [&str; 3] = [
    "INSERT INTO users (id, email, email_folded, name, password_hash, created_at)
     WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300)
     SELECT randomblob(16), 'p' || n || '@example.com', 'p' || n || '@example.com', 'P', '', 0
     FROM numbers",
    "INSERT INTO memberships (organization_id, user_id, role, created_at)
     SELECT o.id, u.id, 'member', 0 FROM organizations o, users u WHERE u.name = 'P'",
    "INSERT INTO subscriptions (organization_id, service_id, user_id, min_risk, mail, created_at)
     SELECT s.organization_id, s.id, u.id, 'low', 'none', 0 FROM services s, users u
     WHERE u.name = 'P'",
];

async fn many_subscribers_are_notified_of_many_changes(app: TestApp) {
    let service = create_service(&app, "payments").await;
    subscribe(&app.browser().await, &service, "low", "none").await;
    let mut db = Db::open(app.engine, &app.database).await;
    for statement in SUBSCRIBE_MANY {
        database::execute!(&mut db, sqlx::query(statement));
    }
    let change = json!({ "title": "Deploy", "service_id": service });
    app.key().create_changes(vec![change; 10]).await;
    wait_for_notifications(&app).await;
    let count = "SELECT count(*), count(DISTINCT subject_id) FROM notifications";
    let counted: Vec<(i64, i64)> = database::fetch!(&mut db, sqlx::query_as(count));
    // The owner, too: an API key has recorded them.
    assert_eq!(counted, [(10 * 301, 10)]);
    db.close().await;
}

/// Waits until the service has notified of what has happened so far.
pub(super) async fn wait_for_notifications(app: &TestApp) {
    let mut db = Db::open(app.engine, &app.database).await;
    for _ in 0..600 {
        let new: Vec<(i64,)> = database::fetch!(&mut db, sqlx::query_as(NEW_EVENTS));
        if new.is_empty() {
            return db.close().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("events are still new");
}

const NEW_EVENTS: &str = "SELECT sequence FROM events WHERE is_new = 1";

pub(super) async fn create_service(app: &TestApp, name: &str) -> String {
    app.key().service(name).await
}

pub(super) async fn subscribe(browser: &TestClient, service: &str, risk: &str, mail: &str) {
    let fields = [
        ("min_risk", risk),
        ("mail", mail),
        ("time_zone", "Europe/Berlin"),
    ];
    let path = format!("/services/{service}/subscription");
    browser.submit(&path, &fields).await;
}

/// Returns the number of unread notifications in the bar.
async fn unread(browser: &TestClient) -> String {
    let page = browser.page("/upcoming").await;
    match page.split_once("class=\"unread\"") {
        Some((_, link)) => between(link, ">", "<").to_owned(),
        None => String::new(),
    }
}

/// Returns the titles of a section of the page of notifications.
async fn titles(browser: &TestClient, section: &str) -> Vec<String> {
    let page = browser.page("/notifications").await;
    let Some((_, rest)) = page.split_once(&format!("id=\"{section}\">")) else {
        return Vec::new();
    };
    let (rest, _) = rest.split_once("</section>").expect("the end");
    let links = rest.split("href=\"/changes/").skip(1);
    links
        .map(|link| between(link, "dir=\"auto\">", "<").to_owned())
        .collect()
}

/// Creates a change of a service with the key, and returns its id.
pub(super) async fn change(app: &TestApp, service: &str, title: &str, risk: &str) -> String {
    let body = json!({ "title": title, "service_id": service, "risk_level": risk });
    app.key().create("/api/changes", body).await
}

async fn subscribers_are_notified_of_what_others_do(app: TestApp) {
    let owner = app.browser().await;
    let grace = join(&app, &owner, "Grace", "member").await.browser;
    let viewer = join(&app, &owner, "Vic", "viewer").await.browser;
    let payments = create_service(&app, "payments").await;
    let search = create_service(&app, "search").await;
    subscribe(&grace, &payments, "medium", "none").await;
    subscribe(&owner, &payments, "low", "none").await;
    // Viewers only read.
    let path = format!("/services/{payments}/subscription");
    viewer
        .post_form(&path, &[("min_risk", "low")])
        .await
        .is(403);
    let page = viewer.get(&format!("/services/{payments}")).await.text;
    assert_lacks(&page, "/subscription\"");
    grace
        .post_form(&path, &[("min_risk", "huge")])
        .await
        .is(422);

    let first = change(&app, &payments, "First", "medium").await;
    change(&app, &payments, "Too small", "low").await;
    change(&app, &search, "Of another service", "high").await;
    // Of two services, the second of which is subscribed to.
    let body = json!({
        "title": "Of both", "service_ids": [search, payments], "risk_level": "high",
    });
    app.key().create("/api/changes", body).await;
    let other = app.second_organization();
    app.with_key(&other.key)
        .completed_change("Of another organization")
        .await;
    wait_for_notifications(&app).await;
    assert_eq!(titles(&grace, "unread").await, ["Of both", "First"]);
    assert_eq!(
        titles(&owner, "unread").await,
        ["Of both", "Too small", "First"]
    );
    assert!(titles(&viewer, "unread").await.is_empty());
    assert_eq!(unread(&viewer).await, "");
    let umbrella = app.browser_of(&other).await;
    assert!(titles(&umbrella, "unread").await.is_empty());

    // Marks one, then the rest.
    let read = format!("/notifications/{first}/read");
    grace.submit(&read, &[]).await;
    assert_eq!(titles(&grace, "unread").await, ["Of both"]);
    assert_eq!(titles(&grace, "read").await, ["First"]);
    umbrella.post_form(&read, &[]).await.is(404);
    assert_eq!(unread(&grace).await, "1");
    let page = grace.get("/notifications").await.text;
    let until = between(&page, "name=\"until\" value=\"", "\"").to_owned();
    change(&app, &payments, "Later", "high").await;
    wait_for_notifications(&app).await;
    grace
        .submit("/notifications/read", &[("until", &until)])
        .await;
    assert_eq!(titles(&grace, "unread").await, ["Later"]);
    assert_eq!(titles(&grace, "read").await, ["Of both", "First"]);

    // A later event makes a change unread again, but not one's own.
    let path = format!("/changes/{first}");
    owner.submit(&path, &[("status", "in_progress")]).await;
    wait_for_notifications(&app).await;
    assert_eq!(titles(&grace, "unread").await, ["First", "Later"]);
    let page = grace.get("/notifications").await.text;
    assert_contains(&page, "in progress by <bdi>");
    let before = titles(&owner, "unread").await;
    grace
        .submit("/notifications/read", &[("until", "9999999999999")])
        .await;
    grace.submit(&path, &[("status", "completed")]).await;
    wait_for_notifications(&app).await;
    assert!(titles(&grace, "unread").await.is_empty());
    let after = titles(&owner, "unread").await;
    assert_eq!(after.first().map(String::as_str), Some("First"));
    assert_eq!(after.len(), before.len());

    // Deleted changes are still listed, and no more follow once it is stopped.
    owner.submit(&format!("{path}/delete"), &[]).await;
    wait_for_notifications(&app).await;
    let page = grace.get("/notifications").await.text;
    assert_contains(&page, "deleted by <bdi>");
    let stop = format!("/services/{payments}/subscription/stop");
    grace.submit(&stop, &[]).await;
    grace.post_form(&stop, &[]).await.is(404);
    change(&app, &payments, "After the end", "high").await;
    wait_for_notifications(&app).await;
    assert_eq!(titles(&grace, "unread").await, ["First"]);
}

async fn notifications_end_with_the_membership(app: TestApp) {
    let owner = app.browser().await;
    let grace = join(&app, &owner, "Grace", "member").await;
    let payments = create_service(&app, "payments").await;
    subscribe(&grace.browser, &payments, "low", "instant").await;
    change(&app, &payments, "Before", "low").await;
    wait_for_notifications(&app).await;
    assert_eq!(unread(&grace.browser).await, "1");
    let remove = format!("/settings/members/{}/remove", grace.id);
    owner.submit(&remove, &[]).await;
    change(&app, &payments, "After", "low").await;
    wait_for_notifications(&app).await;
    // Neither comes back with the person.
    let link = super::invite(&owner, &grace.email, "member").await;
    let fields = [("name", "Grace"), ("password", super::PASSWORD)];
    let answer = app.anonymous().post_form(&link, &fields).await;
    answer.is(303);
    let cookie = answer.cookie();
    let again = app.anonymous().with("cookie", cookie);
    assert!(titles(&again, "unread").await.is_empty());
    change(&app, &payments, "Later", "low").await;
    wait_for_notifications(&app).await;
    assert!(titles(&again, "unread").await.is_empty());
}

async fn subscriptions_are_in_the_activity_log(app: TestApp) {
    let owner = app.browser().await;
    let payments = create_service(&app, "payments").await;
    let path = format!("/services/{payments}/subscription");
    for risk in ["low", "low", "high"] {
        owner.submit(&path, &[("min_risk", risk)]).await;
    }
    let account = owner.get("/account").await.text;
    assert_contains(&account, &path);
    // Without a mail server, mails are not offered and cannot be chosen.
    assert_lacks(&account, "name=\"mail\"");
    subscribe(&owner, &payments, "high", "instant").await;
    let fields = [("from", "account")];
    let answer = owner.post_form(&format!("{path}/stop"), &fields).await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/account?done=subscription");
    let log = owner.get("/api/activity?resource=subscription").await;
    let items = log.body(200)["items"].clone();
    let items = items.as_array().expect("a list");
    let actions: Vec<String> = items.iter().map(|item| text(&item["action"])).collect();
    assert_eq!(actions, ["stopped", "updated", "started"]);
    for item in items {
        assert_eq!(text(&item["resource_type"]), "subscription");
        assert_eq!(text(&item["resource_label"]), "payments");
        assert_eq!(text(&item["resource_id"]), payments);
        assert_eq!(text(&item["actor_id"]), app.organization.owner_id);
    }
    let changes = json!({ "min_risk": { "from": "low", "to": "high" } });
    assert_eq!(items[1]["metadata"]["changes"], changes);
    let page = owner.get("/activity").await.text;
    for verb in ["started", "changed", "stopped"] {
        let sentence = format!("{verb} the subscription to");
        assert!(page.contains(&sentence), "{sentence}: {page}");
    }
}

async fn a_subscription_is_started_and_stopped_in_a_browser(app: TestApp, browser: Chromium) {
    let payments = create_service(&app, "payments").await;
    let page = app.at(&format!("/services/{payments}"));
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&page).await;
    browser.click(".head details > summary").await;
    browser.press("Start subscription").await;
    browser.wait_for(".head details > summary").await;
    assert_eq!(
        browser.text_of(".head details > summary").await,
        "Subscribed"
    );
    browser.open(&app.at("/account")).await;
    let list = browser.text_of("#subscriptions + ul").await;
    assert_contains(&list, "payments");
    browser.open(&page).await;
    browser.click(".head details > summary").await;
    browser.press("Stop subscription").await;
    browser.wait_for(".head details > summary").await;
    assert_eq!(
        browser.text_of(".head details > summary").await,
        "Subscribe"
    );
    browser
        .open(&app.at("/activity?resource=subscription"))
        .await;
    let list = browser.text_of("main").await;
    assert_contains(&list, "started the subscription to payments");
    assert_contains(&list, "stopped the subscription to payments");
    assert_eq!(browser.console().await, [""; 0]);
}
