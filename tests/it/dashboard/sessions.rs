//! Sessions: signing in and out, cookies, throttling, and requests from other sites.

use std::time::{Duration, Instant};

use serde_json::Value;

use changelog_tests::{
    TestApp, TestClient, TestResponse, each, on_both, on_sqlite, send, sign_in, text,
};

on_both!(
    signing_in_creates_a_session,
    cookies_are_secure_over_https,
    wrong_passwords_are_refused,
    known_and_unknown_accounts_get_the_same_response,
    other_sites_cannot_sign_in_or_out,
    signing_out_ends_one_session,
    a_new_password_ends_every_session,
    guessing_is_throttled_temporarily,
    concurrent_attempts_are_counted;
    process:
    sessions_survive_a_restart,
);
on_sqlite!(process: one_client_cannot_guess_many_accounts);

async fn session_status(caller: &TestClient, cookie: &str) -> u16 {
    caller
        .clone()
        .with("cookie", cookie)
        .get("/api/activity")
        .await
        .status
}

/// Returns the session cookie of a response with its attributes, lower case and sorted.
/// The cookie that identifies the browser must have the same attributes except for its
/// age.
fn attributes(answer: &TestResponse) -> (String, Vec<String>) {
    let cookies = answer.headers.get_all("set-cookie").iter();
    let cookies: Vec<&str> = cookies.map(|c| c.to_str().expect("a string")).collect();
    let cookie = cookies[0];
    if let Some(browser) = cookies.get(1) {
        let rest = |cookie: &str| {
            cookie
                .split(';')
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let without_age = |cookie: &str| {
            let mut rest = rest(cookie);
            rest.retain(|part| !part.contains("Max-Age"));
            rest
        };
        assert!(browser.contains("changelog_browser="), "{cookies:?}");
        assert!(browser.contains("; Max-Age=15552000"), "{cookies:?}");
        assert_eq!(without_age(browser), without_age(cookie));
        assert_eq!(
            browser.starts_with("__Host-"),
            cookie.starts_with("__Host-")
        );
    }
    assert!(cookies.len() <= 2, "{cookies:?}");
    let mut parts = cookie.split(';').map(str::trim);
    let pair = parts.next().expect("a pair").to_owned();
    let mut attributes: Vec<String> = parts.map(str::to_lowercase).collect();
    attributes.sort();
    (pair, attributes)
}

async fn signing_in_creates_a_session(app: TestApp) {
    let (anonymous, owner) = (app.anonymous(), &app.organization);
    let page = anonymous.get("/sign-in").await;
    page.is(200);
    assert!(page.header("content-type").starts_with("text/html"));
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.header(name), value, "{name}");
    }
    for name in ["referrer-policy", "cross-origin-opener-policy"] {
        assert_ne!(page.header(name), "", "{name}");
    }
    let answer = anonymous.try_sign_in(&owner.email, &owner.password).await;
    answer.is(303);
    assert_eq!(answer.header("location"), "/");
    assert!(
        answer.header("cache-control").contains("no-store"),
        "{:?}",
        answer.headers
    );
    let (pair, attributes) = attributes(&answer);
    let (name, value) = pair.split_once('=').expect("a name and a value");
    assert_eq!(name, "changelog_session");
    assert!(value.len() >= 43, "256 bits take 43 characters: {value}");
    for wanted in ["httponly", "path=/", "samesite=lax"] {
        assert!(
            attributes.iter().any(|word| word == wanted),
            "{wanted}: {attributes:?}"
        );
    }
    assert!(
        !attributes
            .iter()
            .any(|word| word == "secure" || word.starts_with("domain"))
    );
    let activity = anonymous
        .clone()
        .with("cookie", &pair)
        .get("/api/activity")
        .await;
    activity.body(200);
    assert!(activity.header("cache-control").contains("no-store"));
    // Each sign-in has a new session; the case of the address is ignored.
    let again = sign_in(&anonymous, &owner.email.to_uppercase(), &owner.password).await;
    assert_ne!(again, pair);
    for cookie in [&pair, &again] {
        assert_eq!(session_status(&anonymous, cookie).await, 200);
    }
    let mut cut = pair.clone();
    cut.pop();
    assert_eq!(session_status(&anonymous, &cut).await, 401);
}

async fn cookies_are_secure_over_https(mut app: TestApp) {
    app.restart_with(&["--public-url", "https://log.example.com"])
        .await;
    let owner = &app.organization;
    let answer = app
        .anonymous()
        .try_sign_in(&owner.email, &owner.password)
        .await;
    answer.is(303);
    let (pair, attributes) = attributes(&answer);
    assert!(
        pair.starts_with("__Host-changelog_session="),
        "{}",
        pair.len()
    );
    for wanted in ["httponly", "path=/", "samesite=lax", "secure"] {
        assert!(
            attributes.iter().any(|word| word == wanted),
            "{wanted}: {attributes:?}"
        );
    }
    assert_eq!(session_status(&app.anonymous(), &pair).await, 200);
    // A cookie without the prefix, which another host could set, is not accepted.
    let plain = pair.replace("__Host-", "");
    assert_eq!(session_status(&app.anonymous(), &plain).await, 401);
    // The origin is that of the public URL.
    for (origin, status) in [("https://log.example.com", 303), (&*app.url(), 403)] {
        let caller = app.anonymous().with("origin", origin);
        caller
            .try_sign_in(&owner.email, &owner.password)
            .await
            .is(status);
    }
}

async fn wrong_passwords_are_refused(app: TestApp) {
    let (anonymous, owner) = (app.anonymous(), &app.organization);
    for password in ["", "mistyped-4711", &owner.password.to_uppercase()] {
        let answer = anonymous.try_sign_in(&owner.email, password).await;
        answer.is(401);
        assert!(answer.header("content-type").starts_with("text/html"));
        assert!(answer.text.contains("<form"), "no form");
        assert_eq!(answer.header("set-cookie"), "");
        assert!(password.is_empty() || !answer.text.contains(password));
    }
    let answer = send(anonymous.request("POST", "/sign-in")).await;
    assert!(
        (400..500).contains(&answer.status),
        "without a form: {}",
        answer.status
    );
    let answer = anonymous.post("/sign-in", Value::Null).await;
    assert!(
        (400..500).contains(&answer.status),
        "with JSON: {}",
        answer.status
    );
    // The right password works after a few wrong ones.
    anonymous
        .try_sign_in(&owner.email, &owner.password)
        .await
        .is(303);
}

async fn known_and_unknown_accounts_get_the_same_response(app: TestApp) {
    let anonymous = app.anonymous();
    let (mut known, mut unknown) = (Duration::MAX, Duration::MAX);
    for attempt in 0..4 {
        let began = Instant::now();
        let first = anonymous
            .try_sign_in(&app.organization.email, "not the password")
            .await;
        known = known.min(began.elapsed());
        let began = Instant::now();
        let second = anonymous
            .try_sign_in("eve@example.com", "not the password")
            .await;
        unknown = unknown.min(began.elapsed());
        let same = |answer: &TestResponse| {
            let emails = [app.organization.email.as_str(), "eve@example.com"];
            emails.iter().fold(answer.text.clone(), |text, email| {
                text.replace(email, "EMAIL")
            })
        };
        assert_eq!(first.status, second.status, "attempt {attempt}");
        assert_eq!(same(&first), same(&second), "attempt {attempt}");
    }
    // Without the hash the time would be shorter; load of other tests only adds to it.
    let least = Duration::from_millis(10);
    assert!(
        known > least && unknown > least,
        "known {known:?}, unknown {unknown:?}"
    );
    let ratio = unknown.as_secs_f64() / known.as_secs_f64();
    assert!(
        (0.1..10.0).contains(&ratio),
        "known {known:?}, unknown {unknown:?}"
    );
}

async fn other_sites_cannot_sign_in_or_out(app: TestApp) {
    let owner = &app.organization;
    let own = app.url();
    let elsewhere = "http://evil.example.com";
    for (headers, passes) in [
        (&[][..], true),
        (&[("sec-fetch-site", "same-origin")], true),
        (&[("sec-fetch-site", "none")], true),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "cross-site")], false),
        (&[("sec-fetch-site", "nonsense")], false),
        (&[("origin", own.as_str())], true),
        (&[("origin", elsewhere)], false),
        (&[("origin", "null")], false),
        (&[("origin", "")], false),
        (&[("origin", "http://127.0.0.1")], false),
        // `Sec-Fetch-Site` takes precedence.
        (
            &[("sec-fetch-site", "same-origin"), ("origin", elsewhere)],
            true,
        ),
        (
            &[("sec-fetch-site", "cross-site"), ("origin", own.as_str())],
            false,
        ),
    ] {
        let caller = headers
            .iter()
            .fold(app.anonymous(), |caller, (name, value)| {
                caller.with(name, value)
            });
        let answer = caller.try_sign_in(&owner.email, &owner.password).await;
        assert_eq!(answer.status, if passes { 303 } else { 403 }, "{headers:?}");
        if !passes {
            assert_eq!(answer.header("set-cookie"), "", "{headers:?}");
        }
        let cookie = app.cookie_of(owner).await;
        let answer = caller
            .clone()
            .with("cookie", &cookie)
            .post_form("/sign-out", &[])
            .await;
        assert_eq!(
            answer.status,
            if passes { 303 } else { 403 },
            "sign-out, {headers:?}"
        );
        let left = if passes { 401 } else { 200 };
        assert_eq!(
            session_status(&app.anonymous(), &cookie).await,
            left,
            "{headers:?}"
        );
        // Reading is allowed.
        let cookie = app.cookie_of(owner).await;
        assert_eq!(session_status(&caller, &cookie).await, 200, "{headers:?}");
        // API keys are not affected: other sites do not have them.
        let key = headers
            .iter()
            .fold(app.key(), |caller, (name, value)| caller.with(name, value));
        key.change("from anywhere").await;
    }
    assert_eq!(
        send(app.anonymous().request("GET", "/sign-out"))
            .await
            .status,
        405
    );
}

async fn signing_out_ends_one_session(app: TestApp) {
    let (anonymous, owner) = (app.anonymous(), &app.organization);
    let first = sign_in(&anonymous, &owner.email, &owner.password).await;
    let second = sign_in(&anonymous, &owner.email, &owner.password).await;
    let answer = anonymous
        .clone()
        .with("cookie", &first)
        .post_form("/sign-out", &[])
        .await;
    answer.is(303);
    let (pair, attributes) = attributes(&answer);
    assert_eq!(pair, "changelog_session=", "the cookie is emptied");
    assert!(
        attributes.iter().any(|word| word == "max-age=0"),
        "{attributes:?}"
    );
    assert_eq!(session_status(&anonymous, &first).await, 401);
    assert_eq!(session_status(&anonymous, &second).await, 200);
    // Signing out again or without a session is not an error.
    anonymous
        .clone()
        .with("cookie", &first)
        .submit("/sign-out", &[])
        .await;
    anonymous.submit("/sign-out", &[]).await;
}

async fn a_new_password_ends_every_session(app: TestApp) {
    let (anonymous, owner) = (app.anonymous(), &app.organization);
    let second = app.second_organization();
    let theirs = sign_in(&anonymous, &second.email, &second.password).await;
    let mut cookies = Vec::new();
    for _ in 0..2 {
        cookies.push(sign_in(&anonymous, &owner.email, &owner.password).await);
    }
    let set_password = ["user", "set-password", "--email", &owner.email];
    let run = |file, input| {
        let arguments = [&set_password[..], &["--password-file", file]].concat();
        app.try_admin(&arguments, input)
    };
    let output = run("-", "a brand new secret\n");
    assert!(output.status.success(), "{output:?}");
    for cookie in &cookies {
        assert_eq!(session_status(&anonymous, cookie).await, 401);
    }
    assert_eq!(session_status(&anonymous, &theirs).await, 200);
    anonymous
        .try_sign_in(&owner.email, &owner.password)
        .await
        .is(401);
    anonymous
        .try_sign_in(&owner.email, "a brand new secret")
        .await
        .is(303);
    // From a file; passwords that are too short, too long or too common are refused.
    let file = app.folder().join("password");
    for (password, accepted) in [
        ("x7-aq9-kd2-p".to_owned(), true),
        ("x7-aq9-kd2-".to_owned(), false),
        (format!("x7-aq9-{}", "🚀".repeat(249)), true),
        (format!("x7-aq9-{}", "🚀".repeat(250)), false),
        ("password1234".to_owned(), false),
        (String::new(), false),
    ] {
        std::fs::write(&file, &password).expect("a file");
        let path = file.to_str().expect("a path");
        let output = run(path, "");
        assert_eq!(
            output.status.success(),
            accepted,
            "{} characters",
            password.chars().count()
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(password.is_empty() || !said.contains(&password), "{said}");
        if accepted {
            anonymous.try_sign_in(&owner.email, &password).await.is(303);
        }
    }
}

async fn guessing_is_throttled_temporarily(app: TestApp) {
    let (anonymous, owner) = (app.anonymous(), &app.organization);
    let second = app.second_organization();
    for attempt in 1..=5 {
        let answer = anonymous.try_sign_in(&owner.email, "wrong").await;
        assert_eq!(answer.status, 401, "attempt {attempt} is free");
    }
    let answer = anonymous.try_sign_in(&owner.email, "wrong").await;
    answer.is(429);
    let wait: u64 = answer.header("retry-after").parse().expect("whole seconds");
    assert!((1..=2).contains(&wait), "{wait}");
    // The right password and another spelling are throttled too; other accounts are not.
    anonymous
        .try_sign_in(&owner.email, &owner.password)
        .await
        .is(429);
    anonymous
        .try_sign_in(&owner.email.to_uppercase(), &owner.password)
        .await
        .is(429);
    anonymous
        .try_sign_in(&second.email, &second.password)
        .await
        .is(303);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = anonymous.try_sign_in(&owner.email, &owner.password).await;
        if answer.status == 303 {
            break;
        }
        answer.is(429);
        assert!(Instant::now() < deadline, "still locked");
        // Waits as long as the response says.
        let wait: u64 = answer.header("retry-after").parse().expect("whole seconds");
        tokio::time::sleep(Duration::from_secs(wait)).await;
    }
    // A successful sign-in resets the count.
    anonymous.try_sign_in(&owner.email, "wrong").await.is(401);
}

async fn sessions_survive_a_restart(mut app: TestApp) {
    let browser = app.browser().await;
    app.key().change("before").await;
    let entries = browser.body("/api/activity?resource=change").await;
    let cookie = app.cookie_of(&app.organization).await;
    app.restart().await;
    let browser = app.anonymous().with("cookie", &cookie);
    let after = browser.body("/api/activity?resource=change").await;
    assert_eq!(after, entries);
    assert_eq!(
        each(&after["items"], "resource_label")
            .into_iter()
            .map(text)
            .collect::<Vec<_>>(),
        ["before"]
    );
}

/// Signs in to twenty unknown accounts at once, up to `times` times; returns whether a
/// response was 429.
async fn is_throttled(caller: &TestClient, times: usize, address: Option<&str>) -> bool {
    let caller = address.iter().fold(caller.clone(), |caller, address| {
        caller.with("x-forwarded-for", address)
    });
    for time in 0..times {
        let tries = (0..20).map(|number| {
            let email = format!(
                "{time}-{number}-{}@example.com",
                address.unwrap_or("x").len()
            );
            let caller = &caller;
            async move { caller.try_sign_in(&email, "not the password").await }
        });
        let mut refused = false;
        for answer in futures_util::future::join_all(tries).await {
            if answer.status == 429 {
                assert_ne!(answer.header("retry-after"), "");
                refused = true;
            } else {
                answer.is(401);
            }
        }
        if refused {
            return true;
        }
    }
    false
}

/// The limit is in memory, so one database is enough.
async fn one_client_cannot_guess_many_accounts(mut app: TestApp) {
    let caller = app.anonymous();
    assert!(
        !is_throttled(&caller, 1, None).await,
        "a few attempts are throttled"
    );
    // The header of an untrusted client is ignored.
    assert!(is_throttled(&caller, 20, Some("192.0.2.1")).await);
    assert!(is_throttled(&caller, 1, Some("192.0.2.2")).await);
    // A trusted proxy sets the client address.
    app.restart_with(&["--trusted-proxy", "127.0.0.0/8"]).await;
    let caller = app.anonymous();
    assert!(is_throttled(&caller, 20, Some("192.0.2.1")).await);
    assert!(!is_throttled(&caller, 1, Some("192.0.2.2")).await);
    // Only the address that the proxy has added counts.
    assert!(is_throttled(&caller, 1, Some("198.51.100.7, 192.0.2.1")).await);
}

async fn concurrent_attempts_are_counted(app: TestApp) {
    let caller = app.anonymous();
    let email = app.organization.email.as_str();
    let attempts = (0..20).map(|index| {
        let caller = &caller;
        async move {
            let password = format!("wrong for the {index}th time");
            caller.try_sign_in(email, &password).await.status
        }
    });
    let statuses = futures_util::future::join_all(attempts).await;
    let tried = statuses.iter().filter(|status| **status == 401).count();
    // Five are free; more may pass after the wait of a second.
    assert!((5..=7).contains(&tried), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| matches!(status, 401 | 429)),
        "{statuses:?}"
    );
}
