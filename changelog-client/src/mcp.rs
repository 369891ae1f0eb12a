//! Messages of the Model Context Protocol, which are passed on to the service.

use changelog_core::Agent;
use http::Method;
use serde_json::Value;

use crate::client::{Client, agent_header};
use crate::error::Error;
use crate::mode::Mode;
use crate::request::{ApiRequest, McpHeaders};

impl<M: Mode> Client<M> {
    /// Sends a request of the Model Context Protocol to the service, once, and returns its
    /// answer in JSON-RPC: a result, or an error of the protocol.
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
        let request = ApiRequest::raw(Method::POST, Vec::new()).json(message);
        self.sender().run(|transport| async move {
            let request = ApiRequest {
                agent: agent?,
                mcp: Some(headers),
                ..request?
            };
            // Errors of the protocol have these statuses.
            let is_expected = |status: &http::StatusCode| {
                status.is_success() || matches!(status.as_u16(), 400 | 404)
            };
            let (answer, _) = transport.send_once::<Value>(&request, is_expected).await?;
            if answer.get("jsonrpc").is_none() {
                let detail = answer["detail"].as_str().unwrap_or("no JSON-RPC");
                return Err(Error::Builder(format!("the message was refused: {detail}")));
            }
            Ok(answer)
        })
    }
}
