//! The listener that Prometheus asks. It is apart from that of users: the metrics need no key,
//! and are for the network of the operator only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::{scrape, slow_statements};
use crate::app::App;

/// The path of the metrics.
pub(crate) const PATH: &str = "/metrics";
/// The path of the slowest statements, as JSON.
pub(crate) const SLOW_STATEMENTS_PATH: &str = "/slow-statements";
/// The limit on connections.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may take, which is for one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Answers for as long as this is polled.
pub(crate) async fn serve(app: App, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let app = app.clone();
                tokio::spawn(async move {
                    // A client that is slower is disconnected.
                    let _ = timeout(CONNECTION_TIMEOUT, exchange(app, stream)).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

async fn exchange(app: App, stream: TcpStream) {
    let service = service_fn(move |request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(answer(&app, &request).await) }
    });
    let exchange = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = exchange {
        tracing::debug!(%error, "a connection for metrics ended with an error");
    }
}

async fn answer(app: &App, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, content_type, body) = match request.uri().path() {
        PATH if is_read => scrape::text(app).await.map_or_else(
            |error| {
                tracing::error!(%error, "the metrics could not be written");
                let text = "the metrics could not be written\n".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", text)
            },
            |text| (StatusCode::OK, CONTENT_TYPE, text),
        ),
        SLOW_STATEMENTS_PATH if is_read => {
            let text = json!(slow_statements::slowest()).to_string();
            (StatusCode::OK, "application/json", text)
        }
        _ => {
            let text = format!("the metrics are at {PATH}\n");
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static(content_type);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    response
}
