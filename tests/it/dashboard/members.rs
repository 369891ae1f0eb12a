//! Invitations, members, roles and the account page.
use super::{MENU, PASSWORD, Person, between, invite, join, sign_in, try_sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::{TestApp, TestClient, assert_contains, assert_lacks, in_browser, on_one};
use serde_json::Value;

on_one!(
    an_invitation_is_valid_once_and_expires,
    existing_accounts_join_with_their_password,
    admins_cannot_change_owners,
    the_last_owner_cannot_leave,
    removed_members_lose_access_at_once,
    invitations_end_with_the_right_to_invite,
);

in_browser!(
    an_invited_person_joins,
    the_account_page_changes_name_password_and_sessions,
    members_switch_between_organizations,
);

async fn an_invited_person_joins(app: TestApp, browser: Chromium) {
    let other = Chromium::start().await.expect("another browser");
    check_invitation(&app, &browser, &other).await;
    // The texts and the controls of a row have one middle.
    let script = "const middles = (row) => [...row.cells].filter((cell) => cell.innerText.trim())
        .map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            // Within a range, what is folded has a size.
            const folded = [...cell.querySelectorAll('details')];
            const boxes = (folded.length ? folded : [range])
                .map((one) => one.getBoundingClientRect());
            const top = Math.min(...boxes.map((box) => box.top));
            return (top + Math.max(...boxes.map((box) => box.bottom))) / 2;
        });
        return [...document.querySelectorAll('.people tbody tr')].map(middles)
            .map((all) => Math.round(Math.max(...all) - Math.min(...all)))";
    let apart = browser.script(script).await;
    let apart = apart.as_array().expect("rows");
    assert_eq!(apart.len(), 2);
    let is_close = |one: &Value| one.as_u64().is_some_and(|pixels| pixels <= 4);
    assert!(apart.iter().all(is_close), "{apart:?}");
}

/// Invites a person, who joins; also used without scripts.
pub(super) async fn check_invitation(app: &TestApp, browser: &Chromium, other: &Chromium) {
    let change = app.key().completed_change("Seen by all").await;
    sign_in(browser, app, &app.organization).await;
    let address = app.at("/settings/members");
    browser.open(&address).await;
    // An error is shown at its field, and the input is kept.
    let form = "main form[action$='/invite']";
    browser
        .fill(form, &[("email", "nonsense"), ("role", "viewer")])
        .await;
    browser.press("Invite").await;
    browser.wait_for("#email-error-1").await;
    assert_eq!(browser.value("#email").await, "nonsense");
    assert_eq!(browser.value("#role").await, "viewer");
    browser.fill(form, &[("email", "grace@example.com")]).await;
    browser.press("Invite").await;
    browser.wait_for("#invitation-link").await;
    let link = browser.text_of("#invitation-link").await;
    assert!(link.starts_with(&app.at("/invitations/")), "{link}");
    // The link is shown once.
    browser.open(&address).await;
    browser.wait_for_text("grace@example.com").await;
    assert!(!browser.has("#invitation-link").await);
    let (_, token) = link.rsplit_once('/').expect("a token");
    let source = browser.tab.source().await.expect("a page");
    assert!(!source.contains(token));

    other.open(&link).await;
    let page = other.text().await;
    for words in [
        "Acme",
        "grace@example.com",
        "viewer",
        &app.organization.owner_name,
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    other
        .fill("form", &[("name", "Grace"), ("password", "short")])
        .await;
    other.press("Join").await;
    other.wait_for("#password-error-1").await;
    assert_eq!(other.value("#name").await, "Grace");
    other.fill("form", &[("password", PASSWORD)]).await;
    other.press("Join").await;
    other.wait_for(MENU).await;
    assert_eq!(other.address().await, "/");
    other.wait_for_text("Seen by all").await;
    // A viewer can read only.
    assert!(!other.has("[data-new]").await);
    other.open(&app.at(&format!("/changes/{change}"))).await;
    other.wait_for("#history").await;
    assert!(!other.has("main form[method='post']").await);
    let text = other.text_of("main").await;
    assert!(!text.contains("Edit") && !text.contains("Delete"), "{text}");

    // The link is valid once, and both are members.
    let third = app.anonymous().get(&link[app.url().len()..]).await;
    third.is(404);
    browser.open(&address).await;
    let table = browser.text_of("section[aria-label='Members'] table").await;
    assert_contains(&table, "Grace");
    assert!(!browser.has("form[action$='/withdraw']").await);

    // The new member can sign in.
    other.open(&address).await;
    other.click("details.person summary").await;
    other.click("form[action='/sign-out'] button").await;
    other.wait_for("#password").await;
    try_sign_in(other, "grace@example.com", PASSWORD).await;
    other.wait_for(MENU).await;
}

async fn an_invitation_is_valid_once_and_expires(app: TestApp) {
    let owner = app.browser().await;
    let anonymous = app.anonymous();
    let fields = [("name", "Guest"), ("password", PASSWORD)];
    let refused = async |path: &str| {
        anonymous.get(path).await.is(404);
        let answer = anonymous.post_form(path, &fields).await;
        answer.is(404);
        assert_eq!(answer.header("set-cookie"), "");
    };
    refused(&format!("/invitations/{}", "0".repeat(64))).await;

    let expired = invite(&owner, "expired@example.org", "member").await;
    anonymous.get(&expired).await.is(200);
    app.execute("UPDATE invitations SET expires_at = 1").await;
    refused(&expired).await;

    let withdrawn = invite(&owner, "withdrawn@example.org", "member").await;
    anonymous.get(&withdrawn).await.is(200);
    let page = owner.get("/settings/members").await.text;
    let id = between(&page, "/settings/members/invitations/", "/").to_owned();
    let path = format!("/settings/members/invitations/{id}/withdraw");
    owner.submit(&path, &[]).await;
    refused(&withdrawn).await;
    owner.post_form(&path, &[]).await.is(404);

    // A new invitation replaces the previous one.
    let first = invite(&owner, "again@example.org", "viewer").await;
    let second = invite(&owner, "again@example.org", "member").await;
    refused(&first).await;
    let accept = || anonymous.post_form(&second, &fields);
    let all = futures_util::future::join_all((0..4).map(|_| accept())).await;
    let joined = all.iter().filter(|answer| answer.status == 303).count();
    assert_eq!(joined, 1, "one of those who came at once");
    for answer in &all {
        assert!(
            matches!(answer.status, 303 | 404 | 401),
            "{}",
            answer.status
        );
    }
    refused(&second).await;
    let page = owner.get("/settings/members").await.text;
    assert_eq!(page.matches("again@example.org").count(), 1, "{page}");
    // A member cannot be invited again.
    let fields = [("email", "AGAIN@example.org"), ("role", "viewer")];
    let answer = owner.post_form("/settings/members/invite", &fields).await;
    answer.is(409);
    assert!(answer.text.contains("id=\"email-error-1\""));
    // The link has the configured address, not the `Host` header.
    let fields = [("email", "host@example.org"), ("role", "viewer")];
    let header = ("host", "evil.example.com");
    let answer = super::post_with(&owner, "/settings/members/invite", &fields, header).await;
    assert_lacks(&answer.text, "evil.example.com");
}

async fn existing_accounts_join_with_their_password(app: TestApp) {
    let second = app.second_organization();
    let grace = app.browser_of(&second).await;
    let owner = &app.organization;
    let link = invite(&grace, &owner.email, "member").await;
    let anonymous = app.anonymous();
    let page = anonymous.get(&link).await;
    page.is(200);
    // The link alone does not give access to the account, see `accounts`.
    let answer = anonymous.post_form(&link, &[("password", PASSWORD)]).await;
    answer.is(401);
    assert_eq!(answer.header("set-cookie"), "");
    let fields = [("password", owner.password.as_str())];
    let answer = anonymous.post_form(&link, &fields).await;
    answer.is(303);
    let cookie = answer.cookie();
    let there = anonymous.clone().with("cookie", cookie);
    let page = there.get("/settings/organization").await;
    assert!(page.text.contains(&second.id), "not a member");
    let page = there.get("/settings/members").await.text;
    assert_contains(&page, &owner.owner_name);
}

async fn role_of(app: &TestApp, person: &str) -> String {
    let page = app.browser().await.get("/settings/members").await.text;
    let link = format!("/activity?actor_id={person}");
    let row = page.split("<tr>").find(|row| row.contains(&link));
    let cell = between(row.expect("a row"), "data-label=\"Role\">", "</td>");
    // Roles that the owner may not change are words.
    match cell.split_once("\" selected") {
        Some((before, _)) => before.rsplit_once('"').expect("a value").1.to_owned(),
        None => cell.trim().to_lowercase(),
    }
}

fn path(person: &str, what: &str) -> String {
    format!("/settings/members/{person}/{what}")
}

async fn admins_cannot_change_owners(app: TestApp) {
    let owner = app.browser().await;
    let admin = join(&app, &owner, "admin", "admin").await;
    let member = join(&app, &owner, "member", "member").await;
    let of_owner = &app.organization.owner_id;
    let demote = [("role", "viewer")];
    let promote = [("role", "owner")];
    let set = async |by: &TestClient, whom: &str, fields: &[(&str, &str)]| {
        by.post_form(&path(whom, "role"), fields).await.status
    };
    let by = &admin.browser;
    assert_eq!(set(by, of_owner, &demote).await, 403);
    assert_eq!(
        set(by, &admin.id, &promote).await,
        403,
        "an admin became an owner"
    );
    assert_eq!(set(by, &member.id, &promote).await, 403);
    by.post_form(&path(of_owner, "remove"), &[]).await.is(403);
    let invitation = [("email", "friend@example.org"), ("role", "owner")];
    let answer = by.post_form("/settings/members/invite", &invitation).await;
    answer.is(403);
    assert!(!answer.text.contains("invitation-link"));
    assert_eq!(role_of(&app, of_owner).await, "owner");
    assert_eq!(role_of(&app, &admin.id).await, "admin");
    assert_eq!(role_of(&app, &member.id).await, "member");
    // What an admin may do.
    assert_eq!(set(by, &member.id, &demote).await, 303);
    assert_eq!(role_of(&app, &member.id).await, "viewer");
    by.post_form("/settings/api-keys", &[("name", "of an admin")])
        .await
        .is(200);
    by.submit(&path(&member.id, "remove"), &[]).await;
    // An unknown role is refused.
    assert_eq!(set(&owner, &admin.id, &[("role", "king")]).await, 422);
    assert_eq!(set(&owner, &admin.id, &[]).await, 422);
    assert_eq!(role_of(&app, &admin.id).await, "admin");
}

async fn the_last_owner_cannot_leave(app: TestApp) {
    let owner = app.browser().await;
    let me = &app.organization.owner_id;
    for fields in [[("role", "admin")], [("role", "viewer")]] {
        let answer = owner.post_form(&path(me, "role"), &fields).await;
        answer.is(409);
        assert_contains(&answer.text, "at least one owner");
    }
    owner.post_form(&path(me, "remove"), &[]).await.is(409);
    assert_eq!(role_of(&app, me).await, "owner");
    // Of two owners one may leave, but not both, even concurrently.
    let other = join(&app, &owner, "second", "owner").await;
    let step_down = [("role", "member")];
    let both = futures_util::future::join(
        async { owner.post_form(&path(me, "role"), &step_down).await.status },
        async {
            let path = path(&other.id, "role");
            other.browser.post_form(&path, &step_down).await.status
        },
    );
    let (mine, theirs) = both.await;
    let mut statuses = [mine, theirs];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 409]);
}

async fn removed_members_lose_access_at_once(app: TestApp) {
    let owner = app.browser().await;
    let Person {
        id, browser, email, ..
    } = join(&app, &owner, "leaver", "admin").await;
    browser.get("/account").await.is(200);
    browser.get("/api/activity").await.is(200);
    owner.submit(&path(&id, "remove"), &[]).await;
    let gone = browser.get("/account").await;
    gone.is(303);
    assert!(gone.header("location").starts_with("/sign-in"));
    browser.get("/api/activity").await.is(401);
    let answer = browser
        .post_form("/changes", &[("title", "Too late")])
        .await;
    answer.is(303);
    assert!(answer.header("location").starts_with("/sign-in"));
    app.anonymous().try_sign_in(&email, PASSWORD).await.is(401);
    let all = app.key().body("/api/changes").await;
    assert_eq!(all["count"], 0);
    owner.post_form(&path(&id, "remove"), &[]).await.is(404);
}

/// Who may no longer grant a role cannot grant it by an invitation that is still open.
async fn invitations_end_with_the_right_to_invite(app: TestApp) {
    let owner = app.browser().await;
    let other = join(&app, &owner, "other", "owner").await;
    let to_own = invite(&other.browser, "new-owner@example.org", "owner").await;
    let to_read = invite(&other.browser, "reader@example.org", "viewer").await;
    let by_owner = invite(&owner, "admin@example.org", "admin").await;
    owner
        .submit(&path(&other.id, "role"), &[("role", "admin")])
        .await;
    for (link, status) in [(&to_own, 404), (&to_read, 200), (&by_owner, 200)] {
        app.anonymous().get(link).await.is(status);
    }
    owner.submit(&path(&other.id, "remove"), &[]).await;
    for (link, status) in [(&to_read, 404), (&by_owner, 200)] {
        app.anonymous().get(link).await.is(status);
    }
    let log = owner.body("/api/activity?resource=member").await;
    let withdrawn = log["items"].as_array().expect("entries").iter();
    let withdrawn = withdrawn.filter(|one| one["metadata"]["invitation"] == "withdrawn");
    assert_eq!(withdrawn.count(), 2, "{log}");
}

async fn the_account_page_changes_name_password_and_sessions(app: TestApp, browser: Chromium) {
    let elsewhere = app.browser().await;
    sign_in(&browser, &app, &app.organization).await;
    let before = browser.cookie().await;
    browser.open(&app.at("/account")).await;
    browser
        .fill("form[action='/account']", &[("name", "Ada L.")])
        .await;
    browser.press("Save").await;
    browser.wait_for("[role='status']").await;
    assert_eq!(browser.value("#name").await, "Ada L.");
    let form = "form[action='/account/password']";
    let fields = [
        ("current_password", "not mine at all"),
        ("password", PASSWORD),
    ];
    browser.fill(form, &fields).await;
    browser.press("Change password").await;
    browser.wait_for("#current_password-error-1").await;
    elsewhere.get("/account").await.is(200);
    let current = app.organization.password.as_str();
    for refused in ["short", "password1234"] {
        browser
            .fill(
                form,
                &[("current_password", current), ("password", refused)],
            )
            .await;
        browser.press("Change password").await;
        browser.wait_for("#password-error-1").await;
    }
    browser
        .fill(
            form,
            &[("current_password", current), ("password", PASSWORD)],
        )
        .await;
    browser.press("Change password").await;
    browser.wait_for("[role='status']").await;
    assert_ne!(browser.cookie().await, before, "a new id");
    let old = app.anonymous().with("cookie", &before);
    for ended in [&elsewhere, &old] {
        ended.get("/api/activity").await.is(401);
    }
    let email = &app.organization.email;
    app.anonymous().try_sign_in(email, current).await.is(401);
    let answer = app.anonymous().try_sign_in(email, PASSWORD).await;
    answer.is(303);
    let cookie = answer.cookie();
    let elsewhere = app.anonymous().with("cookie", cookie);
    // All other sessions are ended.
    browser.open(&app.at("/account")).await;
    assert_eq!(browser.all("#sessions ~ .scroll tbody tr").await.len(), 2);
    browser.press("Sign out other sessions").await;
    browser.wait_for("[role='status']").await;
    assert_eq!(browser.all("#sessions ~ .scroll tbody tr").await.len(), 1);
    elsewhere.get("/api/activity").await.is(401);
}

async fn members_switch_between_organizations(app: TestApp, browser: Chromium) {
    let second = app.second_organization();
    let there = app.with_key(&second.key);
    there.completed_change("Of Umbrella").await;
    app.key().completed_change("Of Acme").await;
    let grace = app.browser_of(&second).await;
    let link = invite(&grace, &app.organization.email, "viewer").await;
    let fields = [("password", app.organization.password.as_str())];
    app.anonymous().submit(&link, &fields).await;

    sign_in(&browser, &app, &app.organization).await;
    let start = browser.text_of("main").await;
    let (here, elsewhere, to) = if start.contains("Of Acme") {
        ("Of Acme", "Of Umbrella", "Umbrella")
    } else {
        ("Of Umbrella", "Of Acme", "Acme")
    };
    assert_contains(&start, here);
    assert_lacks(&start, elsewhere);
    browser.click("details.person summary").await;
    let button = "form[action='/organization'] button";
    let name = browser.text_of(button).await;
    assert_contains(&name, to);
    browser.click(button).await;
    browser.wait_for_text(elsewhere).await;
    let page = browser.text_of("main").await;
    assert_lacks(&page, here);
    // The role is that of the other organization.
    let owner = app.anonymous().with("cookie", &browser.cookie().await);
    let status = owner
        .post_form("/changes", &[("title", "By a viewer?")])
        .await
        .status;
    assert_eq!(status, if to == "Umbrella" { 403 } else { 303 });
    // A page that is still open would act on the other organization.
    browser.open(&app.at("/account")).await;
    let others = owner.page("/").await;
    let other = between(&others, "name=\"organization_id\" value=\"", "\"");
    owner
        .submit("/organization", &[("organization_id", other)])
        .await;
    browser.press("Create feed URL").await;
    browser.wait_for_text("This didn't work").await;
    let refused = browser.text_of("main").await;
    assert_contains(&refused, "the page was shown for another organization");
    browser.open(&app.at("/account")).await;
    browser.press("Create feed URL").await;
    browser.wait_for_text("Revoke").await;
    // Only members can switch to an organization.
    let fields = [("organization_id", app.organization.id.as_str())];
    let answer = grace.post_form("/organization", &fields).await;
    assert!(matches!(answer.status, 403 | 404), "{}", answer.status);
    let page = grace.get("/settings/organization").await.text;
    assert_contains(&page, &second.id);
}
