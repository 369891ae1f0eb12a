//! Signing in and out in a browser, redirects, and misuse by other sites.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::{MENU, sign_in, try_sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, in_browser, on_one};

on_one!(a_planted_session_is_not_accepted);

in_browser!(
    a_person_signs_in_and_out,
    another_site_cannot_end_the_session,
    the_sign_in_leads_to_the_requested_page,
    throttled_sign_ins_show_the_wait,
);

async fn a_person_signs_in_and_out(app: TestApp, browser: Chromium) {
    let title = "<script>document.title = 'broken in'</script> & co";
    app.key().completed_change(title).await;

    browser.open(&app.url()).await;
    assert_eq!(browser.path().await, "/sign-in");
    try_sign_in(&browser, &app.organization.email, "not the password").await;
    browser.wait_for("#sign-in-error").await;
    assert!(
        browser
            .text()
            .await
            .contains("Incorrect email or password.")
    );
    assert_eq!(browser.value("#email").await, app.organization.email);
    assert_eq!(browser.value("#password").await, "");

    let (email, password) = (&app.organization.email, &app.organization.password);
    try_sign_in(&browser, email, password).await;
    browser.wait_for(MENU).await;
    assert_eq!(browser.address().await, "/");
    let page = browser.text().await;
    assert!(page.contains(&app.organization.name), "{page}");
    assert!(page.contains(title), "{page}");
    assert_eq!(
        browser.tab.title().await.expect("a title"),
        "Overview · Change log"
    );
    let seen = browser.script("return document.cookie").await;
    // The time zone only.
    assert_eq!(seen, "changelog_zone=UTC", "scripts do not see the session");

    browser.click("details.person summary").await;
    let menu = browser.text_of(MENU).await;
    assert!(menu.contains(&app.organization.owner_name), "{menu}");
    browser.click("form[action='/sign-out'] button").await;
    browser.wait_for("#password").await;
    assert_eq!(browser.path().await, "/sign-in");
    browser.open(&app.url()).await;
    assert_eq!(browser.path().await, "/sign-in", "the session has ended");
}

async fn another_site_cannot_end_the_session(app: TestApp, browser: Chromium) {
    sign_in(&browser, &app, &app.organization).await;

    // Another host name is another site; a form can be submitted without scripts.
    let action = app.at("/sign-out");
    let other = page(&format!(
        "<form method='post' action='{action}'><button>win</button></form>"
    ));
    browser.open(&other).await;
    browser.click("button").await;
    browser.wait_for("main h1").await;
    let page = browser.text().await;
    assert!(page.contains("cross_site"), "{page}");

    browser.open(&app.url()).await;
    assert_eq!(browser.path().await, "/", "the session was ended");
    assert!(browser.has(MENU).await);
}

async fn the_sign_in_leads_to_the_requested_page(app: TestApp, browser: Chromium) {
    let owner = &app.organization;
    let wanted = "/changes?risk_level=high&tag=a+b%26c";
    browser.open(&format!("{}{wanted}", app.url())).await;
    assert_eq!(browser.path().await, "/sign-in");
    // The page is kept after a wrong password.
    try_sign_in(&browser, &owner.email, "not the password").await;
    browser.wait_for("#sign-in-error").await;
    try_sign_in(&browser, &owner.email, &owner.password).await;
    browser.wait_for(MENU).await;
    assert_eq!(browser.address().await, wanted);

    // The link cannot redirect to another site.
    let caller = app.anonymous();
    let signed_in = app.browser().await;
    for next in [
        "https://evil.example.com/",
        "//evil.example.com/",
        "/\\evil.example.com/",
        "\\/evil.example.com/",
        "/\t/evil.example.com/",
        "/\r\nlocation: https://evil.example.com/",
        "javascript:alert(1)",
        "evil.example.com",
    ] {
        let fields = [
            ("email", owner.email.as_str()),
            ("password", owner.password.as_str()),
            ("next", next),
        ];
        let answer = caller.post_form("/sign-in", &fields).await;
        answer.is(303);
        assert_eq!(answer.header("location"), "/", "{next:?}");
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("next", next)
            .finish();
        let page = caller.page(&format!("/sign-in?{query}")).await;
        assert!(!page.contains("evil.example.com"), "{next:?}");
        let away = signed_in.get(&format!("/sign-in?{query}")).await;
        away.is(303);
        assert_eq!(away.header("location"), "/", "{next:?}");
    }
}

async fn a_planted_session_is_not_accepted(app: TestApp) {
    let owner = &app.organization;
    let of = |cookie: &str| app.anonymous().with("cookie", cookie);
    let planted = format!("changelog_session={}", "a".repeat(64));
    let answer = of(&planted)
        .try_sign_in(&owner.email, &owner.password)
        .await;
    answer.is(303);
    let cookie = answer.header("set-cookie").to_owned();
    let (own, _) = cookie.split_once(';').expect("a cookie");
    assert_ne!(own, planted);
    // The planted session is not signed in.
    of(&planted).get("/account").await.is(303);
    of(own).get("/account").await.is(200);
    // A sign-in does not reuse an existing session.
    let answer = of(own).try_sign_in(&owner.email, &owner.password).await;
    answer.is(303);
    let next = answer.cookie();
    assert_ne!(next, own);
    of(next).get("/account").await.is(200);
}

async fn throttled_sign_ins_show_the_wait(app: TestApp, browser: Chromium) {
    browser.open(&app.at("/sign-in")).await;
    let mut message = String::new();
    // Five attempts are free, and the first waits are shorter than a slow attempt.
    for _ in 0..20 {
        try_sign_in(&browser, &app.organization.email, "not the password").await;
        message = browser.text_of("#sign-in-error").await;
        if message.contains("Too many attempts. Try again in") {
            break;
        }
    }
    assert!(message.contains("Too many attempts"), "{message}");
    assert_eq!(browser.value("#email").await, app.organization.email);
}

/// Serves a page under another host name than the service, and returns its URL.
fn page(html: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{html}",
        html.len()
    );
    // A browser may send several requests.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://localhost:{port}/")
}
