//! One connection that is kept alive, spoken to in bytes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Failure;
use crate::work::ANY;

/// Large enough for every answer that is measured.
const BUFFER: usize = 64 * 1024;
const MOST_HEADERS: usize = 32;

pub(crate) struct Wire {
    stream: TcpStream,
    heard: Vec<u8>,
}

/// What a request was answered.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Wire {
    /// Connects to an address such as `127.0.0.1:8080`.
    pub(crate) async fn connect(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            heard: Vec::with_capacity(BUFFER),
        })
    }

    /// Sends one request and reads its whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>, Failure> {
        self.stream.write_all(request).await?;
        self.heard.clear();
        let head = loop {
            self.hear().await?;
            if let Some(head) = head(&self.heard)? {
                break head;
            }
        };
        let end = head.length + head.body;
        while self.heard.len() < end {
            self.hear().await?;
        }
        Ok(Answer {
            status: head.status,
            body: &self.heard[head.length..end],
        })
    }

    async fn hear(&mut self) -> Result<(), Failure> {
        if self.stream.read_buf(&mut self.heard).await? == 0 {
            let heard = String::from_utf8_lossy(&self.heard);
            return Err(format!("the connection was closed after {heard:?}").into());
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// Requires this status.
    ///
    /// # Errors
    /// With the request and the body: errors that count as work are worthless.
    pub(crate) fn is(&self, status: u16, request: &[u8]) -> Result<(), Failure> {
        if self.status == status || status == ANY {
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
    /// Of the head itself, in bytes.
    length: usize,
    /// Of the body, in bytes.
    body: usize,
}

/// Reads the head of an answer, once all of it is there.
fn head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes)? else {
        return Ok(None);
    };
    let body = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok())
        .ok_or("an answer without a content-length")?;
    let status = response.code.ok_or("an answer without a status")?;
    Ok(Some(Head {
        status,
        length,
        body,
    }))
}
