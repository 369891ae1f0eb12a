//! Pages update live, without disturbing the user.

use std::time::Duration;

use serde_json::json;

use super::sign_in;
use changelog_tests::chromium::Chromium;
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{TestApp, in_browser, on_one};

on_one!(unchanged_pages_are_not_sent_again,);

in_browser!(
    the_first_change_does_not_stop_a_navigation,
    the_first_change_appears,
    pages_update_live,
    live_updates_keep_input_and_selection,
);

async fn pages_update_live(app: TestApp, browser: Chromium) {
    let id = app.key().change("Before").await;
    sign_in(&browser, &app, &app.organization).await;
    for path in ["/", "/changes"] {
        browser.open(&format!("{}{path}", app.url())).await;
        browser.wait_for("[data-help]:not([hidden])").await;
        browser.script("window.mark = 'the same page'").await;
        browser.click("#search").await;
        browser.keys("half a wo").await;
        let title = format!("Meanwhile, {path}");
        let running = json!({ "title": title, "status": "in_progress" });
        app.key().create("/api/changes", running).await;
        browser.wait_for_text(&title).await;
        let mark = browser.script("return window.mark").await;
        assert_eq!(mark, "the same page", "{path} was loaded again");
        assert_eq!(browser.value("#search").await, "half a wo", "{path}");
        let focus = browser.script("return document.activeElement.id").await;
        assert_eq!(focus, "search", "{path}");
        // Typing continues in the field.
        browser.keys("rd").await;
        assert_eq!(browser.value("#search").await, "half a word", "{path}");
    }
    assert_eq!(browser.text_of("#count").await, "3 changes");

    // The page of a change shows its updates.
    browser.open(&app.at(&format!("/changes/{id}"))).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    let path = format!("/api/changes/{id}");
    app.key()
        .update(&path, json!({ "status": "rolled_back" }))
        .await;
    browser.wait_for_text("rolled back").await;
    assert_eq!(browser.console().await, [""; 0]);
}

/// Opens the overview of an organization without changes, and waits until it is live.
async fn open_empty_page(app: &TestApp, browser: &Chromium) {
    sign_in(browser, app, &app.organization).await;
    browser.open(&app.url()).await;
    browser.wait_for("[data-live=empty]").await;
    browser.wait_for("[data-freshness]:not([hidden])").await;
}

async fn the_first_change_appears(app: TestApp, browser: Chromium) {
    open_empty_page(&app, &browser).await;
    let first = json!({ "title": "The first", "status": "completed" });
    app.key().create("/api/changes", first).await;
    browser.wait_for_text("The first").await;
    browser.wait_for("[data-live=timeline]").await;
    assert_eq!(browser.console().await, [""; 0]);
}

/// The first change loads the empty page again, but not while another page is being loaded.
async fn the_first_change_does_not_stop_a_navigation(app: TestApp, browser: Chromium) {
    open_empty_page(&app, &browser).await;
    let slow = Receiver::start().await;
    slow.answer_with(Answer::text(200, "arrived").after(Duration::from_secs(3)));
    // The driver's next command would wait for a navigation that has begun.
    let leave = format!("setTimeout(() => location.assign('{}'), 200)", slow.url());
    browser.script(&leave).await;
    slow.wait_for(1).await;
    app.key().change("The first").await;
    browser.wait_for_text("arrived").await;
}

async fn live_updates_keep_input_and_selection(app: TestApp, browser: Chromium) {
    app.key().change("Before").await;
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes")).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    super::list_filters::open_filters(&browser).await;
    // The filters have input, and a row is selected with the keyboard.
    browser.fill("main form", &[("tags", "half a t")]).await;
    browser.script("document.activeElement.blur()").await;
    browser.keys("j").await;
    browser.wait_for("[data-current]").await;
    app.key().change("Meanwhile").await;
    // A button offers the new changes.
    browser.wait_for(".fresh:not([hidden])").await;
    let titles = browser.texts("main .title").await;
    assert_eq!(titles, ["Before"], "the list was changed");
    assert_eq!(browser.texts("[data-current] .title").await, ["Before"]);
    browser.click(".fresh").await;
    browser.wait_for_text("Meanwhile").await;
    assert_eq!(browser.value("main [name='tags']").await, "half a t");
}

async fn unchanged_pages_are_not_sent_again(app: TestApp) {
    let id = app.key().change("First").await;
    let owner = app.browser().await;
    for path in ["/", "/changes", "/activity", &format!("/changes/{id}")] {
        let mut statuses = Vec::new();
        // Relative times may change between two requests.
        for _ in 0..3 {
            let page = owner.get(path).await;
            page.is(200);
            let tag = page.header("etag").to_owned();
            assert_ne!(tag, "", "{path}");
            let again = owner.clone().with("if-none-match", &tag).get(path).await;
            statuses.push(again.status);
            if again.status == 304 {
                assert_eq!(again.text, "", "{path}");
                assert_eq!(again.header("etag"), tag, "{path}");
                let patch = json!({ "impact": format!("another, {path}") });
                let change = format!("/api/changes/{id}");
                app.key().update(&change, patch).await;
                let another = json!({ "title": "Another", "status": "in_progress" });
                app.key().create("/api/changes", another).await;
                let after = owner.clone().with("if-none-match", &tag).get(path).await;
                after.is(200);
                assert_ne!(after.header("etag"), tag, "{path}");
                break;
            }
        }
        assert_eq!(statuses.last(), Some(&304), "{path}: {statuses:?}");
        // Without a session, the page is not served.
        let tag = owner.get(path).await.header("etag").to_owned();
        let anonymous = app.anonymous().with("if-none-match", &tag).get(path).await;
        anonymous.is(303);
    }
}
