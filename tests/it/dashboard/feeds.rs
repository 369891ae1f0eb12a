//! The feed of the newest changes, with a token in its address.

use atom_syndication::Feed;
use changelog_tests::{TestApp, TestClient, TestResponse, on_both};
use serde_json::json;

use super::{between, invite, join};

on_both!(
    a_feed_has_the_newest_changes,
    a_feed_ends_with_its_token,
    a_feed_ends_with_its_member,
);

/// Creates the address of a feed, and returns its path.
async fn create(browser: &TestClient) -> String {
    let page = browser.post_form("/account/feed", &[]).await;
    page.is(200);
    assert_eq!(page.header("content-encoding"), "");
    let address = between(&page.text, "id=\"new-feed\">", "<");
    let (_, path) = address.split_once("/feeds/").expect("an address");
    format!("/feeds/{path}")
}

async fn get(app: &TestApp, path: &str) -> TestResponse {
    app.anonymous().get(path).await
}

fn parse(response: &TestResponse) -> Feed {
    response.is(200);
    assert!(
        response
            .header("content-type")
            .starts_with("application/atom+xml")
    );
    Feed::read_from(response.text.as_bytes()).expect("a feed")
}

async fn a_feed_has_the_newest_changes(app: TestApp) {
    let key = app.key();
    let service = key.service("pay & co").await;
    for change in [
        json!({ "title": "Old", "status": "completed", "occurred_at": "2026-01-01T00:00:00Z" }),
        json!({
            "title": "Deploy <b>&amp; ]]> zażółć\u{ffff}", "status": "rolled_back", "risk_level": "high",
            "service_id": service, "environment": "prod", "description": "# Why\n<script>",
        }),
        json!({ "title": "Planned", "scheduled_for": "2099-01-01T00:00:00Z" }),
    ] {
        key.create("/api/changes", change).await;
    }
    let other = app.second_organization();
    app.with_key(&other.key)
        .completed_change("Of another organization")
        .await;

    let path = create(&app.browser().await).await;
    let response = get(&app, &path).await;
    let feed = parse(&response);
    assert_eq!(
        feed.title.as_str(),
        format!("Changes of {}", app.organization.name)
    );
    let titles: Vec<&str> = feed
        .entries
        .iter()
        .map(|entry| entry.title.as_str())
        .collect();
    assert_eq!(titles, ["Deploy <b>&amp; ]]> zażółć<U+FFFF>", "Old"]);
    let newest = &feed.entries[0];
    let summary = newest.summary.as_ref().expect("a summary").as_str();
    assert!(
        summary.starts_with("high risk, rolled back, pay & co, prod. # Why"),
        "{summary}"
    );
    assert!(newest.links[0].href.starts_with(&app.at("/changes/")));
    assert!(
        newest
            .categories
            .iter()
            .any(|category| category.term == "pay & co")
    );
    assert_eq!(feed.updated, newest.updated);

    // A reader that has it gets nothing; one that asks for a part gets that.
    let tag = response.header("etag");
    let again = app.anonymous().with("if-none-match", tag).get(&path).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    for (filter, expected) in [
        (format!("service_id={service}"), 1),
        ("min_risk=high".to_owned(), 1),
        ("status=planned".to_owned(), 1),
        ("not_status=rolled_back".to_owned(), 1),
        ("q=nothing".to_owned(), 0),
    ] {
        let part = parse(&get(&app, &format!("{path}&{filter}")).await);
        assert_eq!(part.entries.len(), expected, "{filter}");
    }
    get(&app, &format!("{path}&min_risk=huge")).await.is(400);
}

async fn a_feed_ends_with_its_token(app: TestApp) {
    let browser = app.browser().await;
    let first = create(&browser).await;
    let second = create(&browser).await;
    get(&app, &first).await.is(404);
    get(&app, &second).await.is(200);
    let account = browser.get("/account").await;
    assert!(
        !account.text.contains("new-feed"),
        "shown again: {}",
        account.text
    );
    browser.submit("/account/feed/revoke", &[]).await;
    let ended = get(&app, &second).await;
    ended.is(404);
    assert!(ended.text.contains("no longer valid"), "{}", ended.text);
    for path in [
        "/feeds/changes.atom",
        "/feeds/changes.atom?token=",
        "/feeds/changes.atom?token=%00",
    ] {
        get(&app, path).await.is(404);
    }
    // A session is needed to create one, and the request of another site is refused.
    app.anonymous().submit("/account/feed", &[]).await;
    let other_site = browser.with("sec-fetch-site", "cross-site");
    other_site.post_form("/account/feed", &[]).await.is(403);
}

async fn a_feed_ends_with_its_member(app: TestApp) {
    let owner = app.browser().await;
    let viewer = join(&app, &owner, "Grace", "viewer").await;
    let path = create(&viewer.browser).await;
    get(&app, &path).await.is(200);
    let remove = format!("/settings/members/{}/remove", viewer.id);
    owner.submit(&remove, &[]).await;
    get(&app, &path).await.is(404);
    // Nor does it come back with the member.
    let link = invite(&owner, &viewer.email, "viewer").await;
    let fields = [("name", "Grace"), ("password", super::PASSWORD)];
    app.anonymous().submit(&link, &fields).await;
    get(&app, &path).await.is(404);
}
