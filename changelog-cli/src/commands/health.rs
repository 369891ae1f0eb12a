//! `chlog health`: prints the health of the server.

use changelog_core::Health;

use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::text::one_line;
use crate::environment::app::App;
use crate::output::format::Format;

/// Prints the server's report; an unhealthy server is exit code 7.
pub(crate) async fn run(mut app: App) -> Outcome {
    let url = app.url()?.value.clone();
    let health = app.keyless_client()?.health().await?;
    match app.output.format() {
        Format::Table => app.output.text(&line(&health, &url))?,
        _ => app.output.json(&health)?,
    }
    if health.is_ok() {
        return Ok(());
    }
    let why = health
        .error
        .as_deref()
        .unwrap_or("its database does not respond");
    Err(Failure::new(
        Exit::Unavailable,
        format!("the server is unhealthy: {why}"),
    ))
}

fn line(health: &Health, url: &str) -> String {
    let latency = health
        .latency_ms
        .map(|millis| format!(" in {millis} ms"))
        .unwrap_or_default();
    let line = format!("{}: {url}, database {}{latency}", health.status, health.db);
    one_line(&line)
}
