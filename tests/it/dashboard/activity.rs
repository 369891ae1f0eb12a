//! The activity log as an auditor uses it: sentences, filters and downloads.

use changelog_core::{Action, ResourceType};
use serde_json::{Value, json};

use super::{between, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{Engine, TestApp, TestClient, assert_contains, on_both};

on_both!(
    entries_are_sentences,
    filters_select_entries,
    long_searches_continue_on_the_next_page,
    downloads_have_all_matching_entries,
    a_key_leads_to_what_it_did,
    times_are_in_the_zone_of_the_reader,
    an_unknown_filter_is_named,
    long_words_do_not_widen_the_page,
    the_activity_log_is_filtered_and_paged,
);

/// Returns the sentences of a page, with single spaces.
async fn sentences(browser: &TestClient, query: &str) -> Vec<String> {
    let page = browser.page(&format!("/activity{query}")).await;
    sentences_of(&page)
}

fn sentences_of(page: &str) -> Vec<String> {
    let entries = page.split("<li class=\"entry\"").skip(1);
    let sentence = |entry: &str| {
        let html = super::between(entry, "<div><p>", "<span class=\"end\">");
        let mut text = String::new();
        let mut is_tag = false;
        for character in html.chars() {
            match character {
                '<' => is_tag = true,
                '>' => is_tag = false,
                _ if !is_tag => text.push(character),
                _ => {}
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    entries.map(sentence).collect()
}

async fn entries_are_sentences(app: TestApp) {
    let owner = app.browser().await;
    let id = app.key().change("Deploy payments").await;
    app.key()
        .update(&format!("/api/changes/{id}"), json!({ "impact": "none" }))
        .await;
    app.key().service("payments").await;
    let guest = join(&app, &owner, "grace", "viewer").await;
    let role = format!("/settings/members/{}/role", guest.id);
    owner.submit(&role, &[("role", "member")]).await;
    let delete = format!("/changes/{id}/delete");
    owner.submit(&delete, &[]).await;
    let name = &app.organization.owner_name;
    let found = sentences(&owner, "").await;
    assert_eq!(
        found[..7],
        [
            format!("{name} deleted the change Deploy payments"),
            format!("{name} changed the role of grace"),
            "grace signed in".to_owned(),
            "grace joined".to_owned(),
            format!("{name} invited grace@example.org"),
            "terraform key created the service payments".to_owned(),
            "terraform key updated Deploy payments".to_owned(),
        ],
        "{found:#?}"
    );
    let page = owner.get("/activity").await.text;
    assert_contains(&page, "<span class=\"end\">as viewer</span>");
    assert_contains(&page, "<span class=\"end\">low risk, planned</span>");
    assert!(page.contains("<del>viewer</del> → <ins>member</ins>"));
    assert_contains(&page, "<del>–</del> → <ins>none</ins>");
}

async fn filters_select_entries(app: TestApp) {
    let owner = app.browser().await;
    let id = app.key().change("By the key").await;
    app.key()
        .update(&format!("/api/changes/{id}"), json!({ "impact": "none" }))
        .await;
    log_by_hand(&owner).await;
    let owner_id = &app.organization.owner_id;
    let key = format!("key%3A{}", app.organization.key_id);
    let name = &app.organization.owner_name;
    let by_hand = format!("{name} logged By hand");
    let (logged, updated) = (
        "terraform key logged By the key",
        "terraform key updated By the key",
    );
    for (query, expected) in [
        (
            "resource=change".to_owned(),
            vec![&*by_hand, updated, logged],
        ),
        ("resource=change&action=updated".to_owned(), vec![updated]),
        (
            "action=created&resource=change".to_owned(),
            vec![&*by_hand, logged],
        ),
        (format!("actor_id={key}"), vec![updated, logged]),
        (format!("actor_id={key}&action=created"), vec![logged]),
        (
            format!("actor_id={owner_id}&resource=change"),
            vec![&*by_hand],
        ),
        (
            format!("actor_id={owner_id}&action=created&resource=change"),
            vec![&*by_hand],
        ),
        (
            "actor_id=__api_key__&action=updated".to_owned(),
            vec![updated],
        ),
        ("action=deleted".to_owned(), vec![]),
        (
            "resource=change&until=2020-01-01T00:00:00Z".to_owned(),
            vec![],
        ),
        (
            "resource=change&since=2099-01-01T00:00:00Z".to_owned(),
            vec![],
        ),
        (
            "resource=change&range=1h&action=updated".to_owned(),
            vec![updated],
        ),
    ] {
        let query = query.replace(':', "%3A");
        assert_eq!(
            sentences(&owner, &format!("?{query}")).await,
            expected,
            "{query}"
        );
    }
    let signed_in = sentences(&owner, "?action=signed_in").await;
    assert!(!signed_in.is_empty());
    assert!(signed_in.iter().all(|text| text.ends_with("signed in")));
    let page = owner.get("/activity").await.text;
    for offered in ResourceType::WORDS.iter().chain(Action::WORDS) {
        assert!(page.contains(&format!("value=\"{offered}\"")), "{offered}");
    }
}

/// The rest of the statement that adds 21,000 entries of another key.
macro_rules! others {
    () => {
        "'API key: other', 'created', 'change', resource_id, 'Another', metadata, created_at
         FROM activity CROSS JOIN
             (WITH RECURSIVE numbers (number) AS
                 (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 21000)
              SELECT number FROM numbers) AS numbered
         WHERE resource_type = 'change'"
    };
}

/// More entries than one statement searches, none of which a filter selects.
async fn long_searches_continue_on_the_next_page(app: TestApp) {
    let owner = app.browser().await;
    app.key().change("The oldest").await;
    app.execute(match app.engine {
        Engine::Sqlite => concat!(
            "INSERT INTO activity (organization_id, id, actor_name, action, resource_type,
                 resource_id, resource_label, metadata, created_at)
             SELECT organization_id, unhex(printf('ff%030x', number)), ",
            others!()
        ),
        Engine::Postgres => concat!(
            "INSERT INTO activity (organization_id, id, actor_name, action, resource_type,
                 resource_id, resource_label, metadata, created_at)
             SELECT organization_id, ('ff' || lpad(to_hex(number), 30, '0'))::uuid, ",
            others!()
        ),
    })
    .await;
    let key = format!("key%3A{}", app.organization.key_id);
    let first = owner.get(&format!("/activity?actor_id={key}")).await.text;
    assert_eq!(sentences_of(&first), [""; 0]);
    assert_contains(&first, "Continue searching");
    let next = super::between(&first, "rel=\"next\" href=\"", "\"")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    let second = owner.get(&next).await;
    assert_eq!(
        sentences_of(&second.text),
        ["terraform key logged The oldest"]
    );
    assert!(!second.text.contains("Continue searching"));
    // A download searches everything.
    let file = owner.get(&format!("/activity.ndjson?actor_id={key}")).await;
    assert_eq!(file.text.lines().count(), 1, "{}", file.text);
}

async fn downloads_have_all_matching_entries(app: TestApp) {
    let owner = app.browser().await;
    for number in 0..60 {
        app.key().change(&format!("Change {number}")).await;
    }
    let file = owner.get("/activity.ndjson?resource=change").await;
    file.is(200);
    let name = file.header("content-disposition");
    assert!(
        name.starts_with("attachment; filename=\"activity-20") && name.ends_with(".ndjson\""),
        "{name}"
    );
    let lines: Vec<Value> = file
        .text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 60);
    let entry = &lines[0];
    assert_eq!(entry["resource_label"], "Change 59");
    assert_eq!(entry["actor"], "terraform");
    assert_eq!(entry["actor_type"], "api_key");
    assert_eq!(entry["actor_id"], app.organization.key_id.as_str());
    assert_eq!(entry["action"], "created");
    let table = owner.get("/activity.csv?resource=change").await.text;
    let rows: Vec<&str> = table.split("\r\n").filter(|row| !row.is_empty()).collect();
    assert_eq!(rows.len(), 61);
    assert!(
        rows[0].starts_with("\u{feff}created_at,actor,"),
        "{}",
        rows[0]
    );
    assert!(rows[1].contains(",terraform,api_key,"), "{}", rows[1]);
    // Another page is not a download.
    app.anonymous().get("/activity.csv").await.is(303);
    owner.get("/activity.csv?x=1").await.is(400);
}

async fn a_key_leads_to_what_it_did(app: TestApp) {
    let owner = app.browser().await;
    app.key().change("By the key").await;
    log_by_hand(&owner).await;
    let keys = owner.get("/settings/api-keys").await.text;
    let link = super::between(&keys, "href=\"/activity?", "\"");
    let found = sentences(&owner, &format!("?{link}")).await;
    assert_eq!(found, ["terraform key logged By the key"]);
    let members = owner.get("/settings/members").await.text;
    let link = super::between(&members, "href=\"/activity?", "\"");
    let found = sentences(&owner, &format!("?{link}")).await;
    assert_eq!(
        found[0],
        format!("{} logged By hand", app.organization.owner_name)
    );
}

async fn times_are_in_the_zone_of_the_reader(app: TestApp) {
    app.key().change("Late").await;
    app.execute("UPDATE activity SET created_at = 1763766000000 WHERE resource_type = 'change'")
        .await;
    let owner = app.browser().await;
    let cookie = |zone: &str| {
        owner
            .clone()
            .with("cookie", &format!("changelog_zone={zone}"))
    };
    let page = cookie("Asia/Tokyo")
        .get("/activity?resource=change")
        .await
        .text;
    assert_contains(&page, "Saturday, 22 November 2025");
    assert_contains(&page, ">08:00<");
    // The fields of the form are in the zone as well, and replace a range chosen before.
    for (query, expected) in [
        (
            "since=2026-11-22T09%3A00&time_zone=Asia%2FTokyo",
            "since=2026-11-22T00%3A00%3A00Z",
        ),
        (
            "range=1h&until=2026-11-22T09%3A00",
            "until=2026-11-22T09%3A00%3A00Z",
        ),
    ] {
        let redirect = owner.get(&format!("/activity?{query}")).await;
        redirect.is(303);
        let expected = format!("/activity?{expected}");
        assert_eq!(redirect.header("location"), expected, "{query}");
    }
}

async fn an_unknown_filter_is_named(app: TestApp) {
    let owner = app.browser().await;
    for (query, expected) in [
        ("range=2y", "<p>range must be one of"),
        (
            "actor_id=ada",
            "<p class=\"error\" id=\"actor_id-error-1\">By must be a person",
        ),
        (
            "since=soon",
            "<p class=\"error\" id=\"since-error-1\">&#34;From&#34; isn&#39;t a valid date and time",
        ),
        ("environment=prod", "<p>Unknown filter: environment"),
    ] {
        let page = owner.get(&format!("/activity?{query}")).await;
        page.is(400);
        let main = super::between(&page.text, "<main", "</main>");
        assert_eq!(main.matches(expected).count(), 1, "{query}: {main}");
    }
    // A range is dropped by a link.
    let page = owner.page("/activity?action=deleted&range=4h").await;
    let link = "<a href=\"/activity?action=deleted\">Any time</a>";
    assert_contains(&page, link);
}

async fn long_words_do_not_widen_the_page(app: TestApp) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    app.key().change(&"wide".repeat(70)).await;
    sign_in(&browser, &app, &app.organization).await;
    for width in [320, 768, 1440] {
        browser.set_width(width).await;
        browser.open(&app.at("/activity")).await;
        browser.wait_for(".entry").await;
        let wide = "return document.documentElement.scrollWidth - window.innerWidth";
        let wide = browser.script(wide).await.as_i64().expect("a width");
        assert!(wide <= 0, "{wide} px too wide at {width} px");
    }
}

/// Logs a change with the form.
async fn log_by_hand(browser: &TestClient) {
    let fields = [
        ("title", "By hand"),
        ("risk_level", "low"),
        ("status", "completed"),
    ];
    browser.submit("/changes", &fields).await;
}

async fn the_activity_log_is_filtered_and_paged(app: TestApp) {
    let key = app.key();
    let titles: Vec<Value> = (0..60)
        .map(|n| json!({ "title": format!("Number {n:02}") }))
        .collect();
    key.create_changes(titles).await;
    key.service("payments").await;
    let owner = app.browser().await;
    owner.submit("/hosts", &[("hostname", "by-hand")]).await;
    let count = |page: &str| page.matches("<li class=\"entry\"").count();
    let all = owner.get("/activity").await.text;
    assert!(all.contains("by-hand") && all.contains("payments"), "{all}");
    let next = between(&all, "rel=\"next\" href=\"", "\"")
        .replace("&#38;", "&")
        .replace("&amp;", "&");
    let rest = owner.page(&next).await;
    assert_contains(&rest, "rel=\"prev\"");
    assert_contains(&rest, "Number 00");
    assert!(!rest.contains("Number 59"));
    let services = owner.get("/activity?resource=service").await.text;
    assert_eq!(
        count(between(&services, "<main", "</main>")),
        1,
        "{services}"
    );
    assert_contains(&services, ">terraform</a>");
    let mine = format!(
        "/activity?actor_id={}&resource=host",
        app.organization.owner_id
    );
    let mine = owner.get(&mine).await.text;
    assert!(mine.contains("by-hand") && !between(&mine, "<main", "</main>").contains("payments"));
    let answer = owner.get("/activity?resource=&actor_id=").await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/activity");
}
