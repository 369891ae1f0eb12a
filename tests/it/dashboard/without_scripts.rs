//! The same checks in a browser without JavaScript.

use super::api_keys::{a_key_is_created_used_and_revoked, an_agent_is_connected};
use super::changes::{
    a_change_is_created_edited_and_deleted, services_and_hosts_are_created_and_edited,
};
use super::list_filters::{downloads_match_the_list, filters_are_in_the_url};
use super::members;
use super::setup::setup_leads_to_the_first_change;
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, in_browser};

in_browser!(without_scripts:
    setup_leads_to_the_first_change,
    a_change_is_created_edited_and_deleted,
    services_and_hosts_are_created_and_edited,
    a_key_is_created_used_and_revoked,
    an_agent_is_connected,
    an_invited_person_joins,
    filters_are_in_the_url,
    downloads_match_the_list,
    controls_that_need_scripts_are_hidden,
);

async fn an_invited_person_joins(app: TestApp, browser: Chromium) {
    let other = Chromium::without_scripts().await.expect("another browser");
    members::check_invitation(&app, &browser, &other).await;
}

async fn controls_that_need_scripts_are_hidden(app: TestApp, browser: Chromium) {
    let change = app.key().change("Quiet").await;
    super::sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at(&format!("/changes/{change}"))).await;
    // Copying, the time zone, and the help for shortcuts.
    let buttons = browser.all("[data-copy], [data-zone], [data-help]").await;
    assert!(buttons.len() >= 4);
    for button in buttons {
        assert!(!button.is_displayed().await.expect("a button"));
    }
    let footer = browser.text_of("footer").await;
    assert!(footer.contains("Times shown in UTC"), "{footer}");
}
