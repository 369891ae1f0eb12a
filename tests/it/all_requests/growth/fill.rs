//! Fills a database with more or less of everything that grows. What the API records is
//! recorded by it; the rest is inserted by statements for both databases.

use changelog_tests::database::{self, Db};
use changelog_tests::receivers::Receiver;
use changelog_tests::{Engine, TestApp, TestClient, text};
use chrono::{TimeDelta, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::super::fixture::Fixture;

/// The size of a database.
#[derive(Clone, Copy, Debug)]
pub(in crate::all_requests) struct Size {
    /// The number of changes, and of everything that is written for changes.
    pub(in crate::all_requests) changes: usize,
    /// The number of services, hosts, people, keys and the like, which quotas limit to a
    /// thousand.
    pub(in crate::all_requests) nouns: usize,
}

impl Size {
    /// A small database, and one of the same shape with ten times as much of everything.
    pub(super) const BOTH: [Self; 2] = [
        Self {
            changes: 1_500,
            nouns: 40,
        },
        Self {
            changes: 15_000,
            nouns: 400,
        },
    ];
}

/// The changes of one request.
const BULK: usize = 500;

/// The minutes between two changes, so that the small database has 150 days of them: more
/// than the statements read that are limited by days.
const MINUTES: usize = 144;

const WORDS: [&str; 11] = [
    "ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "kite",
];

/// What is inserted for each number `n` up to the number of nouns. `ID(x)`,
/// `TEXT(x)` (an id in JSON), `HASH(x)`, `ORG`,
/// `OWNER`, `SERVICE`, `RECEIVER`, `SOURCE` and `NOW` are replaced; `AGE` is the current time, for a
/// third of the rows long ago, so that they have expired.
const PER_NOUN: [&str; 24] = [
    "organizations (id, name, plan, created_at) SELECT ID(n), 'Other', 'pro', NOW",
    "retentions (organization_id, months, due_at) SELECT ID(n), 12, NOW + 99999999",
    "erasures (organization_id, user_id, names, due_at, stage, place, replaced)
        SELECT ID(n), ID(n), '[]', NOW + 99999999, 0, '', 0",
    "users (id, email, email_folded, name, password_hash, created_at)
        SELECT ID(n), 'p' || n || '@example.org', 'p' || n || '@example.org', 'P', '', NOW",
    "memberships (organization_id, user_id, role, created_at) SELECT ORG, ID(n), 'member', NOW",
    "sessions (token_hash, user_id, organization_id, created_at, last_seen_at)
        SELECT HASH(n), ID(n), ORG, AGE, AGE",
    // Each organization has one.
    "sso_providers (organization_id, issuer, client_id, client_secret, groups_claim, group_roles,
            is_required, has_own_redirect, allows_insecure, created_at, updated_at)
        SELECT ID(n), 'https://login.example.org', 'log', EMPTY, 'groups', '[]', 0, 1, 0, NOW, NOW",
    "sso_identities (organization_id, issuer, subject, user_id, created_at)
        SELECT ORG, 'https://login.example.org', 'subject ' || n, ID(n), NOW",
    "sso_used (organization_id, token_hash, used_at) SELECT ORG, HASH(n), AGE",
    "known_browsers (user_id, token_hash, used_at) SELECT ID(n), HASH(n), AGE",
    "sign_in_failures (bucket, failures, last_failed_at) SELECT HASH(n), 1, AGE",
    "invitations (organization_id, id, email, email_folded, role, token_hash, invited_by,
            created_at, expires_at)
        SELECT ORG, ID(n), 'i' || n || '@example.org', 'i' || n || '@example.org', 'member',
            HASH(n), 'P', AGE, AGE + 259200000",
    "feeds (organization_id, user_id, token_hash, created_at) SELECT ORG, ID(n), HASH(n), NOW",
    "subscriptions (organization_id, service_id, user_id, min_risk, mail, created_at)
        SELECT ORG, SERVICE, ID(n), 'high', 'daily', NOW",
    // A third of the mails is due.
    "mailboxes (organization_id, user_id, mail, token, due_at, attempts, failures)
        SELECT ORG, ID(n), 'daily', 'token-' || n,
            NOW + CASE WHEN n % 3 = 0 THEN 0 ELSE 99999999 END, 0, 0",
    "api_keys (id, organization_id, name, key_hash, masked, permissions, created_at)
        SELECT ID(n), ORG, 'key ' || n, HASH(n), '', '{\"scopes\":[\"read\"]}', NOW",
    // Some should have been heard, some have been missed.
    "rhythms (organization_id, id, is_key, last_seen_at, rhythm, expected_by, is_missed, gaps)
        SELECT ORG, ID(n), 1, NOW - n, EMPTY,
            CASE n % 4 WHEN 1 THEN NOW + 99999999 WHEN 2 THEN NOW - n WHEN 3 THEN NOW - n END,
            CASE n % 4 WHEN 3 THEN 1 ELSE 0 END, '[]'",
    "saved_views (organization_id, id, owner, name, name_folded, query, created_at)
        SELECT ORG, ID(n), 'person ' || n, 'All', 'all', '', NOW",
    // An organization has few.
    "connections (organization_id, id, kind, name, name_folded, address, target, filter,
            created_at, created_by)
        SELECT ID(n), ID(n), 'webhook', 'Bot', 'bot', '', EMPTY, '{}', NOW, 'P'",
    "sources (organization_id, id, kind, name, name_folded, token_hash, settings, created_at,
            created_by)
        SELECT ID(n), ID(n), 'github', 'GitHub', 'github', HASH(n), '{}', NOW, 'P'",
    "workloads (id, organization_id, name, name_folded, issuer, audience, claims, is_insecure,
            lookup, hint_lookup, permissions, created_by, created_at)
        SELECT ID(n), ID(n), 'workload ' || n, 'workload ' || n, 'https://i.example', 'a', '[]', 0,
            ID(n), ID(n), '{\"scopes\":[\"read\"]}', 'P', NOW",
    "activity_actors (organization_id, actor_key, actor_name)
        SELECT ORG, 'API key: key ' || n, 'API key: key ' || n",
    "activity (organization_id, id, actor_id, actor_name, action, resource_type, resource_id,
            resource_label, metadata, created_at)
        SELECT ORG, ID(n), OWNER, 'Ada', 'signed_in', 'session', OWNER, 'Ada', '{}', NOW",
    "pending_activity (id, organization_id, actor_id, actor_name, action, resource_type,
            resource_id, resource_label, metadata, created_at)
        SELECT ID(1000 + n), ORG, OWNER, 'Ada', 'signed_in', 'session', OWNER, 'Ada', '{}', NOW",
];

/// What is inserted for each number up to the number of changes. `DOCUMENT` is that of an
/// event which the service has recorded.
const PER_CHANGE: [&str; 12] = [
    "notifications (organization_id, user_id, subject_id, is_incident, kind, title, level, status,
            services, actor, at, is_unread, mail)
        SELECT ORG, OWNER, ID(n), 0, 'change.created', 'A change', 'low', 'completed', 'payments',
            'P', CASE n % 4 WHEN 1 THEN NOW - n ELSE AGE END, n % 2,
            CASE n % 4 WHEN 1 THEN 'daily' END",
    // Some are still to be queued.
    "events (organization_id, document, created_at, is_new)
        SELECT ORG, replace(DOCUMENT, 'CHANGE', TEXT(n)), AGE, CASE WHEN n % 24 = 1 THEN 1 END",
    // Of four deliveries about a change two were sent, one has failed, and one is due now, or
    // later, or was claimed by a server that is gone. Those that have expired were sent.
    "deliveries (organization_id, connection_id, sequence, subject_id, state, attempts, next_at,
            earliest_at, is_claimed, created_at)
        SELECT ORG, RECEIVER, sequence, ID(n / 4), CASE WHEN created_at = 100000 THEN 'delivered'
                WHEN n % 4 = 0 THEN 'pending' WHEN n % 4 = 1 THEN 'dead' ELSE 'delivered' END, 1,
            CASE n % 64 WHEN 0 THEN NOW - n ELSE NOW + 99999999 END, NOW - n,
            CASE n % 32 WHEN 4 THEN 1 ELSE 0 END, created_at
        FROM (SELECT sequence, created_at, row_number() OVER (ORDER BY sequence) AS n FROM events
            WHERE organization_id = ORG AND is_new IS NULL
                AND sequence > (SELECT coalesce(max(sequence), 0) FROM deliveries)) AS numbers",
    "receiver_messages (organization_id, connection_id, subject_id, reference, sequence, updated_at)
        SELECT ORG, RECEIVER, ID(n), '{}', n, AGE",
    // Most were read, some are still to be read, and some were set aside.
    "source_events (organization_id, id, source_id, received_at, request_id, headers, body, size,
            outcome, change_ids)
        SELECT ORG, ID(n), SOURCE, NOW - n, 'request ' || n, '{}', EMPTY, 0,
            CASE n % 48 WHEN 1 THEN 'pending' WHEN 2 THEN 'set_aside' ELSE 'ignored' END, '[]'",
    // Some sessions are over.
    "source_operations (organization_id, source_id, key_hash, change_id, session, document,
            first_at, last_at, due_at, updated_at)
        SELECT ORG, SOURCE, HASH(n), ID(n), HASH(n % 3), '{}', NOW - n, NOW - n,
            CASE n % 24 WHEN 1 THEN NOW + 99999999 END, AGE",
    "source_calls (organization_id, source_id, call_hash, change_id, seen_at)
        SELECT ORG, SOURCE, HASH(n), ID(n), AGE",
    // Some are open, few are to be ranked.
    "incidents (organization_id, id, is_open, started_at, service_id, cause_change_id, rank_at,
            rerank_from, updated_at, document, suspects)
        SELECT ORG, ID(n), CASE n % 12 WHEN 1 THEN 1 ELSE 0 END, NOW - n, SERVICE, ID(n / 8),
            CASE n % 24 WHEN 1 THEN NOW + 99999999 END, NOW, NOW, INCIDENT, '{}'",
    "incident_alerts (organization_id, source_id, key_hash, incident_id, is_firing, last_at,
            updated_at)
        SELECT ORG, SOURCE, HASH(n), ID(n), n % 2, NOW - n, AGE",
    "joined_changes (organization_id, change_id, into_id, joined_at)
        SELECT ORG, ID(9000 + n), ID(n), AGE",
    "idempotency (organization_id, scope, fingerprint, outcome, created_at)
        SELECT ORG, HASH(n), HASH(n), '{}', AGE",
    // What was recorded of every third change by a person.
    "activity (organization_id, id, actor_id, actor_name, action, resource_type, resource_id,
            resource_label, metadata, created_at)
        SELECT ORG, ID(5000 + n), OWNER, 'Ada', 'updated', 'change', ID(n), 'A change', '{}', NOW
        FROM numbers WHERE n % 3 = 0",
];

/// The document of an incident.
const INCIDENT: &str = r#"'{"id":"01900000-0000-7000-8000-000000000000","title":"Down",
    "severity":"warning","status":"open","started_at":"2026-01-15T08:30:00.000Z",
    "created_at":"2026-01-15T08:30:00.000Z","updated_at":"2026-01-15T08:30:00.000Z"}'"#;

/// What is inserted once: a mail about many changes that is due.
const ONCE: [&str; 1] = [
    "mailboxes (organization_id, user_id, mail, token, due_at, attempts, failures)
        SELECT ORG, OWNER, 'daily', 'token', NOW, 0, 0",
];

/// Fills the database, connects a receiver, and returns what requests are about. The service
/// is killed before the backlog is inserted.
pub(in crate::all_requests) async fn fill(
    app: &mut TestApp,
    receiver: &Receiver,
    size: Size,
) -> Fixture {
    let fixture = Fixture::create(app).await;
    let key = app.key();
    let services = create(
        &key,
        "/api/services",
        size.nouns,
        |name| json!({ "name": name, "depends_on": [fixture.other_service] }),
    );
    let services = services.await;
    let hosts = create(
        &key,
        "/api/hosts",
        size.nouns,
        |name| json!({ "hostname": name }),
    )
    .await;
    for start in (0..size.changes).step_by(BULK) {
        let changes = (start..start + BULK).map(|n| change(n, &fixture, &services, &hosts));
        let body = json!({ "changes": changes.collect::<Vec<_>>() });
        let answer = key.post("/api/changes/bulk", body).await.data(201);
        update_often(&key, &text(&answer[0]["id"]), BULK / 50).await;
    }
    let organization = app.organization.id.clone();
    let create = ["integration", "create", "--org", &organization];
    let named = ["--kind", "webhook", "--name", "Receiver"];
    // Most of what the requests record is not sent, which would take long.
    let (filter, url) = (["--min-risk", "high"], receiver.url());
    let made = app.admin(&[&create[..], &named, &filter, &["--url", &url]].concat());
    let source = app.source("github", "Deployments", Some("secret")).id;
    // An event that nobody receives is deleted.
    let named = ["--kind", "webhook", "--name", "Every event"];
    let every = app.admin(&[&create[..], &named, &["--url", &url]].concat());
    update_often(&key, &fixture.change, 1).await;
    let document = event_document(app).await;
    app.server.kill9();
    app.admin(&["integration", "delete", &text(&every["id"])]);
    insert(app, &fixture, &text(&made["id"]), &source, &document, size).await;
    fixture
}

async fn update_often(key: &TestClient, change: &str, times: usize) {
    for round in 0..times {
        let body = json!({ "description": format!("update {round}") });
        key.patch(&format!("/api/changes/{change}"), body)
            .await
            .is(200);
    }
}

/// Returns the document of the last event.
async fn event_document(app: &TestApp) -> String {
    let mut db = Db::open(app.engine, &app.database).await;
    let select = "SELECT document FROM events ORDER BY sequence DESC LIMIT 1";
    let documents: Vec<(String,)> = database::fetch!(&mut db, sqlx::query_as(select));
    db.close().await;
    let (document,) = documents.first().expect("an event");
    document.replace('\'', "''")
}

async fn insert(
    app: &TestApp,
    fixture: &Fixture,
    receiver: &str,
    source: &str,
    document: &str,
    size: Size,
) {
    let mut db = Db::open(app.engine, &app.database).await;
    for (statements, rows) in [
        (&PER_NOUN[..], size.nouns),
        (&PER_CHANGE, size.changes),
        (&ONCE, 1),
    ] {
        for statement in statements {
            let has_source = statement.contains("FROM ");
            let from = if has_source { "" } else { "FROM numbers" };
            let statement = format!(
                "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers \
                 WHERE n < {rows}) INSERT INTO {statement} {from}"
            );
            let statement = written(app, &statement, fixture, receiver, source);
            let statement = statement.replace("DOCUMENT", &format!("'{document}'"));
            database::execute!(&mut db, sqlx::query(AssertSqlSafe(statement.clone())));
        }
    }
    db.close().await;
}

/// Creates hosts or services, and returns their ids.
async fn create(
    key: &TestClient,
    path: &str,
    count: usize,
    body: impl Fn(String) -> Value,
) -> Vec<String> {
    let mut ids = Vec::new();
    for start in (0..count).step_by(20) {
        let bodies = (start..start + 20).map(|n| body(format!("noun-{n}")));
        ids.extend(join_all(bodies.map(|body| key.create(path, body))).await);
    }
    ids
}

/// Returns a change: the last ones are before now and the others before the end of the range of
/// the fixture, so that a larger database has a longer history.
fn change(number: usize, fixture: &Fixture, services: &[String], hosts: &[String]) -> Value {
    let end = if number < BULK {
        Utc::now()
    } else {
        fixture.until.parse().expect("a time")
    };
    let minutes = i64::try_from(MINUTES * number).expect("few");
    let at = end - TimeDelta::minutes(minutes);
    let of = |ids: &[String], own: &str| match number % 4 {
        0 => Value::Null,
        1 => json!(own),
        _ => json!(ids[number % ids.len()]),
    };
    let mut change = json!({
        "title": format!("Deploy {} {}", WORDS[number % 7], WORDS[number % 11]),
        "service_id": of(services, &fixture.service),
        "host_id": of(hosts, &fixture.host),
        "risk_level": (["low", "medium", "high"][number % 3]),
        "status": "completed",
        "environment": (["prod", "staging", "dev"][number / 3 % 3]),
        "tags": if number.is_multiple_of(2) { vec!["often"] } else { vec!["often", "seldom", "by-hand", "terraform"] },
        "started_at": at.to_rfc3339(),
        "ended_at": at.to_rfc3339(),
    });
    match number % 50 {
        1 => {
            let later = Utc::now() + TimeDelta::minutes(minutes);
            change = json!({ "title": "Plan", "status": "planned", "scheduled_for": later.to_rfc3339(),
                "service_id": fixture.service });
        }
        2 => change["status"] = json!("rolled_back"),
        3 => {
            change["status"] = json!("in_progress");
            change["ended_at"] = Value::Null;
        }
        4 => {
            let further = &services[number / 50 % services.len()];
            change["service_ids"] = json!([fixture.service, further]);
        }
        5 => change["title"] = json!("Deploy a needle"),
        6 => change["occurred_at"] = json!((at - TimeDelta::minutes(1)).to_rfc3339()),
        _ => {}
    }
    if number % 50 == 4 {
        change["service_id"] = Value::Null;
    }
    change
}

/// Writes a statement for the database of an app.
fn written(
    app: &TestApp,
    statement: &str,
    fixture: &Fixture,
    receiver: &str,
    source: &str,
) -> String {
    let literal = |id: &str| {
        let id: Uuid = id.parse().expect("an id");
        match app.engine {
            Engine::Sqlite => format!("x'{}'", id.simple()),
            Engine::Postgres => format!("'{id}'::uuid"),
        }
    };
    let mut statement = statement.to_owned();
    // Ids are of June 2024.
    for (name, digits) in [(" ID(", 28), (" TEXT(", 12), (" HASH(", 60)] {
        while let Some((before, after)) = statement.split_once(name) {
            let (number, after) = after.split_once(')').expect("a parenthesis");
            let number = match app.engine {
                Engine::Sqlite => format!("printf('%0{digits}d', {number})"),
                Engine::Postgres => format!("lpad(({number})::text, {digits}, '0')"),
            };
            let value = match (name, app.engine) {
                (" TEXT(", _) => format!("'01900000-0000-0000-0000-' || {number}"),
                (_, Engine::Sqlite) => format!("unhex('0190' || {number})"),
                (" ID(", Engine::Postgres) => format!("uuid('0190' || {number})"),
                (_, Engine::Postgres) => format!("decode('0190' || {number}, 'hex')"),
            };
            statement = format!("{before} {value}{after}");
        }
    }
    statement
        .replace(
            "EMPTY",
            if app.engine == Engine::Sqlite {
                "x''"
            } else {
                "''"
            },
        )
        .replace("AGE", "CASE WHEN n % 3 = 0 THEN 100000 ELSE NOW END")
        .replace("ORG", &literal(&app.organization.id))
        .replace("OWNER", &literal(&app.organization.owner_id))
        .replace("SERVICE", &literal(&fixture.service))
        .replace("RECEIVER", &literal(receiver))
        .replace("SOURCE", &literal(source))
        .replace("INCIDENT", INCIDENT)
        .replace("NOW", &Utc::now().timestamp_millis().to_string())
}
