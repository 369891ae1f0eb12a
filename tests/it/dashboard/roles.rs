//! What each role may see and do, and that pages are separate per organization.

use std::time::Duration;

use super::{Resources, between, entries, join, routes};
use changelog_tests::{RawConnection, TestApp, assert_contains, assert_lacks, on_one};

on_one!(
    viewers_cannot_write,
    a_role_counts_when_a_form_is_complete,
    members_cannot_manage_keys_or_members,
    records_of_another_organization_are_not_found,
    anonymous_requests_are_redirected_to_the_sign_in,
    private_pages_are_not_cached,
    the_free_plan_has_every_page,
);

/// Forms that need no role.
const WITHOUT_ROLE: [&str; 16] = [
    "/account",
    "/account/password",
    "/account/end-other-sessions",
    "/organization",
    "/sign-in",
    "/sign-out",
    "/setup",
    "/invitations/{id}",
    "/account/feed",
    "/account/feed/revoke",
    // Views of one's own.
    "/views",
    "/views/{id}",
    "/views/{id}/delete",
    // Notifications of one's own, and the end of subscriptions.
    "/services/{id}/subscription/stop",
    "/notifications/read",
    "/notifications/{id}/read",
];

/// A person whose role is taken away while a form of theirs arrives may no longer save it.
async fn a_role_counts_when_a_form_is_complete(app: TestApp) {
    let owner = app.browser().await;
    let admin = join(&app, &owner, "admin", "admin").await;
    let form = "name=Kept+open&scopes=read";
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut connection = RawConnection::connect(&app.server.address).await;
        let start = format!(
            "POST /settings/api-keys HTTP/1.1\r\nhost: x\r\ncookie: {}\r\ncontent-length: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\n\r\n",
            admin.cookie,
            form.len()
        );
        connection.send(format!("{start}{}", &form[..3])).await;
        held.push(connection);
    }
    // The start of both was read.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let role = format!("/settings/members/{}/role", admin.id);
    for (mut connection, (path, fields, status)) in held.into_iter().zip([
        (role, &[("role", "viewer")][..], 403),
        (format!("/settings/members/{}/remove", admin.id), &[], 303),
    ]) {
        owner.post_form(&path, fields).await.is(303);
        connection.send(&form[3..]).await;
        let answer = connection
            .receive_until("\r\n\r\n", Duration::from_secs(10))
            .await;
        assert_eq!(answer.status(), Some(status), "{answer:?}");
    }
    assert_lacks(&owner.page("/settings/api-keys").await, "Kept open");
}

async fn viewers_cannot_write(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    let viewer = join(&app, &owner, "viewer", "viewer").await.browser;
    let before = entries(&owner).await;
    let mut refused = 0;
    for route in routes::all() {
        let path = route.of(&resources);
        if route.is_posted && !WITHOUT_ROLE.contains(&route.path.as_str()) {
            let answer = viewer.post_form(&path, &route.fields()).await;
            assert_eq!(answer.status, 403, "POST {path}: {}", answer.text);
            assert!(
                answer.text.contains("viewers have read-only access"),
                "{path}: {}",
                answer.text
            );
            refused += 1;
        }
        if !route.is_read || route.path.starts_with("/assets/") {
            continue;
        }
        let page = viewer.get(&path).await;
        match route.path.as_str() {
            "/setup" => page.is(403),
            path if path.ends_with("/new") || path.ends_with("/edit") => page.is(403),
            "/settings/sources/{id}/events/{id}" => page.is(403),
            "/sign-in" | "/settings" => page.is(303),
            "/invitations/{id}" | "/account" | "/changes.csv" | "/changes.ndjson"
            | "/activity.csv" | "/activity.ndjson" => page.is(200),
            _ => {
                page.is(200);
                let main = between(&page.text, "<main", "</main>");
                for offered in [
                    "method=\"post\"",
                    "href=\"/changes/new\"",
                    "/edit\"",
                    "data-new",
                    "href=\"#edit\"",
                    "class=\"danger\"",
                ] {
                    assert!(!main.contains(offered), "{path} offers {offered}: {main}");
                }
            }
        }
    }
    assert!(refused >= 14, "only {refused} were tried");
    assert_eq!(entries(&owner).await, before, "something was recorded");
}

async fn members_cannot_manage_keys_or_members(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    let member = join(&app, &owner, "member", "member").await.browser;
    let before = entries(&owner).await;
    for route in routes::all() {
        let path = route.of(&resources);
        if !route.path.starts_with("/settings/") {
            continue;
        }
        if route.is_posted {
            let answer = member.post_form(&path, &route.fields()).await;
            assert_eq!(answer.status, 403, "POST {path}: {}", answer.text);
        }
        if route.is_read {
            let page = member.get(&path).await;
            let is_form = ["/new", "/edit"]
                .iter()
                .any(|end| route.path.ends_with(end));
            if is_form || route.path.contains("/events/") {
                page.is(403);
                continue;
            }
            page.is(200);
            let main = between(&page.text, "<main", "</main>");
            assert!(!main.contains("<form"), "{path}: {main}");
            assert!(!main.contains("guest-of-"), "{path} tells of invitations");
            assert!(!main.contains("hooks.invalid"), "{path} has an address");
        }
    }
    assert_eq!(entries(&owner).await, before, "something was recorded");
    // Members can create, edit and delete changes.
    let answer = member
        .post_form("/changes", &[("title", "By a member")])
        .await;
    answer.is(303);
    let path = answer.header("location").to_owned();
    member.get(&format!("{path}/edit")).await.is(200);
    member.submit(&path, &[("status", "rolled_back")]).await;
    member.submit(&format!("{path}/delete"), &[]).await;
}

async fn records_of_another_organization_are_not_found(app: TestApp) {
    let second = app.second_organization();
    let theirs = Resources::of(&app, &second).await;
    let mine = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    let grace = app.browser_of(&second).await;
    let before = entries(&grace).await;
    let mut tried = 0;
    for route in routes::all().iter().filter(|route| route.has_resource_id()) {
        let path = route.of(&theirs);
        let nowhere = route
            .path
            .replace("{id}", &uuid::Uuid::now_v7().to_string());
        if route.is_read {
            owner.get(&path).await.is(404);
            owner.get(&nowhere).await.is(404);
            owner.get(&route.of(&mine)).await.is(200);
            owner
                .get(&route.path.replace("{id}", "nonsense"))
                .await
                .is(400);
            tried += 1;
        }
        if route.is_posted {
            owner.post_form(&path, &route.fields()).await.is(404);
            owner.post_form(&nowhere, &route.fields()).await.is(404);
            tried += 1;
        }
    }
    assert!(tried >= 12, "only {tried} were tried");
    assert_eq!(entries(&grace).await, before, "something was recorded");
    // Lists, filters and forms do not show it either.
    for page in [
        "/",
        "/changes",
        "/services",
        "/hosts",
        "/activity",
        "/changes/new",
        "/settings/members",
        "/settings/api-keys",
        "/settings/workloads",
        "/settings/integrations",
        "/changes.csv",
        "/changes.ndjson",
    ] {
        let answer = owner.page(page).await;
        assert!(!answer.contains("Umbrella"), "{page}: {answer}");
    }
    let list = owner
        .page(&format!("/changes?service_id={}", theirs.service))
        .await;
    assert!(list.contains("0 changes") && !list.contains("Umbrella"));
    let list = owner.get("/changes?service=payments+of+Umbrella").await;
    assert_contains(
        &list.text,
        "No service named &#34;payments of Umbrella&#34;",
    );
    for (field, id) in [("service_id", &theirs.service), ("host_id", &theirs.host)] {
        let fields = [("title", "Of two"), (field, id.as_str())];
        let answer = owner.post_form("/changes", &fields).await;
        answer.is(422);
        assert_contains(&answer.text, format!("id=\"{field}-error-1\""));
    }
}

async fn anonymous_requests_are_redirected_to_the_sign_in(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let anonymous = app.anonymous();
    let before = entries(&app.browser().await).await;
    for route in routes::all() {
        let path = route.of(&resources);
        let is_open = [
            "/sign-in",
            "/setup",
            "/invitations/{id}",
            "/assets/{id}",
            "/settings",
        ];
        if is_open.contains(&route.path.as_str()) || route.path == "/sign-out" {
            continue;
        }
        if route.is_read {
            // An API key is not accepted.
            for client in [&anonymous, &app.key()] {
                let answer = client.get(&path).await;
                answer.is(303);
                let location = answer.header("location");
                assert!(location.starts_with("/sign-in"), "{path}: {location}");
            }
        }
        if route.is_posted {
            let answer = anonymous.post_form(&path, &route.fields()).await;
            answer.is(303);
            assert_eq!(answer.header("location"), "/sign-in", "{path}");
        }
        if route.is_posted {
            let answer = app.key().post_form(&path, &route.fields()).await;
            assert_eq!(answer.header("location"), "/sign-in", "{path}");
        }
    }
    assert_eq!(
        // Reading the entries needs a sign-in, which is one entry.
        entries(&app.browser().await).await.len(),
        before.len() + 1
    );
}

async fn the_free_plan_has_every_page(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    let read: Vec<_> = routes::all();
    let read: Vec<_> = read.iter().filter(|route| route.is_read).collect();
    let mut before = Vec::new();
    for route in &read {
        before.push(owner.get(&route.of(&resources)).await.status);
    }
    app.admin(&["org", "set-plan", &app.organization.id, "free"]);
    for (route, status) in read.iter().zip(before) {
        let answer = owner.get(&route.of(&resources)).await;
        assert_eq!(answer.status, status, "{}", route.path);
    }
}

async fn private_pages_are_not_cached(app: TestApp) {
    let resources = Resources::of(&app, &app.organization).await;
    let owner = app.browser().await;
    for route in routes::all().iter().filter(|route| route.is_read) {
        if route.path.starts_with("/assets/") {
            continue;
        }
        let path = route.of(&resources);
        let answer = owner.get(&path).await;
        let kept = answer.header("cache-control");
        assert!(kept.contains("no-store"), "{path}: {:?}", answer.headers);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{path} {name}");
        }
        assert_ne!(answer.header("referrer-policy"), "", "{path}");
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
    }
    // Assets are cached.
    let page = owner.get("/").await.text;
    let style = between(&page, "rel=\"stylesheet\" href=\"", "\"");
    let answer = app.anonymous().get(style).await;
    answer.is(200);
    assert!(answer.header("cache-control").contains("immutable"));
    app.anonymous()
        .get("/assets/style-000000000000.css")
        .await
        .is(404);
}
