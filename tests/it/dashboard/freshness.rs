//! Pages say whether they are up to date, and keep what was typed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::sign_in;
use changelog_tests::chromium::Chromium;
use changelog_tests::event_stream::EventStream;
use changelog_tests::{Engine, TestApp, assert_contains, assert_lacks, in_browser, on_one, signal};

on_one!(the_events_of_a_page_end_with_its_session;
    process:
    a_page_says_that_the_service_does_not_answer,
);

in_browser!(
    a_page_says_that_its_session_has_ended,
    what_was_typed_survives_the_end_of_a_session,
    what_a_page_has_missed_is_shown_when_the_pointer_leaves,
    a_page_shows_nothing_when_nothing_is_new,
    a_list_with_refused_filters_is_up_to_date,
);

/// Signs in and opens a page, and waits until its stream is open.
async fn open_live(browser: &Chromium, app: &TestApp, path: &str) {
    sign_in(browser, app, &app.organization).await;
    browser.open(&format!("{}{path}", app.url())).await;
    browser.wait_for("[data-freshness='live']").await;
}

/// Ends all sessions of the owner but the one of this request.
async fn end_other_sessions(app: &TestApp) {
    let owner = app.browser().await;
    owner.submit("/account/end-other-sessions", &[]).await;
}

async fn a_page_says_that_its_session_has_ended(app: TestApp, browser: Chromium) {
    app.key().change("Before").await;
    open_live(&browser, &app, "/changes").await;
    assert_eq!(browser.text_of("[data-freshness]").await, "Live");
    end_other_sessions(&app).await;
    browser.wait_for(".lost[role='alert']").await;
    let banner = browser.text_of(".lost").await;
    assert!(
        banner.starts_with("Not updating since ") && banner.contains("you were signed out"),
        "{banner}"
    );
    browser.click(".lost a").await;
    browser.wait_for("#email").await;
    let page = browser.text().await;
    assert!(page.contains("Your session has ended. Sign in to continue."));
    assert_lacks(&page, "What you typed is kept.");
    super::try_sign_in(
        &browser,
        &app.organization.email,
        &app.organization.password,
    )
    .await;
    browser.wait_for("#count").await;
    assert_eq!(browser.path().await, "/changes");
}

async fn what_was_typed_survives_the_end_of_a_session(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes/new")).await;
    let form = "main form";
    browser.fill(form, &[("title", "Half a thought")]).await;
    browser
        .script("document.querySelector('[name=description]').value = 'Not sent'")
        .await;
    end_other_sessions(&app).await;
    browser.press("Log change").await;
    browser.wait_for("#email").await;
    let page = browser.text().await;
    assert_contains(
        &page,
        "Your session has ended. Sign in to continue. What you typed is kept.",
    );
    super::try_sign_in(
        &browser,
        &app.organization.email,
        &app.organization.password,
    )
    .await;
    browser.wait_for("main form [name='title']").await;
    assert_eq!(browser.path().await, "/changes/new");
    assert_eq!(browser.value("#title").await, "Half a thought");
    assert_eq!(browser.value("#description").await, "Not sent");
    let note = browser.text_of("main .note").await;
    assert_contains(&note, "restored");
    browser.press("Log change").await;
    browser.wait_for("#history").await;

    // What was sent, and what was left, does not come back.
    browser.open(&app.at("/changes/new")).await;
    browser.wait_for("main form [name='title']").await;
    assert_eq!(browser.value("#title").await, "");
    let kept = "return sessionStorage.getItem('changelog-drafts')";
    assert_eq!(browser.script(kept).await, Value::Null);
}

async fn what_a_page_has_missed_is_shown_when_the_pointer_leaves(app: TestApp, browser: Chromium) {
    app.key().change("Before").await;
    open_live(&browser, &app, "/changes").await;
    // The pointer rests on the list.
    let list = browser.find("[data-live='changes'] #count").await;
    let point = |element| async {
        use fantoccini::actions::{InputSource, MouseActions, PointerAction};
        let move_to = PointerAction::MoveToElement {
            element,
            duration: None,
            x: 0.0,
            y: 0.0,
        };
        let moved = MouseActions::new("mouse".to_owned()).then(move_to);
        browser.tab.perform_actions(moved).await.expect("a pointer");
    };
    point(list).await;
    app.key().change("Meanwhile 1").await;
    app.key().change("Meanwhile 2").await;
    browser.wait_for_text("Show 2 new changes").await;
    assert!(!browser.text().await.contains("Meanwhile"));
    point(browser.find(".brand").await).await;
    browser.wait_for_text("Meanwhile 2").await;
    assert!(!browser.has(".fresh:not([hidden])").await);
    assert_eq!(
        browser.all("[data-fresh]").await.len(),
        2,
        "new rows are marked"
    );

    // Escape removes the mark of the keyboard, which keeps the list as well.
    browser.keys("j").await;
    browser.wait_for("[data-current]").await;
    app.key().change("Meanwhile 3").await;
    browser.wait_for_text("Show 1 new change").await;
    let escape = fantoccini::key::Key::Escape;
    browser.keys(&escape.to_string()).await;
    browser.wait_for_text("Meanwhile 3").await;
    assert!(!browser.has("[data-current]").await);
}

async fn a_page_shows_nothing_when_nothing_is_new(app: TestApp, browser: Chromium) {
    let id = app.key().change("Before").await;
    open_live(&browser, &app, "/").await;
    browser.script("document.querySelector('[data-live]').tabIndex = -1; document.querySelector('[data-live]').focus()").await;
    // An update that the page does not show: the page is loaded, and the same.
    let count = "return performance.getEntriesByType('resource').filter((entry) => entry.initiatorType === 'fetch').length";
    let before = browser.script(count).await.as_u64().expect("a count");
    let impact = json!({ "impact": "none" });
    app.key()
        .update(&format!("/api/changes/{id}"), impact)
        .await;
    let started = Instant::now();
    while browser.script(count).await.as_u64().expect("a count") <= before {
        assert!(started.elapsed() < Duration::from_secs(20), "no refresh");
    }
    assert!(!browser.has(".fresh:not([hidden])").await);
    assert!(!browser.has("[data-fresh]").await);
    assert_eq!(browser.console().await, [""; 0]);
}

async fn a_list_with_refused_filters_is_up_to_date(app: TestApp, browser: Chromium) {
    open_live(&browser, &app, "/activity?range=nonsense").await;
    assert!(!browser.has(".lost").await);
}

async fn the_events_of_a_page_end_with_its_session(app: TestApp) {
    app.anonymous().get("/events").await.is(303);
    let refused = app.key().get("/events").await;
    refused.is(303);
    let owner = app.browser().await;
    let mut stream = EventStream::open(owner.request("GET", "/events")).await;
    let first = stream.next().await.expect("an event");
    assert_eq!(first.name, "alive");
    app.key().change("Something").await;
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "changed") {
        names.push(stream.next().await.expect("an event").name);
    }
    // Nothing of the change is sent.
    end_other_sessions(&app).await;
    let ended = Instant::now();
    while stream.next().await.is_some() {
        assert!(ended.elapsed() < Duration::from_secs(15), "still open");
    }
}

async fn a_page_says_that_the_service_does_not_answer(app: TestApp) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    if app.engine != Engine::Sqlite {
        return;
    }
    app.key().change("Before").await;
    open_live(&browser, &app, "/changes").await;
    let pid = app.server.pid().to_string();
    signal(pid.clone(), "STOP");
    let found = tokio::time::timeout(Duration::from_secs(90), async {
        while !browser.has(".lost").await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let found = found.await;
    signal(pid, "CONT");
    found.expect("a banner");
    // It comes back by itself.
    browser.wait_for("[data-freshness='live']").await;
    assert!(!browser.has(".lost").await);
    app.key().change("Afterwards").await;
    browser.wait_for_text("Afterwards").await;
}
