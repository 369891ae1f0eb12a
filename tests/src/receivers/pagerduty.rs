//! Checks change events and notes as PagerDuty does.

use serde_json::Value;

use super::Received;

/// Checks a change event.
///
/// # Errors
/// What is wrong with it.
pub fn check(body: &Value) -> Result<(), String> {
    let key = body["routing_key"].as_str().unwrap_or_default();
    if key.len() != 32 || key.starts_with('R') {
        return Err("the routing key".to_owned());
    }
    let payload = &body["payload"];
    let summary = payload["summary"].as_str().unwrap_or_default();
    let is_time = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        chrono::DateTime::parse_from_rfc3339(text).is_ok()
    };
    if summary.is_empty() || summary.chars().count() > 1_024 {
        return Err(format!("the summary {summary}"));
    }
    if !is_time(&payload["timestamp"]) || payload["source"].as_str().is_none_or(str::is_empty) {
        return Err(format!("the payload {payload}"));
    }
    if !payload["custom_details"].is_object() {
        return Err("the details".to_owned());
    }
    let links = body["links"].as_array().ok_or("no links")?;
    let is_link = |link: &Value| {
        let url = link["href"].as_str().unwrap_or_default();
        url.starts_with("http") && link["text"].is_string()
    };
    match links.iter().find(|link| !is_link(link)) {
        Some(link) => Err(format!("the link {link}")),
        None => Ok(()),
    }
}

/// Checks a request that writes a note on an incident, and returns the incident and the note.
///
/// # Errors
/// What is wrong with it.
pub fn check_note(request: &Received, token: &str, from: &str) -> Result<(String, String), String> {
    let incident = request
        .path
        .strip_prefix("/incidents/")
        .and_then(|rest| rest.strip_suffix("/notes"))
        .filter(|id| !id.is_empty() && !id.contains('/'))
        .ok_or_else(|| format!("the path {}", request.path))?;
    let authorization = format!("Token token={token}");
    for (name, expected) in [
        ("authorization", authorization.as_str()),
        ("from", from),
        ("accept", "application/vnd.pagerduty+json;version=2"),
    ] {
        if request.header(name) != expected {
            return Err(format!("{name}: {}", request.header(name)));
        }
    }
    let is_json = request
        .header("content-type")
        .starts_with("application/json");
    if request.method != "POST" || !is_json {
        return Err(format!("{} without JSON", request.method));
    }
    let body = request.json();
    let note = body["note"]["content"].as_str().unwrap_or_default();
    let has_only = |value: &Value| value.as_object().is_some_and(|object| object.len() == 1);
    if note.is_empty() || !has_only(&body) || !has_only(&body["note"]) {
        return Err(format!("the body {body}"));
    }
    Ok((incident.to_owned(), note.to_owned()))
}
