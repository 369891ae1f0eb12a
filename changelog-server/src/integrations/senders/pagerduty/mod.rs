//! Change events of PagerDuty, sent once when a change has ended: they can be neither
//! updated nor recognized again. Notes on incidents: [`note`].

pub(super) mod note;

use changelog_core::{Change, EventOfChange};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::{self, Outcome};
use super::render::{self, Tone};
use super::request;
use crate::format::line;
use crate::integrations::http::ReceiverClient;
use crate::integrations::message::Message;

/// Where events are sent; accounts in the EU have another address.
pub const DEFAULT_URL: &str = "https://events.pagerduty.com/v2/change/enqueue";
/// The limit on the characters of a summary.
const MAX_SUMMARY_CHARS: usize = 1_024;

pub(super) async fn send(
    http: &ReceiverClient,
    message: &Message<'_>,
    event: &EventOfChange,
) -> Outcome {
    let Some(key) = &message.target.token else {
        return Outcome::disabled("The connection has no integration key.");
    };
    let url = match message.target.url.as_str() {
        "" => DEFAULT_URL,
        url => url,
    };
    match http
        .send(request::post(url, &body(message, event, key)))
        .await
    {
        Ok(response) => {
            let verdict = match response.status {
                StatusCode::BAD_REQUEST => answer::refused_message("PagerDuty"),
                _ => answer::by_status(&response, message.now),
            };
            Outcome::answered(verdict, response)
        }
        Err(error) => Outcome::failed(&error),
    }
}

fn body(message: &Message<'_>, event: &EventOfChange, key: &str) -> Value {
    let change = &event.change;
    let at = change.ended_at.unwrap_or(event.at);
    let status = change.status_label();
    let summary = match Tone::of(event) {
        Tone::Completed => line(&change.title),
        _ => format!("{} ({status})", line(&change.title)),
    };
    let mut links = vec![json!({
        "href": render::change_url(message.dashboard, change),
        "text": "Show in the change log",
    })];
    for link in &change.links {
        links.push(json!({ "href": link.url, "text": line(&link.label) }));
    }
    json!({
        "routing_key": key,
        "payload": {
            "summary": render::clipped(&summary, MAX_SUMMARY_CHARS),
            "timestamp": at,
            "source": source(change, message.organization),
            "custom_details": details(change),
        },
        "links": links,
    })
}

/// Returns where the change was made.
fn source(change: &Change, organization: &str) -> String {
    let host = change.host_ref.as_ref().map(|host| &host.hostname);
    let service = change.service.as_ref().map(|service| &service.name);
    let source = host.or(service).map_or(organization, |name| name);
    line(source)
}

fn details(change: &Change) -> Value {
    let mut details = Map::new();
    details.insert("Status".to_owned(), change.status_label().into());
    for fact in render::facts(change) {
        details.insert(fact.label.to_owned(), fact.value.into());
    }
    details.into()
}
