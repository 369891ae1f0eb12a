//! The accept loop: from a socket to an answer, with every limit that keeps one
//! client from taking what belongs to the others.
//!
//! warp's own server has no deadline for headers, bodies, idle connections or
//! the drain, and no cap on connections; hence a loop of our own over
//! [`warp::service`].

mod client_address;
mod connection;
mod connection_limit;
mod poll_timing;
mod request_body;
mod respond;
mod response_body;

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
use crate::web::client_limit::ClientLimit;
use crate::web::route::FailurePage;
use connection::{Connection, Timed};
use connection_limit::ConnectionLimit;
use request_body::RequestBody;

pub(crate) use connection_limit::{max_connections, raise_file_limit};

/// How large the head of a request may be, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// How long requests that are under way may take to end after the signal.
const DRAIN: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more sockets to give.
const NO_SOCKETS: Duration = Duration::from_millis(100);

type Routes = BoxedFilter<(Response,)>;

/// What every request is answered with.
struct Served {
    app: App,
    routes: Routes,
    failure: FailurePage,
    /// How many requests each client of a trusted proxy has under way.
    clients: ClientLimit,
}

/// Accepts connections until the shutdown resolves, then lets what is under way
/// end, within bounds.
pub(crate) async fn serve(
    app: App,
    routes: Routes,
    failure: FailurePage,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) {
    let places = ConnectionLimit::new();
    let graceful = GracefulShutdown::new();
    let served = Arc::new(Served {
        app,
        routes,
        failure,
        clients: ClientLimit::new(connection_limit::MAX_PER_CLIENT),
    });
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places, &served.app) => accepted,
        };
        let Some((stream, peer, connection)) = accepted else {
            continue;
        };
        let service = {
            let (served, connection) = (Arc::clone(&served), Arc::clone(&connection));
            service_fn(move |request| {
                let (served, connection) = (Arc::clone(&served), Arc::clone(&connection));
                async move {
                    let Some(both_lengths) = connection.request_begins(request.headers()) else {
                        // The connection is closed at any moment.
                        return std::future::pending().await;
                    };
                    let request = request.map(|body| RequestBody::new(body, &connection));
                    let response =
                        respond::respond(&served, peer, request, connection, both_lengths).await;
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let stream = Timed::new(stream, Arc::clone(&connection));
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            // The deadlines of head and idleness are the stream's, see `connection`.
            .header_read_timeout(connection::IDLE + connection::HEAD)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let served = graceful.watch(served);
        let task = tokio::spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!(%error, %peer, "a connection ended with an error");
            }
        });
        connection.served_by(task.abort_handle());
    }
    drop(listener);
    tracing::info!("draining");
    served.app.live.end();
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
    places: &ConnectionLimit,
    app: &App,
) -> Option<(TcpStream, IpAddr, Arc<Connection>)> {
    let free = places.free().await;
    match listener.accept().await {
        Ok((stream, peer)) => {
            // Of a listener for IPv6, clients of IPv4 have addresses of both.
            let peer = peer.ip().to_canonical();
            let is_proxy = client_address::is_trusted(&app.settings.trusted_proxies, peer);
            let connection = places.take(free, peer, is_proxy)?;
            // Answers are small and complete; waiting for more gains nothing.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, connection))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            places.make_room();
            tokio::time::sleep(NO_SOCKETS).await;
            None
        }
    }
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
