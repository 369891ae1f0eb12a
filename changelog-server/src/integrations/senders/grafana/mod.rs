//! Grafana: an annotation for each change, from its start to its end, which is updated
//! when the change moves on and deleted with it.

mod annotations;
mod resources;

use changelog_core::change::annotation::{self, Annotated};
use changelog_core::text::printable;
use changelog_core::{EventKind, EventOfChange, Status};
use http::StatusCode;
use serde_json::Value;

use super::answer::{self, Outcome};
use super::render::change_url;
use super::request;
use crate::integrations::http::{ReceiverClient, ReceiverRequest, ReceiverResponse, SendError};
use crate::integrations::message::{Message, Verdict};

/// The most tags of an annotation: Grafana indexes each of them.
const MAX_TAGS: usize = 8;

/// An annotation to write.
#[derive(Clone, Debug)]
struct Region {
    /// The start, in milliseconds since 1970.
    time: i64,
    /// The end, if the change has ended and took some time.
    time_end: Option<i64>,
    /// HTML; text of users is escaped.
    text: String,
    tags: Vec<String>,
}

impl Region {
    fn of(message: &Message<'_>, event: &EventOfChange) -> Option<Self> {
        let change = &event.change;
        let link = change_url(message.dashboard, change);
        let annotated = Annotated::new(change, link);
        let annotation = annotation::annotations(vec![annotated], 1).pop()?;
        // Grafana refuses regions that end in the future.
        let now = message.now.millis();
        let time = annotation.time.min(now);
        let mut tags: Vec<String> = Vec::new();
        for tag in annotation.tags.split(',').filter(|tag| !tag.is_empty()) {
            if tags.len() < MAX_TAGS && !tags.iter().any(|known| known == tag) {
                tags.push(tag.to_owned());
            }
        }
        Some(
            Self {
                time,
                time_end: annotation.time_end.map(|end| end.min(now)),
                text: printable(&annotation.text).into_owned(),
                tags,
            }
            .without_empty_end(),
        )
    }

    fn without_empty_end(mut self) -> Self {
        self.time_end = self.time_end.filter(|end| *end > self.time);
        self
    }
}

/// One of the forms of Grafana's API. Each method returns the answer, and with
/// [`Outcome::reference`] what the annotation is called.
trait Writer {
    /// Creates an annotation.
    async fn create(&self, region: &Region) -> Result<Outcome, SendError>;
    /// Replaces an annotation. The status is 404 if it no longer exists, or if the
    /// reference is one of the other form.
    async fn update(&self, reference: &Value, region: &Region) -> Result<Outcome, SendError>;
    /// Deletes an annotation.
    async fn delete(&self, reference: &Value) -> Result<Outcome, SendError>;
}

pub(super) async fn send(
    http: &ReceiverClient,
    message: &Message<'_>,
    event: &EventOfChange,
) -> Outcome {
    let Some(token) = &message.target.token else {
        return Outcome::disabled("The connection has no token of a service account.");
    };
    let api = Api {
        http,
        message,
        event,
        token,
        base: message.target.url.trim_end_matches('/'),
    };
    let sent = match &message.target.grafana_namespace {
        Some(namespace) => write(&resources::Resources { api, namespace }, message, event).await,
        None => write(&annotations::Annotations { api }, message, event).await,
    };
    sent.unwrap_or_else(|error| Outcome::failed(&error))
}

async fn write(
    writer: &impl Writer,
    message: &Message<'_>,
    event: &EventOfChange,
) -> Result<Outcome, SendError> {
    // What has not happened does not explain a graph.
    let is_shown = event.kind != EventKind::Deleted && event.change.status != Status::Planned;
    let region = Region::of(message, event).filter(|_| is_shown);
    match (message.reference, region) {
        (Some(reference), Some(region)) => {
            let outcome = writer.update(reference, &region).await?;
            if outcome.status == Some(StatusCode::NOT_FOUND.as_u16()) {
                return writer.create(&region).await;
            }
            Ok(outcome)
        }
        (Some(reference), None) => {
            let deleted = writer.delete(reference).await;
            let mut outcome = deleted.unwrap_or_else(|error| Outcome::failed(&error));
            if outcome.status == Some(StatusCode::NOT_FOUND.as_u16()) {
                outcome.verdict = Verdict::Delivered;
            }
            // It remains known that the annotation is deleted.
            outcome.reference = Some(reference.clone());
            Ok(outcome)
        }
        (None, Some(region)) => writer.create(&region).await,
        (None, None) => Ok(Outcome::nothing_to_send()),
    }
}

/// Requests to Grafana, which both forms share.
struct Api<'a> {
    http: &'a ReceiverClient,
    message: &'a Message<'a>,
    event: &'a EventOfChange,
    token: &'a str,
    /// The address of Grafana, without a slash at the end.
    base: &'a str,
}

impl Api<'_> {
    /// Returns the answer, with the JSON of a successful one.
    async fn send(&self, request: ReceiverRequest<'_>) -> Result<(Outcome, Value), SendError> {
        let response = self
            .http
            .send(request::authorized(request, self.token))
            .await?;
        let json = serde_json::from_slice(&response.body).unwrap_or_default();
        let verdict = self.verdict(&response);
        Ok((Outcome::answered(verdict, response), json))
    }

    fn verdict(&self, response: &ReceiverResponse) -> Verdict {
        match response.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => answer::needs_person(
                "Grafana does not accept the token. It must be one of a service account with the \
                 permissions annotations:create, annotations:write and annotations:delete.",
            ),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                answer::refused_message("Grafana")
            }
            _ => answer::by_status(response, self.message.now),
        }
    }

    /// Returns what an annotation has in both forms.
    fn spec(&self, region: &Region, panel: &str) -> Value {
        let mut spec = serde_json::json!({
            "time": region.time,
            "tags": region.tags,
            "text": region.text,
        });
        if let Some(end) = region.time_end {
            spec["timeEnd"] = end.into();
        }
        if let Some(uid) = &self.message.target.dashboard_uid {
            spec["dashboardUID"] = uid.as_str().into();
        }
        if let Some(id) = self.message.target.panel_id {
            spec[panel] = id.into();
        }
        spec
    }
}
