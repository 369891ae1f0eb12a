//! Inserts a million changes of one organization on PostgreSQL directly into the tables,
//! because the API would take too long. `assert_seeded` checks through the API that they
//! are found and counted.

use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx_postgres::PgConnection;
use uuid::Uuid;

use super::fixture::Fixture;
use changelog_tests::shapes;
use changelog_tests::{TestApp, keys};

/// Functions that compute the values.
const FUNCTIONS: [&str; 4] = [
    "CREATE FUNCTION dice(number bigint, which bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$
        SELECT (hashint8extended(number, which) & 1073741823)::int $$",
    // One of 500 words, none of which starts with n; each is in 6,000 titles.
    "CREATE FUNCTION word(number bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT translate(lpad((number % 500)::text, 4, '0'), '0123456789', 'bdfgklmnrt') $$",
    "CREATE FUNCTION moment(millis bigint) RETURNS text LANGUAGE sql STABLE AS $$
        SELECT to_char(to_timestamp(millis / 1000.0) AT TIME ZONE 'UTC',
            'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') $$",
    // A UUID version 7; eight of the twenty bits of the sort key are after the variant.
    "CREATE FUNCTION id_at(millis bigint, twenty bigint, rest bigint) RETURNS uuid
        LANGUAGE sql IMMUTABLE AS $$
        SELECT (lpad(to_hex(millis), 12, '0') || '7' || lpad(to_hex(twenty >> 8), 3, '0')
            || to_hex(32768 | ((twenty & 255) << 6)) || lpad(to_hex(rest), 12, '0'))::uuid $$",
];

/// 10,000 organizations, each with a person, a key and a session; fifty of them also have
/// services, hosts and changes. PostgreSQL scans small tables, so no table is small.
const OTHER_ORGANIZATIONS: [&str; 34] = [
    "CREATE UNLOGGED TABLE others AS
        SELECT n, id_at(1600000000000 + n, n, n * 7919) AS organization_id,
            id_at(1600000000000 + n, n, n) AS id, sha256(n::text::bytea) AS hash,
            (extract(epoch FROM now()) * 1000)::bigint AS now
        FROM generate_series(1, 10000) AS n",
    "INSERT INTO organizations (id, name, plan, created_at)
        SELECT organization_id, 'Other ' || n, 'pro', now FROM others",
    "INSERT INTO users (id, email, email_folded, name, password_hash, created_at)
        SELECT id, n || '@example.org', n || '@example.org', 'P', '', now FROM others",
    "INSERT INTO memberships (organization_id, user_id, role, created_at)
        SELECT organization_id, id, 'owner', now FROM others",
    "INSERT INTO api_keys (id, organization_id, name, key_hash, masked, permissions, created_at)
        SELECT id, organization_id, 'other', hash, '', '{\"scopes\":[\"read\"]}', now FROM others",
    "INSERT INTO sessions (token_hash, user_id, organization_id, created_at, last_seen_at)
        SELECT hash, id, organization_id, now, now FROM others",
    "INSERT INTO feeds (organization_id, user_id, token_hash, created_at)
        SELECT organization_id, id, hash, now FROM others",
    "INSERT INTO subscriptions (organization_id, service_id, user_id, min_risk, mail, created_at)
        SELECT organization_id, id, id, 'low', 'daily', now FROM others",
    "INSERT INTO notifications (organization_id, user_id, subject_id, is_incident, kind, title,
            level, status, services, actor, at, is_unread, mail)
        SELECT organization_id, id, id_at(1600000000000, m, n * 7919), 0, 'change.created', 'A change',
            'low', 'completed', 'payments', 'P', now - m, CASE WHEN m > 2 THEN 0 ELSE 1 END,
            CASE WHEN m = 1 THEN 'daily' END
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO mailboxes (organization_id, user_id, mail, token, due_at, attempts, failures)
        SELECT organization_id, id, 'daily', 'token-' || n, CASE WHEN n <= 2000 THEN now + 86400000 + n END,
            0, 0
        FROM others",
    "INSERT INTO events (organization_id, document, created_at, is_new)
        SELECT organization_id, '{}', now, NULL FROM others, generate_series(1, 4)",
    "INSERT INTO connections (organization_id, id, kind, name, name_folded, address, target, filter,
            created_at, created_by, disabled_at)
        SELECT organization_id, id, 'webhook', 'Bot', 'bot', '', '', '{}', now, 'P', now FROM others",
    // Few are pending: the server looks after organizations with pending deliveries.
    "INSERT INTO deliveries (organization_id, connection_id, sequence, subject_id, state, attempts,
            next_at, earliest_at, is_claimed, created_at)
        SELECT organization_id, id, m, id_at(1600000000000, m, n * 7919),
            CASE WHEN m = 1 AND n <= 20 THEN 'pending' WHEN m = 2 THEN 'dead' ELSE 'delivered' END,
            1, now + 86400000, now, 0, now
        FROM others, generate_series(1, 6) AS m",
    "INSERT INTO receiver_messages (organization_id, connection_id, subject_id, reference, sequence, updated_at)
        SELECT organization_id, id, id, '{}', 1, now FROM others",
    "INSERT INTO saved_views (organization_id, id, owner, name, name_folded, query, created_at)
        SELECT organization_id, id, id::text, 'All', 'all', '', now FROM others",
    "INSERT INTO invitations (organization_id, id, email, email_folded, role, token_hash,
            invited_by, created_at, expires_at)
        SELECT organization_id, id, n || '@example.net', n || '@example.net', 'member', hash, 'P',
            now, now + 259200000
        FROM others",
    "INSERT INTO sign_in_failures (bucket, failures, last_failed_at)
        SELECT hash, 1, now FROM others",
    "INSERT INTO known_browsers (user_id, token_hash, used_at) SELECT id, hash, now FROM others",
    "INSERT INTO workloads (id, organization_id, name, name_folded, issuer, audience, claims,
            is_insecure, lookup, hint_lookup, permissions, created_by, created_at)
        SELECT id, organization_id, 'shop', 'shop', 'https://issuer.example.org', 'a', '[]', 0, id,
            id, '{\"scopes\":[\"read\"]}', 'P', now
        FROM others",
    "INSERT INTO sso_providers (organization_id, issuer, client_id, client_secret, groups_claim,
            group_roles, is_required, has_own_redirect, allows_insecure, created_at, updated_at)
        SELECT organization_id, 'https://login.example.org', 'log', '', 'groups', '[]', 0, 1, 0, now,
            now
        FROM others",
    "INSERT INTO retentions (organization_id, months, due_at)
        SELECT organization_id, 12, now + 99999999 FROM others",
    "INSERT INTO erasures (organization_id, user_id, names, due_at, stage, place, replaced)
        SELECT organization_id, id, '[]', now + 99999999, 0, '', 0 FROM others",
    "INSERT INTO sso_identities (organization_id, issuer, subject, user_id, created_at)
        SELECT organization_id, 'https://login.example.org', 'subject ' || n, id, now FROM others",
    "INSERT INTO sso_used (organization_id, token_hash, used_at)
        SELECT organization_id, hash, now FROM others",
    "INSERT INTO activity_actors (organization_id, actor_key, actor_name)
        SELECT organization_id, 'API key: other', 'API key: other' FROM others",
    "INSERT INTO idempotency
        (organization_id, scope, fingerprint, outcome, created_at)
        SELECT organization_id, substring(sha256((n + 10000 * m)::text::bytea) FOR 16), hash, '{}',
            now
        FROM others, generate_series(1, 5) AS m",
    "INSERT INTO sources (organization_id, id, kind, name, name_folded, token_hash, settings,
            created_at, created_by)
        SELECT organization_id, id, 'github', 'GitHub', 'github', hash, '{}', now, 'P' FROM others",
    "INSERT INTO source_events (organization_id, id, source_id, received_at, request_id, headers,
            body, size, outcome, change_ids)
        SELECT organization_id, id_at(now - m, m, n * 7919 + m), id, now, 'request ' || m,
            '{}', '', 0, CASE m WHEN 1 THEN 'set_aside' ELSE 'ignored' END, '[]'
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO source_operations (organization_id, source_id, key_hash, change_id, session,
            document, first_at, last_at, due_at, updated_at)
        SELECT organization_id, id, sha256(m::text::bytea), id, sha256(m::text::bytea), '{}', now,
            now, CASE WHEN n <= 20 THEN now + 86400000 END, now
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO source_calls (organization_id, source_id, call_hash, change_id, seen_at)
        SELECT organization_id, id, sha256(m::text::bytea), id, now
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO incidents (organization_id, id, is_open, started_at, rank_at, rerank_from,
            updated_at, document, suspects)
        SELECT organization_id, id_at(1600000000000, m, n * 7919), m % 2, now - m,
            CASE WHEN n <= 20 THEN now + 86400000 END, now, now, '{}', '{}'
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO incident_alerts (organization_id, source_id, key_hash, incident_id, is_firing,
            last_at, updated_at)
        SELECT organization_id, id, sha256(m::text::bytea), id, m % 2, now, now
        FROM others, generate_series(1, 4) AS m",
    "INSERT INTO joined_changes (organization_id, change_id, into_id, joined_at)
        SELECT organization_id, id_at(1600000000000, m, n * 7919), id, now
        FROM others, generate_series(1, 4) AS m",
    // Few are overdue: the server looks after them.
    "INSERT INTO rhythms (organization_id, id, is_key, last_seen_at, rhythm, expected_by, is_missed,
            gaps)
        SELECT organization_id, id_at(1600000000000, m, n * 7919), m / 3, now, '',
            CASE m WHEN 1 THEN now + 86400000 WHEN 3 THEN now - 1000 END, m / 3, '[]'
        FROM others, generate_series(1, 4) AS m",
];

/// 5,000 services and 500 hosts, and those of the other organizations, with the words of
/// their names. Each service depends on three others.
const SERVICES_AND_HOSTS: [&str; 5] = [
    "INSERT INTO services (organization_id, id, name, name_folded, color, depends_on, created_at, reference)
        SELECT organization_id, id, name, name, '#6b7280', '[]', 0,
            json_build_object('id', id, 'name', name, 'color', '#6b7280')
        FROM (SELECT organization_id, id_at(1600000000000 + n, 0, n) AS id, 'service-' || n AS name
            FROM (SELECT $1 AS organization_id, n FROM generate_series(1, 5000) AS n
                UNION ALL SELECT organization_id, m
                FROM others, generate_series(5000 + 2000 * n, 6999 + 2000 * n) AS m
                WHERE n <= 50) AS numbers) AS services",
    "INSERT INTO hosts
        (organization_id, id, hostname, hostname_folded, platform, roles, created_at, reference)
        SELECT organization_id, id, name, name, 'aws', '[]', 0,
            json_build_object('id', id, 'hostname', name, 'environment', NULL)
        FROM (SELECT organization_id, id_at(1600000000000 + n, 0, n) AS id, 'host-' || n AS name
            FROM (SELECT $1 AS organization_id, n FROM generate_series(1, 500) AS n
                UNION ALL SELECT organization_id, m
                FROM others, generate_series(5000 + 1000 * n, 5999 + 1000 * n) AS m
                WHERE n <= 50) AS numbers) AS hosts",
    "INSERT INTO service_dependencies (organization_id, service_id, depends_on_id)
        SELECT organization_id, id, next FROM (SELECT organization_id, id,
                lead(id, k) OVER (PARTITION BY organization_id, k ORDER BY id) AS next
            FROM services, generate_series(1, 3) AS k) AS numbers
        WHERE next IS NOT NULL",
    "INSERT INTO catalog_words (organization_id, kind, word, id)
        SELECT organization_id, kind, unnest(string_to_array(name, '-')), id
        FROM (SELECT organization_id, 'service' AS kind, name, id FROM services
            UNION ALL SELECT organization_id, 'host', hostname, id FROM hosts) AS names",
    // The first one has the id of the organization.
    "INSERT INTO incidents (organization_id, id, is_open, started_at, service_id, rerank_from,
            updated_at, document, suspects)
        SELECT $1, CASE n WHEN 1 THEN $1 ELSE id_at(1600000000000 + n, 0, n) END,
            CASE WHEN n % 100 = 1 THEN 1 ELSE 0 END, 1600000000000 + n, service, 0, 0,
            json_build_object('id', $1, 'title', 'Down', 'severity', 'warning', 'status', 'open',
                'started_at', '2026-01-15T08:30:00.000Z', 'created_at', '2026-01-15T08:30:00.000Z',
                'updated_at', '2026-01-15T08:30:00.000Z'), '{}'
        FROM generate_series(1, 20000) AS n,
            (SELECT id AS service FROM services WHERE organization_id = $1 ORDER BY id LIMIT 1) AS s",
];

/// The values of each change: a year of them, in groups of ten with one risk and status,
/// so that there are fewer stored counts than changes.
const SEED: &str = "
CREATE UNLOGGED TABLE seed AS
SELECT organization_id, right(replace(organization_id::text, '-', ''), 16) AS prefix, number,
    millis, moment(millis) AS at, (millis << 20) | twenty AS sort_key,
    id_at(millis, twenty, number) AS id,
    CASE WHEN number % 4 = 1 THEN millis + 86400000 END AS scheduled_for,
    (ARRAY['low', 'medium', 'high'])[1 + dice(number / 10, 1) % 3] AS risk_level,
    (ARRAY['planned', 'in_progress', 'completed', 'rolled_back'])
        [1 + dice(number / 10, 2) % 4] AS status,
    (ARRAY['prod', 'staging', 'dev', 'test'])[1 + dice(number / 10, 11) % 5] AS environment,
    CASE WHEN number % 1000 = 9 THEN id_at(1600000000001 + dice(number, 12) % 5000, 0,
        1 + dice(number, 12) % 5000) END AS other_service_id,
    CASE WHEN is_large AND service % 2 = 0
        THEN id_at(1600000000001 + service % 5000, 0, 1 + service % 5000) END AS service_id,
    CASE WHEN is_large AND host % 3 = 0
        THEN id_at(1600000000001 + host % 500, 0, 1 + host % 500) END AS host_id,
    CASE WHEN dice(number, 3) % 2 = 0 THEN ARRAY['common'] ELSE '{}' END
        || CASE WHEN number % 500 = 7 THEN ARRAY['seldom'] ELSE '{}' END
        || CASE WHEN number % 10000 = 7 THEN ARRAY['rare'] ELSE '{}' END AS tags,
    (ARRAY['Deploy', 'Restart'])[1 + dice(number, 4) % 2] || ' ' || word(dice(number, 5))
        || ' ' || word(dice(number, 6)) || ' ' || word(dice(number, 7))
        || CASE WHEN number % 10000 = 3 THEN ' needle' ELSE '' END AS title
FROM (SELECT organization_id, number, is_large,
        1700000000000 + number / 10 * 315360 + number % 10 AS millis,
        dice(number, 8) & 1048575 AS twenty, dice(number, 9) AS service, dice(number, 10) AS host
    FROM (SELECT $1 AS organization_id, number, true AS is_large
            FROM generate_series(0, 999999::bigint) AS number
        UNION ALL SELECT organization_id, number, false
            FROM others, generate_series(0, 9::bigint) AS number WHERE n <= 50) AS numbers
    ) AS thrown";

/// The rows of the changes.
const CHANGES: [&str; 6] = [
    r#"INSERT INTO changes
        (sort_key, organization_id, id, risk_level, status, service_id, host_id, scheduled_for,
            title, environment, undone_at, more_service_ids, document)
        SELECT sort_key, organization_id, id, risk_level, status, service_id, host_id, scheduled_for,
            title, environment, CASE WHEN status = 'rolled_back' THEN millis + 60000 END,
            CASE WHEN service_id <> other_service_id
                THEN replace(other_service_id::text, '-', '') END,
            '{"id":"' || id || '","title":"' || title || '","description":null,"risk_level":"'
            || risk_level || '","status":"' || status || '","outcome":null,"impact":null,'
            || '"service_ids":' || array_to_json(CASE WHEN service_id IS NULL THEN '{}'
                WHEN service_id <> other_service_id THEN ARRAY[service_id, other_service_id]
                ELSE ARRAY[service_id] END)
            || ',"environment":' || coalesce('"' || environment || '"', 'null') || ',"tags":'
            || array_to_json(tags) || ',"links":[],"scheduled_for":'
            || coalesce('"' || moment(scheduled_for) || '"', 'null') || ',"started_at":'
            || CASE WHEN status = 'planned' THEN 'null' ELSE '"' || at || '"' END
            || ',"ended_at":null,"on_behalf_of":null,"agent":null,"commit":null,'
            || '"committed_at":null,"occurred_at":"' || at
            || '","organization_id":"' || organization_id
            || '","created_by":{"type":"api_key","name":"terraform","id":"' || organization_id
            || '"},"source":null,"created_at":"' || at
            || '","updated_at":"' || at || '"'
        FROM seed ORDER BY organization_id, sort_key"#,
    "INSERT INTO change_services (organization_id, service_id, sort_key, place)
        SELECT organization_id, other_service_id, sort_key, 1 FROM seed
        WHERE service_id <> other_service_id",
    "INSERT INTO change_tags (organization_id, tag, sort_key)
        SELECT organization_id, unnest(tags) AS tag, sort_key FROM seed ORDER BY 1, 2, 3",
    "INSERT INTO change_search (organization_id, sort_key, words)
        SELECT organization_id, sort_key, array_to_tsvector(string_to_array(
            prefix || replace(lower(title), ' ', ' ' || prefix) || ' ' || prefix || ':r'
            || risk_level || ' ' || prefix || ':s' || replace(status, '_', '')
            || coalesce(' ' || prefix || ':e' || environment, '')
            || ' ' || prefix || ':c' || replace(organization_id::text, '-', '')
            || CASE number % 8 WHEN 0 THEN ' ' || prefix || ':ypipeline' ELSE '' END
            || coalesce(' ' || prefix || ':v' || replace(service_id::text, '-', ''), '')
            || CASE WHEN service_id <> other_service_id
                THEN ' ' || prefix || ':v' || replace(other_service_id::text, '-', '') ELSE '' END
            || coalesce(' ' || prefix || ':h' || replace(host_id::text, '-', ''), '')
            || coalesce((SELECT string_agg(' ' || prefix || ':t' || encode(substring(sha256(
                convert_to(tag, 'UTF8')) FOR 16), 'hex') || ' ' || prefix || ':w' || tag, '')
                FROM unnest(tags) AS tag), ''),
            ' '))
        FROM seed ORDER BY organization_id, sort_key",
    "INSERT INTO change_counts
        (organization_id, scope, span, start, risk_level, status, environment, slot, n)
        SELECT organization_id, scope, span, start, risk_level, status,
            coalesce(environment, ''), 0, count(*)
        FROM (SELECT organization_id, 'organization' AS scope, span,
                CASE WHEN span = 0 THEN 0 ELSE millis / span END AS start, risk_level, status,
                environment
            FROM seed, unnest(ARRAY[0, 86400000]) AS span
            UNION ALL
            SELECT organization_id, 'all', span,
                CASE WHEN span = 0 THEN 0 ELSE millis / span END, '', '', ''
            FROM seed, unnest(ARRAY[0, 86400000]) AS span
            UNION ALL
            SELECT organization_id, scope, span,
                CASE WHEN span = 0 THEN 0 ELSE millis / -span END, risk_level, status, environment
            FROM (SELECT *, unnest(ARRAY['service/' || replace(service_id::text, '-', ''),
                CASE WHEN service_id <> other_service_id
                    THEN 'service/' || replace(other_service_id::text, '-', '') END,
                'host/' || replace(host_id::text, '-', ''),
                'author/' || replace(organization_id::text, '-', '')]) AS scope FROM seed) AS things,
                unnest(ARRAY[0, -86400000]) AS span
            WHERE scope IS NOT NULL
            UNION ALL
            SELECT organization_id, 'tag/' || unnest(tags), 0, 0, risk_level, status, environment
            FROM seed
        ) AS counted
        GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7",
    "INSERT INTO change_hours (organization_id, hour, service_id, slot, n, undone)
        SELECT organization_id, millis / 3600000,
            coalesce(service_id, '00000000-0000-0000-0000-000000000000'), 0, count(*),
            count(*) FILTER (WHERE status = 'rolled_back')
        FROM seed WHERE status <> 'planned' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
];

/// The activity log: a tenth by a person, and little about other resources than changes.
const ACTIVITY: &str =
    "INSERT INTO activity (organization_id, id, actor_id, actor_name, action, resource_type,
            resource_id, resource_label, metadata, created_at)
        SELECT organization_id, id, CASE WHEN number % 10 = 3 THEN $1 END,
            CASE WHEN number % 10 = 3 THEN 'Ada' ELSE 'API key: terraform' END, 'created',
            CASE WHEN number % 200 = 0 THEN 'service' WHEN number % 2000 = 1 THEN 'host'
                WHEN number % 10000 = 2 THEN 'member' ELSE 'change' END,
            id, title, json_build_object('risk_level', risk_level, 'status', status), millis
        FROM seed ORDER BY organization_id, id";

/// Inserts everything, and returns the fixture of the requests.
pub(super) async fn fill(app: &TestApp) -> Fixture {
    let mut connection = connect(app).await;
    let organization: Uuid = app.organization.id.parse().expect("an id");
    let owner: Uuid = app.organization.owner_id.parse().expect("an id");
    for statement in FUNCTIONS.iter().chain(&OTHER_ORGANIZATIONS) {
        execute(&mut connection, statement, None).await;
    }
    for statement in SERVICES_AND_HOSTS {
        execute(&mut connection, statement, Some(organization)).await;
    }
    execute(&mut connection, SEED, Some(organization)).await;
    // Creating the indexes at the end is much faster.
    let indexes: Vec<(String, String)> = sqlx::query_as(
        "SELECT indexname::text, indexdef FROM pg_indexes
        WHERE tablename IN ('changes', 'change_search', 'activity') AND indexname NOT LIKE '%_pkey'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("indexes");
    for (name, _) in &indexes {
        execute(&mut connection, &format!("DROP INDEX {name}"), None).await;
    }
    for statement in CHANGES {
        execute(&mut connection, statement, None).await;
    }
    execute(&mut connection, ACTIVITY, Some(owner)).await;
    for (_, index) in &indexes {
        execute(&mut connection, index, None).await;
    }
    let fixture = fixture(&mut connection, organization).await;
    for statement in ["DROP TABLE seed, others", "VACUUM (ANALYZE)"] {
        execute(&mut connection, statement, None).await;
    }
    fixture
}

/// Connects without checks of foreign keys, which are right, and without parallel
/// workers, for other tests.
async fn connect(app: &TestApp) -> PgConnection {
    let mut connection = app.postgres().await;
    for setting in [
        "session_replication_role = replica",
        "maintenance_work_mem = '256MB'",
        "max_parallel_workers_per_gather = 0",
        "max_parallel_maintenance_workers = 0",
    ] {
        execute(&mut connection, &format!("SET {setting}"), None).await;
    }
    connection
}

async fn execute(connection: &mut PgConnection, statement: &str, value: Option<Uuid>) {
    // CREATE TABLE takes no parameters.
    let text = match value {
        Some(value) => statement.replace("$1", &format!("'{value}'::uuid")),
        None => statement.to_owned(),
    };
    let done = sqlx::query(AssertSqlSafe(text)).execute(connection).await;
    done.unwrap_or_else(|error| panic!("{error}: {statement}"));
}

async fn fixture(connection: &mut PgConnection, organization: Uuid) -> Fixture {
    let (change, service, other_service, host, since, until): (
        Uuid,
        Uuid,
        Uuid,
        Uuid,
        String,
        String,
    ) = sqlx::query_as(
        "SELECT c.id, s.id, o.id, h.id, moment(c.millis - 7654321), moment(c.millis + 1234567890)
        FROM seed c, services s, services o, hosts h
        WHERE c.number = 500007 AND s.name = 'service-1234' AND
            o.name = 'service-2345' AND h.hostname = 'host-123'",
    )
    .fetch_one(connection)
    .await
    .expect("a change, a service and a host");
    Fixture {
        change: change.to_string(),
        author: organization.to_string(),
        service: service.to_string(),
        other_service: other_service.to_string(),
        host: host.to_string(),
        incident: organization.to_string(),
        tag: "seldom".to_owned(),
        other_tag: "rare".to_owned(),
        word: "bdfg".to_owned(),
        other_word: "needle".to_owned(),
        prefix: "need".to_owned(),
        since,
        until,
    }
}

/// Requires that the service finds and counts the changes, in each way to read a list.
pub(super) async fn assert_seeded(app: &TestApp, fixture: &Fixture) {
    let key = app.key();
    let path = format!("/api/changes/{}", fixture.change);
    let change = key.read(&path).await;
    assert_eq!(keys(&change), shapes::CHANGE);
    let count = async |query: String| {
        let body = key.body(&format!("/api/changes?{query}")).await;
        body["count"].as_u64().expect("a count")
    };
    assert_eq!(count(String::new()).await, 1_000_000);
    for (query, expected) in [
        ("tag=seldom", 2_000),
        ("tag=rare", 100),
        ("tag=rare&tag=seldom", 100),
        ("q=needle", 100),
    ] {
        assert_eq!(count(query.to_owned()).await, expected, "{query}");
    }
    // The facets in the search index match the stored counts.
    let by_word = |query: &str| format!("q={}&{query}", fixture.word);
    let (mut sum, all) = (0, count(by_word("")).await);
    for status in ["planned", "in_progress", "completed", "rolled_back"] {
        sum += count(by_word(&format!("status={status}"))).await;
    }
    assert_eq!(sum, all);
    let (before, after) = (
        format!("until={}", fixture.since),
        format!("since={}", fixture.since),
    );
    // What is in progress happens now, whenever it was started.
    let running = format!("{before}&status=in_progress");
    assert_eq!(
        count(before.clone()).await + count(after.clone()).await,
        1_000_000 + count(running.clone()).await
    );
    assert_eq!(
        count(by_word(&before)).await + count(by_word(&after)).await,
        all + count(by_word(&running)).await
    );
    let Value::Array(services) = key.read("/api/services").await else {
        panic!("no list of services");
    };
    assert_eq!(services.len(), 5_000);
}
