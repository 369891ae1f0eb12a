//! The API of resources, `annotation.grafana.app`, which replaces `/api/annotations`.
//!
//! The name of an annotation is made from the id of its change, so that sending an event
//! twice creates one annotation.

use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Api, Region, Writer};
use crate::integrations::http::SendError;
use crate::integrations::message::Verdict;
use crate::integrations::senders::answer::Outcome;
use crate::integrations::senders::request;

const API_VERSION: &str = "annotation.grafana.app/v0alpha1";

pub(super) struct Resources<'a> {
    pub(super) api: Api<'a>,
    pub(super) namespace: &'a str,
}

impl Resources<'_> {
    fn collection(&self) -> String {
        let namespace = utf8_percent_encode(self.namespace, NON_ALPHANUMERIC);
        let base = self.api.base;
        format!("{base}/apis/{API_VERSION}/namespaces/{namespace}/annotations")
    }

    fn name(&self) -> String {
        format!("change-{}", self.api.event.change.id)
    }

    fn url(&self) -> String {
        format!("{}/{}", self.collection(), self.name())
    }

    fn resource(&self, region: &Region, version: Option<&Value>) -> Value {
        let mut metadata = json!({ "name": self.name() });
        if let Some(version) = version {
            metadata["resourceVersion"] = version.clone();
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "Annotation",
            "metadata": metadata,
            "spec": self.api.spec(region, "panelID"),
        })
    }

    fn referring(&self, mut outcome: Outcome) -> Outcome {
        outcome.reference = Some(json!({ "name": self.name() }));
        outcome
    }
}

impl Writer for Resources<'_> {
    async fn create(&self, region: &Region) -> Result<Outcome, SendError> {
        let (url, body) = (self.collection(), self.resource(region, None));
        let (outcome, _) = self.api.send(request::post(&url, &body)).await?;
        if outcome.status == Some(StatusCode::CONFLICT.as_u16()) {
            // An earlier attempt, whose answer was lost, has created it.
            return self.update(&Value::Null, region).await;
        }
        Ok(self.referring(outcome))
    }

    async fn update(&self, _: &Value, region: &Region) -> Result<Outcome, SendError> {
        let url = self.url();
        let request = request::without_body(Method::GET, &url);
        let (outcome, present) = self.api.send(request).await?;
        if outcome.verdict != Verdict::Delivered {
            return Ok(outcome);
        }
        let version = &present["metadata"]["resourceVersion"];
        let body = self.resource(region, Some(version));
        let request = request::with_body(Method::PUT, &url, &body);
        let (outcome, _) = self.api.send(request).await?;
        Ok(self.referring(outcome))
    }

    async fn delete(&self, _: &Value) -> Result<Outcome, SendError> {
        let url = self.url();
        let request = request::without_body(Method::DELETE, &url);
        let (outcome, _) = self.api.send(request).await?;
        Ok(outcome)
    }
}
