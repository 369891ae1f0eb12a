//! Takes the screenshots of the documents, of the demo.
//! `CHANGELOG_SCREENSHOTS=docs cargo test --workspace --test it screenshots`
//! replaces them.

use std::path::{Path, PathBuf};

use changelog_tests::chromium::Chromium;
use changelog_tests::{Demo, TestClient, text};

use super::try_sign_in;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn screenshots_of_the_demo() {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let demo = Demo::start(folder.path()).await;
    let url = demo.export("CHLOG_URL");
    let size = browser.tab.set_window_size(1280, 1400).await;
    size.expect("a window");
    browser.open(&format!("{url}/sign-in")).await;
    try_sign_in(
        &browser,
        &demo.after("Sign in with:"),
        &demo.after("Password:"),
    )
    .await;
    browser.wait_for(super::MENU).await;
    let around = demo.after(&format!("{url}/around"));
    let key =
        TestClient::new(&demo.server.address).with("x-api-key", &demo.export("CHLOG_API_KEY"));
    let culprit = key.body("/api/changes?q=payments+4.18.0").await;
    let change = text(&culprit["data"][0]["id"]);
    let incidents = key.body("/api/incidents").await;
    let incident = text(&incidents["data"][0]["id"]);
    for (path, name) in [
        ("/", "overview"),
        (&*format!("/around{around}"), "around"),
        (&*format!("/changes/{change}"), "change"),
        (&*format!("/incidents/{incident}"), "incident"),
    ] {
        take(&browser, &format!("{url}{path}"), name).await;
    }
}

/// Returns the folder of the screenshots.
fn folder() -> PathBuf {
    match std::env::var_os("CHANGELOG_SCREENSHOTS") {
        // Tests run in the folder of their package.
        Some(named) => Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(named),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"),
    }
}

async fn take(browser: &Chromium, address: &str, name: &str) {
    browser.tab.goto(address).await.expect("the address");
    browser.wait_for("main h1").await;
    let png = browser.tab.screenshot().await.expect("a picture");
    assert!(png.starts_with(b"\x89PNG"), "no picture of {address}");
    std::fs::create_dir_all(folder()).expect("a folder");
    std::fs::write(folder().join(name).with_extension("png"), png).expect("a file");
}
