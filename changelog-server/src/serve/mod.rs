//! The accept loop, and the limits that keep one client from using up what the
//! others need.
//!
//! warp's server has no timeout for headers, bodies, idle connections or the
//! shutdown, and no limit on connections; hence our own loop around
//! [`warp::service`].

mod client_address;
mod connection;
mod connection_limit;
mod connections;
mod poll_timing;
mod request_body;
mod respond;
mod response_body;
mod timed_stream;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::app::App;
use crate::client_limit::ClientLimit;
use crate::web::route::FailurePage;
use connection::Connection;
use connection_limit::MAX_PER_CLIENT;
use connections::{Connections, Registration};
use request_body::RequestBody;
use timed_stream::TimedStream;

/// The maximum size of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How long requests in flight may take after the shutdown signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example when no sockets are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

type Routes = BoxedFilter<(Response,)>;

/// The state that all requests share.
struct Server {
    app: App,
    routes: Routes,
    failure: FailurePage,
    /// The requests in flight of each client behind a trusted proxy.
    clients: ClientLimit,
}

/// Accepts connections until `shutdown` resolves, then waits for the requests in
/// flight, at most [`DRAIN_TIMEOUT`].
pub(crate) async fn serve(
    app: App,
    routes: Routes,
    failure: FailurePage,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let connections = Connections::new();
    let graceful = GracefulShutdown::new();
    let server = Arc::new(Server {
        app,
        routes,
        failure,
        clients: ClientLimit::new(MAX_PER_CLIENT),
    });
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &connections, &server.app) => accepted,
        };
        let Some((stream, peer, connection, registration)) = accepted else {
            continue;
        };
        let service = {
            let (server, connection) = (Arc::clone(&server), Arc::clone(&connection));
            service_fn(move |request| {
                let (server, connection) = (Arc::clone(&server), Arc::clone(&connection));
                async move {
                    let Some(both_lengths) = connection.request_begins(request.headers()) else {
                        // The connection is being closed.
                        return std::future::pending().await;
                    };
                    let request = RequestBody::of(request, &connection);
                    let response =
                        respond::respond(&server, peer, request, connection, both_lengths).await;
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let stream = TimedStream::new(stream, Arc::clone(&connection));
        let exchange = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            // `TimedStream` has separate and shorter deadlines.
            .header_read_timeout(connection::IDLE_TIMEOUT + connection::HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let exchange = graceful.watch(exchange);
        let task = tokio::spawn(async move {
            let _registration = registration;
            if let Err(error) = exchange.await {
                tracing::debug!(%error, %peer, "a connection ended with an error");
            }
        });
        connection.served_by(task.abort_handle());
    }
    drop(listener);
    tracing::info!("draining");
    server.app.change_streams.shut_down();
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(
            drain_s = DRAIN_TIMEOUT.as_secs(),
            "some requests did not end in time"
        );
    }
}

/// Waits for a slot, then for a connection; `None` if the connection failed or its
/// client has too many.
async fn accept(
    listener: &TcpListener,
    connections: &Connections,
    app: &App,
) -> Option<(TcpStream, IpAddr, Arc<Connection>, Registration)> {
    let slot = connections.slot().await;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // A listener for IPv6 reports IPv4 clients with mapped addresses.
            let peer = peer.ip().to_canonical();
            let is_proxy = client_address::is_trusted(&app.settings.trusted_proxies, peer);
            let (connection, registration) = connections.open(slot, peer, is_proxy)?;
            // Responses are complete when they are written, so there is nothing to
            // wait for.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, connection, registration))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            connections.close_idle();
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

/// Listens on an address; the error contains the address and the flag that gives it.
pub(crate) async fn bind(address: SocketAddr, flag: &str) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::AddrInUse {
            format!(
                "; another program uses this port: choose another one with {flag}, or any free one \
                 with {flag} 127.0.0.1:0"
            )
        } else {
            String::new()
        };
        std::io::Error::new(
            error.kind(),
            format!("cannot listen on {address}: {error}{hint}"),
        )
    })
}
