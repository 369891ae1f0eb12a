//! Migration 3 finds in changes that were there before it what is kept of those
//! that come after it.

use serde_json::json;
use sqlx::types::Uuid;

use crate::world::database::{Db, execute, fetch};
use crate::world::{World, on_both};

on_both!(what_was_there_is_counted_and_scheduled);

/// Takes away what migration 3 made.
const UNDO: [&str; 11] = [
    "DROP TABLE latest_moment",
    "DROP TABLE invitations",
    "DROP INDEX activity_by_thing",
    "DROP INDEX change_counts_by_day",
    "DROP INDEX changes_by_schedule",
    "ALTER TABLE changes DROP COLUMN scheduled_for",
    "ALTER TABLE sessions DROP COLUMN user_agent",
    "ALTER TABLE api_keys DROP COLUMN created_by",
    "ALTER TABLE activity DROP COLUMN address",
    "DELETE FROM change_counts WHERE span < 0",
    "DELETE FROM _sqlx_migrations WHERE version = 3",
];

type Counted = (Uuid, String, i64, i64, String, String, i64);

/// What the migration fills in.
async fn filled(world: &World) -> (Vec<(Uuid, i64, Option<i64>)>, Vec<Counted>) {
    let mut db = Db::open(world.engine, &world.database).await;
    let scheduled = fetch!(
        &mut db,
        sqlx::query_as("SELECT organization_id, place, scheduled_for FROM changes ORDER BY 1, 2")
    );
    let counts = fetch!(
        &mut db,
        sqlx::query_as(
            "SELECT organization_id, scope, span, start, risk_level, status, CAST(SUM(n) AS BIGINT)
             FROM change_counts GROUP BY 1, 2, 3, 4, 5, 6 HAVING SUM(n) <> 0
             ORDER BY 1, 2, 3, 4, 5, 6"
        )
    );
    db.close().await;
    (scheduled, counts)
}

async fn what_was_there_is_counted_and_scheduled(mut world: World) {
    let second = world.second_organization();
    for key in [world.key(), world.with_key(&second.key)] {
        let mut services = Vec::new();
        let mut hosts = Vec::new();
        for name in ["one", "two"] {
            services.push(key.create("/api/services", json!({ "name": name })).await);
            hosts.push(key.create("/api/hosts", json!({ "hostname": name })).await);
        }
        let scheduled = [
            None,
            Some("2031-01-02T03:04:05.678Z"),
            Some("0001-01-01T00:00:00.001Z"),
            Some("1969-12-31T23:59:59.999Z"),
            Some("9999-12-31T23:59:59.999Z"),
            Some("2024-02-29T12:00:00+02:00"),
        ];
        let (risks, statuses) = (["low", "high"], ["planned", "completed", "planned"]);
        for number in 0..30_usize {
            let day = number / 4 + 1;
            let body = json!({
                "title": format!("change {number} \"scheduled_for\":\"nothing\""),
                "description": "\"scheduled_for\":\"2000-01-01T00:00:00.000Z\"",
                "occurred_at": format!("2026-01-{day:02}T23:59:59.999Z"),
                "risk_level": risks[number % 2],
                "status": statuses[number % 3],
                "service_id": services.get(number % 3),
                "host_id": hosts.get(number % 4),
                "scheduled_for": scheduled[number % scheduled.len()],
                "tags": ["scheduled_for"],
            });
            key.create("/api/changes", body).await;
        }
    }
    let before = filled(&world).await;
    let days = before.1.iter().filter(|row| row.2 == -86_400_000);
    let of = |scope: &str| days.clone().filter(|row| row.1.starts_with(scope)).count();
    assert!(of("service/") > 10 && of("host/") > 10, "{:?}", before.1);
    let scheduled = before.0.iter().filter(|row| row.2.is_some());
    assert_eq!(scheduled.count(), 50);

    world.server.kill9();
    let mut db = Db::open(world.engine, &world.database).await;
    for statement in UNDO {
        execute!(&mut db, sqlx::query(statement));
    }
    db.close().await;
    world.restart().await;
    assert_eq!(filled(&world).await, before);
    // And it goes on from there.
    world.key().change("and it goes on").await;
    assert_eq!(filled(&world).await.0.len(), before.0.len() + 1);
}
