//! The overview as a page of cards.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use super::{MENU, between, sign_in, try_sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{Demo, TestApp, assert_contains, assert_lacks, in_browser, on_both};

on_both!(changes_made_by_hand_are_counted);
in_browser!(the_columns_of_few_changes_end_together);

/// How much lower one column may end than another, in pixels: less than a row.
const TOLERANCE: u64 = 32;

/// Returns the number of columns of cards, and by how many pixels one ends above its grid
/// at most.
async fn columns(browser: &Chromium) -> (u64, u64) {
    let script = "let count = 0, hole = 0;
        for (const grid of document.querySelectorAll('main .grid')) {
            const columns = new Map();
            for (const child of grid.children) {
                const box = child.getBoundingClientRect();
                columns.set(box.left, Math.max(columns.get(box.left) ?? 0, box.bottom));
            }
            count += columns.size;
            for (const bottom of columns.values()) hole = Math.max(hole, grid.getBoundingClientRect().bottom - bottom);
        }
        return [count, Math.round(hole)];";
    let found = browser.script(script).await;
    let number = |index: usize| found[index].as_u64().expect("a number");
    (number(0), number(1))
}

/// Checks the overview, on a desktop and on a tablet.
async fn check(browser: &Chromium, address: &str) {
    for (width, expected) in [(1440, 6), (768, 3)] {
        browser.set_width(width).await;
        browser.open(address).await;
        browser.wait_for("#calendar").await;
        let (count, hole) = columns(browser).await;
        assert_eq!(count, expected, "columns at {width} pixels");
        assert!(hole <= TOLERANCE, "a hole of {hole} pixels at {width}");
    }
}

async fn changes_made_by_hand_are_counted(app: TestApp) {
    let (key, owner) = (app.key(), app.browser().await);
    key.completed_change("By a pipeline").await;
    assert_lacks(&owner.page("/").await, "made by hand");
    let day = TimeDelta::days(1);
    for (age, status) in [
        (TimeDelta::zero(), "completed"),
        (day * 28, "completed"),
        (day * 31, "completed"),
        (day * 40, "in_progress"),
        (day, "planned"),
    ] {
        let at = (Utc::now() - age).to_rfc3339();
        let change = json!({
            "title": "In a console", "status": status, "occurred_at": at, "tags": ["by-hand"],
        });
        key.create("/api/changes", change).await;
    }
    let page = owner.page("/").await;
    let (before, _) = page.split_once(">3 made by hand</a>").expect("a count");
    let (_, address) = before.rsplit_once("href=\"").expect("an address");
    let address = address.trim_end_matches('"').replace("&amp;", "&");
    assert!(address.starts_with("/changes?by=hand&"), "{address}");
    let list = owner.page(&address).await;
    assert_contains(between(&list, "<main", "</main>"), ">3 changes</h2>");
}

async fn the_columns_of_few_changes_end_together(app: TestApp, browser: Chromium) {
    for status in ["completed", "planned", "in_progress", "rolled_back"] {
        let change = json!({ "title": format!("The {status} one"), "status": status });
        app.key().create("/api/changes", change).await;
    }
    sign_in(&browser, &app, &app.organization).await;
    check(&browser, &app.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_columns_of_a_year_end_together() {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let demo = Demo::start(folder.path()).await;
    let url = demo.export("CHLOG_URL");
    browser.open(&format!("{url}/sign-in")).await;
    let (email, password) = (demo.after("Sign in with:"), demo.after("Password:"));
    try_sign_in(&browser, &email, &password).await;
    browser.wait_for(MENU).await;
    check(&browser, &url).await;

    // The check finds a hole: cards that are not stretched end where their content ends.
    browser.set_width(1440).await;
    browser
        .script("for (const grid of document.querySelectorAll('main .grid')) grid.style.alignItems = 'start'")
        .await;
    let (_, hole) = columns(&browser).await;
    assert!(hole > TOLERANCE, "only {hole} pixels");
}
