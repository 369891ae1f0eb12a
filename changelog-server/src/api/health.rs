//! `/api/health`

use std::time::Duration;

use changelog_core::Health;
use tokio::time::Instant;

use crate::app::App;
use crate::store::StoreError;
use crate::web::{ApiResult, Request, reply};

/// How long the check waits for the database.
const TIMEOUT: Duration = Duration::from_millis(1_200);

/// Reports whether the service works, by a round trip to the database with a timeout.
#[utoipa::path(get, path = "/api/health", tag = "health", operation_id = "get_health", security(()),
    responses(
        (status = 200, description = "The database answers", body = Health,
            example = json!({"status": "ok", "db": "reachable", "latency_ms": 1,
                             "timestamp": "2026-11-21T08:30:00.000Z"})),
        (status = 503, description = "The database does not answer, or another process blocks writes \
            (`db` is then `reachable`)", body = Health,
            example = json!({"status": "degraded", "db": "unreachable",
                             "error": "the database does not answer"})),
    ))]
pub(super) async fn get(app: App, _request: Request) -> ApiResult {
    let started = Instant::now();
    let report = match tokio::time::timeout(TIMEOUT, app.store.ping()).await {
        Ok(Ok(())) => {
            let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            Health::ok(latency_ms, app.now().into())
        }
        Ok(Err(error @ StoreError::Blocked(_))) => {
            tracing::warn!(%error, "the database cannot be written to");
            Health::read_only("writes are blocked by another process on the server")
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the database is unreachable");
            Health::degraded("the database does not answer")
        }
        Err(_) => {
            tracing::warn!(
                timeout_ms = TIMEOUT.as_millis(),
                "the database is unreachable"
            );
            Health::degraded("the database does not answer")
        }
    };
    let status = if report.is_ok() { 200 } else { 503 };
    Ok(reply::json(status, &report))
}
