//! Connections to receivers in the dashboard.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{between, entries, join, sign_in};
use changelog_tests::chromium::Chromium;
use changelog_tests::receivers::{Answer, Receiver, webhook as webhooks};
use changelog_tests::{TestApp, TestClient, on_both, on_one, text};

on_both!(
    a_webhook_is_connected_once,
    nothing_secret_is_on_any_page,
    connections_are_separate_per_organization,
    only_owners_and_admins_see_where_it_sends,
    deliveries_are_paged_and_replayed,
);
on_one!(
    forms_are_refused_at_their_fields,
    a_connection_is_edited,
    tests_and_public_keys_have_rate_limits,
    kinds_are_chosen_in_a_browser,
    a_receiver_is_connected_broken_and_repaired_in_a_browser,
);

const PATH: &str = "/settings/integrations";
/// Receivers at names that do not exist.
const HOOK: &str = "https://receiver.invalid/secret-path?sig=secret-query";
const SECRETS: [&str; 5] = [
    "secret-path",
    "secret-query",
    "secret-token",
    "whsec_",
    "glsa_",
];

type Fields<'f> = Vec<(&'f str, &'f str)>;

fn webhook(name: &str) -> Fields<'_> {
    vec![
        ("kind", "webhook"),
        ("name", name),
        ("url", HOOK),
        ("events", "change.created"),
    ]
}

/// Makes a connection, and returns the path of its page.
async fn connect(by: &TestClient, fields: &[(&str, &str)]) -> String {
    let answer = by.post_form(PATH, fields).await;
    let path = match answer.status {
        303 => answer.header("location").to_owned(),
        _ => {
            answer.is(200);
            let action = between(&answer.text, "action=\"/settings/integrations/", "/test\"");
            format!("{PATH}/{action}")
        }
    };
    let (path, _) = path.split_once('?').unwrap_or((&path, ""));
    path.to_owned()
}

async fn a_webhook_is_connected_once(app: TestApp) {
    let owner = app.browser().await;
    let page = owner.get(PATH).await.text;
    assert!(page.contains("No connections yet"), "{page}");
    let form = owner.get(&format!("{PATH}/new?kind=webhook")).await.text;
    let id = between(&form, "name=\"new_id\" value=\"", "\"");
    let mut fields = webhook("Bot");
    fields.push(("new_id", id));
    let created = owner.post_form(PATH, &fields).await;
    created.is(200);
    let secret = between(&created.text, "id=\"new-signing-secret\">", "<");
    assert!(
        secret.starts_with("whsec_") && secret.len() > 40,
        "{secret}"
    );
    let key = between(&created.text, "whpk_", "<").to_owned();
    for _ in 0..2 {
        let again = owner.post_form(PATH, &fields).await;
        again.is(409);
        assert!(again.text.contains("already sent"), "{}", again.text);
        assert!(!again.text.contains("new-signing-secret"));
    }
    let page = owner.get(PATH).await.text;
    assert_eq!(page.matches("<bdi>Bot</bdi>").count(), 1, "{page}");
    assert!(page.contains("Nothing sent yet"), "{page}");
    assert!(page.contains("https://receiver.invalid/…"), "{page}");

    // The public key needs no session; nothing else has one.
    let (_, id) = created
        .text
        .split_once("changelog-webhook-keys/")
        .expect("an address");
    let id = between(id, "", "\"");
    let keys = app.anonymous();
    let path = format!("/.well-known/changelog-webhook-keys/{id}");
    let published = keys.get(&path).await.body(200);
    assert_eq!(published["keys"][0], format!("whpk_{key}"));
    assert_eq!(published.as_object().expect("an object").len(), 1);
    let slack = [
        ("kind", "slack"),
        ("name", "Slack"),
        ("url", HOOK),
        ("events", "change.created"),
    ];
    let slack = connect(&owner, &slack).await;
    let (_, other) = slack.rsplit_once('/').expect("an id");
    for id in [other, "nonsense", &uuid::Uuid::now_v7().to_string()] {
        let path = format!("/.well-known/changelog-webhook-keys/{id}");
        keys.get(&path).await.is(404);
    }

    // A rotation has another secret and the same public key.
    let path = format!("{PATH}/{id}");
    let rotated = owner.post_form(&format!("{path}/rotate"), &[]).await;
    rotated.is(200);
    let next = between(&rotated.text, "id=\"new-signing-secret\">", "<");
    assert_ne!(next, secret);
    assert!(rotated.text.contains(&key), "the public key stays");
    owner
        .post_form(&format!("{slack}/rotate"), &[])
        .await
        .is(404);

    // The activity log has what was done.
    owner
        .post_form(&format!("{path}/disable"), &[])
        .await
        .is(303);
    let page = owner.get(&path).await.text;
    assert!(page.contains("Disabled by ada of Acme."), "{page}");
    // What a person has disabled is no trouble.
    let overview = owner.get("/").await.text;
    assert!(!overview.contains(&path), "{overview}");
    owner
        .post_form(&format!("{path}/enable"), &[])
        .await
        .is(303);
    owner
        .post_form(&format!("{path}/delete"), &[])
        .await
        .is(303);
    owner.get(&path).await.is(404);
    let log = owner.get("/api/activity?resource=integration").await;
    let log = log.body(200);
    let items = log["items"].as_array().expect("a list").iter();
    let actions: Vec<String> = items.clone().map(|item| text(&item["action"])).collect();
    assert_eq!(
        actions,
        [
            "disconnected",
            "updated",
            "updated",
            "updated",
            "connected",
            "connected"
        ]
    );
    for item in items {
        assert!(
            SECRETS
                .iter()
                .all(|secret| !item.to_string().contains(secret))
        );
    }
    let page = owner.get("/activity?resource=integration").await.text;
    for sentence in ["connected the integration", "disconnected the integration"] {
        assert!(page.contains(sentence), "{sentence}: {page}");
    }
}

async fn nothing_secret_is_on_any_page(app: TestApp) {
    let owner = app.browser().await;
    let mut pages = vec![PATH.to_owned(), "/activity".to_owned(), "/".to_owned()];
    for fields in [
        webhook("Bot"),
        vec![
            ("kind", "slack"),
            ("name", "Slack"),
            ("token", "xoxb-secret-token"),
            ("channel", "C0123456789"),
            ("events", "change.created"),
        ],
        vec![
            ("kind", "grafana"),
            ("name", "Grafana"),
            ("url", "https://grafana.invalid/"),
            ("token", "glsa_secret-token"),
            ("events", "change.created"),
        ],
        vec![
            ("kind", "pagerduty"),
            ("name", "PagerDuty"),
            ("token", "secret-token00000000000000000000"),
        ],
        vec![
            ("kind", "teams"),
            ("name", "Teams"),
            ("url", HOOK),
            ("events", "change.created"),
        ],
    ] {
        let path = connect(&owner, &fields).await;
        let (_, id) = path.rsplit_once('/').expect("an id");
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{path}");
        // A form that is shown again has none either.
        let refused: Fields<'_> = fields
            .iter()
            .map(|(name, value)| match *name {
                "name" => ("name", ""),
                "events" => ("tags", "\u{7}"),
                name => (name, *value),
            })
            .collect();
        for path in [PATH, &path] {
            let refused = owner.post_form(path, &refused).await;
            refused.is(422);
            assert_hidden(&refused.text, path);
        }
        // The name of another connection.
        let taken = owner.post_form(PATH, &fields).await;
        taken.is(422);
        assert!(taken.text.contains("already exists"), "{}", taken.text);
        assert_hidden(&taken.text, "taken");
        pages.push(path);
    }
    // The test sends nothing: the names do not exist.
    for path in &pages[3..] {
        let tested = owner.post_form(&format!("{path}/test"), &[]).await;
        tested.is(200);
        assert_hidden(&tested.text, path);
    }
    for path in &pages {
        assert_hidden(&owner.get(path).await.text, path);
    }
}

#[track_caller]
fn assert_hidden(page: &str, path: &str) {
    for secret in SECRETS {
        // The hint of a field says how a token begins.
        let page = page.replace("Begins with glsa_.", "");
        assert!(!page.contains(secret), "{path} has {secret}: {page}");
    }
}

async fn connections_are_separate_per_organization(app: TestApp) {
    let second = app.second_organization();
    let grace = app.browser_of(&second).await;
    let owner = app.browser().await;
    let form = owner.get(&format!("{PATH}/new?kind=webhook")).await.text;
    let id = between(&form, "name=\"new_id\" value=\"", "\"");
    let mut fields = webhook("Bot");
    fields.push(("new_id", id));
    // The same form makes two connections with ids of their own: the address of a public
    // key has only an id.
    let (mine, theirs) = (
        connect(&owner, &fields).await,
        connect(&grace, &fields).await,
    );
    assert_ne!(mine, theirs);
    // The id of an existing connection makes one with another id.
    let (_, taken) = mine.rsplit_once('/').expect("an id");
    let mut fields = webhook("Other");
    fields.push(("new_id", taken));
    let other = connect(&grace, &fields).await;
    assert_ne!(other, mine);
    let before = entries(&grace).await;
    owner.get(&theirs).await.is(404);
    for action in [
        "",
        "/test",
        "/rotate",
        "/enable",
        "/disable",
        "/delete",
        "/replay",
        "/replay-dead",
    ] {
        let fields = [
            ("sequence", "1"),
            ("name", "Stolen"),
            ("events", "change.created"),
        ];
        owner
            .post_form(&format!("{theirs}{action}"), &fields)
            .await
            .is(404);
    }
    assert_eq!(entries(&grace).await, before, "something was recorded");
    assert!(!grace.get(PATH).await.text.contains("Stolen"));
}

async fn only_owners_and_admins_see_where_it_sends(app: TestApp) {
    let owner = app.browser().await;
    let path = connect(&owner, &webhook("Bot")).await;
    for (name, role) in [("Grace", "member"), ("Vic", "viewer")] {
        let other = join(&app, &owner, name, role).await.browser;
        for page in [PATH, &path] {
            let page = other.get(page).await;
            page.is(200);
            let main = between(&page.text, "<main", "</main>");
            assert!(main.contains("Bot") && main.contains("Nothing sent yet"));
            for hidden in ["receiver.invalid", "<form", "whpk_", "Deliveries", "/new"] {
                assert!(!main.contains(hidden), "{role}: {hidden} in {main}");
            }
        }
        other.get(&format!("{PATH}/new?kind=slack")).await.is(403);
        other.post_form(PATH, &webhook("Mine")).await.is(403);
        other.post_form(&format!("{path}/test"), &[]).await.is(403);
    }
    let admin = join(&app, &owner, "Alan", "admin").await.browser;
    assert!(admin.get(&path).await.text.contains("receiver.invalid"));
    connect(&admin, &webhook("By an admin")).await;
    // The notice is for owners and admins, too.
    app.execute("UPDATE connections SET failing_since = 0 WHERE name = 'Bot'")
        .await;
    let pages = [
        "/",
        "/settings/api-keys",
        "/settings/members",
        "/settings/organization",
    ];
    let member = join(&app, &owner, "Mia", "member").await.browser;
    for page in pages {
        let shown = admin.get(page).await.text;
        assert!(shown.contains("has been failing since"), "{page}: {shown}");
        assert!(shown.contains(&path) && !shown.contains("By an admin"));
        assert!(!member.get(page).await.text.contains(&path), "{page}");
    }
}

/// Returns the number of deliveries on a page, and the link to older ones.
fn listed(page: &str) -> (usize, Option<String>) {
    let older = page.split_once("rel=\"next\" href=\"");
    let older = older.map(|(_, rest)| between(rest, "", "\"").replace("&#38;", "&"));
    (page.matches("data-label=\"Last attempt\"").count(), older)
}

async fn deliveries_are_paged_and_replayed(app: TestApp) {
    let owner = app.browser().await;
    let path = connect(&owner, &webhook("Bot")).await;
    let changes: Vec<Value> = (0..55)
        .map(|number| json!({ "title": format!("Deploy {number}"), "status": "completed" }))
        .collect();
    let bulk = json!({ "changes": changes });
    app.key().post("/api/changes/bulk", bulk).await.is(201);
    let deadline = Instant::now() + Duration::from_secs(60);
    let (newest, older) = loop {
        let page = owner.get(&path).await.text;
        if let (50, Some(older)) = listed(&page) {
            break (page, older);
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let rest = owner.get(&older).await.text;
    assert_eq!(listed(&rest), (5, None));
    let title = |number: usize| format!(">Deploy {number}<");
    for number in 0..55 {
        let shown = [&newest, &rest].map(|page| page.contains(&title(number)));
        assert!(shown[0] != shown[1], "{number} is on {shown:?}");
    }
    // None has failed for good.
    let failed = format!("{path}?failed=1");
    assert_eq!(listed(&owner.get(&failed).await.text), (0, None));
    owner
        .post_form(&format!("{path}/disable"), &[])
        .await
        .is(303);
    app.execute("UPDATE deliveries SET state = 'dead', is_claimed = 0")
        .await;
    let page = owner.get(&failed).await.text;
    assert_eq!(listed(&page).0, 50);
    assert!(page.contains("Replay all failed (55)"), "{page}");
    let older = listed(&page).1.expect("older ones");
    assert_eq!(listed(&owner.get(&older).await.text), (5, None));
    // One, then all.
    let sequence = between(&page, "name=\"sequence\" value=\"", "\"");
    let replay = format!("{path}/replay");
    let answer = owner.post_form(&replay, &[("sequence", sequence)]).await;
    answer.is(303);
    let page = owner.get(answer.header("location")).await.text;
    assert!(page.contains("Replay all failed (54)"), "{page}");
    owner
        .post_form(&format!("{path}/replay-dead"), &[])
        .await
        .is(303);
    assert_eq!(listed(&owner.get(&failed).await.text), (0, None));
    let list = owner.get(PATH).await.text;
    assert!(
        list.contains("data-label=\"Queued\" class=\"number\">55<"),
        "{list}"
    );
    for sequence in ["0", "9999999999999"] {
        let answer = owner.post_form(&replay, &[("sequence", sequence)]).await;
        answer.is(409);
        assert!(answer.text.contains("no longer kept"), "{}", answer.text);
    }
    for sequence in ["", "one", "99999999999999999999"] {
        let fields = [("sequence", sequence)];
        owner.post_form(&replay, &fields).await.is(422);
    }
}

async fn tests_and_public_keys_have_rate_limits(app: TestApp) {
    let owner = app.browser().await;
    let fields = [
        ("kind", "webhook"),
        ("name", "Inside"),
        ("url", "https://10.0.0.1/"),
        ("events", "change.created"),
    ];
    let path = connect(&owner, &fields).await;
    let test = format!("{path}/test");
    let mut answers = Vec::new();
    for _ in 0..24 {
        let answer = owner.post_form(&test, &[]).await;
        if answer.status == 200 {
            let refused = answer.text.contains("private or reserved network");
            assert!(refused, "{}", answer.text);
        }
        answers.push(answer.status);
    }
    assert_eq!(answers[..20], [200; 20]);
    assert!(answers[20..].contains(&429), "{answers:?}");
    // Of one person only.
    let admin = join(&app, &owner, "Alan", "admin").await.browser;
    admin.post_form(&test, &[]).await.is(200);
    let keys = app.anonymous();
    let path = format!(
        "/.well-known/changelog-webhook-keys/{}",
        uuid::Uuid::now_v7()
    );
    let mut limited = None;
    for _ in 0..200 {
        let answer = keys.get(&path).await;
        if answer.status != 404 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("a limit");
    limited.is(429);
    assert_ne!(limited.header("retry-after"), "");
    assert_eq!(limited.header("content-type"), "application/problem+json");
}

async fn forms_are_refused_at_their_fields(app: TestApp) {
    let owner = app.browser().await;
    for (kind, name, value, field) in [
        ("webhook", "url", "", "url"),
        ("webhook", "url", "ftp://receiver.invalid/", "url"),
        ("webhook", "name", "", "name"),
        ("webhook", "events", "", "events"),
        ("webhook", "events", "change.exploded", "events"),
        ("webhook", "service_ids", "no such service", "service_ids"),
        ("webhook", "min_risk", "huge", "min_risk"),
        ("webhook", "environments", "moon", "environments"),
        (
            "teams",
            "url",
            "https://acme.webhook.office.com/webhookb2/1",
            "url",
        ),
        ("grafana", "panel_id", "four", "panel_id"),
        ("grafana", "token", "", "token"),
        ("pagerduty", "token", "short", "token"),
    ] {
        let mut fields = webhook("Bot");
        fields.push(("token", "x".repeat(32).leak()));
        fields.retain(|(known, _)| *known != name && *known != "kind");
        fields.extend([("kind", kind), (name, value)]);
        let answer = owner.post_form(PATH, &fields).await;
        answer.is(422);
        let error = format!("id=\"{field}-error-1\"");
        assert!(
            answer.text.contains(&error),
            "{kind} {name}: {}",
            answer.text
        );
    }
    owner.post_form(PATH, &[("kind", "fax")]).await.is(422);
    assert!(owner.get(PATH).await.text.contains("No connections yet"));
}

async fn a_connection_is_edited(app: TestApp) {
    let owner = app.browser().await;
    let service = app
        .key()
        .create("/api/services", json!({ "name": "payments" }))
        .await;
    let fields = [
        ("kind", "grafana"),
        ("name", "Graphs"),
        ("url", "https://grafana.invalid/"),
        ("token", "glsa_secret-token"),
        ("dashboard_uid", "abc"),
        ("panel_id", "4"),
        // Everything: no condition, and not the default of the kind.
        ("events", "change.created"),
        ("events", "change.updated"),
        ("events", "change.status_changed"),
        ("events", "change.deleted"),
        ("service_ids", "payments"),
        ("environments", "prod"),
        ("environments", "staging"),
    ];
    let path = connect(&owner, &fields).await;
    let page = owner.get(&path).await.text;
    for shown in [
        "<bdi>Everything</bdi>",
        "<bdi>payments</bdi>",
        "<bdi>prod, staging</bdi>",
        "value=\"abc\"",
        "name=\"panel_id\" type=\"text\" value=\"4\"",
        "name=\"service_ids\" value=\"payments\"",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    // The token is empty and kept; the others are cleared.
    let fields = [
        ("name", "Graphs"),
        ("url", "https://grafana.invalid/"),
        ("token", ""),
        ("dashboard_uid", ""),
        ("panel_id", ""),
        ("events", "change.created"),
        ("min_risk", "high"),
    ];
    owner.post_form(&path, &fields).await.is(303);
    let page = owner.get(&path).await.text;
    for shown in ["<bdi>Recorded</bdi>", "<bdi>high risk</bdi>"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    for gone in ["value=\"abc\"", "value=\"4\"", "<bdi>payments</bdi>"] {
        assert!(!page.contains(gone), "{gone}: {page}");
    }
    let log = owner
        .get("/api/activity?resource=integration")
        .await
        .body(200);
    let change = &log["items"][0]["metadata"]["changes"]["filter"];
    assert_eq!(change["from"]["service_ids"][0], Value::from(service));
    assert_eq!(change["to"]["min_risk"], "high");
    // A name of another connection, without regard to case.
    connect(&owner, &webhook("Bot")).await;
    let mut fields = fields;
    fields[0].1 = "BOT";
    let refused = owner.post_form(&path, &fields).await;
    refused.is(422);
    assert!(
        refused.text.contains("id=\"name-error-1\""),
        "{}",
        refused.text
    );
}

async fn kinds_are_chosen_in_a_browser(app: TestApp) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    sign_in(&browser, &app, &app.organization).await;
    browser
        .open(&format!("{}/settings/members", app.url()))
        .await;
    browser.press("Integrations").await;
    browser.wait_for(".kinds").await;
    assert_eq!(browser.texts(".kinds h2").await.len(), 5);
    browser.press("Webhook").await;
    browser.wait_for("#url").await;
    let fields = [("name", "Bot"), ("url", HOOK)];
    browser.fill("main form", &fields).await;
    browser.press("Connect").await;
    browser.wait_for("#new-signing-secret").await;
    // A reload shows the page without the secret.
    browser.tab.refresh().await.expect("a page");
    browser.wait_for("#deliveries").await;
    assert!(!browser.has("#new-signing-secret").await);
    browser.press("Send a test").await;
    browser.wait_for("#result").await;
    let result = browser.text_of("#result").await;
    assert!(result.contains("was not found"), "{result}");
    assert_eq!(browser.console().await, [""; 0]);
}

/// Opens a page again and again until it shows a text.
async fn open_until(browser: &Chromium, page: &str, expected: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        browser.open(page).await;
        let text = browser.text_of("main").await;
        if text.contains(expected) {
            return text;
        }
        assert!(Instant::now() < deadline, "no {expected:?}: {text}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn a_receiver_is_connected_broken_and_repaired_in_a_browser(mut app: TestApp) {
    let Some(browser) = Chromium::start().await else {
        return;
    };
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    sign_in(&browser, &app, &app.organization).await;
    browser
        .open(&format!("{}{PATH}/new?kind=webhook", app.url()))
        .await;
    let url = receiver.url();
    browser
        .fill("main form", &[("name", "Release bot"), ("url", &url)])
        .await;
    browser.press("Connect").await;
    browser.wait_for("#new-signing-secret").await;
    let secret = browser.text_of("#new-signing-secret").await;
    let page = format!("{}{}", app.url(), browser.path().await);
    assert!(page.contains("/settings/integrations/"), "{page}");

    // The test shows the receiver's own answer.
    receiver.answer_next(Answer::text(202, "thanks for the test"));
    browser.press("Send a test").await;
    browser.wait_for("#result").await;
    let text = browser.text_of("main").await;
    for shown in ["Test: Delivered.", "Status 202", "thanks for the test"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let requests = receiver.wait_for(1).await;
    webhooks::check(&requests[0], secret.trim()).expect("it is genuine");
    assert!(
        text.contains("Nothing sent yet"),
        "a test is no delivery: {text}"
    );

    // A change is delivered.
    app.key().completed_change("Deploy payments").await;
    let text = open_until(&browser, &page, "Delivered").await;
    for shown in ["Deploy payments", "status 200", "1 attempt", "Working"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }

    // The receiver breaks.
    receiver.answer_with(Answer::text(500, "the disk is full"));
    app.key().completed_change("Deploy search").await;
    let text = open_until(&browser, &page, "To be retried").await;
    for shown in [
        "Failing",
        "The receiver answered 500",
        "status 500",
        "Next attempt",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    browser.click(".deliveries details > summary").await;
    browser.wait_for_text("the disk is full").await;
    let list = format!("{}{PATH}", app.url());
    open_until(&browser, &list, "The receiver answered 500").await;
    // Failing for less than an hour is no notice.
    browser.open(&app.url()).await;
    assert!(!browser.has("main > .bad").await);
    app.execute("UPDATE connections SET failing_since = failing_since - 3600000")
        .await;
    browser.open(&app.url()).await;
    let notice = browser.text_of("main > .bad").await;
    assert!(
        notice.contains("Release bot has been failing since"),
        "{notice}"
    );

    // It is repaired, and the delivery sent again.
    receiver.answer_with(Answer::ok());
    browser.open(&page).await;
    browser.click("form[action$='/replay'] button").await;
    let text = open_until(&browser, &page, "Working").await;
    assert!(!text.contains("To be retried"), "{text}");
    let requests = receiver.requests();
    let last = requests.last().expect("a request");
    let event = webhooks::check(last, secret.trim()).expect("it is genuine");
    assert_eq!(event.kind, "change.created");

    // The receiver is gone: the connection is disabled until it is enabled.
    receiver.answer_with(Answer::status(410));
    app.key().completed_change("Deploy catalog").await;
    open_until(&browser, &page, "Disabled").await;
    browser.open(&app.url()).await;
    let notice = browser.text_of("main > .bad").await;
    assert!(notice.contains("it is gone (410)"), "{notice}");
    receiver.answer_with(Answer::ok());
    browser.open(&list).await;
    browser.click("form[action$='/enable'] button").await;
    open_until(&browser, &page, "Working").await;
    let log = format!("{}/activity?resource=integration", app.url());
    let text = open_until(&browser, &log, "connected the integration").await;
    assert!(text.contains("changed the integration"), "{text}");
    assert_eq!(browser.console().await, [""; 0]);
}
