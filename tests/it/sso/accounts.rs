//! Which account, role and organization people get, and what passwords do beside the provider.

use changelog_tests::issuer::SigningKey;
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_both, send};
use serde_json::json;

use super::{Begun, Provider, assert_refused, sign_in, try_sign_in};
use crate::dashboard::{invite, join};

on_both!(
    an_account_is_linked_by_a_verified_address_and_its_password,
    a_session_acts_in_the_organization_of_the_provider_only,
    roles_follow_the_groups,
    passwords_do_not_work_where_the_provider_is_required,
    an_owner_ends_the_sessions_of_a_member,
    the_command_sets_shows_and_removes_a_provider,
    a_trusted_proxy_signs_people_in,
);

async fn an_account_is_linked_by_a_verified_address_and_its_password(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "viewer"]);
    let owner = json!({ "sub": "sub-ada", "email": ours.email.to_uppercase() });
    let mut unverified = owner.clone();
    unverified["email_verified"] = json!(false);
    let answer = try_sign_in(&app, ours, &provider, &key, &unverified).await;
    assert_refused(&answer, 403, "does not say that it has verified");

    let answer = try_sign_in(&app, ours, &provider, &key, &owner).await;
    assert_refused(&answer, 200, "Is this your account?");
    let cookie = answer.cookie().to_owned();
    let confirm = async |password: &str, cookie: &str| {
        let request = app
            .anonymous()
            .request("POST", "/sso/confirm")
            .header("cookie", cookie);
        send(changelog_tests::form(request, &[("password", password)])).await
    };
    assert_refused(&confirm("wrong", &cookie).await, 401, "Incorrect password");
    // The page is loaded again.
    let reloaded = app.anonymous().request("GET", "/sso/callback?code=x");
    let reloaded = send(reloaded.header("cookie", &cookie)).await;
    assert_refused(&reloaded, 200, "Is this your account?");
    assert_refused(
        &confirm(&ours.password, "changelog_sso=x").await,
        400,
        "another browser",
    );
    // Another site cannot send the form.
    let foreign = app.anonymous().request("POST", "/sso/confirm");
    let foreign = foreign
        .header("cookie", &cookie)
        .header("sec-fetch-site", "cross-site");
    let answer = send(changelog_tests::form(
        foreign,
        &[("password", &ours.password)],
    ))
    .await;
    assert_refused(&answer, 403, "cross_site");
    let answer = confirm(&ours.password, &cookie).await;
    answer.is(303);
    let browser = app.anonymous().with("cookie", answer.cookie());
    assert_contains(&browser.page("/account").await, &ours.owner_name);
    // From now on without it, and the role stays without groups that have roles.
    let again = sign_in(&app, ours, &provider, &key, &owner).await;
    again.get("/settings/sign-in").await.is(200);
    assert_contains(&again.page("/settings/sign-in").await, "Test and save");

    // The password of an account of the address in another organization confirms nothing.
    let theirs = app.second_organization();
    let grace = app.browser_of(&theirs).await;
    let link = invite(&grace, &ours.email, "viewer").await;
    let fields = [("name", "Not Ada"), ("password", "a pear and 4711 plums")];
    app.anonymous().post_form(&link, &fields).await.is(303);
    let other = json!({ "sub": "sub-2", "email": ours.email });
    let answer = try_sign_in(&app, ours, &provider, &key, &other).await;
    let cookie = answer.cookie().to_owned();
    let answer = confirm("a pear and 4711 plums", &cookie).await;
    assert_refused(&answer, 401, "Incorrect password");
}

async fn a_session_acts_in_the_organization_of_the_provider_only(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let (ours, theirs) = (&app.organization, app.second_organization());
    // Grace, who owns the other organization, is a member of ours with the same account.
    let ada = app.browser().await;
    let link = invite(&ada, &theirs.email, "member").await;
    let fields = [("password", theirs.password.as_str())];
    app.anonymous().post_form(&link, &fields).await.is(303);
    provider.connect(&app, ours, &["--default-role", "member"]);
    let grace = json!({ "sub": "sub-grace", "email": theirs.email });
    let answer = try_sign_in(&app, ours, &provider, &key, &grace).await;
    answer.is(200);
    let request = app.anonymous().request("POST", "/sso/confirm");
    let request = request.header("cookie", answer.cookie());
    let fields = [("password", theirs.password.as_str())];
    send(changelog_tests::form(request, &fields)).await.is(303);

    let at_home = app.browser_of(&theirs).await;
    assert_contains(&at_home.page("/account").await, "Switch to Acme");
    let in_both = [
        "data-label=\"Organization\"><bdi>Umbrella",
        "data-label=\"Organization\"><bdi>Acme",
    ];
    for session in in_both {
        assert_contains(&at_home.page("/account").await, session);
    }
    let browser = sign_in(&app, ours, &provider, &key, &grace).await;
    let page = browser.page("/account").await;
    assert_contains(&page, in_both[1]);
    assert_lacks(&page, in_both[0]);
    assert_lacks(&page, "Switch to");
    let fields = [("organization_id", theirs.id.as_str())];
    browser.post_form("/organization", &fields).await.is(403);
    assert_contains(&browser.page("/account").await, &ours.name);
    browser
        .post_form("/account", &[("name", "X")])
        .await
        .is(403);
    browser
        .post_form(
            "/account/password",
            &[("current_password", "x"), ("password", "y")],
        )
        .await
        .is(403);
    // Her other sessions are not its business.
    browser.submit("/account/end-other-sessions", &[]).await;
    at_home.get("/").await.is(200);
    // Her own provider does not let her in here either.
    let own = Provider::start(&key).await;
    own.connect(&app, &theirs, &["--default-role", "admin"]);
    let ada = json!({ "sub": "sub-ada", "email": ours.email });
    let stranger = sign_in(&app, &theirs, &own, &key, &ada).await;
    let page = stranger.page("/account").await;
    assert_contains(&page, &theirs.name);
    let fields = [("organization_id", ours.id.as_str())];
    stranger.post_form("/organization", &fields).await.is(403);
    app.browser().await.get("/").await.is(200);
}

async fn roles_follow_the_groups(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    let flags = [
        "--group",
        "dev=member",
        "--group",
        "ops=admin",
        "--groups-claim",
        "realm.roles",
    ];
    provider.connect(&app, ours, &flags);
    let groups = |groups: &[&str]| json!({ "realm": { "roles": groups } });
    let nobody = try_sign_in(&app, ours, &provider, &key, &groups(&["other"])).await;
    assert_refused(&nobody, 403, "none of your groups");
    let first = sign_in(&app, ours, &provider, &key, &groups(&["dev", "ops"])).await;
    assert_contains(&first.page("/settings/members").await, "Invite a member");
    let second = sign_in(&app, ours, &provider, &key, &groups(&["dev"])).await;
    for browser in [&first, &second] {
        assert_lacks(&browser.page("/settings/members").await, "Invite a member");
    }
    let out = try_sign_in(&app, ours, &provider, &key, &groups(&[])).await;
    assert_refused(&out, 403, "no longer in a group");
    for browser in [&first, &second] {
        browser.get("/").await.is(303);
    }
    let owner = app.browser().await;
    assert_lacks(&owner.page("/settings/members").await, "cleo@example.org");
    // Who comes back is the same person.
    let back = sign_in(&app, ours, &provider, &key, &groups(&["dev"])).await;
    back.get("/").await.is(200);
    assert_contains(&owner.page("/activity").await, "Cleo");

    // The last owner stays one, whatever the groups are.
    let mut ada = groups(&[]);
    ada["sub"] = json!("sub-ada");
    ada["email"] = json!(ours.email);
    let answer = try_sign_in(&app, ours, &provider, &key, &ada).await;
    let request = app.anonymous().request("POST", "/sso/confirm");
    let request = request.header("cookie", answer.cookie());
    let fields = [("password", ours.password.as_str())];
    let answer = send(changelog_tests::form(request, &fields)).await;
    answer.is(303);
    let browser = app.anonymous().with("cookie", answer.cookie());
    assert_contains(&browser.page("/settings/sign-in").await, "Test and save");
}

async fn passwords_do_not_work_where_the_provider_is_required(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    let owner = app.browser().await;
    let dora = join(&app, &owner, "dora", "owner").await;
    let link = invite(&owner, "late@example.org", "member").await;
    let session = sign_in_with(&app, &dora.email).await;
    session.get("/").await.is(200);
    provider.connect(&app, ours, &["--default-role", "member", "--required"]);

    // Sessions by password have ended, but for the emergency access.
    session.get("/").await.is(303);
    owner.get("/").await.is(200);
    let answer = app.anonymous().try_sign_in(&dora.email, PASSWORD).await;
    assert_refused(&answer, 403, "requires sign-in by its identity provider");
    assert_contains(&answer.text, format!("/sso/{}", ours.id));
    let wrong = app
        .anonymous()
        .try_sign_in(&dora.email, "wrong password")
        .await;
    assert_refused(&wrong, 401, "Incorrect");
    let fields = [("name", "Late"), ("password", PASSWORD)];
    let answer = app.anonymous().post_form(&link, &fields).await;
    assert_refused(&answer, 403, "requires sign-in by its identity provider");
    let fields = [("email", "new@example.org"), ("role", "member")];
    owner
        .post_form("/settings/members/invite", &fields)
        .await
        .is(409);

    // The emergency access works, is recorded, and shown to the owners.
    let emergency = app.browser().await;
    assert_contains(&emergency.page("/").await, "Emergency access");
    assert_contains(
        &emergency.page("/activity?resource=sso").await,
        "by the emergency access",
    );
    emergency.submit("/settings/sign-in/seen", &[]).await;
    assert_lacks(&emergency.page("/").await, "Emergency access");
    // Its owner cannot be made another, so that the door stays.
    let role = format!("/settings/members/{}/role", ours.owner_id);
    emergency
        .post_form(&role, &[("role", "member")])
        .await
        .is(403);
    let remove = format!("/settings/members/{}/remove", ours.owner_id);
    emergency.post_form(&remove, &[]).await.is(403);
    // By the provider, everyone comes in.
    let browser = sign_in(&app, ours, &provider, &key, &json!({})).await;
    browser.get("/").await.is(200);
    // A member of two organizations switches only by the provider.
    let theirs = app.second_organization();
    let grace = app.browser_of(&theirs).await;
    let link = invite(&grace, &dora.email, "viewer").await;
    let fields = [("password", PASSWORD)];
    let answer = app.anonymous().post_form(&link, &fields).await;
    answer.is(303);
    let there = app.anonymous().with("cookie", answer.cookie());
    let fields = [("organization_id", ours.id.as_str())];
    let answer = there.post_form("/organization", &fields).await;
    assert_refused(&answer, 403, "requires sign-in by its identity provider");
    assert_contains(&there.page("/account").await, &theirs.name);
    // And signs in by password to the one that permits it.
    sign_in_with(&app, &dora.email).await.get("/").await.is(200);

    app.admin(&["sso", "remove", "--org", &ours.id]);
    browser.get("/").await.is(303);
    sign_in_with(&app, &dora.email).await.get("/").await.is(200);
}

/// The password of people who have joined.
const PASSWORD: &str = "a pear and 4711 plums";

async fn sign_in_with(app: &TestApp, email: &str) -> changelog_tests::TestClient {
    let cookie = changelog_tests::sign_in(&app.anonymous(), email, PASSWORD).await;
    app.anonymous().with("cookie", &cookie)
}

async fn an_owner_ends_the_sessions_of_a_member(app: TestApp) {
    let owner = app.browser().await;
    let dora = join(&app, &owner, "dora", "admin").await;
    let session = sign_in_with(&app, &dora.email).await;
    let path = format!("/settings/members/{}/end-sessions", dora.id);
    session.post_form(&path, &[]).await.is(403);
    session.get("/").await.is(200);
    owner.submit(&path, &[]).await;
    session.get("/").await.is(303);
    assert_contains(
        &owner.page("/activity?resource=sso").await,
        "ended the sessions of",
    );
    owner
        .post_form(
            "/settings/members/018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90/end-sessions",
            &[],
        )
        .await
        .is(404);
}

async fn the_command_sets_shows_and_removes_a_provider(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    let show = ["sso", "show", "--org", &ours.id];
    assert_eq!(app.admin(&show), json!(null));
    let flags = ["--group", "ops=admin", "--required"];
    let set = provider.connect(&app, ours, &flags);
    assert_eq!(set["issuer"], provider.url());
    assert_eq!(set["groups"], json!({ "ops": "admin" }));
    assert_eq!(set["default_role"], json!(null));
    assert_eq!(set["required"], true);
    assert_eq!(set["emergency_owner"], ours.email);
    assert_eq!(app.admin(&show), set);
    for (flags, reason) in [
        (&["--default-role", "owner"][..], "default_role"),
        (&["--default-role", "king"], "none"),
        (&["--group", "ops"], "GROUP=ROLE"),
        (&["--emergency-owner", "x@y.z"], "emergency_owner"),
    ] {
        let all = [
            "sso",
            "set",
            "--org",
            &ours.id,
            "--issuer",
            "https://a.example",
        ];
        let client = ["--client-id", "x", "--client-secret-file", "-"];
        let output = app.try_admin(&[&all[..], &client, flags].concat(), "secret");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert_contains(&String::from_utf8_lossy(&output.stderr), reason);
    }
    // A provider that cannot be reached from here is saved, and reported.
    let dead = [
        "sso",
        "set",
        "--org",
        &ours.id,
        "--issuer",
        "http://127.0.0.1:1",
    ];
    let client = ["--client-id", "x", "--client-secret-file", "-"];
    let output = app.try_admin(&[&dead[..], &client].concat(), "secret");
    assert!(output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_contains(&stderr, "nobody can sign in yet");
    // The key of stored secrets is rotated.
    provider.connect(&app, ours, &["--default-role", "member"]);
    let rotated = app.try_admin(&["secrets", "rotate"], "");
    assert_contains(
        &String::from_utf8_lossy(&rotated.stdout),
        "1 connections, sources",
    );
    sign_in(&app, ours, &provider, &key, &json!({})).await;
    let begun = Begun::begin(&app, ours).await;
    assert_eq!(
        app.admin(&["sso", "remove", "--org", &ours.id]),
        json!({ "removed": true })
    );
    assert_eq!(
        app.admin(&["sso", "remove", "--org", &ours.id]),
        json!({ "removed": false })
    );
    begun.finish(&app, "").await.is(404);
}

async fn a_trusted_proxy_signs_people_in(mut app: TestApp) {
    const HEADER: &str = "x-auth-request-email";
    let email = app.organization.email.clone();
    let flags = ["--trusted-sign-in-header", HEADER, "--trusted-proxy"];
    // From other networks, the header counts for nothing.
    app.restart_with(&[&flags[..], &["192.0.2.0/24"]].concat())
        .await;
    app.anonymous()
        .with(HEADER, &email)
        .get("/sign-in")
        .await
        .is(200);

    app.restart_with(&[&flags[..], &["127.0.0.0/8"]].concat())
        .await;
    let proxy = |email: &str| app.anonymous().with(HEADER, email);
    proxy("nobody@example.org").get("/sign-in").await.is(200);
    proxy("").get("/sign-in").await.is(200);
    proxy(&email)
        .with(HEADER, "other@example.org")
        .get("/sign-in")
        .await
        .is(200);
    let answer = proxy(&email.to_uppercase())
        .get("/sign-in?next=/changes")
        .await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/changes");
    let cookie = answer.cookie().to_owned();
    proxy(&email).with("cookie", &cookie).get("/").await.is(200);
    // The session is that of this person at the proxy.
    proxy("other@example.org")
        .with("cookie", &cookie)
        .get("/")
        .await
        .is(303);
    app.anonymous()
        .with("cookie", &cookie)
        .get("/")
        .await
        .is(303);
    let log = app.browser().await.page("/activity?resource=sso").await;
    assert_contains(&log, "signed in by the proxy");
    // An account that another organization has made for the address is not signed in to.
    let theirs = app.second_organization();
    let grace = app.browser_of(&theirs).await;
    let link = invite(&grace, &email, "viewer").await;
    let fields = [("name", "Not Ada"), ("password", "a pear and 4711 plums")];
    app.anonymous().post_form(&link, &fields).await.is(303);
    app.anonymous()
        .with(HEADER, &email)
        .get("/sign-in")
        .await
        .is(200);
    let named = ["127.0.0.0/8", "--sso-organization", &app.organization.id].map(str::to_owned);
    let flags: Vec<&str> = flags
        .into_iter()
        .chain(named.iter().map(String::as_str))
        .collect();
    app.restart_with(&flags).await;
    let proxy = |email: &str| app.anonymous().with(HEADER, email);
    let answer = proxy(&email).get("/sign-in").await;
    answer.is(303);
    let page = proxy(&email)
        .with("cookie", answer.cookie())
        .page("/account")
        .await;
    assert_contains(&page, &app.organization.owner_name);
    // Where a provider is required, only it signs people in.
    let provider = Provider::start(&SigningKey::p256("k1")).await;
    provider.connect(&app, &app.organization, &["--required"]);
    proxy(&email).with("cookie", &cookie).get("/").await.is(303);
    proxy(&email).get("/sign-in").await.is(200);
}
