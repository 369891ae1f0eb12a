//! How a receiver answers.

use std::time::Duration;

use serde_json::Value;

/// How a receiver answers a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) manner: Manner,
    pub(super) delay: Duration,
}

/// How the bytes of an answer are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// At once.
    Whole,
    /// One byte each 100 ms.
    Drip,
    /// Not at all: the connection stays open.
    Hang,
    /// Not at all: the connection is reset.
    Reset,
    /// The body is repeated until the client closes the connection.
    Endless,
    /// The body only: it is not HTTP.
    Raw,
}

impl Answer {
    /// Returns an answer with a status and no body.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            manner: Manner::Whole,
            delay: Duration::ZERO,
        }
    }

    /// Returns an answer with a body.
    pub fn text(status: u16, body: &str) -> Self {
        let mut answer = Self::status(status);
        answer.body = body.as_bytes().to_vec();
        answer
    }

    /// Returns 200 with bytes.
    pub fn bytes(body: Vec<u8>) -> Self {
        let mut answer = Self::status(200);
        answer.body = body;
        answer
    }

    /// Returns an answer with a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::text(status, &body.to_string()).header("content-type", "application/json")
    }

    /// Returns 200 with the body `ok`, as webhooks of Slack answer.
    pub fn ok() -> Self {
        Self::text(200, "ok")
    }

    /// Returns 429 with `Retry-After`.
    pub fn too_many_requests(retry_after: &str) -> Self {
        Self::status(429).header("retry-after", retry_after)
    }

    /// Returns a redirect.
    pub fn redirect(status: u16, url: &str) -> Self {
        Self::status(status).header("location", url)
    }

    /// Never answers; the connection stays open.
    pub fn hang() -> Self {
        Self::in_manner(Manner::Hang)
    }

    /// Answers 200 with one byte each 100 ms, so that no single read takes long.
    pub fn drip() -> Self {
        let mut answer = Self::text(200, &"a".repeat(100_000));
        answer.manner = Manner::Drip;
        answer
    }

    /// Resets the connection.
    pub fn reset() -> Self {
        Self::in_manner(Manner::Reset)
    }

    /// Answers 200 with a body that does not end.
    pub fn endless() -> Self {
        let mut answer = Self::text(200, &"endless ".repeat(8_192));
        answer.manner = Manner::Endless;
        answer
    }

    /// Answers 200 with gzip that becomes much longer.
    pub fn gzip_bomb() -> Self {
        // A block of DEFLATE that repeats a zero byte, in a gzip file: 1 MB each.
        let mut answer = Self::status(200).header("content-encoding", "gzip");
        answer.body = super::connection::zeros_as_gzip(100);
        answer
    }

    /// Answers with bytes that are not HTTP.
    pub fn not_http() -> Self {
        let mut answer = Self::text(200, "SSH-2.0-OpenSSH_9.2\r\n");
        answer.manner = Manner::Raw;
        answer
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before it answers.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn in_manner(manner: Manner) -> Self {
        let mut answer = Self::status(200);
        answer.manner = manner;
        answer
    }
}
