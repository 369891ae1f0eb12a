//! Forms whose result is a secret create it once, and the secret can be copied.

use super::{between, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, assert_lacks, on_both};

on_both!(
    a_form_creates_one_key,
    a_form_creates_one_invitation,
    a_reload_shows_the_list,
    only_allowed_controls_are_shown,
);

/// Returns the id in the form of a page.
fn new_id(page: &str) -> String {
    between(page, "name=\"new_id\" value=\"", "\"").to_owned()
}

async fn a_form_creates_one_key(app: TestApp) {
    let owner = app.browser().await;
    let path = "/settings/api-keys";
    let page = owner.get(path).await.text;
    let id = new_id(&page);
    let fields = [("name", "pipeline"), ("new_id", &id)];
    let created = owner.post_form(path, &fields).await;
    created.is(200);
    let key = between(&created.text, "id=\"new-api-key\">", "<").to_owned();
    assert_ne!(new_id(&created.text), id, "the next key");
    for _ in 0..2 {
        let again = owner.post_form(path, &fields).await;
        again.is(409);
        assert!(again.text.contains("This form was already sent"));
        assert!(!again.text.contains("id=\"new-api-key\""));
    }
    let page = owner.get(path).await.text;
    assert_eq!(page.matches(">pipeline</td>").count(), 1, "{page}");
    app.with_key(&key).get("/api/changes").await.is(200);
    // Without the field, as before, each form creates a key. Other values are not ids.
    for fields in [
        vec![("name", "other")],
        vec![("name", "other"), ("new_id", "x")],
    ] {
        owner.post_form(path, &fields).await.is(200);
    }
    // The id is of no use to another organization.
    let second = app.second_organization();
    let grace = app.browser_of(&second).await;
    grace.post_form(path, &fields).await.is(409);
    let theirs = grace.get(path).await.text;
    assert_lacks(&theirs, ">pipeline</td>");
}

async fn a_form_creates_one_invitation(app: TestApp) {
    let owner = app.browser().await;
    let page = owner.get("/settings/members").await.text;
    let id = new_id(&page);
    let path = "/settings/members/invite";
    let fields = [
        ("email", "grace@example.org"),
        ("role", "viewer"),
        ("new_id", &id),
    ];
    let created = owner.post_form(path, &fields).await;
    created.is(200);
    let link = between(&created.text, "id=\"invitation-link\">", "<").to_owned();
    let again = owner.post_form(path, &fields).await;
    again.is(409);
    assert!(again.text.contains("this form was already sent"));
    // The link that was copied still works.
    let (_, token) = link.rsplit_once('/').expect("a token");
    app.anonymous()
        .get(&format!("/invitations/{token}"))
        .await
        .is(200);
}

async fn a_reload_shows_the_list(app: TestApp) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/api-keys")).await;
    let form = "main form[action='/settings/api-keys']";
    browser.fill(form, &[("name", "pipeline")]).await;
    browser.press("Create key").await;
    browser.wait_for("#new-api-key").await;
    // The key is visible on a phone.
    browser.set_width(320).await;
    let cut = "const e = document.getElementById('new-api-key'); \
        return [e.scrollWidth > e.clientWidth, document.documentElement.scrollWidth > innerWidth]";
    assert_eq!(browser.script(cut).await, serde_json::json!([false, false]));
    // Without https there is no clipboard.
    browser
        .script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        .await;
    browser.click("[data-copy='new-api-key']").await;
    browser.wait_for_text("Copied").await;
    browser.tab.refresh().await.expect("a page");
    browser.wait_for_text("pipeline").await;
    assert!(!browser.has("#new-api-key").await);
    assert_eq!(browser.texts("td[data-label='Name']").await.len(), 2);
}

async fn only_allowed_controls_are_shown(app: TestApp) {
    let owner = app.browser().await;
    let me = &app.organization.owner_id;
    let role_form = |id: &str| format!("/settings/members/{id}/role");
    let remove_form = |id: &str| format!("/settings/members/{id}/remove");
    let page = owner.get("/settings/members").await.text;
    // The last owner stays.
    assert_lacks(&page, role_form(me));
    assert_lacks(&page, remove_form(me));
    let admin = join(&app, &owner, "admin", "admin").await;
    let viewer = join(&app, &owner, "viewer", "viewer").await;
    let page = admin.browser.get("/settings/members").await.text;
    assert_lacks(&page, role_form(me));
    assert_lacks(&page, remove_form(me));
    assert!(page.contains(&role_form(&viewer.id)) && page.contains(&remove_form(&viewer.id)));
    assert_lacks(&page, "value=\"owner\"");
    let page = viewer.browser.get("/settings/members").await.text;
    assert!(
        !between(&page, "<main", "</main>").contains("<form"),
        "{page}"
    );
}
