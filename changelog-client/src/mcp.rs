//! Messages of the Model Context Protocol, which are passed on to the service.

use changelog_core::Agent;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Client, agent_header};
use crate::mode::Mode;
use crate::request::{ApiRequest, McpHeaders};

/// An answer in JSON-RPC, or none to a notification.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct Answer(Value);

impl TryFrom<Value> for Answer {
    type Error = &'static str;

    fn try_from(answer: Value) -> Result<Self, Self::Error> {
        let is_answer = answer.is_null() || answer.get("jsonrpc").is_some();
        is_answer.then_some(Self(answer)).ok_or("it is no JSON-RPC")
    }
}

impl<M: Mode> Client<M> {
    /// Sends a message of the Model Context Protocol to the service, once, and returns its
    /// answer in JSON-RPC: a result, or an error of the protocol. A notification, which has no
    /// `id`, may have no answer: [`Value::Null`].
    ///
    /// `version` is the revision of the protocol; none for `initialize`, which agrees on one.
    /// `agent` acts, if it is not the one of the client.
    pub fn mcp(
        &self,
        message: &Value,
        version: Option<&str>,
        agent: Option<&Agent>,
    ) -> M::Response<Value> {
        let agent = agent.map(agent_header).transpose();
        let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
        let headers = McpHeaders {
            version: version.map(str::to_owned),
            method: text("/method").unwrap_or_default().to_owned(),
            name: text("/params/name").map(str::to_owned),
        };
        let is_notification = message.get("id").is_none();
        let request = ApiRequest::raw(Method::POST, Vec::new()).json(message);
        self.sender().run(|transport| async move {
            let request = ApiRequest {
                agent: agent?,
                mcp: Some(headers),
                may_be_answered_empty: is_notification,
                ..request?
            };
            // Errors of the protocol have these statuses.
            let is_expected = |status: &http::StatusCode| {
                status.is_success() || matches!(status.as_u16(), 400 | 404)
            };
            let (Answer(answer), _) = transport.send_once(&request, is_expected).await?;
            Ok(answer)
        })
    }
}
