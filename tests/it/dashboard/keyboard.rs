//! Keyboard shortcuts and navigation with the tab key.

use chrono::{TimeDelta, Utc};
use fantoccini::key::Key;
use serde_json::json;

use super::sign_in;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, in_browser};

in_browser!(
    shortcuts_navigate,
    keys_open_pages_and_the_palette,
    shortcuts_are_off_in_fields,
    pages_can_be_used_with_the_tab_key,
);

async fn shortcuts_navigate(app: TestApp, browser: Chromium) {
    for title in ["First", "Second", "Third"] {
        app.key().change(title).await;
    }
    sign_in(&browser, &app, &app.organization).await;
    for (keys, path) in [
        ("gc", "/changes"),
        ("gh", "/hosts"),
        ("gs", "/services"),
        ("ga", "/activity"),
        ("go", "/"),
        ("n", "/changes/new"),
    ] {
        browser.open(&app.at("/")).await;
        browser.wait_for("[data-help]:not([hidden])").await;
        if path == "/" {
            browser.open(&app.at("/changes")).await;
            browser.wait_for("[data-help]:not([hidden])").await;
        }
        browser.keys(keys).await;
        browser.wait_for_url(&format!("{}{path}", app.url())).await;
    }

    browser.open(&app.at("/changes")).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    let current = async || browser.texts("[data-current] .title").await;
    for (key, title) in [
        ("j", "Third"),
        ("j", "Second"),
        ("j", "First"),
        ("j", "First"),
        ("k", "Second"),
    ] {
        browser.keys(key).await;
        assert_eq!(current().await, [title], "after {key}");
    }
    browser.keys(&Key::Enter.to_string()).await;
    browser.wait_for("#history").await;
    assert_eq!(browser.text_of("h1").await, "Second");

    // The help lists the shortcuts, and can be closed.
    browser.wait_for("[data-help]:not([hidden])").await;
    browser.keys("?").await;
    browser.wait_for("#help[open]").await;
    let help = browser.text_of("#help").await;
    for shortcut in [
        "Search",
        "Next/previous",
        "Log a change",
        "Overview",
        "Hosts",
    ] {
        assert!(help.contains(shortcut), "{shortcut}: {help}");
    }
    browser.keys("gc").await;
    browser.keys(&Key::Escape.to_string()).await;
    browser.wait_for("#help:not([open])").await;
    assert!(
        browser.path().await.starts_with("/changes/"),
        "shortcuts are off while the help is open"
    );
    browser.keys("/").await;
    assert_eq!(focus(&browser).await, "search");
    browser.keys("first\n").await;
    browser.wait_for("#count").await;
    assert_eq!(browser.address().await, "/changes?text=first");
}

async fn keys_open_pages_and_the_palette(app: TestApp, browser: Chromium) {
    // One a day.
    let now = Utc::now();
    let changes = (0..60).map(|number| {
        let at = now - TimeDelta::days(number);
        json!({ "title": format!("Number {number}"), "status": "completed", "occurred_at": at.to_rfc3339() })
    });
    app.key().create_changes(changes.collect::<Vec<_>>()).await;
    let id = app.key().change("First").await;
    app.key().service("payments").await;
    sign_in(&browser, &app, &app.organization).await;
    let open = async |path: &str| {
        browser.open(&format!("{}{path}", app.url())).await;
        browser.wait_for("[data-help]:not([hidden])").await;
    };
    for (path, keys, expected) in [
        (format!("/changes/{id}"), "e", format!("/changes/{id}/edit")),
        ("/changes".to_owned(), "]", "/changes?page=2".to_owned()),
        (
            "/changes?page=2".to_owned(),
            "[",
            "/changes?page=1".to_owned(),
        ),
        ("/".to_owned(), "g,", "/settings/api-keys".to_owned()),
        ("/".to_owned(), "gu", "/upcoming".to_owned()),
        ("/".to_owned(), "gi", "/incidents".to_owned()),
    ] {
        open(&path).await;
        browser.keys(keys).await;
        let expected = expected.replace("?page=1", "");
        browser
            .wait_for_url(&format!("{}{expected}", app.url()))
            .await;
    }
    // `g` does not wait for long.
    open("/").await;
    browser.keys("g").await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    browser.keys("c").await;
    assert_eq!(browser.path().await, "/");
    // Entries without links can be selected.
    open("/activity?resource=member").await;
    browser.keys("j").await;
    browser.wait_for(".entry[data-current]").await;
    browser.keys(&Key::Escape.to_string()).await;
    assert!(!browser.has("[data-current]").await);
    move_in_charts(&browser, &app.at("/")).await;
    let control = Key::Control.to_string();
    browser.keys(&format!("{control}k{control}")).await;
    browser.wait_for(".palette[open]").await;
    browser.keys("paym").await;
    browser.wait_for_text("Changes of payments").await;
    browser.keys("\n").await;
    browser.wait_for("#count").await;
    assert!(
        browser.address().await.contains("service"),
        "{}",
        browser.address().await
    );
    assert_eq!(browser.console().await, [""; 0]);
}

/// Moves between the marks of the charts of a page: each chart is one stop of the tab key,
/// on the mark that had the focus last.
async fn move_in_charts(browser: &Chromium, address: &str) {
    browser.open(address).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    for (chart, weekday) in [(".chart.bars", false), (".chart.calendar", true)] {
        let stops = format!("{chart} a:not([tabindex='-1'])");
        assert_eq!(browser.all(&stops).await.len(), 1, "{chart}");
        browser
            .script(&format!("document.querySelector(`{stops}`).focus()"))
            .await;
        // The days between the focused mark and the last one.
        let position = format!(
            "const all = [...document.querySelectorAll('{chart} a')];
            return all.length - 1 - all.indexOf(document.activeElement)"
        );
        let (day, week) = if weekday {
            ([Key::Up, Key::Down], [Key::Left, Key::Right])
        } else {
            ([Key::Left, Key::Right], [Key::Up, Key::Down])
        };
        let step = if weekday { 7 } else { 0 };
        for (key, expected) in [
            (Key::End, 0),
            (day[1], 0),
            (day[0], 1),
            (day[0], 2),
            (day[1], 1),
            (week[0], 1 + step),
            (week[0], 1 + 2 * step),
            (week[1], 1 + step),
        ] {
            browser.keys(&key.to_string()).await;
            assert_eq!(browser.script(&position).await, expected, "{chart} {key:?}");
        }
        browser.keys(&Key::Home.to_string()).await;
        let first =
            format!("return document.activeElement === document.querySelector('{chart} a')");
        assert_eq!(browser.script(&first).await, true, "{chart}");
        assert_eq!(browser.all(&stops).await.len(), 1, "{chart}");
    }
}

async fn focus(browser: &Chromium) -> String {
    let id = browser.script("return document.activeElement.id").await;
    id.as_str().unwrap_or_default().to_owned()
}

async fn shortcuts_are_off_in_fields(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    let address = app.at("/changes/new");
    browser.open(&address).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    let typed = "gcghn/?jk";
    for name in ["title", "description", "tags"] {
        let field = browser.find(&format!("main [name='{name}']")).await;
        field.send_keys(typed).await.expect("keys");
        assert_eq!(browser.value(&format!("#{name}")).await, typed);
        assert_eq!(browser.path().await, "/changes/new");
        assert!(!browser.has("#help[open]").await);
    }
    // Letters select an option of a list.
    let select = browser.find("#risk_level").await;
    select.send_keys("n").await.expect("keys");
    assert_eq!(browser.path().await, "/changes/new");
    let search = browser.find("#search").await;
    search.send_keys(typed).await.expect("keys");
    assert_eq!(browser.value("#search").await, typed);
    assert_eq!(browser.path().await, "/changes/new");
    // Keys with a modifier belong to the browser.
    browser.open(&app.at("/changes")).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    let pressed = "window.pressed = []; document.addEventListener('keydown', (event) => \
        window.pressed.push([event.key, event.ctrlKey, event.defaultPrevented]))";
    browser.script(pressed).await;
    let control = Key::Control.to_string();
    browser.keys(&format!("{control}/{control}")).await;
    let pressed = browser
        .script("return window.pressed.filter(([key]) => key === '/')")
        .await;
    assert_eq!(pressed, json!([["/", true, false]]));
    assert_ne!(focus(&browser).await, "search");
}

async fn pages_can_be_used_with_the_tab_key(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/changes")).await;
    browser.wait_for("[data-help]:not([hidden])").await;
    browser.keys(&Key::Tab.to_string()).await;
    let first = "const e = document.activeElement; const box = e.getBoundingClientRect();\
        return [e.textContent, box.left >= 0 && box.top >= 0 && box.width > 1]";
    assert_eq!(
        browser.script(first).await,
        json!(["Skip to content", true])
    );
    browser.keys(&Key::Enter.to_string()).await;
    browser.wait_for_url(&app.at("/changes#main")).await;
    // The focus is visible at each step, until it leaves the page.
    let unseen = "const e = document.activeElement, s = getComputedStyle(e);\
        if (e === document.body) return null;\
        const isSeen = e.type === 'datetime-local' || s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2;\
        return isSeen ? '' : e.outerHTML";
    // In a time field, the browser marks the focused part.
    let mut steps = 0;
    loop {
        browser.keys(&Key::Tab.to_string()).await;
        let found = browser.script(unseen).await;
        if found.is_null() || steps > 90 {
            break;
        }
        assert_eq!(found, "", "step {steps}");
        steps += 1;
    }
    assert!((10..90).contains(&steps), "{steps} steps");
}
