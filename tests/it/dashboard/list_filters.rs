//! The list of changes and its filters.

use serde_json::{Value, json};

use super::downloads::{ids_in, json_of};
use super::{between, sign_in};
use changelog_core::query::Pairs;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, in_browser, on_one, text};

on_one!(
    filter_urls_are_canonical,
    times_that_are_left_alone_stay_the_same,
    invalid_filters_are_reported_at_their_field,
);

in_browser!(filters_are_in_the_url, downloads_match_the_list);

/// Creates thirty changes on three days: every second one has a service, every third a
/// host, every fifth tags.
async fn create_thirty_changes(app: &TestApp) -> (String, String) {
    let key = app.key();
    let service = key.service("Payments & Co").await;
    let host = key.host("web-1").await;
    let changes: Vec<Value> = (0..30)
        .map(|number: u32| {
            let mut change = json!({
                "title": format!("Deploy number {number:02}"),
                "risk_level": if number < 3 { "high" } else { "low" },
                "status": "completed",
                "occurred_at": format!("2026-02-{:02}T12:{number:02}:00Z", 1 + number / 10),
            });
            if number.is_multiple_of(2) {
                change["service_id"] = json!(service);
            }
            if number.is_multiple_of(3) {
                change["host_id"] = json!(host);
            }
            if number.is_multiple_of(5) {
                change["tags"] = json!(["a b", "eu"]);
            }
            change
        })
        .collect();
    key.create_changes(changes).await;
    (service, host)
}

/// Opens the filters for the driver: they are in a closed `details` that the style shows
/// on wide screens, and the driver takes them for hidden.
pub(super) async fn open_filters(browser: &Chromium) {
    let script = "const field = document.querySelector('main [name=service]');
        const isSeen = field.checkVisibility() && field.getBoundingClientRect().height > 20;
        field.closest('details').open = true; return isSeen";
    assert_eq!(browser.script(script).await, true, "no filters are seen");
}

/// Pages and filters a list; also used without scripts.
pub(super) async fn filters_are_in_the_url(app: TestApp, browser: Chromium) {
    let (service, host) = create_thirty_changes(&app).await;
    sign_in(&browser, &app, &app.organization).await;
    let address = app.at("/changes");
    browser.open(&address).await;
    assert_eq!(browser.text_of("#count").await, "30 changes");
    // Grouped by day, newest first, 25 per page.
    let titles = browser.texts("main .title").await;
    let expected: Vec<String> = (5..30)
        .rev()
        .map(|n| format!("Deploy number {n:02}"))
        .collect();
    assert_eq!(titles, expected);
    let days = browser.texts("h3.day").await;
    assert_eq!(
        days,
        [
            "Tuesday, 3 February 2026",
            "Monday, 2 February 2026",
            "Sunday, 1 February 2026"
        ]
    );
    let lists = browser.all("h3.day + .changes").await;
    let mut sizes = Vec::new();
    for list in lists {
        let rows = list.find_all(fantoccini::Locator::Css("li")).await;
        sizes.push(rows.expect("a list").len());
    }
    assert_eq!(sizes, [10, 10, 5]);
    browser.press("Older").await;
    browser.wait_for("[rel='prev']").await;
    assert_eq!(browser.address().await, "/changes?page=2");
    assert_eq!(browser.texts("main .title").await.len(), 5);
    assert_eq!(browser.text_of("#count").await, "30 changes");
    assert!(!browser.has("[rel='next']").await);
    browser.press("Newer").await;
    browser.wait_for("[rel='next']").await;

    // Names become ids, and empty filters are omitted.
    open_filters(&browser).await;
    let form = "main form";
    let fields = [("service", "payments & co"), ("host", "WEB-1")];
    browser.fill(form, &fields).await;
    browser
        .click("details.choose:has([name='risk_level']) summary")
        .await;
    browser.click("main [name='risk_level'][value='low']").await;
    browser.press("Filter").await;
    browser
        .wait_for(&format!("a[href*='service_id={service}'][download]"))
        .await;
    let address = browser.address().await;
    assert_eq!(
        address,
        format!("/changes?service_id={service}&host_id={host}&risk_level=low")
    );
    // 6, 12, 18, 24.
    assert_eq!(browser.text_of("#count").await, "4 changes");
    assert_eq!(
        browser.value("main [name='service']").await,
        "Payments & Co"
    );
    assert_eq!(browser.value("main [name='host']").await, "web-1");
    assert!(
        browser
            .has("main [name='risk_level'][value='low']:checked")
            .await
    );
    assert!(
        !browser
            .has("main [name='risk_level'][value='high']:checked")
            .await
    );
    // The URL gives the same list.
    browser.open(&format!("{}{address}", app.url())).await;
    assert_eq!(browser.text_of("#count").await, "4 changes");

    browser.press("Clear filters").await;
    browser.wait_for_text("30 changes").await;
    open_filters(&browser).await;
    let fields = [
        ("tags", "eu, a b"),
        ("since", "2026-02-01T12:05"),
        ("until", "2026-02-02T12:20"),
    ];
    browser.fill(form, &fields).await;
    browser.press("Filter").await;
    browser.wait_for(".active-filters").await;
    // The search keeps the filters.
    browser.fill("header", &[("text", "number dep\n")]).await;
    browser.wait_for_text("3 changes").await;
    let address = browser.address().await;
    assert_eq!(
        address,
        "/changes?text=number+dep&since=2026-02-01T12%3A05%3A00Z\
         &until=2026-02-02T12%3A20%3A00Z&tag=eu&tag=a+b",
    );
    let titles = browser.texts("main .title").await;
    let expected = ["Deploy number 15", "Deploy number 10", "Deploy number 05"];
    assert_eq!(titles, expected, "until is exclusive");
    assert_eq!(browser.value("main [name='tags']").await, "eu, a b");
    let since = browser.value("main [name='since']").await;
    assert!(since.starts_with("2026-02-01T12:05"), "{since}");
    check_search(&browser).await;
}

async fn check_search(browser: &Chromium) {
    // The search in the header opens the list.
    browser.press("Clear filters").await;
    browser.wait_for_text("30 changes").await;
    browser.fill("header", &[("text", "deploy 07\n")]).await;
    browser.wait_for_text("1 change").await;
    assert_eq!(browser.address().await, "/changes?text=deploy+07");
    assert_eq!(browser.value("#search").await, "deploy 07");
    // The page of a change shows the changes around it.
    browser.press("Deploy number 07").await;
    browser.wait_for("#history").await;
    assert_eq!(browser.text_of("h1").await, "Deploy number 07");
    let around = browser.text_of("section[aria-labelledby='around']").await;
    assert_contains(&around, "Deploy number 06");
    assert_lacks(&around, "Deploy number 17");
}

async fn filter_urls_are_canonical(app: TestApp) {
    let (service, host) = create_thirty_changes(&app).await;
    let owner = app.browser().await;
    let page = owner.get("/changes?page=2").await;
    page.is(200);
    for (typed, canonical) in [
        (
            "?q=&text=&created_by=&service=&host=&risk_level=&status=&tags=&since=&until=",
            "/changes".to_owned(),
        ),
        (
            "?service=payments+%26+CO",
            format!("/changes?service_id={service}"),
        ),
        ("?host=Web-1&q=a", format!("/changes?host_id={host}&q=a")),
        (
            "?tags=a%2C+b&tag=c",
            "/changes?tag=a&tag=b&tag=c".to_owned(),
        ),
        (
            "?tags=%22a%2C+b%22%2Cc",
            "/changes?tag=a%2C+b&tag=c".to_owned(),
        ),
        (
            "?since=2026-02-01T12:05",
            "/changes?since=2026-02-01T12%3A05%3A00Z".to_owned(),
        ),
    ] {
        let answer = owner.get(&format!("/changes{typed}")).await;
        answer.is(303);
        assert_eq!(answer.header("location"), canonical, "{typed}");
        // The canonical URL does not redirect.
        owner.get(&canonical).await.is(200);
    }
}

/// A time that is not edited stays the same moment, which the field shows only to the second
/// and, when clocks go back, not at all.
async fn times_that_are_left_alone_stay_the_same(app: TestApp) {
    let owner = app
        .browser()
        .await
        .with("cookie", "changelog_zone=Europe/Berlin");
    let range = "since=2026-10-25T01%3A30%3A00Z&until=2026-11-01T10%3A00%3A00.250Z";
    for path in ["/changes", "/activity"] {
        let page = owner.page(&format!("{path}?{range}")).await;
        let form = between(&page, "<form class=\"filterbar\"", "</form>");
        let field = |name: &str| {
            let (_, rest) = form.split_once(&format!("name=\"{name}\"")).expect(name);
            let (_, rest) = rest.split_once("value=\"").expect(name);
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        assert_eq!(field("since"), "2026-10-25T02:30:00");
        let mut sent = Pairs::default();
        for name in [
            "since",
            "since_moment",
            "until",
            "until_moment",
            "time_zone",
        ] {
            sent.push(name, field(name));
        }
        let sent = sent.finish();
        let answer = owner.get(&format!("{path}?{sent}")).await;
        answer.is(303);
        assert_eq!(answer.header("location"), format!("{path}?{range}"));
        let edited = sent.replace("02%3A30%3A00&", "02%3A31&");
        let answer = owner.get(&format!("{path}?{edited}")).await;
        let location = answer.header("location");
        assert!(
            location.starts_with(&format!("{path}?since=2026-10-25T00%3A31%3A00Z&")),
            "{location}"
        );
    }
}

async fn invalid_filters_are_reported_at_their_field(app: TestApp) {
    create_thirty_changes(&app).await;
    let owner = app.browser().await;
    for (query, field, typed) in [
        ("service=nobody%27s", "service", "nobody&#39;s"),
        ("host=nowhere", "host", "nowhere"),
        ("since=yesterday", "since", "yesterday"),
        ("risk_level=huge", "risk_level", ""),
        ("status=done", "status", ""),
        ("by=robots", "by", ""),
        ("source=nowhere", "source", "nowhere"),
        ("source=a&source=b", "source", ""),
        ("agent=%07", "agent", ""),
    ] {
        let page = owner.get(&format!("/changes?{query}")).await;
        assert!(
            matches!(page.status, 200 | 400 | 422),
            "{query}: {}",
            page.status
        );
        let main = between(&page.text, "<main", "</main>");
        assert!(
            main.contains(&format!("id=\"{field}-error-1\"")),
            "{query}: {main}"
        );
        assert!(main.contains(typed), "{query} is not kept: {main}");
        assert!(
            !main.contains("Deploy number"),
            "{query} shows a list of something else"
        );
    }
    // An invalid query is not a server error.
    for query in [
        "page=0",
        "page=-1",
        "page=9999999999999999999",
        "nonsense=1",
        "before=x",
        "%ff=%fe",
        "q=%00",
    ] {
        let page = owner.get(&format!("/changes?{query}")).await;
        assert!(page.status < 500, "{query}: {}", page.status);
        assert!(page.header("content-type").starts_with("text/html") || page.status == 303);
    }
    let page = owner.page("/changes?page=9").await;
    assert!(page.contains("30 changes"), "the exact count");
}

/// Downloads lists; also used without scripts.
pub(super) async fn downloads_match_the_list(app: TestApp, browser: Chromium) {
    create_thirty_changes(&app).await;
    sign_in(&browser, &app, &app.organization).await;
    let cookie = browser.cookie().await;
    let caller = app.anonymous().with("cookie", &cookie);
    for (query, count) in [
        ("", 30),
        ("?risk_level=high", 3),
        ("?q=deploy&tag=eu&page=2", 6),
    ] {
        browser.open(&app.at(&format!("/changes{query}"))).await;
        let noun = format!("{count} changes");
        browser.wait_for_text(&noun).await;
        let api = query.replace("page=2", "per_page=100");
        let api = if api.is_empty() {
            "?per_page=100".to_owned()
        } else {
            api
        };
        let list = app.key().body(&format!("/api/changes{api}")).await;
        let expected: Vec<String> = each(&list["data"], "id").into_iter().map(text).collect();
        assert_eq!(expected.len(), count);
        for ending in ["csv", "ndjson"] {
            let link = browser
                .find(&format!("a[download][href^='/changes.{ending}']"))
                .await;
            let path = link
                .attr("href")
                .await
                .expect("a link")
                .expect("an address");
            let answer = caller.get(&path).await;
            answer.is(200);
            let disposition = answer.header("content-disposition");
            let words = match query {
                "" => "",
                "?risk_level=high" => "-high-risk",
                _ => "-deploy-eu",
            };
            let today = chrono::Utc::now().format("%Y-%m-%d");
            assert_eq!(
                disposition,
                format!("attachment; filename=\"changes{words}-{today}.{ending}\"")
            );
            let found = ids_in(ending, &answer.text);
            assert_eq!(found, expected, "{path}");
            if ending == "ndjson" {
                let first = answer.text.lines().next().map(json_of);
                assert_eq!(
                    first.as_ref(),
                    Some(&list["data"][0]),
                    "the API's own shape"
                );
            }
        }
    }
    caller.get("/changes.csv?risk_level=huge").await.is(400);
}
