//! The list of changes: filters, downloads, and the activity log.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{between, sign_in};
use changelog_core::query::Pairs;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, assert_contains, assert_lacks, each, in_browser, on_one, text};

on_one!(
    filter_urls_are_canonical,
    changes_are_filtered_by_what_made_them,
    pages_say_who_acted_for_whom,
    what_made_a_change_is_linked_saved_and_sent,
    times_that_are_left_alone_stay_the_same,
    invalid_filters_are_reported_at_their_field,
    downloads_have_each_of_many_changes_once,
    csv_cells_are_not_formulas,
    the_activity_log_is_filtered_and_paged,
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

/// Returns the address of the link with a given text.
fn address_of<'p>(page: &'p str, text: &str) -> &'p str {
    let (before, _) = page
        .split_once(&format!(">{text}</a>"))
        .unwrap_or_else(|| panic!("no link {text}: {page}"));
    let (_, link) = before.rsplit_once("href=\"").expect("an address");
    link.split('"').next().unwrap_or_default()
}

const CONSOLE: &str = "Run instances (ec2) by ada in the console";
const BY_AGENT: &str = "Run instances (ec2) by ada via Terraform";

/// Records changes that agents, people and pipelines made, and some by hand. Returns the id of
/// the source of two of them.
async fn record_in_every_way(app: &TestApp) -> String {
    let key = app.key();
    let source = app.source("cloudtrail", "AWS_prod", None);
    let call = |id: &str, agent: &str| {
        json!({
            "eventVersion": "1.08", "eventID": id, "eventName": "RunInstances",
            "readOnly": false, "eventSource": "ec2.amazonaws.com",
            "eventTime": "2026-01-20T10:00:00Z", "userAgent": agent,
            "userIdentity": { "type": "IAMUser", "userName": "ada" },
        })
    };
    source
        .send(&call("1", "console.amazonaws.com"))
        .await
        .is(202);
    let terraform = "APN/1.0 HashiCorp/1.0 Terraform/1.9.8";
    source.send(&call("2", terraform)).await.is(202);
    source.outcomes().await;
    let tags = json!(["a", "b", "c", "d", "by-hand"]);
    let typed = json!({ "title": "Typed", "tags": tags, "status": "completed" });
    key.create("/api/changes", typed).await;
    key.completed_change("Deployed").await;
    let owner = app.browser().await;
    owner
        .submit("/changes", &[("title", "Written"), ("risk_level", "low")])
        .await;
    source.id.clone()
}

/// Records a change of an agent alone, one that a person directed, and one for a person.
async fn record_by_agents(app: &TestApp, alone: &str) {
    let directed = json!({ "name": "claude-code", "mode": "interactive" });
    for (title, agent, person) in [
        (alone, json!({ "name": "bot <b>" }), Value::Null),
        ("Directed", directed, Value::Null),
        (
            "For her",
            json!({ "name": "claude-code" }),
            json!("ada <i>"),
        ),
    ] {
        let body = json!({ "title": title, "agent": agent, "on_behalf_of": person,
            "status": "completed" });
        app.key().create("/api/changes", body).await;
    }
}

async fn pages_say_who_acted_for_whom(app: TestApp) {
    record_by_agents(&app, "By itself").await;
    let owner = app.browser().await;
    let list = owner.page("/changes?agent=claude-code&text=her").await;
    assert_contains(
        &list,
        "<bdi>claude-code for ada &#60;i&#62;</bdi> <span>claimed</span>",
    );
    assert_contains(&list, "made by claude-code for ada &#60;i&#62; (claimed)");
    let log = owner.page("/activity").await;
    assert_contains(&log, "by claude-code for ada &#60;i&#62; (claimed)");
    assert_contains(&log, "by bot &#60;b&#62; (claimed)");
    let suspects = owner.page("/around").await;
    assert_contains(&suspects, "claude-code for ada &#60;i&#62; (claimed)</bdi>");
    for (query, expected) in [("agent=claude-code", 0), ("by=unattended", 1)] {
        let list = owner.page(&format!("/changes?{query}")).await;
        let address = between(&list, "<a class=\"title\" href=\"", "\"");
        let page = owner.page(address).await;
        let link = "<a href=\"/changes?by=unattended\">without a person</a>";
        assert_eq!(page.matches(link).count(), expected, "{query}");
    }
}

async fn changes_are_filtered_by_what_made_them(app: TestApp) {
    let id = &record_in_every_way(&app).await;
    let (console, by_agent, alone) = (CONSOLE, BY_AGENT, "By itself");
    record_by_agents(&app, alone).await;
    let owner = app.browser().await;
    for (query, expected, chips) in [
        ("by=hand", vec!["Typed", console], vec!["Made by hand"]),
        (
            "by=agent%2Cpipeline",
            vec!["For her", "Directed", alone, "Deployed", by_agent],
            vec!["Made by agent", "Made by pipeline"],
        ),
        (
            "by=unattended",
            vec![alone],
            vec!["Made by agent without a person"],
        ),
        ("by=person", vec!["Written"], vec!["Made by person"]),
        ("agent=terraform", vec![by_agent], vec!["Agent terraform"]),
        (
            &format!("source={id}"),
            vec![by_agent, console],
            vec!["Source AWS_prod"],
        ),
        (
            &format!("by=hand&source={id}&tag=cloudtrail"),
            vec![console],
            vec!["Made by hand", "Source AWS_prod", "Tag cloudtrail"],
        ),
    ] {
        let page = owner.page(&format!("/changes?{query}")).await;
        let main = between(&page, "<main", "</main>");
        let mut titles: Vec<&str> = main
            .split("<a class=\"title\"")
            .skip(1)
            .map(|row| between(row, "dir=\"auto\">", "</a>"))
            .collect();
        // Those of the source are of one millisecond.
        titles.sort_unstable_by_key(|title| expected.iter().position(|one| one == title));
        assert_eq!(titles, expected, "{query}");
        for chip in &chips {
            assert_contains(main, format!("aria-label=\"Remove filter: {chip}\""));
        }
        assert_eq!(
            main.matches("Remove filter").count(),
            chips.len(),
            "{query}"
        );
        // Without a script the form keeps what it shows.
        for word in ["agent", "person", "pipeline", "hand"] {
            let is_chosen = chips.contains(&&*format!("Made by {word}"));
            let checked = if is_chosen { " checked" } else { "" };
            let field = format!("name=\"by\" value=\"{word}\"{checked}>");
            assert_contains(main, &field);
        }
    }
    // As the form sends them: the name becomes the id, which stays.
    for (typed, canonical) in [
        (
            "by=hand&by=agent&source=&agent=",
            "by=hand%2Cagent".to_owned(),
        ),
        (
            "source=aws_PROD&agent=Terraform",
            format!("source={id}&agent=Terraform"),
        ),
        ("agent=terraform&by=", "agent=terraform".to_owned()),
    ] {
        let answer = owner.get(&format!("/changes?{typed}")).await;
        answer.is(303);
        assert_eq!(answer.header("location"), format!("/changes?{canonical}"));
    }
    let page = owner
        .page(&format!("/changes?source={id}&agent=Terraform"))
        .await;
    assert_contains(&page, "<span id=\"by-chosen\">AWS_prod, Terraform</span>");
    assert_contains(&page, "name=\"source\" value=\"AWS_prod\"");
}

async fn what_made_a_change_is_linked_saved_and_sent(app: TestApp) {
    let id = &record_in_every_way(&app).await;
    let (console, by_agent) = (CONSOLE, BY_AGENT);
    let (key, owner) = (app.key(), app.browser().await);
    // The page of a change has links to its like.
    let all = key.body("/api/changes").await;
    let mut pages = Vec::new();
    for change in all["data"].as_array().expect("a list") {
        let path = format!("/changes/{}", text(&change["id"]));
        pages.push((text(&change["title"]), owner.page(&path).await));
    }
    let of = |title: &str| {
        let page = pages.iter().find(|(of, _)| of == title);
        let page = &page.expect("a change").1;
        between(page, "<dl class=\"facts\">", "</dl>")
    };
    assert_eq!(
        address_of(of(console), "<bdi>AWS_prod</bdi>"),
        format!("/changes?source={id}")
    );
    assert_eq!(
        address_of(of(console), "<bdi>by-hand</bdi>"),
        "/changes?by=hand"
    );
    assert_eq!(
        address_of(of(by_agent), "<bdi>Terraform</bdi>"),
        "/changes?agent=Terraform"
    );
    // A row has room for three tags; by-hand is one of them.
    let page = owner.page("/changes?by=hand").await;
    let row = between(&page, ">Typed</a>", "</li>");
    assert_contains(row, "class=\"tag by-hand\" href=\"/changes?by=hand\"");
    assert_contains(row, "title=\"c, d\">+2<");

    // Views, downloads and feeds have the same filters.
    let query = format!("by=hand&source={id}");
    let fields = [("name", "By hand in AWS"), ("query", &*query)];
    let saved = owner.post_form("/views", &fields).await;
    assert_eq!(saved.header("location"), format!("/changes?{query}"));
    let page = owner.page(&format!("/changes?{query}")).await;
    assert_contains(&page, "aria-current=\"true\">By hand in AWS</a>");
    let csv = owner.get(&format!("/changes.csv?{query}")).await;
    assert_eq!(rows(&csv.text).len(), 2, "{}", csv.text);
    let disposition = csv.header("content-disposition");
    assert_contains(disposition, "changes-made-by-hand-aws-prod-");
    let page = owner.post_form("/account/feed", &[]).await.text;
    let feed = between(&page, "id=\"new-feed\">", "<").replace("&#38;", "&");
    let feed = feed
        .strip_prefix(&app.url())
        .expect("an address")
        .to_owned();
    let feed = app.anonymous().get(&format!("{feed}&{query}")).await;
    feed.is(200);
    assert_eq!(feed.text.matches("<entry>").count(), 1, "{}", feed.text);
    assert_contains(&feed.text, console);
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
            let found: Vec<String> = if ending == "csv" {
                rows(&answer.text)
                    .iter()
                    .skip(1)
                    .map(|row| row[0].clone())
                    .collect()
            } else {
                let lines = answer.text.lines();
                lines.map(|line| text(&json_of(line)["id"])).collect()
            };
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

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Reads CSV, RFC 4180.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut characters = csv.chars().peekable();
    let mut is_quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '"' if !is_quoted => is_quoted = true,
            '"' if characters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = false,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(
        row.is_empty() && cell.is_empty() && !is_quoted,
        "the CSV is incomplete"
    );
    rows
}

async fn downloads_have_each_of_many_changes_once(app: TestApp) {
    let key = app.key();
    let mut wanted = BTreeSet::new();
    for round in 0..5 {
        let changes: Vec<Value> = (0..500)
            .map(|number: u32| {
                let tag = if number.is_multiple_of(2) {
                    "even"
                } else {
                    "odd"
                };
                json!({ "title": format!("Change {round} {number}"), "tags": [tag] })
            })
            .collect();
        let body = json!({ "changes": changes });
        let made = key.post("/api/changes/bulk", body).await.data(201);
        let ids = each(&made, "id").into_iter().map(text);
        wanted.extend(ids.step_by(2));
    }
    let owner = app.browser().await;
    let list = owner.get("/changes?tag=even").await;
    assert!(list.text.contains("1,250 changes"), "{}", list.text.len());
    for ending in ["csv", "ndjson"] {
        let answer = owner.get(&format!("/changes.{ending}?tag=even")).await;
        answer.is(200);
        let found: Vec<String> = if ending == "csv" {
            rows(&answer.text)
                .iter()
                .skip(1)
                .map(|row| row[0].clone())
                .collect()
        } else {
            answer
                .text
                .lines()
                .map(|line| text(&json_of(line)["id"]))
                .collect()
        };
        assert_eq!(found.len(), 1_250, "{ending}");
        assert!(found.is_sorted_by(|a, b| a > b), "newest first");
        let found: BTreeSet<String> = found.into_iter().collect();
        assert_eq!(found, wanted, "{ending}");
    }
}

async fn csv_cells_are_not_formulas(app: TestApp) {
    let key = app.key();
    let bad = ["=1+1", "+1", "-1", "@SUM(A1)"];
    for start in bad {
        let body = json!({
            "title": format!("{start} as a title"),
            "description": format!("{start},\"\nmore"),
            "impact": start,
            "tags": [format!("{start}tag")],
            "links": [{ "label": format!("{start}label"), "url": "https://example.com/" }],
        });
        key.create("/api/changes", body).await;
    }
    let service = key.service("=cmd").await;
    let host = key.host("@host").await;
    let body = json!({ "title": "Of both", "service_id": service, "host_id": host });
    key.create("/api/changes", body).await;
    let csv = app.browser().await.get("/changes.csv").await.text;
    let rows = rows(&csv);
    assert_eq!(rows.len(), 6);
    for cell in rows.iter().flatten() {
        assert!(
            !cell.starts_with(['=', '+', '-', '@', '\t', '\r']),
            "{cell}"
        );
    }
    for start in bad {
        let title = format!("'{start} as a title");
        let row = rows.iter().find(|row| row.contains(&title));
        let row = row.unwrap_or_else(|| panic!("{title}: {csv}"));
        assert!(row.contains(&format!("'{start},\"\nmore")), "{row:?}");
    }
    assert!(rows[1].contains(&"'=cmd".to_owned()) && rows[1].contains(&"'@host".to_owned()));
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
