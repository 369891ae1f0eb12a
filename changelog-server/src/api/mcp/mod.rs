//! `POST /mcp`: the change log as tools of agents, by the Model Context Protocol.
//!
//! The crate `rmcp` speaks the protocol: versions, headers, JSON-RPC. Each request is answered
//! by itself, without a session, so that any server can answer it. The tools call what the
//! endpoints call.

mod answer;
mod arguments;
mod incidents;
mod reading;
mod recording;
mod schemas;
mod tools;

use std::sync::Arc;

use bytes::Bytes;
use changelog_core::ProblemCode;
use http::{HeaderName, Method, header};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};
use warp::reply::Response;

use self::tools::{Tools, scope_of};
use super::caller::Caller;
use crate::app::App;
use crate::web::body::MAX_BODY_BYTES;
use crate::web::{ApiError, ApiResult, Request};

/// Names that only this machine resolves to the service.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Answers a message of an agent.
pub(super) async fn post(app: App, caller: Caller, mut request: Request) -> ApiResult {
    request.no_parameters()?;
    let body = request.json_body().await?;
    let call = match read_call(&body) {
        Ok(call) => call,
        Err((code, message)) => return Ok(refuse(code, message)),
    };
    require_scope(&caller, call)?;
    let mut message = http::Request::new(Full::new(body));
    *message.method_mut() = Method::POST;
    *message.headers_mut() = std::mem::take(&mut request.headers);
    let config = config(&app);
    let tools = Tools::new(app, caller);
    let tools = move || Ok(tools.clone());
    let service =
        StreamableHttpService::new(tools, Arc::new(NeverSessionManager::default()), config);
    let (head, body) = service.handle(message).await.into_parts();
    if head.status == http::StatusCode::FORBIDDEN {
        return Err(foreign());
    }
    // No tool sends anything before its result, so that the body is one message.
    let body: Bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    };
    let mut response = Response::new(body.into());
    *response.status_mut() = head.status;
    for name in [header::CONTENT_TYPE, header::ALLOW] {
        copy(&head.headers, &mut response, name);
    }
    Ok(response)
}

fn copy(from: &http::HeaderMap, response: &mut Response, name: HeaderName) {
    if let Some(value) = from.get(&name) {
        response.headers_mut().insert(name, value.clone());
    }
}

/// Returns how `rmcp` checks requests: without sessions, only under names of the service, and
/// not from pages of other sites.
fn config(app: &App) -> StreamableHttpServerConfig {
    let listening = Some(app.address.ip()).filter(|ip| !ip.is_unspecified());
    let hosts = LOCAL_HOSTS.into_iter().map(str::to_owned);
    let hosts = hosts
        .chain([app.host()])
        .chain(listening.map(|ip| ip.to_string()));
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_allowed_hosts(hosts)
        .with_allowed_origins([origin(&app.url())])
        .enforce_origin_validation()
}

/// Returns the origin of a URL with its port: without one, `rmcp` would allow any.
fn origin(url: &str) -> String {
    match url.parse::<url::Url>() {
        Ok(parsed) => {
            let port = parsed.port_or_known_default().unwrap_or_default();
            let host = parsed.host_str().unwrap_or_default();
            format!("{}://{host}:{port}", parsed.scheme())
        }
        Err(_) => url.to_owned(),
    }
}

fn foreign() -> ApiError {
    let detail = "the header host or origin does not name this service; use its public URL, which \
                  the operator sets with --public-url";
    ApiError::new(ProblemCode::CrossSite, detail)
}

/// A message, as far as it says which tool is called.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    name: Option<Value>,
    arguments: Option<Value>,
}

/// The codes of JSON-RPC for what is not JSON, no request, or has the wrong parameters.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const INVALID_PARAMS: i32 = -32_602;

/// Reads which tool a message calls, if any: what `rmcp` would answer by another status, or as
/// an unknown method, is refused with the code and the text of the error.
fn read_call(body: &[u8]) -> Result<Call, (i32, &'static str)> {
    let value: Value =
        serde_json::from_slice(body).map_err(|_| (PARSE_ERROR, "the body is not JSON"))?;
    if !value.is_object() {
        return Err((INVALID_REQUEST, "the body must be one JSON-RPC message"));
    }
    if value["jsonrpc"] != "2.0" {
        return Err((INVALID_REQUEST, "jsonrpc must be \"2.0\""));
    }
    let id = value.get("id");
    if !id.is_none_or(|id| id.is_string() || id.is_i64()) {
        let message = "id must be a string or an integer, or absent for a notification";
        return Err((INVALID_REQUEST, message));
    }
    let is_answer = value.get("result").or(value.get("error")).is_some();
    if value.get("method").is_none() && !is_answer {
        return Err((INVALID_REQUEST, "method must be a string"));
    }
    let call: Call = serde_json::from_value(value).map_err(|_| {
        (
            INVALID_REQUEST,
            "method must be a string and params an object",
        )
    })?;
    if call.method == "tools/call" {
        if !call.params.name.as_ref().is_some_and(Value::is_string) {
            return Err((INVALID_PARAMS, "params.name must be the name of a tool"));
        }
        if !call.params.arguments.as_ref().is_none_or(Value::is_object) {
            return Err((INVALID_PARAMS, "params.arguments must be an object"));
        }
    }
    Ok(call)
}

/// Answers with an error of JSON-RPC.
fn refuse(code: i32, message: &str) -> Response {
    let answer = json!({
        "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message },
    });
    let mut response = Response::new(answer.to_string().into());
    *response.status_mut() = http::StatusCode::BAD_REQUEST;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Refuses the call of a tool for which the key does not have the scope: clients understand
/// the status, with `WWW-Authenticate`, better than an error in the answer.
fn require_scope(caller: &Caller, call: Call) -> Result<(), ApiError> {
    let name = call.params.name.filter(|_| call.method == "tools/call");
    let Some(scope) = name.as_ref().and_then(Value::as_str).and_then(scope_of) else {
        return Ok(());
    };
    caller.require(&scope).map_err(|error| {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        error.with_header(header::WWW_AUTHENTICATE, challenge)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_its_port() {
        for (url, expected) in [
            (
                "https://changes.example.com",
                "https://changes.example.com:443",
            ),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }
}
