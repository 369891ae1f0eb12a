//! The API `/api/annotations`.

use http::Method;
use serde_json::{Value, json};

use super::{Api, Region, Writer};
use crate::integrations::http::SendError;
use crate::integrations::senders::answer::Outcome;
use crate::integrations::senders::request;

pub(super) struct Annotations<'a> {
    pub(super) api: Api<'a>,
}

impl Annotations<'_> {
    fn url(&self, reference: &Value) -> Option<String> {
        let id = reference["id"].as_i64()?;
        Some(format!("{}/api/annotations/{id}", self.api.base))
    }
}

impl Writer for Annotations<'_> {
    async fn create(&self, region: &Region) -> Result<Outcome, SendError> {
        let url = format!("{}/api/annotations", self.api.base);
        let body = self.api.spec(region, "panelId");
        let (mut outcome, answer) = self.api.send(request::post(&url, &body)).await?;
        let id = answer["id"].as_i64();
        outcome.reference = id.map(|id| json!({ "id": id }));
        Ok(outcome)
    }

    async fn update(&self, reference: &Value, region: &Region) -> Result<Outcome, SendError> {
        let Some(url) = self.url(reference) else {
            return self.create(region).await;
        };
        let body = json!({
            "time": region.time,
            // An absent one would leave the former end.
            "timeEnd": region.time_end.unwrap_or(region.time),
            "tags": region.tags,
            "text": region.text,
        });
        let request = request::with_body(Method::PATCH, &url, &body);
        let (mut outcome, _) = self.api.send(request).await?;
        outcome.reference = Some(reference.clone());
        Ok(outcome)
    }

    async fn delete(&self, reference: &Value) -> Result<Outcome, SendError> {
        let Some(url) = self.url(reference) else {
            return Ok(Outcome::nothing_to_send());
        };
        let request = request::without_body(Method::DELETE, &url);
        let (outcome, _) = self.api.send(request).await?;
        Ok(outcome)
    }
}
