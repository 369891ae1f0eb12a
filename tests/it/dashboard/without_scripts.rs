//! The same checks in a browser without JavaScript.

use super::{api_keys, changes, list_filters, members, setup};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, on_one};

on_one!(
    setup_leads_to_the_first_change,
    a_change_is_created_edited_and_deleted,
    services_and_hosts_are_created_and_edited,
    a_key_is_created_used_and_revoked,
    an_invited_person_joins,
    filters_are_in_the_url,
    downloads_match_the_list,
    controls_that_need_scripts_are_hidden,
);

async fn setup_leads_to_the_first_change(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        setup::check_setup(&app, &browser).await;
    }
}

async fn a_change_is_created_edited_and_deleted(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        changes::check_change_lifecycle(&app, &browser).await;
    }
}

async fn services_and_hosts_are_created_and_edited(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        changes::check_services_and_hosts(&app, &browser).await;
    }
}

async fn a_key_is_created_used_and_revoked(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        api_keys::check_key_lifecycle(&app, &browser).await;
    }
}

async fn an_invited_person_joins(app: TestApp) {
    let Some(browser) = Chromium::without_scripts().await else {
        return;
    };
    let Some(other) = Chromium::without_scripts().await else {
        return;
    };
    members::check_invitation(&app, &browser, &other).await;
}

async fn filters_are_in_the_url(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        list_filters::check_filters(&app, &browser).await;
    }
}

async fn downloads_match_the_list(app: TestApp) {
    if let Some(browser) = Chromium::without_scripts().await {
        list_filters::check_downloads(&app, &browser).await;
    }
}

async fn controls_that_need_scripts_are_hidden(app: TestApp) {
    let Some(browser) = Chromium::without_scripts().await else {
        return;
    };
    let change = app.key().change("Quiet").await;
    super::sign_in(&browser, &app, &app.organization).await;
    browser
        .open(&format!("{}/changes/{change}", app.url()))
        .await;
    // Copying, the time zone, and the help for shortcuts.
    let buttons = browser.all("[data-copy], [data-zone], [data-help]").await;
    assert!(buttons.len() >= 4);
    for button in buttons {
        assert!(!button.is_displayed().await.expect("a button"));
    }
    let footer = browser.text_of("footer").await;
    assert!(footer.contains("Times shown in UTC"), "{footer}");
}
