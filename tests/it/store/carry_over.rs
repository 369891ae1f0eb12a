//! A database of the first schema, with years in it, is opened by the service
//! of today.

use std::path::Path;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use sqlx::types::{Json, Uuid};

use crate::world::database::{Db, execute, fetch};
use crate::world::shape;
use crate::world::{Caller, Engine, Organization, Postgres, Server, World, each, on_both, send};

on_both!(
    what_was_there_is_there,
    opening_it_again_changes_nothing,
    what_was_carried_over_can_be_changed,
    answers_and_entries_are_kept,
    cursors_walk_over_a_crowd,
);

const RISKS: [&str; 3] = ["low", "medium", "high"];
const STATUSES: [&str; 4] = ["planned", "in_progress", "completed", "rolled_back"];
const HOUR: i64 = 3_600_000;
/// The millisecond that many changes share, since 1970.
const MOMENT: i64 = 1_763_713_800_123;
/// The twenty bits after the milliseconds that 300 of them share.
const CROWDED: u64 = 0x5_a53c;

/// Makes the first schema, and nothing of what came later.
async fn migrate(db: &mut Db, folder: &Path) {
    let engine = match db {
        Db::Sqlite(_) => "sqlite",
        Db::Postgres(_) => "postgres",
    };
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../changelog-server/migrations")
        .join(engine);
    let name = "0001_change_log.sql";
    let only = folder.join("migrations");
    std::fs::create_dir(&only).expect("a folder");
    std::fs::copy(migrations.join(name), only.join(name)).expect("it is there");
    let migrator = Migrator::new(only.as_path()).await.expect("a migration");
    let run = match db {
        Db::Sqlite(db) => migrator.run(&mut *db).await,
        Db::Postgres(db) => migrator.run(&mut *db).await,
    };
    run.expect("it is applied");
}

/// What the old database holds.
struct Past {
    services: [Value; 2],
    hosts: [Value; 2],
    /// The changes as the service answers them, newest first.
    changes: Vec<Value>,
    /// Another organization with its changes.
    other: (Organization, Vec<Value>),
}

impl Past {
    /// Puts an old database in place of the world's own, with the same people
    /// and keys, and has the service open it.
    async fn open(world: &mut World) -> Self {
        Self::open_with(world, async |_, _| {}).await
    }

    /// The same, with more rows in it.
    async fn open_with(world: &mut World, more: impl AsyncFn(&mut Db, &World)) -> Self {
        let other = world.second_organization();
        let database = match world.engine {
            Engine::Sqlite => format!("sqlite://{}/past.db", world.folder().display()),
            Engine::Postgres => {
                let postgres = Postgres::shared().await.expect("it runs");
                postgres.database().await
            }
        };
        let mut db = Db::open(world.engine, &database).await;
        migrate(&mut db, world.folder()).await;
        let mut now = Db::open(world.engine, &world.database).await;
        execute!(&mut db, sqlx::query("BEGIN"));
        copy_people(&mut now, &mut db).await;
        let past = Self::insert(&mut db, world, other).await;
        more(&mut db, world).await;
        execute!(&mut db, sqlx::query("COMMIT"));
        now.close().await;
        db.close().await;

        world.server.kill9();
        world.database = database;
        let server = Server::start(world.serve_command()).await;
        world.server = server.unwrap_or_else(|said| panic!("serve ends: {said}"));
        past
    }

    async fn insert(db: &mut Db, world: &World, other: Organization) -> Self {
        let mut things = Vec::new();
        for (organization, name, color) in [
            (&world.organization, "payments \"EU\"", "#6366f1"),
            (&world.organization, "Überweisung \\ {x}", "#0aF"),
            (&other, "theirs", "#fff"),
        ] {
            things.push(insert_service(db, &organization.id, name, color).await);
        }
        let mut hosts = Vec::new();
        for (organization, name, environment) in [
            (&world.organization, "web-1", Some("prod")),
            (&world.organization, "wéb-\"2\"", None),
            (&other, "theirs", Some("dev")),
        ] {
            hosts.push(insert_host(db, &organization.id, name, environment).await);
        }
        let (services, their_service) = things.split_at(2);
        let (hosts, their_host) = hosts.split_at(2);
        let mut lists = Vec::new();
        for (organization, services, hosts, ids) in [
            (&world.organization, services, hosts, ids()),
            (&other, their_service, their_host, their_ids()),
        ] {
            let mut changes = Vec::new();
            for (index, id) in ids.into_iter().enumerate() {
                let change = change(index, id, &organization.id, services, hosts);
                insert_change(db, &change).await;
                changes.push(change);
            }
            changes.sort_by(|one, other| other["id"].as_str().cmp(&one["id"].as_str()));
            lists.push(changes);
        }
        let theirs = lists.pop().expect("two lists");
        Self {
            services: [services[0].clone(), services[1].clone()],
            hosts: [hosts[0].clone(), hosts[1].clone()],
            changes: lists.pop().expect("two lists"),
            other: (other, theirs),
        }
    }
}

/// Copies organizations, people and keys, whose tables are the same.
async fn copy_people(from: &mut Db, to: &mut Db) {
    let rows: Vec<(Uuid, String, String, i64)> = fetch!(
        &mut *from,
        sqlx::query_as("SELECT id, name, plan, created_at FROM organizations")
    );
    for (id, name, plan, at) in &rows {
        let insert =
            "INSERT INTO organizations (id, name, plan, created_at) VALUES ($1, $2, $3, $4)";
        execute!(
            &mut *to,
            sqlx::query(insert).bind(id).bind(name).bind(plan).bind(at)
        );
    }
    let rows: Vec<(Uuid, String, String, String, String, i64)> = fetch!(
        &mut *from,
        sqlx::query_as(
            "SELECT id, email, email_folded, name, password_hash, created_at FROM users"
        )
    );
    for (id, email, folded, name, hash, at) in &rows {
        let insert = "
INSERT INTO users (id, email, email_folded, name, password_hash, created_at)
VALUES ($1, $2, $3, $4, $5, $6)";
        execute!(
            &mut *to,
            sqlx::query(insert)
                .bind(id)
                .bind(email)
                .bind(folded)
                .bind(name)
                .bind(hash)
                .bind(at)
        );
    }
    let rows: Vec<(Uuid, Uuid, String, i64)> = fetch!(
        &mut *from,
        sqlx::query_as("SELECT organization_id, user_id, role, created_at FROM memberships")
    );
    for (organization, user, role, at) in &rows {
        let insert = "
INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)";
        execute!(
            &mut *to,
            sqlx::query(insert)
                .bind(organization)
                .bind(user)
                .bind(role)
                .bind(at)
        );
    }
    let rows: Vec<(Uuid, Uuid, String, Vec<u8>, String, i64)> = fetch!(
        &mut *from,
        sqlx::query_as(
            "SELECT id, organization_id, name, key_hash, masked, created_at FROM api_keys"
        )
    );
    for (id, organization, name, hash, masked, at) in &rows {
        let insert = "
INSERT INTO api_keys (id, organization_id, name, key_hash, masked, created_at)
VALUES ($1, $2, $3, $4, $5, $6)";
        execute!(
            &mut *to,
            sqlx::query(insert)
                .bind(id)
                .bind(organization)
                .bind(name)
                .bind(hash)
                .bind(masked)
                .bind(at)
        );
    }
}

fn uuid(id: &Value) -> Option<Uuid> {
    Some(id.as_str()?.parse().expect("an id"))
}

/// Inserts a service and returns it as a change shows it.
async fn insert_service(db: &mut Db, organization: &str, name: &str, color: &str) -> Value {
    let id = Uuid::now_v7();
    let insert = "
INSERT INTO services (organization_id, id, name, name_folded, description, color, created_at)
VALUES ($1, $2, $3, $4, NULL, $5, $6)";
    execute!(
        db,
        sqlx::query(insert)
            .bind(organization.parse::<Uuid>().expect("an id"))
            .bind(id)
            .bind(name)
            .bind(name.to_lowercase())
            .bind(color)
            .bind(MOMENT)
    );
    json!({ "id": id, "name": name, "color": color })
}

/// Inserts a host and returns it as a change shows it.
async fn insert_host(
    db: &mut Db,
    organization: &str,
    hostname: &str,
    environment: Option<&str>,
) -> Value {
    let id = Uuid::now_v7();
    let insert = "
INSERT INTO hosts (organization_id, id, hostname, hostname_folded, platform, environment, roles,
    created_at)
VALUES ($1, $2, $3, $4, 'on-prem', $5, $6, $7)";
    execute!(
        db,
        sqlx::query(insert)
            .bind(organization.parse::<Uuid>().expect("an id"))
            .bind(id)
            .bind(hostname)
            .bind(hostname.to_lowercase())
            .bind(environment)
            .bind(Json(vec!["web"]))
            .bind(MOMENT)
    );
    json!({ "id": id, "hostname": hostname, "environment": environment })
}

/// Makes an id of a millisecond, of the twenty bits after it, and of the rest.
fn id(millis: i64, rest: u64, random: u64) -> Uuid {
    let millis = u64::try_from(millis).expect("after 1970");
    let (twelve, eight) = (rest >> 8, rest & 0xff);
    let low = (random.wrapping_mul(0x9e37_79b9_7f4a_7c15)) & ((1 << 54) - 1);
    Uuid::from_u64_pair(millis << 16 | 7 << 12 | twelve, 2 << 62 | eight << 54 | low)
}

/// The ids of the organization's changes: 300 at one place and others around
/// it, where it is crowded, and years before and after.
fn ids() -> Vec<Uuid> {
    let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9) & 0xf_ffff;
    let before = (0..350).map(|n: u64| {
        let hours = i64::try_from(n + 1).expect("a small number");
        id(MOMENT - hours * 17 * HOUR - hours, scattered(n), n)
    });
    let crowd = (0..300).map(|n| id(MOMENT, CROWDED, n));
    let beside = [0, CROWDED - 1, CROWDED + 1, CROWDED + 2, CROWDED + 5]
        .into_iter()
        .chain([CROWDED + 299, CROWDED + 300, CROWDED + 301, CROWDED + 400])
        .map(|rest| id(MOMENT, rest, rest));
    let edges = [
        id(MOMENT - 1, 0xf_ffff, 1),
        id(MOMENT - 1, 0, 2),
        id(MOMENT + 1, 0, 3),
        id(MOMENT + 1, 1, 4),
        id(MOMENT + 1, 0xf_ffff, 5),
    ];
    let after = (0..400).map(|n: u64| {
        let minutes = i64::try_from(n + 1).expect("a small number");
        id(MOMENT + minutes * 60_000, scattered(n), n)
    });
    // Not in the order of time: that is how they came in.
    after
        .chain(crowd)
        .chain(edges)
        .chain(beside)
        .chain(before)
        .collect()
}

/// Ids of another organization in the same crowd.
fn their_ids() -> Vec<Uuid> {
    (1_000..1_050).map(|n| id(MOMENT, CROWDED, n)).collect()
}

/// An old change as the service answers it.
fn change(
    index: usize,
    id: Uuid,
    organization: &str,
    services: &[Value],
    hosts: &[Value],
) -> Value {
    let (millis, _) = id.as_u64_pair();
    let occurred = i64::try_from(millis >> 16).expect("48 bits");
    let created = occurred + i64::try_from(index % 3).expect("a small number");
    let time = |millis| shape::time(DateTime::from_timestamp_millis(millis).expect("a time"));
    let long = "x".repeat(100);
    let tags: &[&str] = match index % 6 {
        0 => &[],
        1 => &["prod"],
        2 => &["ä&=%", "a b"],
        3 => &["\"quoted\"", "back\\slash", "{}"],
        4 => &["🚀", &long],
        _ => &[":tag", "it's", "prod"],
    };
    let links = match index % 5 {
        0 => json!([
            { "label": "run \"7\"", "url": "https://ci.example.com/7?a=b&c=%20" },
            { "label": "Änderung", "url": "http://example.com/" },
        ]),
        _ => json!([]),
    };
    json!({
        "id": id,
        "title": format!("Änderung {index} Straße 部署 🚀 \"{{x}}\" \\ '%' }}"),
        "description": index.is_multiple_of(2).then_some("first line\nsecond \"line\" \\ \t}"),
        "risk_level": RISKS[index % 3],
        "status": STATUSES[index / 3 % 4],
        "impact": index.is_multiple_of(7).then_some("none}"),
        "service": services.get(index % 4),
        "host_ref": hosts.get(index % 5),
        "tags": tags,
        "links": links,
        "scheduled_for": index.is_multiple_of(3).then(|| time(occurred + HOUR)),
        "occurred_at": time(occurred),
        "organization_id": organization,
        "created_at": time(created),
        "updated_at": time(created + HOUR),
    })
}

async fn insert_change(db: &mut Db, change: &Value) {
    let millis = |name: &str| {
        let time: DateTime<Utc> = change[name].as_str()?.parse().expect("a time");
        Some(time.timestamp_millis())
    };
    let insert = "
INSERT INTO changes (organization_id, id, title, description, risk_level, status, impact,
    service_id, host_id, tags, links, scheduled_for, occurred_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    let (organization, id) = (uuid(&change["organization_id"]), uuid(&change["id"]));
    execute!(
        &mut *db,
        sqlx::query(insert)
            .bind(organization)
            .bind(id)
            .bind(change["title"].as_str())
            .bind(change["description"].as_str())
            .bind(change["risk_level"].as_str())
            .bind(change["status"].as_str())
            .bind(change["impact"].as_str())
            .bind(uuid(&change["service"]["id"]))
            .bind(uuid(&change["host_ref"]["id"]))
            .bind(Json(&change["tags"]))
            .bind(Json(&change["links"]))
            .bind(millis("scheduled_for"))
            .bind(millis("occurred_at"))
            .bind(millis("created_at"))
            .bind(millis("updated_at"))
    );
    for tag in change["tags"].as_array().expect("a list") {
        let insert =
            "INSERT INTO change_tags (organization_id, tag, change_id) VALUES ($1, $2, $3)";
        execute!(
            &mut *db,
            sqlx::query(insert)
                .bind(organization)
                .bind(tag.as_str())
                .bind(id)
        );
    }
}

/// Walks all pages of a list.
async fn walk(key: &Caller, query: &str) -> Vec<Value> {
    let mut walked = Vec::new();
    for page in 1.. {
        let path = format!("/api/changes?per_page=100&page={page}&{query}");
        let body = key.get(&path).await.body(200);
        let data = body["data"].as_array().expect("a list");
        walked.extend(data.iter().cloned());
        if data.len() < 100 {
            assert_eq!(body["count"], walked.len(), "{path}");
            break;
        }
    }
    walked
}

/// Tells whether a list should hold a change.
type Selects<'a> = Box<dyn Fn(&Value) -> bool + 'a>;

/// Requires that lists hold what the past says.
async fn lists_hold(key: &Caller, past: &Past) {
    let is = |change: &Value, name: &str, value: &str| change[name] == value;
    let has = |change: &Value, tag: &str| {
        let tags = change["tags"].as_array().expect("a list");
        tags.iter().any(|known| known == tag)
    };
    let of = |list: &Value, id: &Value| list["id"] == *id;
    let [service, other_service] = [0, 1].map(|index| past.services[index]["id"].clone());
    let [host, other_host] = [0, 1].map(|index| past.hosts[index]["id"].clone());
    let id_of = |id: &Value| id.as_str().expect("an id").to_owned();
    let long = "x".repeat(100);
    let moment = |millis| shape::time(DateTime::from_timestamp_millis(millis).expect("a time"));
    let (start, end) = (moment(MOMENT), moment(MOMENT + 1));
    let cases: Vec<(String, Selects<'_>)> = vec![
        (String::new(), Box::new(|_| true)),
        (
            "risk_level=high".into(),
            Box::new(|change| is(change, "risk_level", "high")),
        ),
        (
            "risk_level=low&status=completed".into(),
            Box::new(|change| is(change, "risk_level", "low") && is(change, "status", "completed")),
        ),
        (
            format!("service_id={}", id_of(&service)),
            Box::new(|change| of(&change["service"], &service)),
        ),
        (
            format!("service_id={}", id_of(&other_service)),
            Box::new(|change| of(&change["service"], &other_service)),
        ),
        (
            format!("host_id={}", id_of(&host)),
            Box::new(|change| of(&change["host_ref"], &host)),
        ),
        (
            format!("host_id={}&status=planned", id_of(&other_host)),
            Box::new(|change| {
                of(&change["host_ref"], &other_host) && is(change, "status", "planned")
            }),
        ),
        ("tag=prod".into(), Box::new(|change| has(change, "prod"))),
        (
            "tag=%C3%A4%26%3D%25".into(),
            Box::new(|change| has(change, "ä&=%")),
        ),
        (
            "tag=%22quoted%22&tag=back%5Cslash&risk_level=low".into(),
            Box::new(|change| has(change, "\"quoted\"") && is(change, "risk_level", "low")),
        ),
        (format!("tag={long}"), Box::new(|change| has(change, &long))),
        ("tag=%3Atag".into(), Box::new(|change| has(change, ":tag"))),
        ("q=strasse+anderung".into(), Box::new(|_| true)),
        (
            "q=31".into(),
            Box::new(|change| {
                let title = change["title"].as_str().expect("a title");
                title.starts_with("Änderung 31")
            }),
        ),
        ("q=nothing".into(), Box::new(|_| false)),
        (
            format!("since={start}&until={end}"),
            Box::new(|change| change["occurred_at"] == *start),
        ),
        (
            format!("since={end}&risk_level=medium"),
            Box::new(|change| {
                change["occurred_at"].as_str() >= Some(&*end) && is(change, "risk_level", "medium")
            }),
        ),
    ];
    for (query, selects) in &cases {
        let mut expected = past.changes.clone();
        expected.retain(|change| selects(change));
        let found = walk(key, query).await;
        let ids = |changes: &[Value]| {
            let ids: Vec<Value> = changes.iter().map(|change| change["id"].clone()).collect();
            ids
        };
        assert_eq!(ids(&found), ids(&expected), "{query}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{query}");
        }
    }
}

async fn what_was_there_is_there(mut world: World) {
    let past = Past::open(&mut world).await;
    let key = world.key();
    let (other, theirs) = &past.other;
    let stranger = world.with_key(&other.key);
    for (caller, changes) in [(&key, &past.changes), (&stranger, theirs)] {
        for changes in changes.chunks(16) {
            join_all(changes.iter().map(|change| async move {
                let id = change["id"].as_str().expect("an id");
                let found = caller.get(&format!("/api/changes/{id}")).await;
                assert_eq!(found.data(200), *change);
            }))
            .await;
        }
    }
    lists_hold(&key, &past).await;
    // The same place, and still each their own.
    assert_eq!(walk(&stranger, "").await, *theirs);
    let id = theirs[0]["id"].as_str().expect("an id");
    let foreign = key.get(&format!("/api/changes/{id}")).await;
    foreign.problem(404, "not_found");

    // What shows of a service follows it, as always.
    let id = past.services[0]["id"].as_str().expect("an id");
    key.patch(
        &format!("/api/services/{id}"),
        json!({ "name": "billing", "color": "#000" }),
    )
    .await
    .is(200);
    let found = walk(&key, &format!("service_id={id}")).await;
    let service = json!({ "id": id, "name": "billing", "color": "#000" });
    assert!(!found.is_empty());
    assert!(found.iter().all(|change| change["service"] == service));
}

async fn opening_it_again_changes_nothing(mut world: World) {
    let past = Past::open(&mut world).await;
    for _ in 0..2 {
        world.restart().await;
        world.admin(&["key", "list", "--org", &world.organization.id]);
        lists_hold(&world.key(), &past).await;
    }
    world.key().change("and it goes on").await;
    let list = world.key().get("/api/changes").await.body(200);
    assert_eq!(list["count"], past.changes.len() + 1);
    assert_eq!(list["data"][0]["title"], "and it goes on");
}

async fn what_was_carried_over_can_be_changed(mut world: World) {
    let mut past = Past::open(&mut world).await;
    let key = world.key();
    let [_, other_service] = past.services.clone();
    // Every ninth, of the crowd as of the others.
    for (number, change) in past.changes.iter_mut().step_by(9).enumerate() {
        let mut patch = json!({ "title": format!("Änderung 9{number} of the Straße") });
        match number % 3 {
            0 => {
                patch["risk_level"] = json!("high");
                patch["tags"] = json!(["prod", "new"]);
            }
            1 => {
                patch["status"] = json!("rolled_back");
                patch["service_id"] = Value::Null;
            }
            _ => {
                patch["service_id"] = other_service["id"].clone();
                patch["host_id"] = Value::Null;
                patch["description"] = Value::Null;
            }
        }
        let id = change["id"].as_str().expect("an id");
        let answer = key
            .patch(&format!("/api/changes/{id}"), patch.clone())
            .await;
        let updated = answer.data(200);
        for (name, value) in patch.as_object().expect("an object") {
            match name.as_str() {
                "service_id" if value.is_null() => change["service"] = Value::Null,
                "service_id" => change["service"] = other_service.clone(),
                "host_id" => change["host_ref"] = Value::Null,
                _ => change[name] = value.clone(),
            }
        }
        change["updated_at"] = updated["updated_at"].clone();
        assert_eq!(updated, *change);
    }
    lists_hold(&key, &past).await;
    let new = past
        .changes
        .iter()
        .filter(|change| change["tags"] == json!(["prod", "new"]));
    assert_eq!(walk(&key, "tag=new").await.len(), new.count());
}

/// SHA-256, of the library that brings it for TLS.
fn sha256(bytes: &[u8]) -> Vec<u8> {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite = suite.tls13().expect("a suite of TLS 1.3");
    suite.common.hash_provider.hash(bytes).as_ref().to_vec()
}

async fn answers_and_entries_are_kept(mut world: World) {
    let body = json!({ "title": "once" });
    let bytes = body.to_string().into_bytes();
    let now = Utc::now().timestamp_millis();
    let answer = "{\"data\":{\"title\":\"as it was said then\"}}";
    let location = "/api/changes/018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    let entry = id(MOMENT, 0, 1);
    Past::open_with(&mut world, async |db, world| {
        let organization: Uuid = world.organization.id.parse().expect("an id");
        let key: Uuid = world.organization.key_id.parse().expect("an id");
        for (name, age) in [("kept", HOUR), ("expired", 49 * HOUR)] {
            let mut scope = key.as_bytes().to_vec();
            scope.extend(b"\0POST\0/api/changes\0");
            scope.extend(name.as_bytes());
            let insert = "
INSERT INTO idempotency (organization_id, scope, fingerprint, status, location, body, created_at)
VALUES ($1, $2, $3, 201, $4, $5, $6)";
            execute!(
                &mut *db,
                sqlx::query(insert)
                    .bind(organization)
                    .bind(sha256(&scope))
                    .bind(sha256(&bytes))
                    .bind(location)
                    .bind(answer)
                    .bind(now - age)
            );
        }
        let insert = "
INSERT INTO activity (organization_id, id, actor_id, actor_name, action, resource_type,
    resource_id, resource_label, metadata, created_at)
VALUES ($1, $2, NULL, 'API key: old', 'created', 'change', $2, 'Änderung', $3, $4)";
        execute!(
            &mut *db,
            sqlx::query(insert)
                .bind(organization)
                .bind(entry)
                .bind(Json(json!({ "risk_level": "low", "status": "planned" })))
                .bind(MOMENT)
        );
    })
    .await;
    let key = world.key();
    let create = |name: &'static str, body: Value| {
        let request = key.request("POST", "/api/changes");
        send(request.header("idempotency-key", name).json(&body))
    };
    let kept = create("kept", body.clone()).await;
    kept.is(201);
    assert_eq!(kept.text, answer);
    assert_eq!(kept.header("location"), location);
    assert_eq!(kept.header("idempotent-replayed"), "true");
    create("kept", json!({ "title": "another" }))
        .await
        .problem(422, "idempotency_key_reused");
    let expired = create("expired", body).await;
    assert_eq!(expired.data(201)["title"], "once");
    assert_eq!(expired.header("idempotent-replayed"), "");

    let browser = world.browser().await;
    let entries = browser.get("/api/activity?resource=change").await.body(200);
    assert_eq!(
        each(&entries["items"], "resource_label"),
        ["once", "Änderung"],
        "what is carried over is nothing that anybody did"
    );
    assert_eq!(
        entries["items"][1],
        json!({
            "id": entry, "actor_id": null, "actor_name": "API key: old", "action": "created",
            "resource_type": "change", "resource_id": entry, "resource_label": "Änderung",
            "metadata": { "risk_level": "low", "status": "planned" },
            "created_at": "2025-11-21T08:30:00.123Z",
        })
    );
}

/// A walk by cursors meets each change once, also those that shared a place.
async fn cursors_walk_over_a_crowd(mut world: World) {
    let past = Past::open(&mut world).await;
    let key = world.key();
    let mut walked: Vec<Value> = Vec::new();
    let mut before = String::new();
    loop {
        let path = format!("/api/changes?per_page=37{before}");
        let body = key.get(&path).await.body(200);
        let data = body["data"].as_array().expect("a list");
        walked.extend(data.iter().cloned());
        let Some(last) = data.last() else { break };
        before = format!("&before={}", last["id"].as_str().expect("an id"));
    }
    assert_eq!(walked.len(), past.changes.len());
    assert_eq!(walked, past.changes);
}
