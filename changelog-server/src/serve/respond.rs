//! Handles one request: checks its head, runs its handler within limits and adds
//! the headers that every response has.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changelog_core::{ProblemCode, headers};
use chrono::Utc;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, Method, header};
use tower_service::Service as _;
use tracing::Instrument;
use warp::reply::Response;

use super::connection::Connection;
use super::request_body::{self, RequestBody};
use super::response_body::{self, Body, RequestEnd};
use super::{Routes, Server, client_address, connection_limit, poll_timing};
use crate::app::App;
use crate::client_limit::ClientPermit;
use crate::metrics::NO_ROUTE;
use crate::response_memory::Holder;
use crate::store::network_of;
use crate::trace_parent::TraceParent;
use crate::web::ApiError;
use crate::web::request::{RequestContext, RequestInfo, RequestState};
use crate::web::route::respond_with_failure;

/// How long a handler may take, including receiving the body.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(20);
/// The paths that are available even when there are too many connections.
const HEALTH_PATHS: [&str; 3] = ["/api/health", "/livez", "/readyz"];
/// Seconds after which a refused client may try again.
const RETRY_AFTER_SECONDS: &str = "1";

/// Makes browsers use https only, for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// The prefixes of paths that contain a secret, and the routes that are logged instead.
const SECRET_PATHS: [(&str, &str); 3] = [
    ("/api/ingest/", "/api/ingest/:kind/:token"),
    ("/invitations/", "/invitations/:token"),
    ("/unsubscribe/", "/unsubscribe/:token"),
];

const REQUEST_ID: HeaderName = HeaderName::from_static(headers::REQUEST_ID);
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Handles one request and returns its response.
pub(super) async fn respond(
    server: &Server,
    peer: IpAddr,
    mut request: http::Request<RequestBody>,
    connection: Arc<Connection>,
    both_lengths: bool,
) -> http::Response<Body> {
    let started = Instant::now();
    let _in_flight = server.app.metrics.begin_request();
    let id: Arc<str> = crate::store::new_id(Utc::now()).to_string().into();
    let proxies = &server.app.settings.trusted_proxies;
    let address = client_address::address(proxies, peer, request.headers());
    let state = Arc::new(RequestState::default());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(RequestContext {
        address,
        is_from_proxy: client_address::is_trusted(proxies, peer),
        id: Arc::clone(&id),
        state: Arc::clone(&state),
    });
    let trace = TraceParent::of(request.headers()).map(TraceParent::trace_id);
    let trace = trace.as_deref();
    let span = tracing::info_span!("request", request_id = &*id, trace_id = trace);
    let mut client_permit = None;
    let admitted = match head_problem(&request, both_lengths) {
        Some(problem) => Err(problem),
        None if HEALTH_PATHS.contains(&path.as_str()) => Ok(()),
        None => admit(server, peer, address, &connection).map(|permit| client_permit = permit),
    };
    let handled = match admitted {
        Ok(()) => {
            handle(server.routes.clone(), request)
                .instrument(span)
                .await
        }
        Err(error) => {
            drop(request);
            Err(error)
        }
    };
    let fail = |error: ApiError| {
        let info = RequestInfo {
            id: Arc::clone(&id),
            method: method.clone(),
            target: path.clone(),
            sent_from: String::new(),
        };
        respond_with_failure(error, &info, server.failure)
    };
    let mut response = handled.unwrap_or_else(fail);
    if response.headers().contains_key(header::CONNECTION) {
        // It is closed; hyper waits for the rest until it is dropped.
        connection.take_unread();
    } else if !request_body::discard_rest(&connection).await {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    let holder = || match state.tenant.get() {
        Some(tenant) => Holder::Organization(*tenant),
        None => Holder::Client(network_of(address)),
    };
    let (response, permit) = match response_body::take_memory(&response, &server.app.memory, holder)
    {
        Ok(permit) => (response, permit),
        Err(refused) => (fail(refused.into()), None),
    };
    let response = with_common_headers(&server.app, response, &id);
    let route = state.route.get().copied().unwrap_or(NO_ROUTE);
    let status = response.status().as_u16();
    let metrics = &server.app.metrics;
    metrics.count_request(&method, route, status, started.elapsed());
    log((&id, trace), &method, &path, status, started);
    let end = RequestEnd {
        connection,
        _permit: client_permit,
    };
    response_body::convert(response, permit, end)
}

/// Admits a request if its connection has a regular slot and, behind a trusted
/// proxy, its client does not have too many requests in flight. Without a proxy the
/// number of connections limits them.
fn admit(
    server: &Server,
    peer: IpAddr,
    address: IpAddr,
    connection: &Connection,
) -> Result<Option<ClientPermit>, ApiError> {
    if !connection.slot.is_regular() {
        let detail =
            format!("the service has too many connections; try again in {RETRY_AFTER_SECONDS} s");
        return Err(ApiError::new(ProblemCode::Unavailable, detail)
            .with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS)
            .with_header(header::CONNECTION, "close"));
    }
    if !client_address::is_trusted(&server.app.settings.trusted_proxies, peer) {
        return Ok(None);
    }
    let Some(permit) = server.clients.take(address) else {
        let max = connection_limit::MAX_PER_CLIENT;
        let detail = format!(
            "your address has {max} requests in flight, which is the limit; try again in \
             {RETRY_AFTER_SECONDS} s"
        );
        return Err(ApiError::new(ProblemCode::TooManyRequests, detail)
            .with_header(header::RETRY_AFTER, RETRY_AFTER_SECONDS));
    };
    Ok(Some(permit))
}

/// Logs a request; a successful one at the level `debug` only, because writing a
/// line costs as much as a third of a small response.
fn log(
    (request_id, trace_id): (&str, Option<&str>),
    method: &Method,
    path: &str,
    status: u16,
    started: Instant,
) {
    let path = loggable(path);
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                request_id,
                trace_id,
                %method,
                path,
                status,
                latency_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
                "answered"
            )
        };
    }
    if status < 400 {
        event!(debug);
    } else {
        event!(info);
    }
}

/// Returns the path for the log, without secrets.
fn loggable(path: &str) -> &str {
    let secret = SECRET_PATHS
        .iter()
        .find(|(prefix, _)| path.starts_with(prefix));
    secret.map_or(path, |(_, route)| route)
}

/// Runs the handler with a time limit; a panic fails this request only.
async fn handle(routes: Routes, request: http::Request<RequestBody>) -> Result<Response, ApiError> {
    let only_reads = request.method().is_safe();
    let timed = poll_timing::TimedRequest::new(request.method(), loggable(request.uri().path()));
    let work = AssertUnwindSafe(warp::service(routes).call(request)).catch_unwind();
    let work = poll_timing::timed(timed, work);
    match tokio::time::timeout(HANDLER_TIMEOUT, work).await {
        Ok(Ok(Ok(response))) => Ok(response),
        Ok(Ok(Err(never))) => match never {},
        Ok(Err(_)) => Err(ApiError::internal(&"the handler panicked")),
        Err(_) if only_reads => Err(ApiError::unavailable(&"the handler took too long")),
        Err(_) => Err(ApiError::uncertain(&"the handler took too long")),
    }
}

/// Checks what hyper does not check of the head of a request.
fn head_problem(request: &http::Request<RequestBody>, both_lengths: bool) -> Option<ApiError> {
    let problem = |code, detail: &str| {
        let error = ApiError::new(code, detail);
        Some(error.with_header(header::CONNECTION, "close"))
    };
    if both_lengths {
        let detail = "a request must not have both content-length and transfer-encoding";
        return problem(ProblemCode::MalformedHeader, detail);
    }
    let encodings = request.headers().get_all(header::TRANSFER_ENCODING);
    if encodings.iter().any(|encoding| !is_chunked(encoding)) {
        let detail = "the header transfer-encoding must be chunked, once; send the body without \
                      another encoding";
        return problem(ProblemCode::NotImplemented, detail);
    }
    // warp panics on a target without a path (`CONNECT a:1`, `GET api`).
    if !request.uri().path().starts_with('/') && request.uri().path() != "*" {
        let detail = "the target of a request must begin with /";
        return problem(ProblemCode::MalformedHeader, detail);
    }
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == http::Version::HTTP_11) {
        let detail = "a request must have the header host, once";
        return problem(ProblemCode::MalformedHeader, detail);
    }
    None
}

fn is_chunked(encoding: &HeaderValue) -> bool {
    encoding
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"chunked")
}

fn with_common_headers(app: &App, mut response: Response, id: &str) -> Response {
    let headers = response.headers_mut();
    if app.settings.is_https() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}
