//! Connections to receivers in the dashboard.

mod browser;
mod deliveries;

use serde_json::Value;

use super::{between, entries, join};
use changelog_tests::{TestApp, TestClient, assert_contains, assert_lacks, on_both, on_one, text};

on_both!(
    a_webhook_is_connected_once,
    nothing_secret_is_on_any_page,
    connections_are_separate_per_organization,
    only_owners_and_admins_see_where_it_sends,
);
on_one!(
    forms_are_refused_at_their_fields,
    a_connection_is_edited,
    a_form_keeps_what_another_admin_has_saved,
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
    let path = if answer.status == 303 {
        answer.header("location").to_owned()
    } else {
        answer.is(200);
        let id = between(&answer.text, "action=\"/settings/integrations/", "/test\"");
        format!("{PATH}/{id}")
    };
    let (path, _) = path.split_once('?').unwrap_or((&path, ""));
    path.to_owned()
}

async fn a_webhook_is_connected_once(app: TestApp) {
    let owner = app.browser().await;
    let page = owner.get(PATH).await.text;
    assert_contains(&page, "No connections yet");
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
        assert_contains(&again.text, "already sent");
        assert!(!again.text.contains("new-signing-secret"));
    }
    let page = owner.get(PATH).await.text;
    assert_eq!(page.matches("<bdi>Bot</bdi>").count(), 1, "{page}");
    assert_contains(&page, "Nothing sent yet");
    assert_contains(&page, "https://receiver.invalid/…");

    // The public key needs no session; nothing else has one.
    let (_, id) = created
        .text
        .split_once("changelog-webhook-keys/")
        .expect("an address");
    let id = between(id, "", "\"");
    let keys = app.anonymous();
    let path = format!("/.well-known/changelog-webhook-keys/{id}");
    let published = keys.body(&path).await;
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

    its_end_is_in_the_activity_log(&owner, &path).await;
}

/// Disables, enables and deletes the first of two connections.
async fn its_end_is_in_the_activity_log(owner: &TestClient, path: &str) {
    owner.submit(&format!("{path}/disable"), &[]).await;
    let page = owner.get(path).await.text;
    assert_contains(&page, "Disabled by ada of Acme.");
    // What a person has disabled is no trouble.
    let overview = owner.get("/").await.text;
    assert_lacks(&overview, path);
    owner.submit(&format!("{path}/enable"), &[]).await;
    owner.submit(&format!("{path}/delete"), &[]).await;
    owner.get(path).await.is(404);
    let log = owner.body("/api/activity?resource=integration").await;
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
            ("api_token", "u+secret-token"),
            ("from", "oncall@example.com"),
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
        assert_contains(&taken.text, "already exists");
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

async fn forms_are_refused_at_their_fields(app: TestApp) {
    let owner = app.browser().await;
    for (kind, name, value, field) in [
        ("webhook", "url", "", "url"),
        ("webhook", "url", "ftp://receiver.invalid/", "url"),
        ("webhook", "url", "https://10.0.0.1/", "url"),
        ("webhook", "url", "https://localhost/", "url"),
        ("webhook", "url", "http://1.1.1.1/", "url"),
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

async fn a_form_keeps_what_another_admin_has_saved(app: TestApp) {
    let owner = app.browser().await;
    let path = connect(&owner, &webhook("Bot")).await;
    let page = owner.get(&path).await.text;
    let shown = between(&page, "name=\"shown\" value=\"", "\"");
    let save = async |name: &str, tags: &str, risk: &str| {
        let fields = [
            ("name", name),
            // Empty keeps it.
            ("url", ""),
            ("events", "change.created"),
            ("service_ids", ""),
            ("tags", tags),
            ("min_risk", risk),
            ("shown", shown),
        ];
        owner.post_form(&path, &fields).await
    };
    save("Bot", "database", "high").await.is(303);
    // The form of the other admin was opened before.
    save("Renamed", "", "").await.is(303);
    let page = owner.get(&path).await.text;
    for kept in [
        "value=\"Renamed\"",
        "name=\"tags\" value=\"database\"",
        "<bdi>high risk</bdi>",
        "https://receiver.invalid/…",
    ] {
        assert_contains(&page, kept);
    }
    // What both have changed is not replaced without a word.
    let refused = save("Renamed", "network", "").await;
    refused.is(422);
    let error = between(&refused.text, "id=\"tags-error-1\">", "<");
    assert_contains(error, "was changed to \u{201c}database\u{201d}");
    assert_contains(&refused.text, "name=\"tags\" value=\"network\"");
    assert_contains(&owner.get(&path).await.text, "value=\"database\"");
}

async fn a_connection_is_edited(app: TestApp) {
    let owner = app.browser().await;
    let service = app.key().service("payments").await;
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
        ("events", "incident.opened"),
        ("events", "incident.suspects"),
        ("events", "incident.resolved"),
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
    owner.submit(&path, &fields).await;
    let page = owner.get(&path).await.text;
    for shown in ["<bdi>Recorded</bdi>", "<bdi>high risk</bdi>"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    for gone in ["value=\"abc\"", "value=\"4\"", "<bdi>payments</bdi>"] {
        assert!(!page.contains(gone), "{gone}: {page}");
    }
    let log = owner.body("/api/activity?resource=integration").await;
    let change = &log["items"][0]["metadata"]["changes"]["filter"];
    assert_eq!(change["from"]["service_ids"][0], Value::from(service));
    assert_eq!(change["to"]["min_risk"], "high");
    // A name of another connection, without regard to case.
    connect(&owner, &webhook("Bot")).await;
    let mut fields = fields;
    fields[0].1 = "BOT";
    let refused = owner.post_form(&path, &fields).await;
    refused.is(422);
    assert_contains(&refused.text, "id=\"name-error-1\"");
}
