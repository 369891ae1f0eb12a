//! The API `/api/annotations`.

use http::Method;
use serde_json::{Value, json};

use super::{Api, Region, Writer};
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
    async fn create(&self, region: &Region) -> Outcome {
        let url = format!("{}/api/annotations", self.api.base);
        let body = self.api.spec(region, "panelId");
        match self.api.send(request::post(&url, &body)).await {
            Ok((mut outcome, answer)) => {
                let id = answer["id"].as_i64();
                outcome.reference = id.map(|id| json!({ "id": id }));
                outcome
            }
            Err(error) => Outcome::failed(&error),
        }
    }

    async fn update(&self, reference: &Value, region: &Region) -> Outcome {
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
        match self
            .api
            .send(request::with_body(Method::PATCH, &url, &body))
            .await
        {
            Ok((mut outcome, _)) => {
                outcome.reference = Some(reference.clone());
                outcome
            }
            Err(error) => Outcome::failed(&error),
        }
    }

    async fn delete(&self, reference: &Value) -> Outcome {
        let Some(url) = self.url(reference) else {
            return Outcome::nothing_to_send();
        };
        match self
            .api
            .send(request::without_body(Method::DELETE, &url))
            .await
        {
            Ok((outcome, _)) => outcome,
            Err(error) => Outcome::failed(&error),
        }
    }
}
