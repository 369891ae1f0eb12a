//! Sign-in by a real identity provider, in a browser.

use serde_json::{Value, json};

use super::{MENU, try_sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{OidcProvider, TestApp, assert_contains, in_browser};

in_browser!(
    people_sign_in_by_the_provider_of_their_organization,
    a_member_confirms_with_the_password_once,
    the_emergency_access_is_shown_to_all_owners,
);
in_browser!(without_scripts: the_provider_is_connected_on_the_page);

fn person(name: &str, groups: &[&str]) -> Value {
    let email = format!("{}@example.org", name.to_lowercase());
    json!({ "name": name, "email": email, "email_verified": true, "groups": groups })
}

/// Signs in at the provider, and agrees to what it tells.
async fn sign_in_there(browser: &Chromium, subject: &str) {
    browser.wait_for("input[name='login']").await;
    let fields = [("login", subject), ("password", "any")];
    browser.fill("form", &fields).await;
    browser.click("button[type='submit']").await;
    // The provider asks for consent, or returns the browser to the service.
    browser.wait_for("input[value='consent'], main").await;
    if browser.has("input[value='consent']").await {
        browser.click("button[type='submit']").await;
    }
}

async fn people_sign_in_by_the_provider_of_their_organization(app: TestApp, browser: Chromium) {
    let people = |groups: &[&str]| json!({ "sub-cleo": person("Cleo", groups) });
    let Some(provider) = OidcProvider::start(&app, people(&["dev", "ops"])).await else {
        return;
    };
    let groups = ["--group", "dev=viewer", "--group", "ops=admin"];
    provider.connect(&app, &groups);
    let id = &app.organization.id;
    app.key().change("Deploy").await;

    // A new person gets the role of the group that may most, and the page that was asked for.
    browser
        .open(&app.at(&format!("/sso/{id}?next=/changes")))
        .await;
    sign_in_there(&browser, "sub-cleo").await;
    browser.wait_for(MENU).await;
    assert_eq!(browser.address().await, "/changes");
    browser.click("details.person summary").await;
    let menu = browser.text_of(MENU).await;
    assert_contains(&menu, "Cleo");
    assert_contains(&menu, "cleo@example.org");
    assert_contains(&menu, "admin");

    // The browser is offered the organization from now on.
    browser.click("form[action='/sign-out'] button").await;
    browser.wait_for("#password").await;
    provider.rotate_keys().await;
    provider.set_people(people(&["dev"])).await;
    browser
        .press(&format!(
            "Sign in to {} with single sign-on",
            app.organization.name
        ))
        .await;
    sign_in_there(&browser, "sub-cleo").await;
    browser.wait_for(MENU).await;
    browser.click("details.person summary").await;
    assert_contains(&browser.text_of(MENU).await, "viewer");

    // Who is in no group any more is out.
    provider.set_people(people(&[])).await;
    browser.open(&app.at(&format!("/sso/{id}"))).await;
    browser.wait_for("h1, input[name='login']").await;
    if browser.has("input[name='login']").await {
        sign_in_there(&browser, "sub-cleo").await;
    }
    browser.wait_for("p[role='alert']").await;
    assert_contains(&browser.text().await, "no longer in a group");
    browser.open(&app.url()).await;
    assert_eq!(browser.path().await, "/sign-in", "the session has ended");
    let members = app.browser().await.page("/settings/members").await;
    assert!(!members.contains("cleo@example.org"), "{members}");
}

async fn a_member_confirms_with_the_password_once(app: TestApp, browser: Chromium) {
    let email = &app.organization.email;
    let people = json!({
        "sub-ada": { "name": "Ada there", "email": email, "email_verified": true, "groups": [] },
    });
    let Some(provider) = OidcProvider::start(&app, people).await else {
        return;
    };
    provider.connect(&app, &["--own-redirect"]);
    let start = app.at(&format!("/sso/{}", app.organization.id));
    browser.open(&start).await;
    sign_in_there(&browser, "sub-ada").await;
    browser.wait_for_text("Is this your account?").await;
    assert_contains(&browser.text().await, email);
    browser
        .fill("form", &[("password", "not the password")])
        .await;
    browser.press("Connect the account").await;
    browser.wait_for("#confirm-error").await;
    browser
        .fill("form", &[("password", &app.organization.password)])
        .await;
    browser.press("Connect the account").await;
    browser.wait_for(MENU).await;
    // It is the account that was there, which is its owner still.
    browser.click("details.person summary").await;
    let menu = browser.text_of(MENU).await;
    assert_contains(&menu, &app.organization.owner_name);
    assert_contains(&menu, "owner");
    browser.click("form[action='/sign-out'] button").await;
    browser.wait_for("#password").await;
    browser.open(&start).await;
    sign_in_there_again(&browser, "sub-ada").await;
    browser.wait_for(MENU).await;
}

/// Signs in at a provider that may still know the browser.
async fn sign_in_there_again(browser: &Chromium, subject: &str) {
    browser
        .wait_for(&format!("{MENU}, input[name='login']"))
        .await;
    if browser.has("input[name='login']").await {
        sign_in_there(browser, subject).await;
    }
}

async fn the_emergency_access_is_shown_to_all_owners(app: TestApp, browser: Chromium) {
    let people = json!({ "sub-cleo": person("Cleo", &["roots"]) });
    let Some(provider) = OidcProvider::start(&app, people).await else {
        return;
    };
    provider.connect(&app, &["--group", "roots=owner", "--required"]);
    browser.open(&app.at("/sign-in")).await;
    let organization = &app.organization;
    try_sign_in(&browser, &organization.email, &organization.password).await;
    browser.wait_for(".emergency").await;
    browser.click("details.person summary").await;
    browser.click("form[action='/sign-out'] button").await;
    browser.wait_for("#password").await;
    browser
        .open(&app.at(&format!("/sso/{}", organization.id)))
        .await;
    sign_in_there(&browser, "sub-cleo").await;
    browser.wait_for(".emergency").await;
    assert_contains(
        &browser.text_of(".emergency").await,
        &organization.owner_name,
    );
    browser.press("Mark as seen").await;
    browser.wait_for(MENU).await;
    assert!(!browser.has(".emergency").await);
    browser.open(&app.at("/activity?resource=sso")).await;
    browser.wait_for("main .entries").await;
    let log = browser.text().await;
    assert_contains(&log, "by the emergency access");
    assert_contains(&log, "by the identity provider");
}

async fn the_provider_is_connected_on_the_page(app: TestApp, browser: Chromium) {
    let Some(provider) = OidcProvider::start(&app, json!({})).await else {
        return;
    };
    // Only the operator allows an issuer that is not on the internet.
    super::sign_in(&browser, &app, &app.organization).await;
    browser.open(&app.at("/settings/sign-in")).await;
    let callback = app.at(&format!("/sso/callback/{}", app.organization.id));
    assert_eq!(browser.text_of("#redirect-address").await, callback);
    let fields = [
        ("issuer", provider.issuer.as_str()),
        ("client_id", "change-log"),
        ("client_secret", "x"),
        ("groups", "ops=admin"),
    ];
    browser.fill("form.card", &fields).await;
    browser.press("Test and save").await;
    browser.wait_for("#issuer-error-1").await;
    assert_contains(&browser.text().await, "--allow-receivers");
    assert_eq!(browser.value("#issuer").await, provider.issuer);
    assert_eq!(browser.value("#client_secret").await, "");

    provider.connect(&app, &[]);
    browser.open(&app.at("/settings/sign-in")).await;
    assert_contains(&browser.text().await, "last up to 12 hours");
    browser
        .fill("form.card", &[("groups", "ops=admin\ndev=member")])
        .await;
    browser.press("Test and save").await;
    browser.wait_for("p[role='status']").await;
    assert_contains(&browser.text().await, "The settings were saved.");
    assert_eq!(browser.value("#groups").await, "ops=admin\ndev=member");
    browser.press("Disconnect the provider").await;
    browser.press("Disconnect it").await;
    browser.wait_for("p[role='status']").await;
    assert_contains(&browser.text().await, "was disconnected");
}
