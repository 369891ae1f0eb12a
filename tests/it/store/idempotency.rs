//! Expired idempotency keys are deleted.

use changelog_core::Timestamp;
use chrono::{TimeDelta, Utc};
use sqlx::types::Uuid;

use super::open;
use changelog_tests::database::{Db, execute, fetch};
use changelog_tests::{TestApp, on_both};

on_both!(process: expired_keys_are_deleted);

async fn expired_keys_are_deleted(app: TestApp) {
    const INSERT: &str = "INSERT INTO idempotency
        (organization_id, scope, fingerprint, outcome, created_at) VALUES ($1, $2, $2, '{}', $3)";
    let (store, _) = open(&app).await;
    let organization: Uuid = app.organization.id.parse().expect("an id");
    let now = Timestamp::from(Utc::now());
    let expired = now.plus(-TimeDelta::hours(48)).millis() - 1;
    // The running service deletes expired keys too.
    let young = now.plus(-TimeDelta::hours(47)).millis();
    let mut valid = Vec::new();
    let mut db = Db::open(app.engine, &app.database).await;
    execute!(&mut db, sqlx::query("BEGIN"));
    // The deletes need several transactions. A few valid keys are among the expired ones,
    // as after a clock was set back, and the last hundred are valid.
    for number in 0..2_300_i64 {
        let is_valid = number % 500 == 3 || number >= 2_200;
        let scope = number.to_be_bytes().to_vec();
        execute!(
            &mut db,
            sqlx::query(INSERT)
                .bind(organization)
                .bind(&scope)
                .bind(if is_valid { young } else { expired })
        );
        if is_valid {
            valid.push((scope,));
        }
    }
    execute!(&mut db, sqlx::query("COMMIT"));
    store.purge(now).await.expect("a result");
    let left: Vec<(Vec<u8>,)> = fetch!(
        &mut db,
        sqlx::query_as("SELECT scope FROM idempotency ORDER BY scope")
    );
    assert_eq!(left, valid);
    db.close().await;
    store.close().await;
}
