//! A keep-alive HTTP connection that sends and receives bytes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;
use crate::work::ANY_STATUS;

/// The size of the buffer, in bytes: enough for every measured response.
const BUFFER: usize = 64 * 1024;
const MAX_HEADERS: usize = 32;

pub(crate) struct HttpConnection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A response.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl HttpConnection {
    /// Connects to an address such as `127.0.0.1:8080`.
    pub(crate) async fn connect(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::with_capacity(BUFFER),
        })
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>, Failure> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let head = loop {
            self.receive().await?;
            if let Some(head) = head(&self.received)? {
                break head;
            }
        };
        let end = head.length + head.body;
        while self.received.len() < end {
            self.receive().await?;
        }
        Ok(Answer {
            status: head.status,
            body: &self.received[head.length..end],
        })
    }

    async fn receive(&mut self) -> Result<(), Failure> {
        if self.stream.read_buf(&mut self.received).await? == 0 {
            let received = String::from_utf8_lossy(&self.received);
            return Err(format!("the connection was closed after {received:?}").into());
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// Requires this status.
    ///
    /// # Errors
    /// With the request and the body.
    pub(crate) fn is(&self, status: u16, request: &[u8]) -> Result<(), Failure> {
        if self.status == status || status == ANY_STATUS {
            return Ok(());
        }
        let request: String = String::from_utf8_lossy(request).chars().take(400).collect();
        let body = String::from_utf8_lossy(self.body);
        let got = self.status;
        Err(format!("expected {status}, got {got}: {body}\nto the request\n{request}").into())
    }
}

struct Head {
    status: u16,
    /// The length of the head, in bytes.
    length: usize,
    /// The length of the body, in bytes.
    body: usize,
}

/// Parses the head of a response, if it is complete.
fn head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes)? else {
        return Ok(None);
    };
    let body = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok())
        .ok_or("a response without a content-length")?;
    let status = response.code.ok_or("a response without a status")?;
    Ok(Some(Head {
        status,
        length,
        body,
    }))
}
