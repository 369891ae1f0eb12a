//! The rows of changes, and the filters above them, in a browser.

use serde_json::{Value, json};

use super::sign_in;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, in_browser, on_one};

on_one!(lists_of_services_are_searched_and_sorted);

in_browser!(
    a_change_has_one_line_on_wide_screens,
    times_with_their_age_have_room,
    filters_are_removed_one_by_one,
    ranges_stay_relative,
    the_time_zone_can_be_switched,
);

async fn the_time_zone_can_be_switched(app: TestApp, browser: Chromium) {
    let change = json!({
        "title": "Switch", "status": "completed", "occurred_at": "2026-01-15T22:30:00Z",
    });
    app.key().create("/api/changes", change).await;
    browser.set_time_zone("Asia/Tokyo").await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes")).await;
    for (zone, day, clock) in [
        ("Asia/Tokyo", "Friday, 16 January 2026", "07:30"),
        ("UTC", "Thursday, 15 January 2026", "22:30"),
        ("Asia/Tokyo", "Friday, 16 January 2026", "07:30"),
    ] {
        let shown = format!("[data-zone='{zone}']:not([hidden])");
        browser.wait_for(&shown).await;
        assert_eq!(browser.text_of(".day").await, day);
        assert_eq!(browser.text_of(".row time").await, clock);
        let other = if zone == "UTC" { "Asia/Tokyo" } else { "UTC" };
        let button = browser.text_of(&shown).await;
        assert_eq!(button, format!("Switch to {other}"));
        // The choice holds on the next page, and without the button.
        browser.open(&app.at("/changes")).await;
        browser.wait_for(&shown).await;
        browser.click(&shown).await;
    }
}

/// Records changes that are hard to show.
async fn record_hard_changes(app: &TestApp) {
    let key = app.key();
    let host = json!({
        "hostname": format!("{}.example.com", "h".repeat(60)), "environment": "prod",
    });
    let host = key.create("/api/hosts", host).await;
    let mut services = Vec::new();
    for name in ["payments", "ledger", "search"] {
        services.push(key.service(name).await);
    }
    let tags: Vec<String> = (0..20).map(|number| format!("tag-{number}")).collect();
    let hard = json!({
        "title": "W".repeat(300), "risk_level": "high", "status": "completed",
        "service_ids": services, "host_id": host, "tags": tags,
    });
    let an_hour = chrono::Utc::now() - chrono::TimeDelta::seconds(3_590);
    let rtl = json!({
        "title": "שדרוג השרת", "status": "rolled_back", "outcome": "failed",
        "occurred_at": an_hour.to_rfc3339(),
    });
    let planned = json!({
        "title": "Later", "status": "planned", "scheduled_for": "2035-01-31T22:00:00Z",
    });
    for body in [hard, rtl, planned] {
        key.create("/api/changes", body).await;
    }
}

async fn times_with_their_age_have_room(app: TestApp, browser: Chromium) {
    let key = app.key();
    let service = key.service("payments").await;
    for (days, risk) in [(200, "high"), (190, "low"), (100, "medium")] {
        let at = chrono::Utc::now() - chrono::TimeDelta::days(days);
        let change = json!({
            "title": "Deploy", "service_id": service, "risk_level": risk, "status": "completed",
            "occurred_at": at.to_rfc3339(),
        });
        key.create("/api/changes", change).await;
    }
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at(&format!("/services/{service}"))).await;
    browser.wait_for(".row .age:not(:empty)").await;
    for width in [1024, 1280, 1440, 1920] {
        browser.set_width(width).await;
        let script = "return [...document.querySelectorAll('.row')].filter((row) => {
            const [at, level] = ['.at .when', '.level'].map((name) =>
                row.querySelector(name).getBoundingClientRect());
            return at.bottom > level.top && at.top < level.bottom && level.width > 1
                && at.right > level.left;
        }).map((row) => row.textContent)";
        assert_eq!(browser.script(script).await, json!([]), "{width}");
    }
}

async fn a_change_has_one_line_on_wide_screens(app: TestApp, browser: Chromium) {
    record_hard_changes(&app).await;
    sign_in(&browser, &app, &app.organization).await;
    for (width, limit) in [(2560, 44), (1440, 44), (768, 400), (390, 400), (320, 400)] {
        browser.set_width(width).await;
        browser.open(&app.at("/changes")).await;
        browser.wait_for(".row").await;
        let script = "return [
            document.documentElement.scrollWidth,
            Math.max(...[...document.querySelectorAll('.row')].map((row) => row.offsetHeight)),
            // What is clicked is 24 pixels high, and nothing lies on it.
            [...document.querySelectorAll('.row .title')].filter((link) => {
                const box = link.getBoundingClientRect();
                const at = document.elementFromPoint(box.left + 3, box.top + box.height / 2);
                return box.height < 22 || (at && at !== link);
            }).length,
        ]";
        let found = browser.script(script).await;
        let number = |index: usize| found[index].as_u64().expect("a number");
        assert!(number(0) <= u64::from(width), "{width}: {found}");
        assert!(number(1) <= limit, "{width}: {found}");
        assert_eq!(number(2), 0, "{width}: {found}");
    }
    browser.set_width(1440).await;
    browser.open(&app.at("/changes")).await;
    let rows = browser.texts(".row").await;
    let row = |part: &str| rows.iter().find(|row| row.contains(part)).expect(part);
    for (title, parts) in [
        (
            "WWW",
            vec![
                "high",
                "payments",
                "+2",
                "prod",
                "tag-0",
                "tag-2",
                "+17",
                "terraform",
            ],
        ),
        ("שדרוג", vec!["failed"]),
        ("Later", vec!["planned", "2035-01-31 22:00"]),
    ] {
        for part in parts {
            assert!(row(title).contains(part), "{part}: {}", row(title));
        }
    }
    assert!(!row("WWW").contains("tag-3"), "{rows:?}");
    // The heading has the date; an hour is not 60 minutes.
    let times = browser.texts(".row:not(:has(.planned)) .when").await;
    assert_eq!(times.len(), 2, "{times:?}");
    for time in &times {
        let (clock, age) = time.split_at_checked(5).expect("a clock time");
        assert!(
            clock.as_bytes()[2] == b':' && !age.contains('-'),
            "{times:?}"
        );
    }
    let ages = ["59 min ago", "1 h ago"];
    assert!(ages.iter().any(|age| times[1].ends_with(age)), "{times:?}");
    // The page of a service or host does not repeat its own name.
    browser.open(&app.at("/services")).await;
    browser.press("ledger").await;
    browser.wait_for(".row").await;
    let services = browser.texts(".row .services").await;
    assert_eq!(services, ["payments\n+1"], "{services:?}");
}

async fn filters_are_removed_one_by_one(app: TestApp, browser: Chromium) {
    record_hard_changes(&app).await;
    sign_in(&browser, &app, &app.organization).await;
    let address = format!(
        "{}/changes?risk_level=high,low&tag=tag-7&service=ledger",
        app.url()
    );
    browser.open(&address).await;
    browser.wait_for_text("1 change").await;
    let title = browser.tab.title().await.expect("a title");
    assert_eq!(
        title,
        "high risk, low risk, tag-7, ledger · Changes · Change log"
    );
    for (name, left) in [
        ("Risk low", "/changes?risk_level=high&tag=tag-7&service_id="),
        ("Service ledger", "/changes?risk_level=high&tag=tag-7"),
        ("Tag tag-7", "/changes?risk_level=high"),
        ("Risk high", "/changes"),
    ] {
        let link = format!("[aria-label='Remove filter: {name}']");
        browser.click(&link).await;
        browser.wait_for(&format!("body:not(:has({link}))")).await;
        let address = browser.address().await;
        assert!(address.starts_with(left), "{name}: {address}");
    }
    assert!(!browser.has(".active-filters a").await);
}

async fn ranges_stay_relative(app: TestApp, browser: Chromium) {
    record_hard_changes(&app).await;
    let old = json!({
        "title": "Long ago", "status": "completed", "occurred_at": "2020-01-01T00:00:00Z",
    });
    app.key().create("/api/changes", old).await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes?risk_level=low")).await;
    browser.wait_for_text("Long ago").await;
    let marked = ".times [aria-current]";
    assert_eq!(browser.text_of(marked).await, "Any time");
    browser.press("4 h").await;
    browser.wait_for("[download][href*='range=4h']").await;
    assert_eq!(browser.address().await, "/changes?risk_level=low&range=4h");
    assert_eq!(browser.text_of(marked).await, "4 h");
    let listed: Value = json!(browser.texts(".title").await);
    assert!(!listed.to_string().contains("Long ago"), "{listed}");
    // Fixed times replace it.
    let fixed = "/changes?range=4h&since=2019-01-01T00:00:00Z&text=long";
    browser.open(&format!("{}{fixed}", app.url())).await;
    browser.wait_for_text("Long ago").await;
    let address = browser.address().await;
    assert!(!address.contains("range"), "{address}");
}

async fn lists_of_services_are_searched_and_sorted(app: TestApp) {
    let owner = app.browser().await;
    let key = app.key();
    let mut ids = Vec::new();
    for name in ["alpha", "Payments api", "payments-web", "zeta"] {
        ids.push(key.service(name).await);
        key.create("/api/hosts", json!({ "hostname": name.replace(' ', "-") }))
            .await;
    }
    for service in [3, 1, 3] {
        let body = json!({ "title": "Busy", "status": "completed", "service_id": ids[service] });
        key.create("/api/changes", body).await;
    }
    for (path, expected) in [
        (
            "/services",
            vec!["alpha", "Payments api", "payments-web", "zeta"],
        ),
        ("/services?q=PAY", vec!["Payments api", "payments-web"]),
        ("/services?q=web+pay", vec!["payments-web"]),
        ("/services?q=%00", vec![]),
        ("/services?q=nothing", vec![]),
        ("/services?sort=changes", vec!["zeta", "Payments api"]),
        ("/services?sort=last", vec!["zeta", "Payments api"]),
        (
            "/services?sort=other",
            vec!["alpha", "Payments api", "payments-web", "zeta"],
        ),
        ("/hosts?q=pay", vec!["Payments-api", "payments-web"]),
        ("/hosts?sort=last", vec![]),
    ] {
        let page = owner.page(path).await;
        let rows = page.split("<td class=\"name\">").skip(1);
        let names: Vec<&str> = rows
            .map(|row| super::between(row, "<bdi>", "</bdi>"))
            .collect();
        assert_eq!(names, expected, "{path}");
    }
}
