//! The upper limit: a process with warp and two handlers that do nothing.

use std::io::{Read, Write};
use std::process::Command;

use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use warp::Filter;
use warp::http::{Response, StatusCode};

use crate::Failure;

/// The variable that makes this program the bare service.
const BARE_VARIABLE: &str = "BENCH_BARE";
/// The length of a change in JSON.
const CHANGE_BYTES: usize = 600;
/// A response to a create, of the same shape and length.
const CREATED_BODY: &str = r#"{"data":{"id":"01a1fe44-e8ee-758e-b05a-cbc24ba634ac","title":"Roll out bacado to mirope","risk_level":"medium","status":"planned","organization_id":"01a1fe44-e8e0-704b-87a7-da858e24e079","created_at":"2026-11-21T13:21:31.374Z"}}"#;

/// Returns the command that starts the bare service.
pub(crate) fn command() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(BARE_VARIABLE, "1");
    Ok(command)
}

/// Returns whether this process is the bare service.
pub(crate) fn is_requested() -> bool {
    std::env::var_os(BARE_VARIABLE).is_some()
}

/// Serves until the parent process has ended. The accept loop and the runtime are those
/// of the real service, without its limits.
pub(crate) fn serve() -> Result<(), Failure> {
    std::thread::spawn(|| {
        // The kernel closes the pipe when the parent ends in any way.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let start = r#"{"data":{"title":""#;
    let title = "x".repeat(CHANGE_BYTES - start.len() - 3);
    let found = Bytes::from(format!("{start}{title}\"}}}}"));
    let get = warp::path!("api" / "changes" / String)
        .and(warp::get())
        .map(move |_id: String| json(StatusCode::OK, found.clone()));
    let post = warp::path!("api" / "changes")
        .and(warp::post())
        .and(warp::body::bytes())
        .map(|_body: Bytes| {
            json(
                StatusCode::CREATED,
                Bytes::from_static(CREATED_BODY.as_bytes()),
            )
        });
    let routes = get.or(post).unify().boxed();

    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        writeln!(std::io::stderr(), "listening on http://{address}")?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = TowerToHyperService::new(warp::service(routes.clone()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    })
}

fn json(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        warp::http::header::CONTENT_TYPE,
        warp::http::HeaderValue::from_static("application/json"),
    );
    response
}
