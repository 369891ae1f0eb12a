//! Throttling of password guesses, without locking out the owner of an account.

use std::collections::BTreeMap;

use changelog_tests::database::{Db, fetch};
use changelog_tests::{TestApp, TestClient, TestResponse, on_both};

on_both!(
    invalid_addresses_are_refused_and_not_counted,
    guesses_do_not_lock_out_the_owner_of_an_account,
    a_browser_is_known_for_its_own_account_only,
    an_own_account_of_an_address_gives_no_more_guesses_at_another,
    unchecked_attempts_are_not_counted,
    guesses_in_a_session_are_throttled,
    a_sign_in_ends_the_previous_session;
    process:
    hsts_is_sent_and_invitation_links_are_not_logged,
);

/// The cookies that an answer sets, by name.
fn cookies(answer: &TestResponse) -> BTreeMap<String, String> {
    let all = answer.headers.get_all("set-cookie").iter();
    all.map(|cookie| {
        let cookie = cookie.to_str().expect("a string");
        let (pair, _) = cookie.split_once(';').expect("attributes");
        let (name, value) = pair.split_once('=').expect("a pair");
        (name.to_owned(), value.to_owned())
    })
    .collect()
}

/// Returns a client with this address behind a trusted proxy.
fn client_at(app: &TestApp, address: &str) -> TestClient {
    app.anonymous().with("x-forwarded-for", address)
}

async fn trust_local_proxy(app: &mut TestApp) {
    let arguments = ["--trusted-proxy", "127.0.0.0/8"];
    app.restart_with(&arguments).await;
}

async fn invalid_addresses_are_refused_and_not_counted(mut app: TestApp) {
    const ROWS: &str = "SELECT bucket, failures FROM sign_in_failures";
    trust_local_proxy(&mut app).await;
    let caller = client_at(&app, "192.0.2.1");
    let long = |length: usize| format!("{}@example.com", "x".repeat(length - 12));
    // Addresses that compress well, and one that does not.
    let random: String = (0..8_000)
        .map(|_| uuid::Uuid::new_v4().simple().to_string())
        .collect();
    for email in [
        long(250_000),
        format!("{random}@example.com"),
        long(255),
        "nobody".to_owned(),
        String::new(),
    ] {
        // More often than the limit.
        for _ in 0..7 {
            caller.try_sign_in(&email, "not the password").await.is(401);
        }
    }
    let mut db = Db::open(app.engine, &app.database).await;
    let rows: Vec<(Vec<u8>, i64)> = fetch!(&mut db, sqlx::query_as(ROWS));
    assert_eq!(rows, []);
    // The longest valid address is counted, in rows of a fixed size.
    for _ in 0..5 {
        caller.try_sign_in(&long(254), "wrong").await.is(401);
    }
    caller.try_sign_in(&long(254), "wrong").await.is(429);
    let rows: Vec<(Vec<u8>, i64)> = fetch!(&mut db, sqlx::query_as(ROWS));
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|(key, failures)| key.len() == 32 && *failures == 5)
    );
    db.close().await;
}

async fn guesses_do_not_lock_out_the_owner_of_an_account(mut app: TestApp) {
    trust_local_proxy(&mut app).await;
    // So that no wait passes, however slow the machine is.
    app.clock.stop();
    let owner = app.organization.clone();
    let (email, password) = (owner.email.as_str(), owner.password.as_str());
    let home = client_at(&app, "192.0.2.1");
    let first = home.try_sign_in(email, password).await;
    first.is(303);
    let browser = cookies(&first)["changelog_browser"].clone();
    let known = |address: &str, token: &str| {
        client_at(&app, address).with("cookie", &format!("changelog_browser={token}"))
    };
    // A client that guesses is throttled alone; an IPv6 network is one client.
    for number in 0..5 {
        let stranger = client_at(&app, &format!("2001:db8::{number}"));
        stranger.try_sign_in(email, "wrong").await.is(401);
    }
    let stranger = client_at(&app, "2001:db8::ffff");
    stranger.try_sign_in(email, "wrong").await.is(429);
    home.try_sign_in(email, password).await.is(303);
    // Many clients together reach the limit of the account.
    let mut tried = 5;
    let mut waits = false;
    for network in 1..60 {
        let caller = client_at(&app, &format!("198.51.100.{network}"));
        let guesses = (0..5).map(|_| caller.try_sign_in(email, "wrong"));
        for answer in futures_util::future::join_all(guesses).await {
            match answer.status {
                401 => tried += 1,
                429 => waits = true,
                other => panic!("{other}: {}", answer.text),
            }
        }
        if waits {
            break;
        }
    }
    assert_eq!(tried, 128);
    client_at(&app, "203.0.113.9")
        .try_sign_in(email, password)
        .await
        .is(429);
    // A browser that has signed in before is not affected, from any address.
    let answer = known("203.0.113.9", &browser)
        .try_sign_in(email, password)
        .await;
    answer.is(303);
    let renewed = cookies(&answer)["changelog_browser"].clone();
    assert_ne!(renewed, browser);
    // The token is valid once, and guesses with it are counted.
    known("203.0.113.9", &browser)
        .try_sign_in(email, password)
        .await
        .is(429);
    let known = known("203.0.113.9", &renewed);
    for _ in 0..5 {
        known.try_sign_in(email, "wrong").await.is(401);
    }
    known.try_sign_in(email, password).await.is(429);
}

async fn a_browser_is_known_for_its_own_account_only(mut app: TestApp) {
    trust_local_proxy(&mut app).await;
    let second = app.second_organization();
    let owner = app.organization.clone();
    let caller = client_at(&app, "192.0.2.1");
    let answer = caller.try_sign_in(&second.email, &second.password).await;
    let token = cookies(&answer)["changelog_browser"].clone();
    let caller = caller.with("cookie", &format!("changelog_browser={token}"));
    for _ in 0..5 {
        caller.try_sign_in(&owner.email, "wrong").await.is(401);
    }
    caller.try_sign_in(&owner.email, "wrong").await.is(429);
    caller
        .try_sign_in(&second.email, &second.password)
        .await
        .is(303);
}

async fn an_own_account_of_an_address_gives_no_more_guesses_at_another(mut app: TestApp) {
    trust_local_proxy(&mut app).await;
    app.clock.stop();
    let email = app.organization.email.clone();
    let grace = app.browser_of(&app.second_organization()).await;
    let link = super::invite(&grace, &email, "member").await;
    let own_password = "a pear and 4711 plums";
    let fields = [("name", "Another one"), ("password", own_password)];
    app.anonymous().post_form(&link, &fields).await.is(303);
    let caller = client_at(&app, "192.0.2.1");
    for _ in 0..4 {
        caller.try_sign_in(&email, "wrong").await.is(401);
    }
    caller.try_sign_in(&email, own_password).await.is(303);
    caller.try_sign_in(&email, "wrong").await.is(401);
    caller.try_sign_in(&email, "wrong").await.is(429);
}

async fn unchecked_attempts_are_not_counted(mut app: TestApp) {
    trust_local_proxy(&mut app).await;
    let owner = app.organization.clone();
    // One client, as the requests must arrive faster than passwords are checked.
    let client = app.anonymous();
    let flood: Vec<_> = (0..250)
        .map(|number| {
            let address = format!("198.51.100.{number}");
            let caller = client.clone().with("x-forwarded-for", &address);
            let email = format!("nobody-{number}@example.com");
            tokio::spawn(async move { caller.try_sign_in(&email, "wrong").await.status })
        })
        .collect();
    let home = client_at(&app, "192.0.2.1");
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(home.try_sign_in(&owner.email, &owner.password).await.status);
    }
    let mut busy = 0;
    for status in flood {
        busy += usize::from(status.await.expect("a response") == 503);
    }
    assert!(busy > 0, "no request was refused");
    // Busy or successful, never a wrong password.
    assert!(
        statuses.iter().all(|status| matches!(status, 303 | 503)),
        "{statuses:?}"
    );
    home.try_sign_in(&owner.email, &owner.password)
        .await
        .is(303);
}

async fn guesses_in_a_session_are_throttled(mut app: TestApp) {
    trust_local_proxy(&mut app).await;
    let owner = app.organization.clone();
    let answer = client_at(&app, "192.0.2.1")
        .try_sign_in(&owner.email, &owner.password)
        .await;
    let session = format!(
        "changelog_session={}",
        cookies(&answer)["changelog_session"]
    );
    let guess = async |number: usize, password: &str| {
        let thief = client_at(&app, &format!("198.51.100.{number}")).with("cookie", &session);
        let fields = [
            ("current_password", password),
            ("password", "a pear and 4711 plums"),
        ];
        thief.post_form("/account/password", &fields).await.status
    };
    for number in 0..5 {
        assert_eq!(guess(number, "wrong").await, 422);
    }
    assert_eq!(guess(6, &owner.password).await, 429);
    // The owner of the account can still sign in.
    let home = client_at(&app, "192.0.2.1");
    home.try_sign_in(&owner.email, &owner.password)
        .await
        .is(303);
}

async fn a_sign_in_ends_the_previous_session(app: TestApp) {
    let owner = &app.organization;
    let first = app
        .anonymous()
        .try_sign_in(&owner.email, &owner.password)
        .await;
    let of = |answer: &TestResponse| {
        let token = &cookies(answer)["changelog_session"];
        let cookie = format!("changelog_session={token}");
        app.anonymous().with("cookie", &cookie)
    };
    let browser = of(&first);
    browser.get("/account").await.is(200);
    let second = browser.try_sign_in(&owner.email, &owner.password).await;
    of(&second).get("/account").await.is(200);
    browser.get("/account").await.is(303);
}

async fn hsts_is_sent_and_invitation_links_are_not_logged(mut app: TestApp) {
    let plain = app.anonymous().get("/sign-in").await;
    assert_eq!(plain.header("strict-transport-security"), "");
    let owner = app.browser().await;
    let link = crate::dashboard::invite(&owner, "new@example.org", "owner").await;
    app.restart_with(&["--public-url", "https://log.example.com"])
        .await;
    for path in ["/sign-in", "/api/health", "/nothing"] {
        let answer = app.anonymous().get(path).await;
        assert_eq!(
            answer.header("strict-transport-security"),
            "max-age=31536000",
            "{path}"
        );
    }
    let fields = [("name", "New"), ("password", "short")];
    app.anonymous().post_form(&link, &fields).await.is(422);
    let answer = app
        .anonymous()
        .try_sign_in(&app.organization.email, "wrong")
        .await;
    answer.is(401);
    app.server.kill9();
    let log = app.server.log();
    assert!(log.contains("/invitations/:token"), "{log}");
    let (_, token) = link.rsplit_once('/').expect("a token");
    assert!(!log.contains(token), "{log}");
}
