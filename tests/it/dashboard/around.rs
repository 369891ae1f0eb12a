//! The page of suspects around a time, the timeline, and the ways that lead there.

use changelog_core::query::Pairs;
use changelog_tests::chromium::Chromium;
use changelog_tests::{
    TestApp, TestClient, assert_contains, assert_lacks, in_browser, on_both, on_one,
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use fantoccini::key::Key;
use serde_json::json;

use super::{between, sign_in};

on_both!(
    a_question_that_makes_no_sense_is_answered_at_its_field,
    a_range_that_is_too_long_keeps_its_end_and_the_moment,
    the_moment_is_in_the_zone_of_the_reader,
    another_question_keeps_the_moment_and_the_range,
    many_changes_are_counted_where_they_cannot_be_drawn,
    marks_that_have_no_room_are_counted,
);

on_one!(
    the_table_has_what_the_timeline_draws,
    the_line_of_the_moment_and_planned_changes_are_drawn,
);

in_browser!(
    the_culprit_is_found_from_the_overview,
    a_key_and_the_search_lead_to_the_suspects,
    the_timeline_moves_by_keys_and_by_pointer,
    long_titles_and_names_are_cut,
);
in_browser!(without_scripts: the_culprit_is_found_without_scripts);

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Records an incident of the service payments some minutes ago, and returns its time
/// with the id of the culprit.
async fn incident(key: &TestClient) -> (DateTime<Utc>, String) {
    let service = json!({ "name": "payments", "color": "#16a34a" });
    let payments = key.create("/api/services", service).await;
    let search = key.service("search").await;
    let now = Utc::now();
    // Fields have minutes.
    let moment = now - TimeDelta::minutes(30) - TimeDelta::seconds(now.timestamp() % 60);
    let mut culprit = String::new();
    for (title, before, service, risk) in [
        ("Deploy search 7.9", 2, &search, "high"),
        ("Switch the payment provider", 4, &payments, "medium"),
        ("Deploy payments 4.17", 300, &payments, "low"),
        ("Tune search", 900, &search, "low"),
    ] {
        let body = json!({
            "title": title, "service_id": service, "risk_level": risk, "status": "completed",
            "started_at": rfc3339(moment - TimeDelta::minutes(before)),
            "ended_at": rfc3339(moment - TimeDelta::minutes(before - 1)),
            "environment": "prod",
        });
        let id = key.create("/api/changes", body).await;
        if before == 4 {
            culprit = id;
        }
    }
    (moment, culprit)
}

async fn the_culprit_is_found_from_the_overview(app: TestApp, browser: Chromium) {
    check_culprit(&app, &browser).await;
}

async fn the_culprit_is_found_without_scripts(app: TestApp, browser: Chromium) {
    check_culprit(&app, &browser).await;
    assert!(browser.has(".timeline-marks .suspect").await);
    // The links move the timeline.
    let before = browser.address().await;
    browser.click("[data-move=earlier]").await;
    browser.wait_for("h1").await;
    let after = browser.address().await;
    assert!(after.contains("from=") && after != before, "{after}");
    assert_contains(&after, "service=payments");
}

/// Types the time and the service of an incident on the overview.
async fn check_culprit(app: &TestApp, browser: &Chromium) {
    let (moment, culprit) = incident(&app.key()).await;
    sign_in(browser, app, &app.organization).await;
    // A browser without scripts has no zone, and one of a test has that of the machine.
    let zone = browser.text_of("footer").await;
    let at = if zone.contains("UTC") {
        moment.format("%H:%M").to_string()
    } else {
        rfc3339(moment)
    };
    browser
        .fill("form.broke", &[("at", &at), ("service", "payments")])
        .await;
    browser.press("Find suspects").await;
    browser.wait_for("ol.suspects").await;
    let titles = browser.texts(".suspects .title").await;
    assert_eq!(titles[0], "Switch the payment provider");
    assert_eq!(browser.path().await, "/around");
    let address = browser.address().await;
    let parameter = rfc3339(moment).replace(':', "%3A");
    assert_contains(&address, &parameter);
    let before = browser.text_of(".suspects .first .before").await;
    assert!(before.starts_with("4 min before"), "{before}");
    let reasons = browser.text_of(".suspects .first .reasons").await;
    assert_contains(&reasons, "same service: payments");
    // The lane of the affected service is the first.
    let lanes = browser.texts(".timeline-name").await;
    assert!(lanes[0].starts_with("payments"), "{lanes:?}");
    assert!(browser.has(".timeline-grid .moment").await);
    let mark = format!(".timeline-lane.affected a.suspect[href='/changes/{culprit}'] text");
    assert_eq!(browser.text_of(&mark).await, "1");
    // The question can be changed.
    assert_eq!(browser.value("#service").await, "payments");
    // At no width is anything cut off.
    for width in [320, 390, 768, 2560] {
        browser.set_width(width).await;
        let is_script_run = browser.has("[data-timeline][tabindex]").await;
        if is_script_run {
            let overflow = "return document.documentElement.scrollWidth > innerWidth";
            assert_eq!(browser.script(overflow).await, json!(false), "{width}");
        }
    }
    browser.set_width(1280).await;
}

async fn a_key_and_the_search_lead_to_the_suspects(app: TestApp, browser: Chromium) {
    let (moment, culprit) = incident(&app.key()).await;
    sign_in(&browser, &app, &app.organization).await;
    let ready = "[data-help]:not([hidden])";
    browser.wait_for(ready).await;
    // On the overview the key selects the field.
    browser.keys("a").await;
    browser
        .keys(&format!("{}{}", rfc3339(moment), Key::Enter))
        .await;
    browser.wait_for("ol.suspects").await;
    // From a change.
    browser.open(&app.at(&format!("/changes/{culprit}"))).await;
    browser.wait_for(ready).await;
    browser.keys("a").await;
    browser.wait_for("ol.suspects").await;
    assert_eq!(browser.value("#service").await, "payments");
    // From any other page.
    browser.open(&app.at("/activity")).await;
    browser.wait_for(ready).await;
    browser.keys("a").await;
    browser.wait_for("ol.suspects").await;
    assert_eq!(browser.address().await, "/around");
    // A time in the search.
    let typed = format!("{}{}", moment.format("%Y-%m-%d %H:%MZ"), Key::Enter);
    browser
        .find("#search")
        .await
        .click()
        .await
        .expect("a field");
    browser.keys(&typed).await;
    browser.wait_for("#at[value]:not([value=''])").await;
    browser.wait_for("ol.suspects").await;
    let address = browser.address().await;
    let expected = rfc3339(moment).replace(':', "%3A");
    assert_eq!(address, format!("/around?at={expected}"));
}

async fn long_titles_and_names_are_cut(app: TestApp, browser: Chromium) {
    for n in [76, 79] {
        let name = format!("team-4-service-with-a-long-name-{n}");
        let service = app.key().service(&name).await;
        let body = json!({
            "title": "x".repeat(300), "service_id": service, "status": "completed",
        });
        app.key().create("/api/changes", body).await;
    }
    sign_in(&browser, &app, &app.organization).await;
    for (path, title) in [
        ("/around", ".suspects .title a"),
        ("/changes", ".row .title"),
    ] {
        browser.open(&format!("{}{path}", app.url())).await;
        for width in [390, 800, 1280] {
            browser.set_width(width).await;
            let lines = format!(
                "const title = document.querySelector('{title}'); \
                 return title.clientHeight / parseFloat(getComputedStyle(title).lineHeight)"
            );
            let lines = browser.script(&lines).await.as_f64().expect("a number");
            assert!(
                (0.9..3.1).contains(&lines),
                "{path}, {width}: {lines} lines"
            );
        }
    }
    browser.open(&app.at("/around")).await;
    let ends = browser.script(
        "return [...document.querySelectorAll('.timeline-name')].map(lane => { \
           const end = lane.querySelector('a > :last-child'); \
           const [inner, outer] = [end, lane].map(one => one.getBoundingClientRect().right); \
           return inner <= outer ? end.textContent : 'hidden'; }).sort()",
    );
    assert_eq!(ends.await, json!(["name-76", "name-79"]));
    let whole = browser
        .has("a[title='team-4-service-with-a-long-name-76']")
        .await;
    assert!(whole);
}

async fn the_timeline_moves_by_keys_and_by_pointer(app: TestApp, browser: Chromium) {
    let (moment, culprit) = incident(&app.key()).await;
    sign_in(&browser, &app, &app.organization).await;
    let at = rfc3339(moment).replace(':', "%3A");
    let address = format!("/around?at={at}&service=payments&span=1h");
    browser.open(&format!("{}{address}", app.url())).await;
    let range = async || {
        browser.find("[data-timeline][tabindex]").await;
        // At once: live timelines are replaced.
        let ends = "const { from, to } = document.querySelector('[data-timeline]').dataset; \
            return [Number(from), Number(to)]";
        let ends = browser.script(ends).await;
        [0, 1].map(|end: usize| ends[end].as_i64().expect("a number"))
    };
    let [from, to] = range().await;
    let shown = browser.address().await;
    let press = async |key: &str, before: &str| {
        browser
            .script("document.querySelector('[data-timeline]').focus()")
            .await;
        browser.keys(key).await;
        let moved = format!("a[data-move]:not([href*='{before}'])");
        browser.wait_for(&moved).await;
        while browser.address().await == before {
            tokio::task::yield_now().await;
        }
        browser.wait_for("[data-timeline][tabindex]").await;
    };
    press(&Key::Left.to_string(), &shown).await;
    let [left, right] = range().await;
    assert!(left < from && right < to, "{left} {right}");
    let moved = browser.address().await;
    press("+", &moved).await;
    let [start, end] = range().await;
    assert!(
        (end - start - (right - left) / 2).abs() < 2_000,
        "{start} {end}"
    );
    // Back is the range before.
    browser.tab.back().await.expect("a page before");
    browser.wait_for_url(&format!("{}{moved}", app.url())).await;
    assert_eq!(range().await, [left, right]);

    // The keys up and down go through the changes.
    browser.open(&format!("{}{address}", app.url())).await;
    browser.wait_for("[data-timeline][tabindex]").await;
    browser
        .script("document.querySelector('[data-timeline]').focus()")
        .await;
    browser.keys(&Key::Down.to_string()).await;
    let focused = "return document.activeElement.getAttribute('href')";
    let first = browser.script(focused).await;
    assert_eq!(first, json!(format!("/changes/{culprit}")));
    browser.keys(&Key::Enter.to_string()).await;
    browser.wait_for("#history").await;

    // A drag selects a range.
    browser.open(&format!("{}{address}", app.url())).await;
    browser.wait_for("[data-timeline][tabindex]").await;
    let [from, to] = range().await;
    browser
        .script(
            "const box = document.querySelector('.timeline-grid').getBoundingClientRect();
            const at = (part) => ({ bubbles: true, button: 0, pointerType: 'mouse',
                clientX: box.left + box.width * part, clientY: box.top + 60 });
            const plot = document.querySelector('.timeline-plot');
            plot.dispatchEvent(new PointerEvent('pointerdown', at(0.25)));
            plot.dispatchEvent(new PointerEvent('pointermove', at(0.5)));
            plot.dispatchEvent(new PointerEvent('pointerup', at(0.75)));",
        )
        .await;
    browser.wait_for("[data-move=in][href*='from=']").await;
    while !browser.address().await.contains("from=") {
        tokio::task::yield_now().await;
    }
    let [start, end] = range().await;
    let quarter = (to - from) / 4;
    let near = |one: i64, other: i64| (one - other).abs() < quarter / 10;
    assert!(near(start, from + quarter) && near(end, to - quarter));
}

async fn the_table_has_what_the_timeline_draws(app: TestApp) {
    let (moment, _) = incident(&app.key()).await;
    let owner = app.browser().await;
    let at = rfc3339(moment).replace(':', "%3A");
    let page = owner
        .page(&format!("/around?at={at}&service=payments&span=1d"))
        .await;
    let plot = between(&page, "class=\"timeline-plot\"", "<details");
    let table = between(&page, "<details class=\"timeline-table\"", "</details>");
    let ids = |html: &str| {
        let parts = html.split("href=\"/changes/").skip(1);
        let mut ids: Vec<String> = parts.map(|part| part[..36].to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(plot).len(), 4);
    assert_eq!(ids(plot), ids(table));
    // By time, with the distance and the rank.
    let row = between(table, "Switch the payment provider", "</tr>");
    assert!(row.contains("medium") && row.contains("prod"), "{row}");
    assert_contains(&row, "<td class=\"number\">1</td>");
    assert_contains(&table, "<td>4 min before</td>");
    // Tab stops are bounded: only the script moves the focus to a mark.
    assert_eq!(plot.matches("tabindex=\"-1\"").count(), 4);
}

async fn the_line_of_the_moment_and_planned_changes_are_drawn(app: TestApp) {
    let key = app.key();
    let now = Utc::now();
    let planned = json!({
        "title": "Upgrade tonight", "scheduled_for": rfc3339(now + TimeDelta::minutes(50)),
    });
    let planned = key.create("/api/changes", planned).await;
    let late = json!({
        "title": "Forgotten", "scheduled_for": rfc3339(now - TimeDelta::minutes(50)),
    });
    let late = key.create("/api/changes", late).await;
    let running = json!({
        "title": "Drain", "status": "in_progress",
        "started_at": rfc3339(now - TimeDelta::days(9)),
    });
    let running = key.create("/api/changes", running).await;
    let failed = json!({ "title": "Broken", "status": "rolled_back", "outcome": "failed" });
    let failed = key.create("/api/changes", failed).await;
    let owner = app.browser().await;
    let page = owner.page("/").await;
    let timeline = between(&page, "data-live=\"timeline\"", "</section>");
    let mark = |id: &str| between(timeline, &format!("href=\"/changes/{id}\""), "</a>");
    assert!(timeline.contains("class=\"now\""));
    assert!(!timeline.contains("class=\"moment\""));
    assert_contains(&timeline, "event low planned");
    assert!(mark(&planned).contains("planned"), "{timeline}");
    // Overdue changes have not happened.
    assert_lacks(&timeline, &late);
    // What began before has a bar only, and what failed is crossed out.
    let running = mark(&running);
    assert_contains(&running, "class=\"bar\"");
    assert_lacks(&running, "#mark-low");
    assert!(mark(&failed).contains("#mark-undone"), "{timeline}");
}

async fn a_question_that_makes_no_sense_is_answered_at_its_field(app: TestApp) {
    let owner = app.browser().await;
    for (query, field) in [
        ("at=whenever", "at"),
        ("at=25%3A00", "at"),
        ("at=%00", "at"),
        ("at=2026-13-45", "at"),
        ("at=%F0%9F%92%A5", "at"),
        ("service=nothing", "service"),
        ("service=%00", "service"),
        ("service=018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90", "service"),
        ("host=nothing", "host"),
        ("environment=production", "environment"),
        ("window=8d", "window"),
        ("window=soon", "window"),
    ] {
        let page = owner.get(&format!("/around?{query}")).await;
        assert_eq!(page.status, 400, "{query}: {}", page.text);
        let error = format!("id=\"{field}-error-1\"");
        assert!(page.text.contains(&error), "{query}: {}", page.text);
        assert!(!page.text.contains("ol class=\"suspects"), "{query}");
    }
    // What was typed is still there.
    let page = owner.get("/around?at=whenever&service=nothing&q=a+b").await;
    for value in ["whenever", "nothing", "a b"] {
        let value = format!("value=\"{value}\"");
        assert!(page.text.contains(&value), "{value}: {}", page.text);
    }
    let page = owner.get("/around?from=x&to=y").await;
    assert_eq!(page.status, 400, "{}", page.text);
    // Extreme but possible.
    for query in [
        "at=0001-01-01T00%3A00%3A00Z",
        "at=9999-12-31T23%3A59%3A59Z",
        "at=0001-01-01T00%3A00%3A00Z&span=1d",
        "at=9999-12-31T23%3A59%3A59Z&span=1d",
        "from=9999-12-31T00%3A00%3A00Z&to=9999-12-31T23%3A59%3A59Z",
        "from=0001-01-01T00%3A00%3A00Z&to=9999-12-31T23%3A59%3A59Z",
    ] {
        let page = owner.get(&format!("/around?{query}")).await;
        let last = match page.status {
            303 => owner.get(page.header("location")).await,
            _ => page,
        };
        assert_eq!(last.status, 200, "{query}: {}", last.text);
    }
    // Another range of the timeline is about the same moment.
    let range = "from=2026-01-01T00%3A00%3A00Z&to=2026-01-01T04%3A00%3A00Z";
    let page = owner.get(&format!("/around?{range}")).await.text;
    assert_contains(&page, "at=2026-01-01T04%3A00%3A00Z&#38;from=2025-12-31");
    // Ranges without an end and unknown parameters are left out; the ends of a range may be
    // swapped.
    let (early, late) = ("2026-01-01T00%3A00%3A00Z", "2026-01-02T00%3A00%3A00Z");
    let swapped = format!("/around?from={early}&to={late}");
    for (query, location) in [
        (format!("from=now&to={early}&x=y&span=none"), "/around"),
        (format!("from={early}&to={early}"), "/around"),
        (format!("from={late}&to={early}"), &swapped),
    ] {
        let page = owner.get(&format!("/around?{query}")).await;
        assert_eq!((page.status, page.header("location")), (303, location));
    }
}

async fn a_range_that_is_too_long_keeps_its_end_and_the_moment(app: TestApp) {
    let owner = app.browser().await;
    let (from, to) = (
        "from=2026-01-01T00%3A00%3A00Z",
        "to=2026-01-31T00%3A00%3A00Z",
    );
    let note = "longer than 8 days";
    for (at, title, start, end) in [
        ("", "2026-01-31 00:00", "2026-01-23", "2026-01-31"),
        // Within the last days.
        ("2026-01-30", "2026-01-30 00:00", "2026-01-23", "2026-01-31"),
        // Before them.
        ("2026-01-10", "2026-01-10 00:00", "2026-01-06", "2026-01-14"),
        ("2026-01-02", "2026-01-02 00:00", "2026-01-01", "2026-01-09"),
        // Not in the range at all.
        ("2025-12-01", "2025-12-01 00:00", "2026-01-23", "2026-01-31"),
    ] {
        let at = match at {
            "" => String::new(),
            day => format!("at={day}T00%3A00%3A00Z&"),
        };
        let page = owner.page(&format!("/around?{at}{from}&{to}")).await;
        assert_contains(&page, format!("before {title}?"));
        assert_contains(&page, note);
        for (name, day) in [("from", start), ("to", end)] {
            let at: DateTime<Utc> = format!("{day}T00:00:00Z").parse().expect("a time");
            let at = at.timestamp_millis();
            assert_contains(&page, format!("data-{name}=\"{at}\""));
        }
    }
    // A short one is drawn longer, which does not move the moment.
    let short = "from=2026-01-01T00%3A00%3A00Z&to=2026-01-01T00%3A01%3A00Z";
    let page = owner.page(&format!("/around?{short}")).await;
    assert_contains(&page, "before 2026-01-01 00:01?");
    assert_lacks(&page, note);
    // What cannot be read is reported.
    for (query, message) in [
        ("from=soon&to=now", "from: &#34;soon&#34; is not a time"),
        (from, "to: is missing"),
        (to, "from: is missing"),
        ("at=foo", "at: &#34;foo&#34; is not a time"),
    ] {
        let page = owner.get(&format!("/around?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        assert_contains(&page.text, message);
    }
    // As people write the ranges of Grafana.
    let page = owner.get("/around?from=now-24h&to=now").await;
    page.is(303);
    assert_contains(&page.header("location"), "&to=20");
}

async fn the_moment_is_in_the_zone_of_the_reader(app: TestApp) {
    let utc = app.browser().await;
    let berlin = utc.clone().with("cookie", "changelog_zone=Europe/Berlin");
    for (browser, query, expected) in [
        (&utc, "at=2026-01-21+14%3A20", "at=2026-01-21T14%3A20%3A00Z"),
        (
            &berlin,
            "at=2026-01-21+14%3A20",
            "at=2026-01-21T13%3A20%3A00Z",
        ),
        (
            &berlin,
            "at=2026-01-21T14%3A20Z",
            "at=2026-01-21T14%3A20%3A00Z",
        ),
        // As Grafana writes times in links.
        (
            &berlin,
            "at=1769005200000&service=",
            "at=2026-01-21T14%3A20%3A00Z",
        ),
        (&berlin, "at=1769005200", "at=2026-01-21T14%3A20%3A00Z"),
    ] {
        let page = browser.get(&format!("/around?{query}")).await;
        page.is(303);
        let location = page.header("location");
        assert_eq!(location, format!("/around?{expected}"), "{query}");
        browser.get(location).await.is(200);
        // The search has the same rule.
        let text = query.replacen("at=", "text=", 1);
        if text.contains("%3A") {
            let page = browser.get(&format!("/changes?{text}")).await;
            assert_eq!(page.header("location"), location, "{text}");
        }
    }
    let page = berlin.get("/around?at=2026-01-21T13%3A20%3A00Z").await.text;
    assert_contains(&page, "before 2026-01-21 14:20?");
    assert_contains(&page, ">14:20</text>");
    // A time and a service.
    let service = json!({ "name": "check out" });
    app.key().create("/api/services", service).await;
    for (text, expected) in [
        ("2026-01-21+14%3A20+Check+Out", "14%3A20"),
        ("2026-01-21+2%3A20+pm++check+out", "14%3A20"),
        ("2026-01-21T02%3A20Z+check+out", "02%3A20"),
    ] {
        let page = utc.get(&format!("/changes?text={text}")).await;
        let expected = format!("/around?at=2026-01-21T{expected}%3A00Z&service=check+out");
        assert_eq!(page.header("location"), expected, "{text}");
    }
    // Words that are no time are searched for.
    for text in [
        "14.20",
        "1769005200",
        "payments%3A+timeout",
        "14%3A20+nothing",
    ] {
        let page = utc.get(&format!("/changes?text={text}")).await;
        assert_ne!(page.status, 303, "{text}");
    }
    // Clocks were set back over it.
    let page = berlin.get("/around?at=2025-10-26+02%3A30").await;
    assert_eq!(page.status, 400);
    assert_contains(&page.text, "ambiguous");
}

async fn another_question_keeps_the_moment_and_the_range(app: TestApp) {
    let owner = app.browser().await;
    let berlin = owner.with("cookie", "changelog_zone=Europe/Berlin");
    let service = json!({ "name": "payments" });
    app.key().create("/api/services", service).await;
    let range = "from=2026-01-21T13%3A00%3A00Z&to=2026-01-21T14%3A00%3A00Z";
    for (query, at, expected) in [
        // Milliseconds are not in the field.
        (
            format!("at=2026-01-21T13%3A20%3A09.250Z&{range}"),
            None,
            format!("at=2026-01-21T13%3A20%3A09.250Z&service=payments&{range}"),
        ),
        // Clocks showed 02:30 twice.
        (
            "at=2025-10-26T01%3A30%3A00Z&span=4h".to_owned(),
            None,
            "at=2025-10-26T01%3A30%3A00Z&service=payments&span=4h".to_owned(),
        ),
        (
            "span=1d".to_owned(),
            None,
            "service=payments&span=1d".to_owned(),
        ),
        // A range of another moment would not show the new one.
        (
            format!("at=2026-01-21T13%3A20%3A00Z&{range}"),
            Some("2026-01-20 10:00"),
            "at=2026-01-20T09%3A00%3A00Z&service=payments".to_owned(),
        ),
    ] {
        let page = berlin.page(&format!("/around?{query}")).await;
        let form = between(&page, "action=\"/around\"", "</form>");
        let mut sent = Pairs::default();
        for field in form.split("<input").skip(1) {
            let field = field.split('>').next().expect("an input");
            let name = between(field, "name=\"", "\"");
            let value = between(field, " value=\"", "\"");
            sent.push(
                name,
                match name {
                    "service" => "payments",
                    "at" => at.unwrap_or(value),
                    _ => value,
                },
            );
        }
        let page = berlin.get(&format!("/around?{}", sent.finish())).await;
        page.is(303);
        let location = page.header("location");
        assert_eq!(location, format!("/around?{expected}"), "{query}");
        berlin.get(location).await.is(200);
    }
}

async fn many_changes_are_counted_where_they_cannot_be_drawn(app: TestApp) {
    let key = app.key();
    let mut services = Vec::new();
    for number in 0..20 {
        services.push(key.service(&format!("service-{number:02}")).await);
    }
    // All in an hour that is over; the last service has only what was undone.
    let hour = Utc::now().timestamp() / 3_600 * 3_600 - 7_200;
    let hour = DateTime::from_timestamp(hour, 0).expect("a time");
    let changes: Vec<_> = (0..450_usize)
        .zip(0_i64..)
        .map(|(number, place)| {
            json!({
                "title": format!("Deploy {number}"), "service_id": services[number % 20],
                "status": if number % 20 == 19 { "rolled_back" } else { "completed" },
                "started_at": rfc3339(hour + TimeDelta::seconds(place * 8)),
            })
        })
        .collect();
    key.create_changes(&changes).await;
    let owner = app.browser().await;
    let range = |from, to| {
        let [from, to] = [from, to].map(|at| rfc3339(at).replace(':', "%3A"));
        format!("/around?from={from}&to={to}")
    };
    // By minutes, and by hours: of the last day, too, which the overview shows.
    let minutes = range(hour - TimeDelta::hours(1), hour + TimeDelta::hours(1));
    let hours = range(hour - TimeDelta::hours(20), hour + TimeDelta::hours(1));
    for (path, parts) in [(minutes.as_str(), 12), (&hours, 1), ("/", 1)] {
        let page = owner.page(path).await;
        let timeline = between(&page, "data-live=\"timeline\"", "</section>");
        assert!(timeline.contains(">450 in all</a>"), "{path}");
        assert_lacks(&timeline, "#mark-missing)");
        let lanes: Vec<&str> = timeline.split("class=\"timeline-name\"").skip(1).collect();
        assert_eq!(lanes.len(), 15, "{path}");
        let number = |lane: &str| {
            let number = between(lane, " count\">", "<").trim().to_owned();
            number.parse::<u64>().expect("a number")
        };
        assert_eq!(lanes.iter().map(|lane| number(lane)).sum::<u64>(), 450);
        assert!(lanes[14].contains("6 more services"), "{path}");
        if path == "/" {
            assert!(lanes[0].contains("service-19"), "{path}");
        }
        let table = between(timeline, "<summary>Show numbers", "</table>");
        assert_eq!(table.matches("<tr>").count(), 1 + parts, "{path}");
        assert_contains(&table, "rolled back or failed");
        // Each bar leads to its time.
        let (_, link) = timeline.split_once("class=\"bar\" href=\"").expect("a bar");
        let (link, _) = link.split_once('"').expect("an end");
        let closer = owner.page(&link.replace("&#38;", "&")).await;
        let dense = closer.contains("class=\"bar\" href=");
        let marks = closer.matches("<a class=\"event").count();
        assert!(
            dense == (parts == 1) && (dense || marks > 20),
            "{link}: {marks}"
        );
    }
}

async fn marks_that_have_no_room_are_counted(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let now = Utc::now();
    let changes: Vec<_> = (0..250)
        .map(|number| {
            json!({
                "title": format!("Deploy {number}"), "service_id": service, "status": "completed",
                "occurred_at": rfc3339(now - TimeDelta::seconds(number * 8)),
            })
        })
        .collect();
    key.create_changes(&changes).await;
    let owner = app.browser().await;
    let page = owner.get("/around?span=1h").await;
    page.is(200);
    let marks = page.text.matches("<a class=\"event").count();
    assert!((20..=200).contains(&marks), "{marks}");
    let crowds = page.text.split("class=\"crowd\"").skip(1);
    let counted = crowds.map(|crowd| {
        let (_, title) = crowd.split_once("<title>").expect("a title");
        let (count, _) = title.split_once(' ').expect("a number");
        count.parse::<usize>().expect("a number")
    });
    assert_eq!(counted.sum::<usize>() + marks, 250);
    // The counted ones are behind their link.
    let (_, link) = page
        .text
        .split_once("class=\"crowd\" href=\"")
        .expect("one");
    let (link, _) = link.split_once('"').expect("an end");
    let list = owner.page(&link.replace("&#38;", "&")).await;
    assert!(list.contains("Deploy "), "{link}");
}
