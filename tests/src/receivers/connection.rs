//! The connections of a receiver.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::{Answer, Manner};
use super::{Received, State, lock};

/// The time between two bytes of [`Manner::Drip`].
const DRIP: Duration = Duration::from_millis(100);

/// Accepts connections until the task is aborted; the connections end with it.
pub(super) async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // The answers are written in parts.
        stream.set_nodelay(true).expect("a socket");
        lock(&state).connections += 1;
        let state = Arc::clone(&state);
        // The client may close the connection at any time.
        connections.spawn(async move { drop(serve(stream, &state).await) });
    }
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer).await? {
        let (next, behavior) = {
            let mut state = lock(state);
            let next = state.next.pop_front();
            (next, Arc::clone(&state.behavior))
        };
        let answer = next.unwrap_or_else(|| behavior(&request));
        lock(state).requests.push(request);
        tokio::time::sleep(answer.delay).await;
        if !write(&mut stream, &answer).await? {
            break;
        }
    }
    Ok(())
}

/// Reads a request; `None` at the end of the connection.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Received>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(buffer).map_err(io::Error::other)?;
        if let httparse::Status::Complete(start) = status {
            let headers: Vec<(String, String)> = parsed
                .headers
                .iter()
                .map(|header| {
                    let value = String::from_utf8_lossy(header.value).into_owned();
                    (header.name.to_lowercase(), value)
                })
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length = length
                .and_then(|(_, value)| value.parse().ok())
                .unwrap_or(0);
            let (method, path) = (parsed.method, parsed.path);
            let (method, path) = (method.unwrap_or_default(), path.unwrap_or_default());
            let (method, path) = (method.to_owned(), path.to_owned());
            while buffer.len() < start + length {
                if stream.read_buf(buffer).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let body = buffer[start..start + length].to_vec();
            buffer.drain(..start + length);
            return Ok(Some(Received {
                method,
                path,
                headers,
                body,
                at: Instant::now(),
            }));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Answers, and returns whether the connection may be used again.
async fn write(stream: &mut TcpStream, answer: &Answer) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} Answer\r\n", answer.status);
    for (name, value) in &answer.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    match answer.manner {
        Manner::Whole => {
            if !(answer.status == 204 || answer.status == 304) {
                let _ = write!(head, "content-length: {}\r\n", answer.body.len());
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&answer.body).await?;
            return Ok(true);
        }
        Manner::Drip => {
            let _ = write!(head, "content-length: {}\r\n\r\n", answer.body.len());
            for byte in head.as_bytes().iter().chain(&answer.body) {
                stream.write_all(&[*byte]).await?;
                tokio::time::sleep(DRIP).await;
            }
        }
        Manner::Hang => std::future::pending().await,
        Manner::Reset => stream.set_zero_linger()?,
        Manner::Endless => {
            head.push_str("connection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&answer.body).await?;
            }
        }
        Manner::Raw => stream.write_all(&answer.body).await?,
    }
    Ok(false)
}

/// Returns a gzip file of this many megabytes of zeros.
pub(super) fn zeros_as_gzip(megabytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1024 * 1024];
    for _ in 0..megabytes {
        encoder.write_all(&zeros).expect("memory");
    }
    encoder.finish().expect("memory")
}
