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
mod whole;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use changelog_core::ProblemCode;
use changelog_core::input::json_value;
use http::{HeaderName, Method, header};
use http_body_util::{BodyExt, Full};
use rmcp::model::{InitializeRequestParams, PaginatedRequestParams};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
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
    let tool = match read_call(&body) {
        Ok(tool) => tool,
        Err((code, message)) => return Ok(refuse(code, &message)),
    };
    require_scope(&caller, tool.as_deref())?;
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

/// The codes of JSON-RPC for what is not JSON, no request, or has the wrong parameters.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const INVALID_PARAMS: i32 = -32_602;

/// Why a message is refused: the JSON-RPC error code and a message.
type Refusal = (i32, Cow<'static, str>);

/// Reads which tool a message calls, if any: what `rmcp` would answer by another status, or as
/// an unknown method, is refused with the code and the text of the error.
fn read_call(body: &[u8]) -> Result<Option<String>, Refusal> {
    let malformed = |what| (PARSE_ERROR, format!("the body is malformed: {what}").into());
    let invalid = |message: &'static str| (INVALID_REQUEST, message.into());
    let value = json_value(body).map_err(malformed)?;
    let Value::Object(mut message) = value else {
        return Err(invalid("the body must be one JSON-RPC message"));
    };
    if message
        .get("jsonrpc")
        .is_none_or(|version| version != "2.0")
    {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let id = message.get("id");
    if !id.is_none_or(|id| id.is_string() || id.is_i64()) {
        return Err(invalid(
            "id must be a string or an integer, or absent for a notification",
        ));
    }
    let is_answer = message.contains_key("result") || message.contains_key("error");
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if is_answer => String::new(),
        _ => return Err(invalid("method must be a string")),
    };
    let params = match message.remove("params") {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        Some(_) => return Err(invalid("params must be an object")),
    };
    match &*method {
        "tools/call" => return called_tool(params).map(Some),
        "initialize" => check_params::<InitializeRequestParams>(params)?,
        "tools/list" => check_params::<PaginatedRequestParams>(params)?,
        _ => {}
    }
    Ok(None)
}

fn called_tool(mut params: Map<String, Value>) -> Result<String, Refusal> {
    let arguments = params.get("arguments");
    if !arguments.is_none_or(|arguments| arguments.is_object() || arguments.is_null()) {
        return Err((INVALID_PARAMS, "params.arguments must be an object".into()));
    }
    match params.remove("name") {
        Some(Value::String(name)) => Ok(name),
        _ => Err((
            INVALID_PARAMS,
            "params.name must be the name of a tool".into(),
        )),
    }
}

/// Refuses parameters that `rmcp` cannot read: it would say that there is no such method.
fn check_params<T: DeserializeOwned>(params: Map<String, Value>) -> Result<(), Refusal> {
    match serde_json::from_value::<T>(params.into()) {
        Ok(_) => Ok(()),
        Err(error) => Err((INVALID_PARAMS, format!("params: {error}").into())),
    }
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
fn require_scope(caller: &Caller, tool: Option<&str>) -> Result<(), ApiError> {
    let Some(scope) = tool.and_then(scope_of) else {
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
