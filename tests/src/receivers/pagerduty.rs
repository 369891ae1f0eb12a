//! Checks change events as PagerDuty does.

use serde_json::Value;

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
