//! Mails about subscriptions, and of invitations, through a mail server.

use std::time::Duration;

use changelog_tests::{
    Db, Engine, SmtpMail, SmtpMode, SmtpServer, TestApp, TestClient, assert_contains, assert_lacks,
    database, on_both, text,
};
use mail_parser::{HeaderValue, Message, MessageParser};
use serde_json::json;

use super::subscriptions::{change, create_service, subscribe, wait_for_notifications};
use super::{between, join};

on_both!(
    a_mail_is_sent_at_once_and_stopped_with_one_click,
    bursts_are_joined,
    incidents_are_mailed_with_their_suspects,
    a_storm_of_incidents_is_one_mail,
    a_mail_of_the_day_is_due_at_eight,
    a_mail_is_sent_again_until_it_is_accepted,
    a_refused_mail_is_not_sent_again,
    people_who_have_left_get_no_mails,
    two_servers_send_a_mail_once,
    invitations_are_mailed,
);

/// Starts the service again with a mail server.
async fn with_mail(app: &mut TestApp, mode: SmtpMode) -> SmtpServer {
    let smtp = SmtpServer::start(mode);
    let flags = smtp.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    app.restart_with(&flags).await;
    smtp
}

fn parse(mail: &SmtpMail) -> Message<'_> {
    MessageParser::default()
        .parse(&mail.data)
        .expect("a mail that can be parsed")
}

fn header<'m>(mail: &'m Message<'_>, name: &'m str) -> &'m str {
    mail.header_raw(name)
        .unwrap_or_else(|| panic!("no {name}"))
        .trim()
}

/// Returns the parts of a mail as text.
fn parts(mail: &SmtpMail) -> (String, String) {
    let parsed = parse(mail);
    let plain = parsed.body_text(0).expect("a plain text part").into_owned();
    let html = parsed.body_html(0).expect("an HTML part").into_owned();
    assert_eq!((parsed.text_body.len(), parsed.html_body.len()), (1, 1));
    assert_ne!(parsed.text_body, parsed.html_body);
    (plain, html)
}

/// Returns a number of the only mailbox.
async fn number(app: &TestApp, statement: &'static str) -> Option<i64> {
    let mut db = Db::open(app.engine, &app.database).await;
    let rows: Vec<(Option<i64>,)> = database::fetch!(&mut db, sqlx::query_as(statement));
    db.close().await;
    rows.first().and_then(|(value,)| *value)
}

const DUE_AT: &str = "SELECT due_at FROM mailboxes";
/// Moves the clock to the time when the only mailbox is due.
async fn wait_until_due(app: &TestApp) {
    let due_at = number(app, DUE_AT).await.expect("it is due");
    let wait = u64::try_from(due_at - now(app)).unwrap_or_default();
    app.clock.advance(Duration::from_millis(wait));
}

/// Returns the time of the service in milliseconds.
fn now(app: &TestApp) -> i64 {
    app.clock.now().timestamp_millis()
}

/// Waits until no mail is due or being sent.
async fn wait_until_idle(app: &TestApp) {
    for _ in 0..300 {
        if number(app, DUE_AT).await.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a mail is still due");
}

/// Signs in the owner, and creates a service and a member who subscribes to it.
async fn subscriber(app: &TestApp, mail: &str) -> (TestClient, String) {
    let owner = app.browser().await;
    let grace = join(app, &owner, "Grace", "member").await.browser;
    let service = create_service(app, "payments & more").await;
    subscribe(&grace, &service, "low", mail).await;
    (grace, service)
}

async fn a_mail_is_sent_at_once_and_stopped_with_one_click(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (grace, service) = subscriber(&app, "instant").await;
    // The invitation of the member.
    smtp.wait_for(1).await;
    let page = grace.get("/account").await.text;
    assert_contains(&page, "name=\"mail\"");
    let title = "Zażółć <b>gęślą</b> & Bcc: eve@example.com";
    let id = change(&app, &service, title, "high").await;
    wait_for_notifications(&app).await;
    let mails = smtp.wait_for(2).await;
    let mail = &mails[1];
    assert_eq!(mail.recipients, ["Grace@example.org"]);
    let sign_in = mail.sign_in.as_deref().expect("a sign-in");
    assert_eq!(sign_in, "AG1haWxlcgBhIHNlY3JldA==");
    let parsed = parse(mail);
    let organization = &app.organization.name;
    assert_eq!(
        parsed.subject(),
        Some(format!("[{organization}] {title}: planned").as_str())
    );
    let sender = parsed
        .from()
        .and_then(|from| from.first())
        .expect("a sender");
    assert_eq!(sender.address.as_deref(), Some("changes@example.com"));
    let recipient = parsed.to().and_then(|to| to.first()).expect("a recipient");
    assert_eq!(recipient.name.as_deref(), Some("Grace"));
    assert!(parsed.bcc().is_none() && parsed.cc().is_none());
    assert!(parsed.message_id().is_some_and(|id| id.contains('@')));
    assert!(parsed.date().is_some());
    assert_eq!(header(&parsed, "Auto-Submitted"), "auto-generated");
    assert_eq!(
        header(&parsed, "List-Unsubscribe-Post"),
        "List-Unsubscribe=One-Click"
    );
    assert!(matches!(
        parsed.header("List-Id"),
        Some(HeaderValue::Text(_) | HeaderValue::Address(_))
    ));
    assert!(header(&parsed, "List-Id").contains(&app.organization.id));
    let link = header(&parsed, "List-Unsubscribe").trim_matches(['<', '>']);
    let (plain, html) = parts(mail);
    for line in [
        title.to_owned(),
        app.at(&format!("/changes/{id}")),
        "payments & more: high risk, planned, by API key: terraform, ".to_owned(),
        link.to_owned(),
    ] {
        assert!(plain.contains(&line), "{line}: {plain}");
    }
    assert!(plain.contains(" CET") || plain.contains(" CEST"), "{plain}");
    assert_contains(&html, "&#60;b&#62;gęślą&#60;/b&#62; &#38; Bcc");
    assert_contains(&html, "payments &#38; more");

    // One click, as a mail program sends it: no session, another site.
    let path = link
        .strip_prefix(&app.url())
        .expect("a link to the service");
    let anonymous = app.anonymous().with("sec-fetch-site", "cross-site");
    let page = anonymous.page(path).await;
    assert_contains(&page, "payments &#38; more");
    let fields = [("List-Unsubscribe", "One-Click")];
    anonymous.post_form(path, &fields).await.is(200);
    // It may be sent twice.
    anonymous.post_form(path, &fields).await.is(200);
    let unknown = format!("/unsubscribe/{}", "0".repeat(64));
    anonymous.post_form(&unknown, &fields).await.is(404);
    let account = grace.get("/account").await.text;
    assert_lacks(&account, "payments");
    let log = grace.get("/api/activity?resource=subscription").await;
    let last = log.body(200)["items"][0].clone();
    assert_eq!(text(&last["action"]), "stopped");
    assert_eq!(text(&last["actor_name"]), "Grace");
    assert_eq!(text(&last["resource_label"]), "payments & more");
    change(&app, &service, "After the end", "high").await;
    wait_for_notifications(&app).await;
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 2);
}

async fn bursts_are_joined(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (grace, service) = subscriber(&app, "instant").await;
    change(&app, &service, "The first", "low").await;
    wait_for_notifications(&app).await;
    smtp.wait_for(2).await;
    wait_until_idle(&app).await;
    for number in 0..55 {
        change(&app, &service, &format!("Change {number:02}"), "low").await;
    }
    wait_for_notifications(&app).await;
    // The next mail waits until a minute after the last one.
    let sent_at = number(&app, "SELECT sent_at FROM mailboxes").await;
    let due_at = number(&app, DUE_AT).await;
    assert_eq!(due_at, sent_at.map(|at| at + 60_000));
    wait_until_due(&app).await;
    let mails = smtp.wait_for(3).await;
    let parsed = parse(&mails[2]);
    let subject = format!("[{}] 50+ changes", app.organization.name);
    assert_eq!(parsed.subject(), Some(subject.as_str()));
    let (plain, _) = parts(&mails[2]);
    assert_eq!(plain.matches("/changes/").count(), 50);
    assert_contains(&plain, "/notifications");
    assert_lacks(&plain, "The first");
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 3);
    let page = grace.get("/notifications").await.text;
    assert_contains(&page, "Change 00");
}

/// Opens an incident with the key, waits until its suspects are ranked, and returns its id.
async fn open_incident(app: &TestApp, title: &str, service: &str) -> String {
    let body = json!({ "title": title, "service_id": service, "severity": "critical" });
    let id = app.key().create("/api/incidents", body).await;
    for _ in 0..300 {
        let incident = app.key().get(&format!("/api/incidents/{id}")).await;
        if !incident.body(200)["data"]["ranked_at"].is_null() {
            return id;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the suspects are not ranked");
}

async fn incidents_are_mailed_with_their_suspects(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let owner = app.browser().await;
    let grace = join(&app, &owner, "Grace", "member").await.browser;
    smtp.wait_for(1).await;
    let service = create_service(&app, "payments & more").await;
    let deploy = change(&app, &service, "Deploy <payments> 4.2", "low").await;
    let path = format!("/api/changes/{deploy}");
    let completed = json!({ "status": "completed" });
    app.key().patch(&path, completed).await.is(200);
    // The risk limits changes only.
    subscribe(&grace, &service, "high", "instant").await;
    let id = open_incident(&app, "Checkout returns 502", &service).await;
    wait_for_notifications(&app).await;
    // It waits for the suspects, which are there.
    wait_until_due(&app).await;
    let mails = smtp.wait_for(2).await;
    assert_eq!(mails[1].recipients, ["Grace@example.org"]);
    let organization = app.organization.name.clone();
    let subject = format!("[{organization}] Incident opened: Checkout returns 502");
    assert_eq!(parse(&mails[1]).subject(), Some(subject.as_str()));
    let (plain, html) = parts(&mails[1]);
    for line in [
        "payments & more: critical, opened by API key: terraform, ".to_owned(),
        app.at(&format!("/incidents/{id}")),
        "First suspect: Deploy <payments> 4.2: ".to_owned(),
        "same service: payments & more".to_owned(),
        app.at(&format!("/changes/{deploy}")),
    ] {
        assert!(plain.contains(&line), "{line}: {plain}");
    }
    assert_contains(&html, "Deploy &#60;payments&#62; 4.2");
    let page = grace.page("/notifications").await;
    for part in ["Checkout returns 502", "First suspect:", &id, &deploy] {
        assert_contains(&page, part);
    }
    wait_until_idle(&app).await;

    // Marking the cause is nothing to be notified of; the next mail has it.
    let cause = json!({ "change_id": deploy });
    let path = format!("/api/incidents/{id}");
    app.key().put(&format!("{path}/cause"), cause).await.is(200);
    let resolved = json!({ "status": "resolved" });
    app.key().patch(&path, resolved).await.is(200);
    wait_for_notifications(&app).await;
    wait_until_due(&app).await;
    let mails = smtp.wait_for(3).await;
    let subject = format!("[{organization}] Incident resolved: Checkout returns 502");
    assert_eq!(parse(&mails[2]).subject(), Some(subject.as_str()));
    let (plain, _) = parts(&mails[2]);
    assert_contains(&plain, "Cause: Deploy <payments> 4.2");
    wait_until_idle(&app).await;
    let read = format!("/notifications/{id}/read");
    grace.submit(&read, &[]).await;
    assert_lacks(&grace.page("/notifications").await, "First suspect:");

    // Nobody is notified of what they did themselves.
    let fields = [
        ("title", "My own"),
        ("severity", "warning"),
        ("service_id", &service),
    ];
    grace.post_form("/incidents", &fields).await.is(303);
    wait_for_notifications(&app).await;
    assert_lacks(&grace.page("/notifications").await, "My own");
}

async fn a_storm_of_incidents_is_one_mail(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (grace, service) = subscriber(&app, "instant").await;
    smtp.wait_for(1).await;
    change(&app, &service, "Before the storm", "low").await;
    wait_for_notifications(&app).await;
    smtp.wait_for(2).await;
    wait_until_idle(&app).await;
    for number in 0..40 {
        let body = json!({ "title": format!("Alert {number:02}"), "service_id": service });
        app.key().create("/api/incidents", body).await;
    }
    for number in 0..12 {
        change(&app, &service, &format!("Change {number:02}"), "low").await;
    }
    wait_for_notifications(&app).await;
    wait_until_due(&app).await;
    let mails = smtp.wait_for(3).await;
    let subject = format!("[{}] 40 incidents, 10+ changes", app.organization.name);
    assert_eq!(parse(&mails[2]).subject(), Some(subject.as_str()));
    let (plain, _) = parts(&mails[2]);
    assert_eq!(plain.matches("/incidents/").count(), 40);
    assert_contains(&plain, "And more");
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 3);
    assert_contains(&grace.page("/notifications").await, "Alert 00");
}

async fn a_mail_of_the_day_is_due_at_eight(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (_, service) = subscriber(&app, "daily").await;
    smtp.wait_for(1).await;
    for title in ["One", "Two"] {
        change(&app, &service, title, "low").await;
        wait_for_notifications(&app).await;
    }
    let due_at = number(&app, DUE_AT).await.expect("it is due");
    let due_at = chrono::DateTime::from_timestamp_millis(due_at).expect("a time");
    let in_berlin = due_at.with_timezone(&chrono_tz::Europe::Berlin);
    assert_eq!(in_berlin.format("%H:%M:%S").to_string(), "08:00:00");
    let ahead = due_at - chrono::Utc::now();
    assert!(ahead > chrono::TimeDelta::zero() && ahead <= chrono::TimeDelta::hours(25));
    wait_until_due(&app).await;
    let mails = smtp.wait_for(2).await;
    let (plain, _) = parts(&mails[1]);
    assert!(plain.contains("One") && plain.contains("Two"), "{plain}");
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 2);
}

async fn a_mail_is_sent_again_until_it_is_accepted(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (grace, service) = subscriber(&app, "instant").await;
    smtp.wait_for(1).await;
    smtp.set_mode(SmtpMode::HangUp);
    change(&app, &service, "Kept", "low").await;
    wait_for_notifications(&app).await;
    let mut failures = 0;
    for mode in [
        SmtpMode::HangUpInData,
        SmtpMode::RefuseRecipient(451),
        // A wrong password is not the fault of the mail.
        SmtpMode::RefuseSignIn(535),
        SmtpMode::Accept,
    ] {
        failures += 1;
        smtp.wait_for_failures(failures).await;
        wait_for_failures(&app, failures).await;
        // The next attempt is later than the one before.
        let wait = number(&app, DUE_AT).await.expect("it is due") - now(&app);
        let least = [0, 50_000, 290_000, 890_000, 3_590_000][failures];
        assert!(wait > least, "{wait} ms after {failures} failures");
        // What happens meanwhile is in the same mail.
        change(&app, &service, &format!("Change {failures}"), "low").await;
        wait_for_notifications(&app).await;
        let account = grace.get("/account").await.text;
        assert_contains(&account, "The last mail to you was not sent");
        smtp.set_mode(mode);
        wait_until_due(&app).await;
    }
    let mails = smtp.wait_for(2).await;
    let (plain, _) = parts(&mails[1]);
    for title in ["Kept", "Change 1", "Change 4"] {
        assert!(plain.contains(title), "{title}: {plain}");
    }
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 2);
    let account = grace.get("/account").await.text;
    assert_lacks(&account, "was not sent");
}

async fn wait_for_failures(app: &TestApp, failures: usize) {
    let expected = i64::try_from(failures).ok();
    for _ in 0..300 {
        if number(app, "SELECT failures FROM mailboxes").await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not {failures} failures are recorded");
}

async fn a_refused_mail_is_not_sent_again(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let (grace, service) = subscriber(&app, "instant").await;
    smtp.wait_for(1).await;
    smtp.set_mode(SmtpMode::RefuseRecipient(550));
    change(&app, &service, "Refused", "low").await;
    wait_for_notifications(&app).await;
    smtp.wait_for_failures(1).await;
    wait_until_idle(&app).await;
    let account = grace.get("/account").await.text;
    assert_contains(&account, "no such mailbox here");
    smtp.set_mode(SmtpMode::Accept);
    change(&app, &service, "Accepted", "low").await;
    wait_for_notifications(&app).await;
    let mails = smtp.wait_for(2).await;
    let (plain, _) = parts(&mails[1]);
    assert_contains(&plain, "Accepted");
    assert_lacks(&plain, "Refused");
}

async fn people_who_have_left_get_no_mails(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let owner = app.browser().await;
    let grace = join(&app, &owner, "Grace", "member").await;
    smtp.wait_for(1).await;
    let service = create_service(&app, "payments").await;
    subscribe(&owner, &service, "low", "instant").await;
    subscribe(&grace.browser, &service, "low", "daily").await;
    change(&app, &service, "Before", "low").await;
    wait_for_notifications(&app).await;
    smtp.wait_for(2).await;
    let remove = format!("/settings/members/{}/remove", grace.id);
    owner.submit(&remove, &[]).await;
    wait_until_idle(&app).await;
    change(&app, &service, "After", "low").await;
    wait_for_notifications(&app).await;
    wait_until_due(&app).await;
    smtp.wait_for(3).await;
    wait_until_idle(&app).await;
    assert_eq!(smtp.mails().len(), 3);
    for mail in &smtp.mails()[1..] {
        assert_eq!(mail.recipients, [app.organization.email.as_str()]);
    }
}

async fn two_servers_send_a_mail_once(mut app: TestApp) {
    if app.engine == Engine::Sqlite {
        // A SQLite file is served by one process.
        return;
    }
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let flags = smtp.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _second = app.another_server(&flags).await;
    let (_, service) = subscriber(&app, "instant").await;
    smtp.wait_for(1).await;
    for round in 0..8 {
        change(&app, &service, &format!("Round {round}"), "low").await;
        wait_for_notifications(&app).await;
        if round > 0 {
            wait_until_due(&app).await;
        }
        let mails = smtp.wait_for(round + 2).await;
        let (plain, _) = parts(&mails[round + 1]);
        assert_contains(&plain, format!("Round {round}"));
        wait_until_idle(&app).await;
    }
    assert_eq!(smtp.mails().len(), 9);
}

async fn invitations_are_mailed(mut app: TestApp) {
    let smtp = with_mail(&mut app, SmtpMode::Accept).await;
    let owner = app.browser().await;
    let fields = [("email", "new@example.org"), ("role", "member")];
    let page = owner.post_form("/settings/members/invite", &fields).await;
    page.is(200);
    assert_contains(&page.text, "Sent to new@example.org");
    let link = between(&page.text, "id=\"invitation-link\">", "<");
    let mails = smtp.wait_for(1).await;
    assert_eq!(mails[0].recipients, ["new@example.org"]);
    let (plain, html) = parts(&mails[0]);
    assert!(plain.contains(link) && html.contains(link), "{plain}");
    let path = link.strip_prefix(&app.url()).expect("a path");
    app.anonymous().get(path).await.is(200);
    // If it cannot be mailed, the page says so and has the link.
    smtp.set_mode(SmtpMode::RefuseRecipient(550));
    let page = owner.post_form("/settings/members/invite", &fields).await;
    page.is(200);
    assert_contains(&page.text, "no such mailbox here");
    assert!(page.text.contains("id=\"invitation-link\""));
    assert_eq!(smtp.mails().len(), 1);
}
