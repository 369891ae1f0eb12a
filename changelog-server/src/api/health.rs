//! `/api/health` of the specification, and `/livez` and `/readyz` for what starts, stops and
//! sends requests to servers.

use std::fmt::Write as _;
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
        (status = 503, description = "The database does not answer, or takes no writes \
            (`db` is then `reachable`)", body = Health,
            example = json!({"status": "degraded", "db": "unreachable",
                             "error": "the database does not answer"})),
    ))]
pub(super) async fn get(app: App, _request: Request) -> ApiResult {
    let report = check(&app).await;
    let status = if report.is_ok() { 200 } else { 503 };
    Ok(reply::json(status, &report))
}

/// `/livez`: the process answers requests. It does not fail with the database, because a new
/// process would have the same one.
pub(super) async fn livez(_app: App, _request: Request) -> ApiResult {
    Ok(reply::text(200, PLAIN_TEXT, "ok\n".to_owned()))
}

/// `/readyz`: this server should be sent requests. `?verbose` lists the checks.
pub(super) async fn readyz(app: App, request: Request) -> ApiResult {
    let database = check(&app).await;
    let database = database.error.as_deref();
    let stopping = app.readiness.is_stopping();
    let checks = [
        ("database", database),
        ("running", stopping.then_some("the server is stopping")),
    ];
    let is_ready = checks.iter().all(|(_, problem)| problem.is_none());
    let status = if is_ready { 200 } else { 503 };
    let is_verbose = form_urlencoded::parse(request.query.as_bytes())
        .any(|(name, value)| name == "verbose" && matches!(&*value, "" | "true" | "1"));
    let mut text = String::new();
    for (name, problem) in checks
        .iter()
        .filter(|(_, problem)| is_verbose || problem.is_some())
    {
        // Writing to a string does not fail.
        let _ = match problem {
            None => writeln!(text, "[+] {name}: ok"),
            Some(problem) => writeln!(text, "[-] {name}: {problem}"),
        };
    }
    text.push_str(if is_ready { "ok\n" } else { "not ready\n" });
    Ok(reply::text(status, PLAIN_TEXT, text))
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Makes a round trip to the database.
async fn check(app: &App) -> Health {
    let started = Instant::now();
    match tokio::time::timeout(TIMEOUT, app.store.ping()).await {
        Ok(Ok(())) => {
            let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            Health::ok(latency_ms, app.now().into())
        }
        Ok(Err(error @ StoreError::Blocked(_))) => {
            tracing::warn!(%error, "the database cannot be written to");
            Health::read_only("writes are blocked by another process on the server")
        }
        Ok(Err(error @ StoreError::NoWrites(_))) => {
            tracing::warn!(%error, "the database cannot be written to");
            Health::read_only("the database takes no writes")
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
    }
}
