//! A client of server-sent events.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

/// How long to wait for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The `id` field; may be empty.
    pub id: String,
    /// The `event` field.
    pub name: String,
    /// The `data` field, read as JSON.
    pub data: Value,
}

/// A response with an event stream.
pub struct EventStream {
    /// The response whose body is the stream.
    pub response: Response,
    /// The received bytes that are not parsed yet; a chunk may end within a character.
    bytes: Vec<u8>,
}

impl EventStream {
    /// Opens a stream; the status must be 200.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("a response");
        assert_eq!(response.status(), 200);
        Self {
            response,
            bytes: Vec::new(),
        }
    }

    /// Waits for the next event; `None` when the stream has ended or failed.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let end = self.bytes.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let rest = self.bytes.split_off(end + 2);
                let block = std::mem::replace(&mut self.bytes, rest);
                let event = read(std::str::from_utf8(&block[..end]).expect("UTF-8"));
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = tokio::time::timeout(EVENT_TIMEOUT, self.response.chunk()).await;
            let chunk = chunk.expect("an event or the end of the stream").ok()??;
            self.bytes.extend_from_slice(&chunk);
        }
    }

    /// Waits for the next event that is not a position.
    pub async fn event(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("another event");
            if event.name != "position" {
                return event;
            }
        }
    }

    /// Waits for the next event, which must be a new change.
    pub async fn change(&mut self) -> Event {
        let event = self.event().await;
        assert_eq!(event.name, "change");
        event
    }

    /// Waits for the next event, which must be an update.
    pub async fn update(&mut self) -> Event {
        let event = self.event().await;
        assert_eq!(event.name, "updated");
        event
    }

    /// Waits for the next event, which must be an incident.
    pub async fn incident(&mut self) -> Event {
        let event = self.event().await;
        assert_eq!(event.name, "incident");
        event
    }

    /// Waits for `count` changes, and returns their titles.
    pub async fn titles(&mut self, count: usize) -> Vec<String> {
        let mut titles = Vec::new();
        while titles.len() < count {
            titles.push(crate::text(&self.change().await.data["title"]));
        }
        titles
    }

    /// Reads until the stream ends, and returns the changes.
    pub async fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events.retain(|event| event.name == "change");
        events
    }
}

/// Reads one event; `None` for a comment.
fn read(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(str::to_owned)
    };
    Some(Event {
        id: field("id").unwrap_or_default(),
        name: field("event")?,
        data: serde_json::from_str(&field("data")?).expect("JSON"),
    })
}
