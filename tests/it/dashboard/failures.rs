//! The first minute, and pages that cannot be shown.

use super::{between, join};
use changelog_tests::{Server, TestApp, TestClient, assert_contains, assert_lacks, on_one};

on_one!(
    an_empty_database_says_how_to_set_it_up,
    a_wrong_setup_link_says_so,
    failures_keep_the_navigation,
);

async fn empty_service(app: &TestApp) -> (Server, TestClient) {
    let database = app.empty_database().await;
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", database);
    let server = Server::start(command).await;
    let server = server.unwrap_or_else(|log| panic!("the server exited: {log}"));
    let client = TestClient::new(&server.address);
    (server, client)
}

async fn an_empty_database_says_how_to_set_it_up(app: TestApp) {
    let (_server, anonymous) = empty_service(&app).await;
    let first = anonymous.get("/").await;
    first.is(303);
    let page = anonymous.page(first.header("location")).await;
    assert_contains(&page, "open the setup link that");
    assert_lacks(&page, "<form");
    let page = app.anonymous().get("/sign-in").await.text;
    assert_contains(&page, "<form");
    assert_lacks(&page, "setup link");
}

async fn a_wrong_setup_link_says_so(app: TestApp) {
    let (_server, anonymous) = empty_service(&app).await;
    let page = anonymous.get("/setup?token=wrong").await;
    page.is(403);
    assert_contains(&page.text, "This setup link isn");
    let page = app.anonymous().get("/setup?token=wrong").await;
    page.is(403);
    assert_contains(&page.text, "Already set up");
}

async fn failures_keep_the_navigation(app: TestApp) {
    let owner = app.browser().await;
    let unknown = "/services/018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    for (path, status) in [("/changes/xyz", 400), ("/nowhere", 404), (unknown, 404)] {
        let page = owner.get(path).await;
        page.is(status);
        assert_contains(&page.text, "<h1>Page not found</h1>");
        let navigation = between(&page.text, "<nav aria-label=\"Main\">", "</nav>");
        assert_contains(&navigation, "href=\"/changes\"");
    }
    let viewer = join(&app, &owner, "viewer", "viewer").await;
    let page = viewer.browser.get("/changes/new").await;
    page.is(403);
    assert_contains(&page.text, "You don&#39;t have permission");
    assert_contains(&page.text, "viewers have read-only access");
    // A person who is invited has no pages yet.
    let page = app.anonymous().get("/invitations/none").await;
    page.is(404);
    assert_contains(&page.text, "no longer valid");
    assert_lacks(&page.text, "<nav");
}
