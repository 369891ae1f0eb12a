//! Notes on the incidents that PagerDuty has reported: the suspects, again if another change has
//! become the first one, and at the end the cause if people have marked it. Notes cannot be
//! edited.

use changelog_core::{EventKind, EventOfIncident, SourceKind};
use http::header::{ACCEPT, AUTHORIZATION, FROM, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::DEFAULT_URL;
use crate::findings::{Finding, findings};
use crate::integrations::http::ReceiverClient;
use crate::integrations::message::Message;
use crate::integrations::senders::answer::{self, Outcome};
use crate::integrations::senders::{render, request};

/// The limit on notes on an incident.
const MAX_NOTES: u32 = 5;
/// The limit on the characters of a note.
const MAX_NOTE_CHARS: usize = 5_000;
/// The version of the API.
const VERSION: &str = "application/vnd.pagerduty+json;version=2";

/// What is kept of the notes on an incident.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    notes: u32,
    /// The change that was named first.
    first: Value,
}

/// Returns whether a note is written of an event, if the connection has a key.
pub(in super::super) fn is_of(event: &EventOfIncident) -> bool {
    let incident = &event.incident;
    let source = incident.source.as_ref();
    let is_reported = source.is_some_and(|source| source.kind == SourceKind::Pagerduty);
    let is_known = match event.kind {
        EventKind::IncidentSuspects => true,
        EventKind::IncidentResolved => incident.cause.is_some(),
        _ => false,
    };
    is_reported && incident.sender_id.is_some() && is_known
}

pub(in super::super) async fn send(
    http: &ReceiverClient,
    message: &Message<'_>,
    event: &EventOfIncident,
) -> Outcome {
    let target = message.target;
    let (Some(token), Some(from), Some(id)) =
        (&target.api_token, &target.from, &event.incident.sender_id)
    else {
        return Outcome::nothing_to_send();
    };
    let written = message.reference.cloned().unwrap_or_default();
    let written: Written = serde_json::from_value(written).unwrap_or_default();
    let first = event.incident.suspects.first();
    let first = json!(first.map(|suspect| suspect.change.id));
    let is_said = event.kind == EventKind::IncidentSuspects
        && written.notes > 0
        && (written.first == first || written.notes >= MAX_NOTES);
    if is_said || !is_of(event) {
        return Outcome::nothing_to_send();
    }
    let Some(url) = address(&target.url, id) else {
        return Outcome::refused("The events URL of the connection is not a URL.");
    };
    let body = json!({ "note": { "content": content(message, event) } });
    let mut request = request::post(&url, &body);
    if let Err(reason) = authorize(&mut request.headers, token, from) {
        return Outcome::refused(reason);
    }
    let response = match http.send(request).await {
        Ok(response) => response,
        Err(error) => return Outcome::failed(&error),
    };
    let verdict = match refusal(response.status) {
        Some(reason) => return Outcome::answered(answer::refused_because(reason), response),
        None => answer::by_status(&response, message.now),
    };
    let is_written = response.status.is_success();
    let mut outcome = Outcome::answered(verdict, response);
    if is_written {
        let notes = written.notes + 1;
        outcome.reference = serde_json::to_value(Written { notes, first }).ok();
    }
    outcome
}

/// Returns the address of the notes on an incident. The API is where the events are sent, under
/// another name.
fn address(events_url: &str, incident: &str) -> Option<String> {
    let events_url = match events_url {
        "" => DEFAULT_URL,
        url => url,
    };
    let mut url = Url::parse(events_url).ok()?;
    let host = url.host_str()?;
    if let Some(domain) = host.strip_prefix("events.") {
        let host = format!("api.{domain}");
        url.set_host(Some(&host)).ok()?;
    }
    let origin = url.origin().ascii_serialization();
    let incident = utf8_percent_encode(incident, NON_ALPHANUMERIC);
    Some(format!("{origin}/incidents/{incident}/notes"))
}

fn authorize(headers: &mut HeaderMap, token: &str, from: &str) -> Result<(), &'static str> {
    let mut insert = |name: HeaderName, value: String, problem| {
        let mut value = HeaderValue::try_from(value).map_err(|_| problem)?;
        value.set_sensitive(name == AUTHORIZATION);
        headers.insert(name, value);
        Ok(())
    };
    insert(
        AUTHORIZATION,
        format!("Token token={token}"),
        "The API key has characters that cannot be sent.",
    )?;
    insert(
        FROM,
        from.to_owned(),
        "The author of notes has characters that cannot be sent.",
    )?;
    insert(ACCEPT, VERSION.to_owned(), "")
}

/// Returns what a person has to do after an answer. Change events have another key: they are
/// still sent.
fn refusal(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::BAD_REQUEST => Some(
            "PagerDuty does not accept the note. Check that the author of notes is the email \
             address of a PagerDuty user.",
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Some("PagerDuty does not accept the API key. Enter one that may write incidents.")
        }
        StatusCode::NOT_FOUND => {
            Some("PagerDuty does not know the incident. The API key may be of another account.")
        }
        _ => None,
    }
}

fn content(message: &Message<'_>, event: &EventOfIncident) -> String {
    let mut lines = Vec::new();
    let is_resolved = event.kind == EventKind::IncidentResolved;
    let is_said = |finding: &Finding| !is_resolved || finding.label == "Cause";
    for finding in findings(&event.incident, render::time)
        .iter()
        .filter(|one| is_said(one))
    {
        lines.push(format!("{}: {}", finding.label, finding.value));
        if let Some(id) = finding.change {
            lines.push(format!("{}/changes/{id}", message.dashboard));
        }
    }
    let page = format!("{}/incidents/{}", message.dashboard, event.incident.id);
    lines.push(if is_resolved {
        format!("The incident in the change log: {page}")
    } else {
        format!("Mark the cause in the change log: {page}")
    });
    render::clipped(&lines.join("\n"), MAX_NOTE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_written_where_the_account_is() {
        for (events, expected) in [
            ("", "https://api.pagerduty.com/incidents/P1/notes"),
            (
                "https://events.eu.pagerduty.com/v2/change/enqueue",
                "https://api.eu.pagerduty.com/incidents/P1/notes",
            ),
            (
                "http://127.0.0.1:8080/v2/change/enqueue?a=b",
                "http://127.0.0.1:8080/incidents/P1/notes",
            ),
        ] {
            assert_eq!(address(events, "P1").as_deref(), Some(expected));
        }
        let hostile = address("", "../a?b").expect("an address");
        assert_eq!(
            hostile,
            "https://api.pagerduty.com/incidents/%2E%2E%2Fa%3Fb/notes"
        );
    }
}
