//! Everything once more in a browser that runs no script.

use super::{api_keys, changes, list_filters, members, setup};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, on_one};

on_one!(
    from_nothing_to_the_first_change,
    a_change_is_logged_edited_moved_and_deleted,
    services_and_hosts_are_made_and_changed,
    a_key_is_made_used_and_revoked,
    somebody_is_invited_and_comes,
    what_one_looks_for_is_the_address,
    downloads_have_what_the_list_has,
    what_only_scripts_do_is_not_offered,
);

async fn from_nothing_to_the_first_change(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        setup::the_first_change(&app, &browser).await;
    }
}

async fn a_change_is_logged_edited_moved_and_deleted(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        changes::a_change_comes_and_goes(&app, &browser).await;
    }
}

async fn services_and_hosts_are_made_and_changed(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        changes::things_are_made_and_changed(&app, &browser).await;
    }
}

async fn a_key_is_made_used_and_revoked(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        api_keys::a_key_comes_and_goes(&app, &browser).await;
    }
}

async fn somebody_is_invited_and_comes(app: TestApp) {
    let Some(browser) = Chromium::without_scripts().await else {
        return;
    };
    let Some(other) = Chromium::without_scripts().await else {
        return;
    };
    members::somebody_comes(&app, &browser, &other).await;
}

async fn what_one_looks_for_is_the_address(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        list_filters::a_list_is_narrowed(&app, &browser).await;
    }
}

async fn downloads_have_what_the_list_has(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        list_filters::downloads(&app, &browser).await;
    }
}

async fn what_only_scripts_do_is_not_offered(app: TestApp) {
    let Some(browser) = Chromium::without_scripts().await else {
        return;
    };
    let change = app.key().change("Quiet").await;
    super::sign_in(&browser, &app, &app.organization).await;
    browser
        .open(&format!("{}/changes/{change}", app.url()))
        .await;
    // To copy, to switch the zone and to be told of keys.
    let buttons = browser.all("[data-copy], [data-zone], [data-help]").await;
    assert!(buttons.len() >= 4);
    for button in buttons {
        assert!(!button.is_displayed().await.expect("a button"));
    }
    let time = browser.text_of("main time").await;
    assert!(time.ends_with(" UTC"), "{time}");
}
