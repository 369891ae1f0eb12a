//! The tokens of pipelines: which are refused, and how the keys of their issuers are known.

use std::time::{Duration, Instant};

use changelog_server::clock::Clock;
use changelog_server::identity::{Expected, Identity, Issuer as IssuerName, TokenKind};
use changelog_server::integrations::http::ReceiverClient;
use serde_json::{Value, json};

use super::pipelines::{AUDIENCE, Pipelines, refused, with_token};
use changelog_tests::issuer::{SigningKey, unsigned};
use changelog_tests::receivers::Answer;
use changelog_tests::{TestApp, assert_contains, on_both, text};

on_both!(
    every_altered_claim_is_refused,
    forged_tokens_are_refused,
    every_kind_of_signature_is_accepted,
    keys_are_followed_when_they_rotate,
    a_provider_that_fails_holds_no_request,
    only_allowed_issuers_are_asked,
    checking_a_token_again_costs_little,
);

async fn every_altered_claim_is_refused(app: TestApp) {
    let pipelines = Pipelines::start().await;
    pipelines.bind(&app, &[]);
    let now = pipelines.now().timestamp();
    let other = pipelines.issuer.url() + "/";
    for (claim, value, why) in [
        (
            "iss",
            json!("https://elsewhere.example"),
            "no workload identity",
        ),
        ("iss", json!(other), "no workload identity"),
        ("iss", json!([pipelines.issuer.url()]), "iss"),
        ("iss", Value::Null, "iss"),
        (
            "aud",
            json!("https://changes.example/"),
            "no workload identity",
        ),
        ("aud", json!([AUDIENCE, "https://elsewhere.example"]), "aud"),
        ("aud", json!([]), "aud"),
        ("aud", Value::Null, "aud"),
        ("exp", json!(now - 61), "expired"),
        ("exp", json!("9999999999"), "exp"),
        ("exp", Value::Null, "exp"),
        ("exp", json!(now + 4_000), "at most 3600 s"),
        ("nbf", json!(now + 600), "not valid before"),
        ("nbf", json!("soon"), "nbf"),
        ("iat", json!(now + 600), "not valid before"),
        ("iat", json!(now - 3_600), "at most 3600 s"),
        ("iat", Value::Null, "iat"),
        (
            "repository",
            json!("acme/shop2"),
            "repository is \"acme/shop2\"",
        ),
        ("repository", json!("acme/Shop"), "repository"),
        ("repository", json!(["acme/other"]), "repository"),
        ("repository", json!({ "acme/shop": 1 }), "repository"),
        ("repository", Value::Null, "repository is missing"),
        (
            "environment",
            json!("staging"),
            "environment is \"staging\", expected \"production\"",
        ),
        ("environment", json!("production "), "environment"),
        ("environment", json!(true), "environment"),
    ] {
        let mut claims = pipelines.claims();
        if value.is_null() {
            claims.as_object_mut().expect("claims").remove(claim);
        } else {
            claims[claim] = value.clone();
        }
        let detail = refused(&app, &pipelines.key.sign(&claims)).await;
        assert_contains(&detail, why);
    }
    // A minute of leeway.
    let now = pipelines.now().timestamp();
    let mut claims = pipelines.claims();
    claims["exp"] = json!(now - 30);
    claims["iat"] = json!(now - 300);
    with_token(&app, &pipelines.key.sign(&claims))
        .body("/api/changes")
        .await;
    let mut claims = pipelines.claims();
    claims["aud"] = json!([AUDIENCE]);
    claims["iat"] = json!(now + 30);
    with_token(&app, &pipelines.key.sign(&claims))
        .body("/api/changes")
        .await;
}

async fn forged_tokens_are_refused(app: TestApp) {
    let pipelines = Pipelines::start().await;
    pipelines.bind(&app, &[]);
    let claims = pipelines.claims();
    let token = pipelines.token();
    with_token(&app, &token).body("/api/changes").await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, body, signature] = parts[..] else {
        panic!("{token}");
    };
    let mut more = claims.clone();
    more["repository_owner"] = json!("evil");
    let more = pipelines.key.sign(&more);
    let more: Vec<&str> = more.split('.').collect();
    let other = SigningKey::other_rsa("first");
    let key = &pipelines.key;
    let with_header = |header: Value| key.sign_with(&header, &claims);
    for (token, why) in [
        (unsigned(&claims), "signed with none"),
        (
            key.sign_with(&json!({ "alg": "none", "kid": "first" }), &claims),
            "signed with none",
        ),
        (key.forge_with_public_key(&claims), "signed with HS256"),
        // Another issuer's key with the same id.
        (other.sign(&claims), "signature"),
        (SigningKey::p256("first").sign(&claims), "no key first"),
        (
            SigningKey::other_rsa("second").sign(&claims),
            "no key second",
        ),
        (format!("{header}.{}.{signature}", more[1]), "signature"),
        (format!("{header}.{body}.{}", more[2]), "signature"),
        (format!("{header}.{body}."), "signature"),
        // The right key, named with another algorithm.
        (
            with_header(json!({ "alg": "PS256", "kid": "first" })),
            "no key",
        ),
        (
            with_header(json!({ "alg": "RS512", "kid": "first" })),
            "no key",
        ),
        (
            with_header(json!({ "alg": "ES256", "kid": "first" })),
            "no key",
        ),
        (
            with_header(json!({ "alg": "RS256", "kid": "first", "crit": ["exp"] })),
            "crit",
        ),
        (
            with_header(json!({ "alg": "RS256", "kid": "first", "typ": "logout+jwt" })),
            "logout+jwt",
        ),
    ] {
        let detail = refused(&app, &token).await;
        assert_contains(&detail, why);
    }
    // A key in the header of the token is not looked at.
    let header = json!({
        "alg": "RS256", "kid": "first", "jwk": other.published(),
        "jku": "https://evil.example/keys",
    });
    assert_contains(
        &refused(&app, &other.sign_with(&header, &claims)).await,
        "signature",
    );
    let long = format!("eyJ{}.{}.x", "a".repeat(9_000), "b".repeat(9_000));
    // The head of a request is limited before that.
    with_token(&app, &long).get("/api/changes").await.is(431);
}

async fn every_kind_of_signature_is_accepted(app: TestApp) {
    let keys = [
        SigningKey::other_rsa("rs"),
        SigningKey::rsa_pss("ps"),
        SigningKey::p256("p256"),
        SigningKey::p384("p384"),
        SigningKey::ed25519("ed"),
    ];
    let mut pipelines = Pipelines::start().await;
    pipelines.issuer.publish(&keys.each_ref());
    pipelines.bind(&app, &[]);
    for key in keys {
        pipelines.key = key;
        with_token(&app, &pipelines.token())
            .body("/api/changes")
            .await;
    }
}

async fn keys_are_followed_when_they_rotate(app: TestApp) {
    let mut pipelines = Pipelines::start().await;
    pipelines.bind(&app, &[]);
    let old = pipelines.token();
    with_token(&app, &old).body("/api/changes").await;
    assert_eq!(pipelines.issuer.server.count(), 2);
    with_token(&app, &pipelines.token())
        .body("/api/changes")
        .await;
    assert_eq!(pipelines.issuer.server.count(), 2, "keys are remembered");

    // A new key next to the old one: it is fetched at once.
    let first = std::mem::replace(&mut pipelines.key, SigningKey::p256("second"));
    pipelines.issuer.publish(&[&first, &pipelines.key]);
    with_token(&app, &pipelines.token())
        .body("/api/changes")
        .await;
    assert_eq!(pipelines.issuer.server.count(), 4);
    with_token(&app, &old).body("/api/changes").await;
    assert_eq!(pipelines.issuer.server.count(), 4);

    // Keys that do not exist cost the provider a few requests only.
    let claims = pipelines.claims();
    for number in 0..20 {
        let token = SigningKey::p256(&format!("unknown-{number}")).sign(&claims);
        assert_contains(&refused(&app, &token).await, "no key unknown");
    }
    let asked = pipelines.issuer.server.count();
    assert!((6..=16).contains(&asked), "{asked} requests");

    // An hour later a key that was withdrawn is no longer accepted, also for a token that was
    // accepted before.
    let mut long = pipelines.claims();
    long["repository_id"] = json!(1);
    long["exp"] = json!(long["iat"].as_i64().expect("a time") + 3_600);
    let long = first.sign(&long);
    with_token(&app, &long).body("/api/changes").await;
    pipelines.issuer.publish(&[&pipelines.key]);
    with_token(&app, &long).body("/api/changes").await;
    // Within the leeway of the token, and after the hour of the keys.
    app.clock.advance(Duration::from_secs(3_602));
    assert_contains(&refused(&app, &long).await, "no key first");

    // A provider that is away does not stop pipelines for some hours.
    pipelines.ahead = app.clock.ahead();
    pipelines.issuer.server.answer_with(Answer::status(503));
    app.clock.advance(Duration::from_hours(5));
    pipelines.ahead = app.clock.ahead();
    with_token(&app, &pipelines.token())
        .body("/api/changes")
        .await;
    app.clock.advance(Duration::from_hours(2));
    pipelines.ahead = app.clock.ahead();
    let answer = with_token(&app, &pipelines.token())
        .get("/api/changes")
        .await;
    let problem = answer.problem(503, "unavailable");
    assert_contains(&text(&problem["detail"]), "answered 503");
    assert!(!answer.header("retry-after").is_empty());
}

async fn a_provider_that_fails_holds_no_request(app: TestApp) {
    for (answer, why) in [
        (Answer::hang(), "within 5 s"),
        (Answer::drip(), "within 5 s"),
        (Answer::redirect(302, "http://127.0.0.1:1/"), "redirect"),
        (Answer::status(404), "answered 404"),
        (Answer::endless(), "larger than 256 KiB"),
        (
            Answer::text(200, &"x".repeat(10_000_000)),
            "larger than 256 KiB",
        ),
        (Answer::text(200, "<html>"), "not a JSON object"),
        (
            Answer::json(
                200,
                &json!({ "issuer": "https://evil.example", "jwks_uri": "x" }),
            ),
            "names the issuer https://evil.example",
        ),
        (Answer::not_http(), "not HTTP"),
        (Answer::reset(), "cannot be reached"),
    ] {
        // A failure is remembered, so each has a provider of its own.
        let pipelines = Pipelines::start().await;
        let id = pipelines.bind(&app, &[]);
        pipelines.issuer.server.answer_with(answer);
        let pipeline = with_token(&app, &pipelines.token());
        let started = Instant::now();
        let problem = pipeline.get("/api/changes").await;
        let problem = problem.problem(503, "unavailable");
        let (took, asked) = (started.elapsed(), pipelines.issuer.server.count());
        let detail = text(&problem["detail"]);
        assert!(
            detail.contains(why),
            "no {why:?} after {took:?}, asked {asked} times: {detail}"
        );
        assert!(took < Duration::from_secs(15), "{why}");
        let again = Instant::now();
        pipeline.get("/api/changes").await.is(503);
        assert!(again.elapsed() < Duration::from_secs(3), "{why}");
        assert_eq!(pipelines.issuer.server.count(), asked, "{why}");
        app.admin(&["workload", "delete", &id]);
    }
    // Whoever waits for the same provider waits for the same request.
    let pipelines = Pipelines::start().await;
    pipelines.bind(&app, &[]);
    pipelines.issuer.server.answer_with(Answer::hang());
    let pipeline = with_token(&app, &pipelines.token());
    let requests = (0..20).map(|_| pipeline.get("/api/changes"));
    for answer in futures_util::future::join_all(requests).await {
        answer.is(503);
    }
    assert_eq!(pipelines.issuer.server.count(), 1);
    // Others are not affected.
    app.key().body("/api/changes").await;
}

async fn only_allowed_issuers_are_asked(app: TestApp) {
    let pipelines = Pipelines::start().await;
    let issuer = pipelines.issuer.url();
    let mut arguments = vec!["workload", "create", "--org", &app.organization.id];
    arguments.extend([
        "--name",
        "safe",
        "--issuer",
        &issuer,
        "--audience",
        AUDIENCE,
    ]);
    arguments.extend(["--claim", "repository=acme/*"]);
    app.admin(&arguments);
    let answer = with_token(&app, &pipelines.token())
        .get("/api/changes")
        .await;
    let problem = answer.problem(503, "unavailable");
    assert_contains(&text(&problem["detail"]), "--allow-receivers");
    assert_eq!(pipelines.issuer.server.connections(), 0);
    // What an insecure binding has fetched is of no use to the other one.
    let id = pipelines.bind(&app, &[]);
    with_token(&app, &pipelines.token())
        .body("/api/changes")
        .await;
    app.admin(&["workload", "delete", &id]);
    let answer = with_token(&app, &pipelines.token())
        .get("/api/changes")
        .await;
    answer.is(503);
}

/// Prints what the check of a token costs after the first one.
async fn checking_a_token_again_costs_little(_app: TestApp) {
    const TIMES: usize = 2_000;
    let pipelines = Pipelines::start().await;
    let identity = Identity::new(ReceiverClient::new(Vec::new()), Clock::system());
    let issuer = IssuerName::new(&pipelines.issuer.url(), true);
    let token = pipelines.token();
    let expected = Expected {
        audience: AUDIENCE,
        kind: TokenKind::Identity,
        max_validity: None,
    };
    identity
        .verify(&issuer, &token, &expected)
        .await
        .expect("a valid token");
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let started = Instant::now();
        let claims = identity.read(&token).expect("a token");
        assert!(claims.text("repository").is_some());
        identity
            .verify(&issuer, &token, &expected)
            .await
            .expect("a valid token");
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let median = times[TIMES / 2];
    eprintln!("checking a token again takes {median:?} (median of {TIMES})");
    // What is built for tests is several times as slow.
    assert!(median < Duration::from_micros(60 * 5), "{median:?}");
}
