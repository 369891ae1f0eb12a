//! What a person does in a real browser.

use std::io::{Read, Write};
use std::net::TcpListener;

use fantoccini::Locator;

use crate::world::chromium::Chromium;
use crate::world::{World, on_both};

on_both!(
    a_person_signs_in_looks_and_signs_out,
    another_site_can_do_nothing
);

/// What only a person who is signed in sees.
const SIGN_OUT: &str = "form[action='/sign-out'] button";

pub(crate) async fn sign_in(browser: &Chromium, world: &World, password: &str) {
    let tab = &browser.tab;
    tab.goto(&world.url()).await.expect("the address");
    assert_eq!(browser.path().await, "/sign-in");
    let form = tab.form(Locator::Css("form")).await.expect("the form");
    form.set_by_name("email", &world.organization.email)
        .await
        .expect("the address");
    form.set_by_name("password", password)
        .await
        .expect("the password");
    form.submit().await.expect("the button");
}

async fn a_person_signs_in_looks_and_signs_out(world: World) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    let title = "<script>document.title = 'broken in'</script> & co";
    world.key().change(title).await;

    sign_in(&browser, &world, "not the password").await;
    browser.arrives_at("#sign-in-error").await;
    assert!(
        browser
            .text()
            .await
            .contains("The address or the password is wrong.")
    );
    let email = browser
        .tab
        .find(Locator::Css("#email"))
        .await
        .expect("the form again");
    let kept = email.prop("value").await.expect("a value");
    assert_eq!(kept.as_deref(), Some(world.organization.email.as_str()));

    sign_in(&browser, &world, &world.organization.password).await;
    browser.arrives_at(SIGN_OUT).await;
    assert_eq!(browser.path().await, "/");
    let page = browser.text().await;
    assert!(page.contains(&world.organization.owner_name), "{page}");
    assert!(page.contains(title), "{page}");
    assert_eq!(
        browser.tab.title().await.expect("a title"),
        format!("{} · Change log", world.organization.name)
    );
    let seen = browser
        .tab
        .execute("return document.cookie", vec![])
        .await
        .expect("a script");
    assert_eq!(seen, "", "scripts do not see the session");

    let out = browser.tab.find(Locator::Css(SIGN_OUT)).await;
    out.expect("the way out").click().await.expect("a click");
    browser.arrives_at("#password").await;
    assert_eq!(browser.path().await, "/sign-in");
    browser.tab.goto(&world.url()).await.expect("the address");
    assert_eq!(browser.path().await, "/sign-in", "the session has ended");
}

async fn another_site_can_do_nothing(world: World) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    sign_in(&browser, &world, &world.organization.password).await;
    browser.arrives_at(SIGN_OUT).await;
    assert_eq!(browser.path().await, "/");

    // Another name is another site, and a form needs no script to be sent.
    let action = format!("{}/sign-out", world.url());
    let other = page(&format!(
        "<form method='post' action='{action}'><button>win</button></form>"
    ));
    browser.tab.goto(&other).await.expect("the other site");
    let button = browser
        .tab
        .find(Locator::Css("button"))
        .await
        .expect("the bait");
    button.click().await.expect("a click");
    browser.arrives_at("pre").await;
    assert!(
        browser.text().await.contains("cross_site"),
        "{}",
        browser.text().await
    );

    browser.tab.goto(&world.url()).await.expect("the address");
    assert_eq!(browser.path().await, "/", "the session goes on");
}

/// Serves one page under another name than the service's; returns its address.
fn page(html: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{html}",
        html.len()
    );
    // Ends with the process; a browser may ask more than once.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://localhost:{port}/")
}
