//! Sign-ins that must not succeed.

use std::time::{Duration, Instant};

use changelog_tests::issuer::{SigningKey, unsigned};
use changelog_tests::{Answer, TestApp, on_both};
use serde_json::{Value, json};

use super::{Begun, Provider, assert_refused, try_sign_in};

on_both!(
    tokens_that_are_not_of_this_sign_in_are_refused,
    a_state_works_once_and_in_one_browser,
    the_answer_of_another_providers_is_refused,
    a_provider_that_misbehaves_is_reported,
    nobody_signs_in_by_a_provider_on_the_free_plan,
);

/// Makes a token of claims that must be refused.
type Forge<'f> = &'f dyn Fn(&Value) -> String;

async fn tokens_that_are_not_of_this_sign_in_are_refused(app: TestApp) {
    let (key, impostor) = (SigningKey::rsa("k1"), SigningKey::other_rsa("k1"));
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    let begun = Begun::begin(&app, ours).await;
    let now = provider.claims(&app, &begun, "s")["iat"]
        .as_i64()
        .expect("a time");
    for (change, reason) in [
        (json!({ "nonce": "another" }), "nonce"),
        (json!({ "nonce": null }), "nonce"),
        (json!({ "aud": "another" }), "aud"),
        (json!({ "aud": ["change-log", "another"] }), "aud"),
        (json!({ "iss": "https://login.example.com" }), "iss"),
        (json!({ "iss": format!("{}/", provider.url()) }), "iss"),
        (json!({ "exp": now - 90 }), "expired"),
        (json!({ "iat": now + 90 }), "not valid before"),
        (json!({ "azp": "another" }), "another client"),
        (json!({ "sub": null }), "who signed in"),
        (json!({ "sub": "" }), "who signed in"),
    ] {
        let answer = try_sign_in(&app, ours, &provider, &key, &change).await;
        assert_refused(&answer, 403, reason);
    }
    // Within a minute, the clocks may differ.
    let answer = try_sign_in(&app, ours, &provider, &key, &json!({ "exp": now - 10 })).await;
    answer.is(303);

    let forgeries: [(Forge<'_>, &str); 5] = [
        (&|claims| unsigned(claims), "none"),
        (&|claims| key.forge_with_public_key(claims), "HS256"),
        (&|claims| impostor.sign(claims), "signature"),
        (&|claims| SigningKey::p256("k1").sign(claims), "k"),
        (&|_| "not a token".to_owned(), "not a signed JWT"),
    ];
    for (forge, reason) in forgeries {
        let begun = Begun::begin(&app, ours).await;
        let claims = provider.claims(&app, &begun, "sub-cleo");
        provider.token(&forge(&claims));
        assert_refused(&begun.finish(&app, "").await, 403, reason);
    }
    // The provider itself refuses the code.
    let begun = Begun::begin(&app, ours).await;
    provider.change(|published| published.token = json!({ "error": "invalid_grant" }));
    assert_refused(&begun.finish(&app, "").await, 403, "invalid_grant");
}

async fn a_state_works_once_and_in_one_browser(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    provider.connect(&app, ours, &["--default-role", "member"]);
    let (begun, other) = (
        Begun::begin(&app, ours).await,
        Begun::begin(&app, ours).await,
    );
    provider.token(&key.sign(&provider.claims(&app, &begun, "sub-cleo")));
    let state = begun.parameter("state");
    let callback = |state: &str| format!("/sso/callback?code=c0de&state={state}");
    let without_cookie = app.anonymous().get(&callback(&state)).await;
    assert_refused(&without_cookie, 400, "another browser");
    let of_other = other.open(&app, &callback(&state)).await;
    assert_refused(&of_other, 400, "another browser or tab");
    for state in ["", "x", &state[1..], &format!("{state}&state={state}")] {
        let answer = begun.open(&app, &callback(state)).await;
        assert_refused(&answer, 400, "another browser or tab");
    }
    let changed = Begun {
        cookie: format!("{}x", begun.cookie),
        url: begun.url.clone(),
    };
    assert_refused(&changed.finish(&app, "").await, 400, "another browser");
    assert_eq!(provider.exchanges(), 0);

    begun.finish(&app, "").await.is(303);
    assert_refused(&begun.finish(&app, "").await, 400, "already used");
    assert_eq!(provider.exchanges(), 1);
    // On another server of the database as well.
    if app.engine == changelog_tests::Engine::Postgres {
        let server = app.another_server(&[]).await;
        let client =
            changelog_tests::TestClient::new(&server.address).with("cookie", &begun.cookie);
        let answer = client.get(&callback(&state)).await;
        assert_refused(&answer, 400, "already used");
    }
    // What a browser has begun expires.
    app.clock.advance(Duration::from_mins(15));
    assert_refused(&other.finish(&app, "").await, 400, "too long ago");
    // The provider says why it has no code.
    let begun = Begun::begin(&app, ours).await;
    let path = format!(
        "/sso/callback?error=access_denied&error_description=%3Cb%3E&state={}",
        begun.parameter("state")
    );
    let answer = begun.open(&app, &path).await;
    assert_refused(&answer, 403, "access_denied: &#60;b&#62;");
}

async fn the_answer_of_another_providers_is_refused(app: TestApp) {
    let (key, other_key) = (SigningKey::rsa("k1"), SigningKey::other_rsa("k1"));
    let (ours, theirs) = (&app.organization, app.second_organization());
    let provider = Provider::start(&key).await;
    let other = Provider::start(&other_key).await;
    provider.connect(&app, ours, &["--default-role", "member"]);
    other.connect(&app, &theirs, &["--default-role", "member"]);
    let encoded = |url: &str| {
        let pairs = url::form_urlencoded::byte_serialize(url.as_bytes());
        pairs.collect::<String>()
    };
    // A provider names itself (RFC 9207): it must be the one that the browser was sent to.
    let begun = Begun::begin(&app, ours).await;
    provider.token(&key.sign(&provider.claims(&app, &begun, "sub-cleo")));
    for issuer in [other.url(), format!("{}/", provider.url()), String::new()] {
        let answer = begun
            .finish(&app, &format!("&iss={}", encoded(&issuer)))
            .await;
        assert_refused(&answer, 400, "not that of the organization");
    }
    let twice = format!("&iss={0}&iss={0}", encoded(&provider.url()));
    assert_refused(
        &begun.finish(&app, &twice).await,
        400,
        "not that of the organization",
    );
    assert_eq!(
        provider.exchanges() + other.exchanges(),
        0,
        "a code was passed on"
    );
    let right = format!("&iss={}", encoded(&provider.url()));
    begun.finish(&app, &right).await.is(303);

    // A token of the other one, returned by ours.
    let begun = Begun::begin(&app, ours).await;
    other.token("unused");
    provider.token(&other_key.sign(&other.claims(&app, &begun, "sub-cleo")));
    assert_refused(&begun.finish(&app, "").await, 403, "iss");
    // With our issuer, but the other one's key of the same id.
    let begun = Begun::begin(&app, ours).await;
    provider.token(&other_key.sign(&provider.claims(&app, &begun, "sub-cleo")));
    assert_refused(&begun.finish(&app, "").await, 403, "signature");

    // What was begun with one organization is not finished at the address of another one.
    other.connect(
        &app,
        &theirs,
        &["--default-role", "member", "--own-redirect"],
    );
    let of_theirs = Begun::begin(&app, &theirs).await;
    let own = format!("/sso/callback/{}", theirs.id);
    assert!(of_theirs.parameter("redirect_uri").ends_with(&own));
    let begun = Begun::begin(&app, ours).await;
    for (begun, path) in [
        (&begun, own.as_str()),
        (&of_theirs, "/sso/callback"),
        (&of_theirs, &format!("/sso/callback/{}", ours.id)),
    ] {
        let state = begun.parameter("state");
        let answer = begun
            .open(&app, &format!("{path}?code=c&state={state}"))
            .await;
        assert_refused(&answer, 400, "address of another organization");
    }

    // A provider that has announced that it names itself has to.
    let announced = json!({ "authorization_response_iss_parameter_supported": true });
    let third = Provider::start(&key).await;
    third.change(|published| published.discovery = announced);
    third.connect(&app, ours, &["--default-role", "member"]);
    // The cookie of the former provider is of no use with the new one.
    assert_refused(&begun.finish(&app, "").await, 400, "has been changed");
    let begun = Begun::begin(&app, ours).await;
    third.token(&key.sign(&third.claims(&app, &begun, "sub-cleo")));
    assert_refused(
        &begun.finish(&app, "").await,
        400,
        "not that of the organization",
    );
}

async fn a_provider_that_misbehaves_is_reported(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let ours = &app.organization;
    let start = format!("/sso/{}", ours.id);

    // It hangs before anything is known of it.
    let hanging = Provider::start(&key).await;
    hanging.connect(&app, ours, &["--default-role", "member"]);
    hanging.server.answer_with(Answer::hang());
    let begun = Instant::now();
    let answer = app.anonymous().get(&start).await;
    assert_refused(&answer, 503, "did not answer within 5 s");
    let took = begun.elapsed();
    assert!((4..8).contains(&took.as_secs()), "{took:?}");

    // It has a discovery document of 10 MB, or sends the browser elsewhere.
    for (misbehaved, reason) in [
        (
            Answer::text(
                200,
                &format!("{{\"issuer\":\"{}\"}}", "x".repeat(10_000_000)),
            ),
            "larger than",
        ),
        (Answer::endless(), "larger than"),
        (Answer::redirect(302, "http://127.0.0.1:1/"), "redirect"),
        (Answer::status(500), "500"),
    ] {
        let provider = Provider::start(&key).await;
        provider.connect(&app, ours, &["--default-role", "member"]);
        provider.server.answer_with(misbehaved);
        assert_refused(&app.anonymous().get(&start).await, 503, reason);
    }

    // It hangs when it is asked for the token, for another person than the one who waits.
    let provider = Provider::start(&key).await;
    provider.connect(&app, ours, &["--default-role", "member"]);
    let begun = Begun::begin(&app, ours).await;
    provider.server.answer_with(Answer::hang());
    let asked = Instant::now();
    let answer = begun.finish(&app, "").await;
    assert_refused(&answer, 503, "did not answer within 5 s");
    assert!(asked.elapsed() < Duration::from_secs(8));
    // It works again.
    provider.behave();
    try_sign_in(&app, ours, &provider, &key, &json!({}))
        .await
        .is(303);
}

async fn nobody_signs_in_by_a_provider_on_the_free_plan(app: TestApp) {
    let key = SigningKey::rsa("k1");
    let provider = Provider::start(&key).await;
    let ours = &app.organization;
    let unknown = "/sso/018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    app.anonymous().get(unknown).await.is(404);
    app.anonymous()
        .get(&format!("/sso/{}", ours.id))
        .await
        .is(404);
    provider.connect(&app, ours, &["--default-role", "member"]);
    let begun = Begun::begin(&app, ours).await;
    provider.token(&key.sign(&provider.claims(&app, &begun, "sub-cleo")));
    app.admin(&["org", "set-plan", &ours.id, "free"]);
    assert_refused(&begun.finish(&app, "").await, 403, "plan_required");
    let answer = app.anonymous().get(&format!("/sso/{}", ours.id)).await;
    assert_refused(&answer, 403, "plan_required");
    let browser = app.browser().await;
    let page = browser.page("/settings/sign-in").await;
    assert!(page.contains("part of the Pro plan"), "{page}");
    let fields = [("issuer", "https://login.example.com"), ("client_id", "x")];
    let answer = browser.post_form("/settings/sign-in", &fields).await;
    answer.is(403);
}
