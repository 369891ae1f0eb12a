//! Posts from pages of other sites are refused.

use super::{Resources, entries, post_with, routes};
use changelog_tests::{TestApp, on_one};

on_one!(cross_site_posts_are_refused, same_origin_posts_are_accepted,);

async fn cross_site_posts_are_refused(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    let before = entries(&owner).await;
    let mut tried = 0;
    for route in routes::all().iter().filter(|route| route.is_posted) {
        let path = route.of(&resources);
        for header in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example.com"),
            ("origin", "null"),
        ] {
            let answer = post_with(&owner, &path, &route.fields(), header).await;
            assert_eq!(answer.status, 403, "{path} {header:?}: {}", answer.text);
            assert!(
                answer.text.contains("cross_site"),
                "{path}: {}",
                answer.text
            );
            assert!(
                answer.header("content-type").starts_with("text/html"),
                "{path}"
            );
            assert_eq!(answer.header("set-cookie"), "", "{path}");
        }
        tried += 1;
    }
    assert!(tried >= 20, "only {tried} were tried");
    owner.get("/account").await.is(200);
    assert_eq!(entries(&owner).await, before, "something was recorded");
    app.key().get("/api/changes").await.is(200);
}

async fn same_origin_posts_are_accepted(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let own = app.url();
    let mut owner = app.browser().await;
    for header in [("sec-fetch-site", "same-origin"), ("origin", own.as_str())] {
        for route in routes::all().iter().filter(|route| route.is_posted) {
            // Some forms end the session; a sign-in for each form would exceed the limit.
            if owner.get("/account").await.status != 200 {
                owner = app.browser().await;
            }
            let path = route.of(&resources);
            let answer = post_with(&owner, &path, &route.fields(), header).await;
            assert!(
                !answer.text.contains("cross_site"),
                "{path}: {}",
                answer.text
            );
            assert!(answer.status < 500, "{path}: {}", answer.text);
        }
    }
}
