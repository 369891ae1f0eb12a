//! The accept loop: from a socket to an answer, with every limit that keeps one
//! client from taking what belongs to the others.
//!
//! warp's own server has no deadline for headers, bodies, idle connections or
//! the drain, and no cap on connections; hence a loop of our own over
//! [`warp::service`].

mod body;
mod connection;
mod places;
mod polls;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use changelog_core::ProblemCode;
use chrono::Utc;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, Method, header};
use hyper::body::Incoming as IncomingBody;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service as _;
use tracing::Instrument;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::app::App;
use crate::web::ApiError;
use crate::web::request::Incoming;
use crate::web::route::{Asked, FailurePage};
use connection::{Phases, Timed};
use places::Places;

/// How long a handler may take, the arrival of the body included.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(20);
/// How large the head of a request may be, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// How long requests that are under way may take to end after the signal.
const DRAIN: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more sockets to give.
const NO_SOCKETS: Duration = Duration::from_millis(100);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A browser that has come by https once comes by nothing else for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");
/// What stands before a secret in a path, and the route that is logged instead.
const SECRET_PATH: (&str, &str) = ("/invitations/", "/invitations/:token");

type Routes = BoxedFilter<(Response,)>;

/// Accepts connections until the shutdown resolves, then lets what is under way
/// end, within bounds.
pub(crate) async fn serve(
    app: App,
    routes: Routes,
    failure: FailurePage,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let places = Places::new();
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else {
            continue;
        };
        let (app, routes) = (app.clone(), routes.clone());
        let phases = Arc::new(Phases::default());
        let service = {
            let phases = Arc::clone(&phases);
            service_fn(move |request| {
                let (app, routes) = (app.clone(), routes.clone());
                let phases = Arc::clone(&phases);
                async move {
                    let both_lengths = phases.request_begins(request.headers());
                    let response = answer(&app, routes, failure, peer, request, both_lengths).await;
                    Ok::<_, Infallible>(body::of(response, phases))
                }
            })
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            // The deadlines of head and idleness are the stream's, see `connection`.
            .header_read_timeout(connection::IDLE + connection::HEAD)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(Timed::new(stream, phases)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, %peer, "a connection ended with an error");
            }
            drop(place);
        });
    }
    drop(listener);
    tracing::info!("draining");
    app.live.end();
    if tokio::time::timeout(DRAIN, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(
            drain_s = DRAIN.as_secs(),
            "some requests did not end in time"
        );
    }
}

/// Waits for a place, then for a connection; `None` when there is none for this
/// client.
async fn accept(
    listener: &TcpListener,
    places: &Places,
) -> Option<(TcpStream, IpAddr, places::Place)> {
    let free = places.free().await;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let place = places.take(free, peer.ip())?;
            // Answers are small and complete; waiting for more gains nothing.
            let _ = stream.set_nodelay(true);
            Some((stream, peer.ip(), place))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(NO_SOCKETS).await;
            None
        }
    }
}

/// Answers one request: finds its id, runs its handler within bounds, and adds
/// the headers that every answer has.
async fn answer(
    app: &App,
    routes: Routes,
    failure: FailurePage,
    peer: IpAddr,
    mut request: http::Request<IncomingBody>,
    both_lengths: bool,
) -> Response {
    let started = Instant::now();
    let id: Arc<str> = crate::store::new_id(Utc::now()).to_string().into();
    let address = client_address(app, peer, request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(Incoming {
        address,
        id: Arc::clone(&id),
    });
    let span = tracing::info_span!("request", request_id = &*id);
    let response = if let Some(problem) = head_problem(&request, both_lengths) {
        let mut response = problem.into_response(&id);
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    } else {
        let handled = handle(routes, request).instrument(span).await;
        handled.unwrap_or_else(|error| {
            let asked = Asked {
                id: Arc::clone(&id),
                method: method.clone(),
                address: path.clone(),
            };
            asked.answer(error, failure)
        })
    };
    let response = with_common_headers(app, response, &id);
    log(&id, &method, &path, response.status().as_u16(), started);
    response
}

/// Tells the log of a request. What went well is told at the level `debug`:
/// writing a line costs as much as a third of an answer.
fn log(request_id: &str, method: &Method, path: &str, status: u16, started: Instant) {
    let path = loggable(path);
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                request_id,
                %method,
                path,
                status,
                latency_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
                "answered"
            )
        };
    }
    if status < 400 {
        tell!(debug);
    } else {
        tell!(info);
    }
}

/// Returns the path for the log, without a secret in it.
fn loggable(path: &str) -> &str {
    let (prefix, route) = SECRET_PATH;
    if path.starts_with(prefix) {
        route
    } else {
        path
    }
}

/// Runs the handler: not for ever, and a panic ends this request only.
async fn handle(
    routes: Routes,
    request: http::Request<IncomingBody>,
) -> Result<Response, ApiError> {
    let name = polls::Name::of(&request);
    let work = AssertUnwindSafe(warp::service(routes).call(request)).catch_unwind();
    let work = polls::watched(name, work);
    match tokio::time::timeout(HANDLER_TIMEOUT, work).await {
        Ok(Ok(Ok(response))) => Ok(response),
        Ok(Ok(Err(never))) => match never {},
        Ok(Err(_)) => Err(ApiError::internal(&"the handler panicked")),
        Err(_) => Err(ApiError::unavailable(&"the handler took too long")),
    }
}

/// Finds what is wrong with the head of a request beyond what hyper refuses.
fn head_problem(request: &http::Request<IncomingBody>, both_lengths: bool) -> Option<ApiError> {
    let problem = |detail| Some(ApiError::new(ProblemCode::MalformedHeader, detail));
    if both_lengths {
        return problem("a request must not have both content-length and transfer-encoding");
    }
    // warp panics on a target without a path (`CONNECT a:1`, `GET api`).
    if !request.uri().path().starts_with('/') && request.uri().path() != "*" {
        return problem("the target of a request must begin with /");
    }
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == http::Version::HTTP_11) {
        return problem("a request must have the header host, once");
    }
    None
}

/// Finds who sent a request: the peer, or whom trusted proxies name. The last
/// address in `X-Forwarded-For` that is not a trusted proxy's is the client's;
/// anything before it may be made up.
fn client_address(app: &App, peer: IpAddr, headers: &http::HeaderMap) -> IpAddr {
    let trusted = |address: IpAddr| {
        app.settings
            .trusted_proxies
            .iter()
            .any(|network| network.contains(&address))
    };
    if !trusted(peer) {
        return peer;
    }
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    let mut client = peer;
    for text in forwarded.into_iter().rev() {
        let Ok(address) = text.trim().parse() else {
            break;
        };
        client = address;
        if !trusted(address) {
            break;
        }
    }
    client
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

/// Binds the address, with an error that names it.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
            "; another program listens there: choose another with --listen, or --listen 127.0.0.1:0 for any"
        } else {
            ""
        };
        std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{hint}"))
    })
}
