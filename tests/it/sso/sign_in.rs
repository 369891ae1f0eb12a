//! People who sign in as they should.

use std::time::Duration;

use changelog_tests::issuer::SigningKey;
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_both};
use serde_json::json;
use url::form_urlencoded;

use super::{Begun, CLIENT_ID, CLIENT_SECRET, Provider, challenge, sign_in, try_sign_in};

on_both!(
    a_person_signs_in_with_pkce_state_and_nonce,
    a_person_is_the_subject_and_not_the_address,
    a_session_lasts_twelve_hours,
    keys_are_rotated_in_the_middle,
    the_return_address_is_a_path_of_this_service,
    claims_are_also_read_from_the_user_info,
    the_provider_ends_sessions,
);

async fn a_person_signs_in_with_pkce_state_and_nonce(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let scopes = json!({ "scopes_supported": ["openid", "groups"] });
    provider.change(|published| published.discovery = scopes);
    let ours = &app.organization;
    let set = provider.connect(&app, ours, &["--group", "dev=member"]);
    assert_eq!(set["redirect_path"], "/sso/callback");
    assert_lacks(&set.to_string(), CLIENT_SECRET);
    let begun = Begun::begin(&app, ours).await;
    assert!(
        begun
            .url
            .as_str()
            .starts_with(&format!("{}/authorize?tenant=1&", provider.url()))
    );
    let parameters = begun.parameters();
    assert_eq!(parameters["response_type"], "code");
    assert_eq!(parameters["client_id"], CLIENT_ID);
    assert_eq!(parameters["redirect_uri"], app.at("/sso/callback"));
    assert_eq!(parameters["scope"], "openid email profile groups");
    assert_eq!(parameters["code_challenge_method"], "S256");
    assert!(parameters["state"].len() >= 43 && parameters["nonce"].len() >= 43);
    let claims = provider.claims(&app, &begun, "sub-cleo");
    provider.token(&key.sign(&claims));
    let answer = begun.finish(&app, "").await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/");

    let exchange = provider.server.requests().pop().expect("a request");
    assert_eq!(
        (exchange.method.as_str(), exchange.path.as_str()),
        ("POST", "/token")
    );
    let body: std::collections::BTreeMap<String, String> = form_urlencoded::parse(&exchange.body)
        .into_owned()
        .collect();
    assert_eq!(body["grant_type"], "authorization_code");
    assert_eq!(body["code"], "c0de");
    assert_eq!(body["redirect_uri"], app.at("/sso/callback"));
    assert_eq!(
        challenge(&body["code_verifier"]),
        parameters["code_challenge"]
    );
    assert!(!body.contains_key("client_secret"));
    assert!(exchange.header("authorization").starts_with("Basic "));

    let browser = app.anonymous().with("cookie", answer.cookie());
    let page = browser.page("/account").await;
    assert_contains(&page, "cleo@example.org");
    assert_contains(&page, "signed in by the identity provider");
    let members = app.browser().await.page("/settings/members").await;
    assert_contains(&members, "Cleo");
    let log = app.browser().await.page("/activity?resource=sso").await;
    for part in [
        "connected the identity provider",
        "signed in by the identity provider",
    ] {
        assert_contains(&log, part);
    }
    assert_lacks(&log, CLIENT_SECRET);
}

async fn a_person_is_the_subject_and_not_the_address(app: TestApp) {
    let key = SigningKey::p256("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "viewer"]);
    let first = sign_in(&app, ours, &provider, &key, &json!({})).await;
    let renamed = json!({ "email": "cleopatra@example.org", "name": "Cleopatra" });
    let again = sign_in(&app, ours, &provider, &key, &renamed).await;
    for browser in [first, again] {
        let page = browser.page("/account").await;
        assert_contains(&page, "cleopatra@example.org");
        assert_contains(&page, "Cleopatra");
    }
    // Another subject with an address of a member is another person, who is not let in.
    let other = json!({ "sub": "other", "email": "cleopatra@example.org" });
    let answer = try_sign_in(&app, ours, &provider, &key, &other).await;
    super::assert_refused(&answer, 403, "has no password to confirm with");
}

async fn a_session_lasts_twelve_hours(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    let browser = sign_in(&app, ours, &provider, &key, &json!({})).await;
    let password = app.browser().await;
    app.clock.advance(Duration::from_mins(12 * 60 - 1));
    browser.get("/").await.is(200);
    app.clock.advance(Duration::from_mins(2));
    browser.get("/").await.is(303);
    password.get("/").await.is(200);
}

async fn keys_are_rotated_in_the_middle(app: TestApp) {
    let (first, second) = (SigningKey::rsa("k1"), SigningKey::p384("k2"));
    let provider = Provider::start(&first).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    sign_in(&app, ours, &provider, &first, &json!({})).await;
    let begun = Begun::begin(&app, ours).await;
    provider.change(|published| published.keys = vec![second.published()]);
    let claims = provider.claims(&app, &begun, "sub-cleo");
    provider.token(&second.sign(&claims));
    begun.finish(&app, "").await.is(303);
}

async fn the_return_address_is_a_path_of_this_service(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    for (next, location) in [
        ("/changes?risk=high", "/changes?risk=high"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/%0d%0aset-cookie:x", "/%0d%0aset-cookie:x"),
        ("javascript:alert(1)", "/"),
    ] {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("next", next)
            .finish();
        let begun = Begun::begin_at(&app, &format!("/sso/{}?{query}", ours.id)).await;
        let claims = provider.claims(&app, &begun, "sub-cleo");
        provider.token(&key.sign(&claims));
        // What comes back with the browser is not looked at.
        let answer = begun.finish(&app, "&next=https%3A%2F%2Fevil.example").await;
        answer.is(303);
        assert_eq!(answer.header("location"), location, "{next}");
    }
}

async fn claims_are_also_read_from_the_user_info(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--group", "dev=admin"]);
    let begun = Begun::begin(&app, ours).await;
    let mut claims = provider.claims(&app, &begun, "sub-cleo");
    let all = claims.as_object_mut().expect("an object");
    for name in ["email", "email_verified", "name", "groups"] {
        all.remove(name);
    }
    let info =
        json!({ "sub": "sub-cleo", "email": "c@example.org", "name": "C", "groups": ["dev"] });
    provider.change(|published| published.user_info = info);
    provider.token(&key.sign(&claims));
    let answer = begun.finish(&app, "").await;
    answer.is(303);
    let page = app
        .anonymous()
        .with("cookie", answer.cookie())
        .page("/account")
        .await;
    assert_contains(&page, "c@example.org");

    // That of somebody else is refused.
    let begun = Begun::begin(&app, ours).await;
    claims["nonce"] = json!(begun.parameter("nonce"));
    provider.change(|published| published.user_info["sub"] = json!("sub-dora"));
    provider.token(&key.sign(&claims));
    super::assert_refused(&begun.finish(&app, "").await, 503, "another person");
}

async fn the_provider_ends_sessions(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    let first = sign_in(&app, ours, &provider, &key, &json!({ "sid": "s1" })).await;
    let second = sign_in(&app, ours, &provider, &key, &json!({ "sid": "s2" })).await;
    let path = format!("/sso/backchannel-logout/{}", ours.id);
    let log_out = async |change: serde_json::Value| {
        let mut claims = provider.logout_claims(&app, "0", &json!("sub-cleo"));
        let all = claims.as_object_mut().expect("an object");
        for (name, value) in change.as_object().into_iter().flatten() {
            all.insert(name.clone(), value.clone());
        }
        let header = json!({ "alg": "RS256", "kid": "k1", "typ": "logout+jwt" });
        let token = key.sign_with(&header, &claims);
        let fields = [("logout_token", token.as_str())];
        app.anonymous().post_form(&path, &fields).await
    };
    for (change, reason) in [
        (json!({ "jti": "a", "nonce": "n" }), "nonce"),
        (json!({ "jti": "b", "events": {} }), "not about a logout"),
        (json!({ "jti": null }), "jti"),
        (
            json!({ "jti": "c", "sub": null, "sid": null }),
            "sub and sid",
        ),
        (json!({ "jti": "d", "aud": "other" }), "aud"),
        (json!({ "jti": "e", "exp": 1 }), "expired"),
        // Anyone can send this, and it is logged.
        (
            json!({ "jti": "f", "iss": "x\u{1b}[2K\nforged" }),
            "x<U+001B>[2K forged",
        ),
    ] {
        let answer = log_out(change).await;
        answer.is(400);
        assert_contains(&answer.text, reason);
    }
    // An id token is not a logout token.
    let begun = Begun::begin(&app, ours).await;
    let id_token = key.sign(&provider.claims(&app, &begun, "sub-cleo"));
    let fields = [("logout_token", id_token.as_str())];
    app.anonymous().post_form(&path, &fields).await.is(400);
    first.get("/").await.is(200);

    log_out(json!({ "jti": "1", "sid": "s1" })).await.is(200);
    first.get("/").await.is(303);
    second.get("/").await.is(200);
    let again = log_out(json!({ "jti": "1", "sid": "s2" })).await;
    again.is(400);
    assert_contains(&again.text, "used before");
    log_out(json!({ "jti": "2", "sid": "s2", "sub": null }))
        .await
        .is(200);
    second.get("/").await.is(303);
    let third = sign_in(&app, ours, &provider, &key, &json!({ "sid": "s3" })).await;
    log_out(json!({ "jti": "3", "sid": null })).await.is(200);
    third.get("/").await.is(303);
    let log = app.browser().await.page("/activity?resource=sso").await;
    assert_contains(&log, "ended the sessions of");
}
