//! Connections as people set them up, see them fail, and repair them.

use std::time::{Duration, Instant};

use super::PATH;
use crate::dashboard::sign_in;
use changelog_tests::chromium::Chromium;
use changelog_tests::receivers::{Answer, Receiver, webhook};
use changelog_tests::{TestApp, assert_contains, assert_lacks, in_browser};

in_browser!(
    kinds_are_chosen_in_a_browser,
    a_receiver_is_connected_broken_and_repaired,
    deliveries_update_live,
);

async fn kinds_are_chosen_in_a_browser(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/members")).await;
    browser.press("Integrations").await;
    browser.wait_for(".kinds").await;
    assert_eq!(browser.texts(".kinds h2").await.len(), 5);
    browser.press("Webhook").await;
    browser.wait_for("#url").await;
    let fields = [("name", "Bot"), ("url", super::HOOK)];
    browser.fill("main form", &fields).await;
    browser.press("Connect").await;
    browser.wait_for("#new-signing-secret").await;
    // A reload shows the page without the secret.
    browser.tab.refresh().await.expect("a page");
    browser.wait_for("#deliveries").await;
    assert!(!browser.has("#new-signing-secret").await);
    browser.press("Send a test").await;
    browser.wait_for("#result").await;
    let result = browser.text_of("#result").await;
    assert_contains(&result, "not found");
    assert_eq!(browser.console().await, [""; 0]);
}

/// Reloads a page until it shows a string.
async fn open_until(browser: &Chromium, page: &str, expected: &str) -> String {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        browser.open(page).await;
        let text = browser.text_of("main").await;
        if text.contains(expected) {
            return text;
        }
        assert!(Instant::now() < deadline, "no {expected:?}: {text}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn a_receiver_is_connected_broken_and_repaired(mut app: TestApp, browser: Chromium) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    sign_in(&browser, &app, &app.organization).await;
    browser
        .open(&format!("{}{PATH}/new?kind=webhook", app.url()))
        .await;
    let url = receiver.url();
    browser
        .fill("main form", &[("name", "Release bot"), ("url", &url)])
        .await;
    browser.press("Connect").await;
    browser.wait_for("#new-signing-secret").await;
    let secret = browser.text_of("#new-signing-secret").await;
    let own = format!("{}{}", app.url(), browser.path().await);
    assert_contains(&own, "/settings/integrations/");

    // The test shows the receiver's own answer.
    receiver.answer_next(Answer::text(202, "thanks for the test"));
    browser.press("Send a test").await;
    browser.wait_for("#result").await;
    let text = browser.text_of("main").await;
    for shown in ["Test: Delivered.", "Status 202", "thanks for the test"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let requests = receiver.wait_for(1).await;
    webhook::check(&requests[0], secret.trim()).expect("it is genuine");
    assert!(
        text.contains("Nothing sent yet"),
        "a test is no delivery: {text}"
    );

    // A change is delivered.
    app.key().completed_change("Deploy payments").await;
    let text = open_until(&browser, &own, "Delivered").await;
    for shown in ["Deploy payments", "status 200", "1 attempt", "Working"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }

    // The receiver breaks.
    receiver.answer_with(Answer::text(500, "the disk is full"));
    app.key().completed_change("Deploy search").await;
    // The page reads the state before the deliveries.
    let text = open_until(&browser, &own, "Failing").await;
    for shown in [
        "To be retried",
        "The receiver answered 500",
        "status 500",
        "Next attempt",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    browser.click(".deliveries details > summary").await;
    browser.wait_for_text("the disk is full").await;
    let list = format!("{}{PATH}", app.url());
    open_until(&browser, &list, "The receiver answered 500").await;
    // Failing for less than an hour is no notice.
    browser.open(&app.url()).await;
    assert!(!browser.has("main > .bad").await);
    app.execute("UPDATE connections SET failing_since = failing_since - 3600000")
        .await;
    browser.open(&app.url()).await;
    let notice = browser.text_of("main > .bad").await;
    assert_contains(&notice, "Release bot has been failing since");

    // It is repaired, and the delivery sent again.
    receiver.answer_with(Answer::ok());
    browser.open(&own).await;
    browser.click("form[action$='/replay'] button").await;
    let text = open_until(&browser, &own, "Working").await;
    assert_lacks(&text, "To be retried");
    let requests = receiver.requests();
    let newest = requests.last().expect("a request");
    let event = webhook::check(newest, secret.trim()).expect("it is genuine");
    assert_eq!(event.kind, "change.created");

    // The receiver is gone: the connection is disabled until it is enabled.
    receiver.answer_with(Answer::status(410));
    app.key().completed_change("Deploy catalog").await;
    open_until(&browser, &own, "Disabled").await;
    browser.open(&app.url()).await;
    let notice = browser.text_of("main > .bad").await;
    assert_contains(&notice, "it is gone (410)");
    receiver.answer_with(Answer::ok());
    browser.open(&list).await;
    browser.click("form[action$='/enable'] button").await;
    open_until(&browser, &own, "Working").await;
    let log = app.at("/activity?resource=integration");
    let text = open_until(&browser, &log, "connected the integration").await;
    assert_contains(&text, "changed the integration");
    assert_eq!(browser.console().await, [""; 0]);
}

async fn deliveries_update_live(mut app: TestApp, browser: Chromium) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    let owner = app.browser().await;
    let mut fields = super::webhook("Bot");
    let url = receiver.url();
    fields[2] = ("url", &url);
    let path = super::connect(&owner, &fields).await;
    for number in 0..20 {
        let title = format!("Deploy {number}");
        app.key().completed_change(&title).await;
    }
    receiver.wait_for(20).await;
    sign_in(&browser, &app, &app.organization).await;
    open_until(&browser, &format!("{}{path}", app.url()), "Queued\n0").await;
    browser.wait_for("[data-freshness='live']").await;
    browser.script("window.mark = 'the same page'").await;

    // A delivery that is replayed by another user, and takes its time.
    receiver.answer_with(Answer::ok().after(Duration::from_secs(4)));
    let focus = "const row = document.querySelectorAll('.deliveries [data-key]')[12];
        row.querySelector('a').focus();
        window.scrollTo(0, 500);
        return row.dataset.key";
    let sequence = browser.script(focus).await;
    let sequence = sequence.as_str().expect("a delivery").to_owned();
    let top = browser.script("return window.scrollY").await;
    let replayed = [("sequence", &*sequence)];
    owner.submit(&format!("{path}/replay"), &replayed).await;
    let in_row = |state: &str| format!("[data-key='{sequence}'] .status.{state}");
    browser.wait_for(&in_row("in_progress")).await;
    assert_eq!(browser.texts("dl.facts dd").await[4], "1", "it is queued");
    browser.wait_for(&in_row("completed")).await;
    let focused = "return document.activeElement.closest('[data-key]')?.dataset.key";
    assert_eq!(browser.script(focused).await, sequence);
    assert_eq!(browser.script("return window.scrollY").await, top);

    // New deliveries do not move the row with the focus.
    receiver.answer_with(Answer::ok());
    app.key().completed_change("Deploy another").await;
    browser.wait_for_text("Show 1 new entry").await;
    browser.script("document.activeElement.blur()").await;
    browser.wait_for_text("Deploy another").await;
    let mark = browser.script("return window.mark").await;
    assert_eq!(mark, "the same page", "it was loaded again");
    assert_eq!(browser.console().await, [""; 0]);

    // Without scripts, a reload shows the same.
    let reader = Chromium::without_scripts().await.expect("another browser");
    sign_in(&reader, &app, &app.organization).await;
    let text = open_until(&reader, &format!("{}{path}", app.url()), "Deploy another").await;
    assert_contains(&text, "Delivered");
}
