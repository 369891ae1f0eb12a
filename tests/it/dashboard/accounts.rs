//! Email addresses and accounts: an address cannot be claimed in advance, and an
//! invitation does not reveal whether an account exists.

use crate::dashboard::invite;
use changelog_tests::{Organization, TestApp, TestClient, TestResponse, on_both};

on_both!(
    an_account_cannot_be_claimed_in_advance,
    an_invitation_does_not_reveal_accounts,
    a_removed_member_can_be_invited_again,
    the_operator_selects_the_account,
    an_address_belongs_to_one_member,
);

const VICTIM: &str = "victim@example.org";
const VICTIMS_PASSWORD: &str = "a quince and 1147 figs";
const MALLORYS_PASSWORD: &str = "mallory was here first";

async fn accept(caller: &TestClient, link: &str, name: &str, password: &str) -> TestResponse {
    let fields = [("name", name), ("password", password)];
    caller.post_form(link, &fields).await
}

/// Signs in and returns the account page, which names the organization.
async fn account_page(app: &TestApp, email: &str, password: &str) -> String {
    let cookie = changelog_tests::sign_in(&app.anonymous(), email, password).await;
    let browser = app.anonymous().with("cookie", &cookie);
    browser.get("/account").await.text
}

/// Lets Mallory, who owns the second organization, accept her own invitation of the
/// victim's address.
async fn claim_in_advance(app: &TestApp) -> Organization {
    let second = app.second_organization();
    let mallory = app.browser_of(&second).await;
    let link = invite(&mallory, VICTIM, "member").await;
    accept(&app.anonymous(), &link, "Mallory", MALLORYS_PASSWORD)
        .await
        .is(303);
    second
}

async fn an_account_cannot_be_claimed_in_advance(app: TestApp) {
    let second = claim_in_advance(&app).await;
    let owner = app.browser().await;
    let link = invite(&owner, &VICTIM.to_uppercase(), "admin").await;
    let answer = accept(&app.anonymous(), &link, "Victim", VICTIMS_PASSWORD).await;
    answer.is(303);
    // Each password signs in to its own account only.
    let theirs = account_page(&app, VICTIM, VICTIMS_PASSWORD).await;
    assert!(theirs.contains("Acme") && theirs.contains("Victim"));
    assert!(!theirs.contains(&second.name));
    let mallorys = account_page(&app, VICTIM, MALLORYS_PASSWORD).await;
    assert!(mallorys.contains(&second.name) && mallorys.contains("Mallory"));
    assert!(!mallorys.contains("Acme"));
    app.anonymous()
        .try_sign_in(VICTIM, "a wrong password")
        .await
        .is(401);
    // Each account has its own password.
    let cookie = changelog_tests::sign_in(&app.anonymous(), VICTIM, VICTIMS_PASSWORD).await;
    let browser = app.anonymous().with("cookie", &cookie);
    let new = "the third secret of it all";
    for (current, status) in [(MALLORYS_PASSWORD, 422), (VICTIMS_PASSWORD, 303)] {
        let fields = [("current_password", current), ("password", new)];
        browser
            .post_form("/account/password", &fields)
            .await
            .is(status);
    }
    assert!(account_page(&app, VICTIM, new).await.contains("Acme"));
    assert!(
        account_page(&app, VICTIM, MALLORYS_PASSWORD)
            .await
            .contains(&second.name)
    );
    app.anonymous()
        .try_sign_in(VICTIM, VICTIMS_PASSWORD)
        .await
        .is(401);
    // An existing member cannot be invited again.
    let third = app.admin(&["org", "create", "--name", "Initech"]);
    assert_eq!(third["organization"]["name"], "Initech");
    let mallory = app.browser_of(&second).await;
    let again = [("email", VICTIM), ("role", "member")];
    mallory
        .post_form("/settings/members/invite", &again)
        .await
        .is(409);
}

async fn an_invitation_does_not_reveal_accounts(app: TestApp) {
    claim_in_advance(&app).await;
    let owner = app.browser().await;
    let anonymous = app.anonymous();
    let mut pages = Vec::new();
    for email in [VICTIM, "fresh-one@example.org", "grace@example.com"] {
        let link = invite(&owner, email, "member").await;
        let (_, token) = link.rsplit_once('/').expect("a token");
        let comparable = |answer: &TestResponse| {
            let text = answer.text.replace(email, "EMAIL").replace(token, "TOKEN");
            (answer.status, text)
        };
        let page = anonymous.get(&link).await;
        let wrong = [("password", "not the password")];
        let wrong = anonymous.post_form(&link, &wrong).await;
        let short = accept(&anonymous, &link, "Guest", "short").await;
        assert_eq!((page.status, wrong.status, short.status), (200, 401, 422));
        pages.push([comparable(&page), comparable(&wrong), comparable(&short)]);
        let joined = accept(&anonymous, &link, "Guest", VICTIMS_PASSWORD).await;
        joined.is(303);
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0], pages[2]);
}

async fn a_removed_member_can_be_invited_again(app: TestApp) {
    let owner = app.browser().await;
    let member = crate::dashboard::join(&app, &owner, "leaver", "member").await;
    let path = format!("/settings/members/{}/remove", member.id);
    owner.submit(&path, &[]).await;
    let link = invite(&owner, &member.email, "viewer").await;
    accept(&app.anonymous(), &link, "Back Again", VICTIMS_PASSWORD)
        .await
        .is(303);
    let members = owner.get("/settings/members").await.text;
    assert!(members.contains(&member.id), "another account: {members}");
    assert!(members.contains("Back Again"));
    app.anonymous()
        .try_sign_in(&member.email, VICTIMS_PASSWORD)
        .await
        .is(303);
    app.anonymous()
        .try_sign_in(&member.email, "a pear and 4711 plums")
        .await
        .is(401);
}

async fn the_operator_selects_the_account(app: TestApp) {
    let second = claim_in_advance(&app).await;
    let owner = app.browser().await;
    let link = invite(&owner, VICTIM, "member").await;
    accept(&app.anonymous(), &link, "Victim", VICTIMS_PASSWORD)
        .await
        .is(303);
    let set = |more: &[&str]| {
        let mut arguments = vec!["user", "set-password", "--email", VICTIM];
        arguments.extend(["--password-file", "-"]);
        arguments.extend(more);
        app.try_admin(&arguments, "a brand new secret\n")
    };
    let output = set(&[]);
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    for words in ["Acme", second.name.as_str(), "--org"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!set(&["--org", "Nobody"]).status.success());
    let output = set(&["--org", "Acme"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        account_page(&app, VICTIM, "a brand new secret")
            .await
            .contains("Acme")
    );
    app.anonymous()
        .try_sign_in(VICTIM, VICTIMS_PASSWORD)
        .await
        .is(401);
    app.anonymous()
        .try_sign_in(VICTIM, MALLORYS_PASSWORD)
        .await
        .is(303);
    // The operator can create an owner with a claimed address.
    let create = [
        "org",
        "create",
        "--name",
        "Initech",
        "--owner-email",
        VICTIM,
        "--owner-name",
        "Victim",
        "--owner-password-file",
        "-",
    ];
    let output = app.try_admin(&create, "the operator's own word");
    assert!(output.status.success(), "{output:?}");
    let page = account_page(&app, VICTIM, "the operator's own word").await;
    assert!(page.contains("Initech"));
}

async fn an_address_belongs_to_one_member(app: TestApp) {
    let owner = app.browser().await;
    let first = invite(&owner, VICTIM, "member").await;
    let accepted: Vec<u16> = {
        let anonymous = app.anonymous();
        let tries = (0..3).map(|number| {
            let (anonymous, first) = (anonymous.clone(), first.clone());
            async move {
                let password = format!("a secret of number {number}");
                accept(&anonymous, &first, "Victim", &password).await.status
            }
        });
        futures_util::future::join_all(tries).await
    };
    let joined = accepted.iter().filter(|status| **status == 303).count();
    assert_eq!(joined, 1, "{accepted:?}");
    let members = owner.get("/settings/members").await.text;
    assert_eq!(members.matches(VICTIM).count(), 1);
}
