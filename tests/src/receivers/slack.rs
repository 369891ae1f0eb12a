//! Checks messages as Slack does, and answers as its API does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Answer, Received, Receiver};

/// Checks a message by Slack's documented limits, and that text in it mentions nobody.
///
/// # Errors
/// What is wrong with it.
pub fn check(body: &Value) -> Result<(), String> {
    let known = [
        "text",
        "blocks",
        "unfurl_links",
        "unfurl_media",
        "channel",
        "ts",
        "thread_ts",
    ];
    members(body, &known)?;
    if body["text"].as_str().is_none_or(str::is_empty) {
        return Err("no text".to_owned());
    }
    mentions_nobody(text_of(&body["text"])?)?;
    check_blocks(body)
}

/// Checks the blocks of a message or an answer.
///
/// # Errors
/// What is wrong with them.
pub fn check_blocks(body: &Value) -> Result<(), String> {
    let blocks = body["blocks"].as_array().ok_or("no blocks")?;
    if blocks.is_empty() || blocks.len() > 50 {
        return Err(format!("{} blocks", blocks.len()));
    }
    blocks.iter().try_for_each(block)
}

fn members(object: &Value, known: &[&str]) -> Result<(), String> {
    let object = object.as_object().ok_or("not an object")?;
    match object.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(format!("{unknown} is not known")),
        None => Ok(()),
    }
}

fn block(block: &Value) -> Result<(), String> {
    match block["type"].as_str() {
        Some("section") => {
            members(block, &["type", "text", "fields"])?;
            if block.get("text").is_none() && block.get("fields").is_none() {
                return Err("an empty section".to_owned());
            }
            if let Some(text) = block.get("text") {
                text_object(text, 3_000)?;
            }
            elements(block, "fields", 10, 2_000)
        }
        Some("context") => elements(block, "elements", 10, 2_000),
        other => Err(format!("{other:?} is not a block")),
    }
}

fn elements(block: &Value, name: &str, count: usize, chars: usize) -> Result<(), String> {
    let Some(elements) = block.get(name) else {
        return Ok(());
    };
    let elements = elements.as_array().ok_or("not an array")?;
    if elements.is_empty() || elements.len() > count {
        return Err(format!("{} {name}", elements.len()));
    }
    elements
        .iter()
        .try_for_each(|text| text_object(text, chars))
}

fn text_object(object: &Value, max_chars: usize) -> Result<(), String> {
    members(object, &["type", "text", "verbatim"])?;
    if object["type"] != "mrkdwn" || object["verbatim"] != true {
        return Err(format!("{object} is not verbatim mrkdwn"));
    }
    let text = text_of(&object["text"])?;
    let count = text.chars().count();
    if text.trim().is_empty() || count > max_chars {
        return Err(format!("text of {count} characters"));
    }
    mentions_nobody(text)
}

fn text_of(text: &Value) -> Result<&str, String> {
    text.as_str().ok_or_else(|| format!("{text} is not a text"))
}

/// Text in `<>` must be a link or a date, and `&` must be escaped.
fn mentions_nobody(text: &str) -> Result<(), String> {
    let allowed = ["<http://", "<https://", "<!date^"];
    for (index, _) in text.match_indices('<') {
        if !allowed.iter().any(|start| text[index..].starts_with(start)) {
            return Err(format!("{text} mentions somebody"));
        }
    }
    for (index, _) in text.match_indices('&') {
        let escapes = ["&amp;", "&lt;", "&gt;"];
        if !escapes
            .iter()
            .any(|escape| text[index..].starts_with(escape))
        {
            return Err(format!("{text} is not escaped"));
        }
    }
    let opened = text.matches('<').count();
    if text.matches('>').count() != opened {
        return Err(format!("{text} has a sign that is not escaped"));
    }
    Ok(())
}

/// The messages of a channel, as Slack's API keeps them.
#[derive(Clone, Default)]
pub struct Channel(Arc<Mutex<Messages>>);

#[derive(Default)]
struct Messages {
    by_ts: HashMap<String, Value>,
    replies: Vec<Value>,
}

impl Channel {
    /// Lets a receiver answer as Slack's API, for the token `xoxb-test` and the channel
    /// `C0123456789`.
    pub fn serve(receiver: &Receiver) -> Self {
        let channel = Self::default();
        let shared = channel.clone();
        receiver.answer_by(move |request| shared.answer(request));
        channel
    }

    /// Returns the messages by their `ts`.
    pub fn messages(&self) -> HashMap<String, Value> {
        self.lock(|messages| messages.by_ts.clone())
    }

    /// Returns the replies in threads.
    pub fn replies(&self) -> Vec<Value> {
        self.lock(|messages| messages.replies.clone())
    }

    /// Deletes all messages, as people may do it.
    pub fn clear(&self) {
        self.lock(|messages| messages.by_ts.clear());
    }

    fn lock<T>(&self, read: impl FnOnce(&mut Messages) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&self, request: &Received) -> Answer {
        let body = request.json();
        let failed = |error: &str| Answer::json(200, &json!({ "ok": false, "error": error }));
        if request.header("authorization") != "Bearer xoxb-test" {
            return failed("invalid_auth");
        }
        if body["channel"] != "C0123456789" {
            return failed("channel_not_found");
        }
        if let Err(error) = check(&body) {
            let answer = json!({ "ok": false, "error": "invalid_blocks", "detail": error });
            return Answer::json(200, &answer);
        }
        let ts = self.lock(|messages| {
            if request.path == "/chat.update" {
                let ts = body["ts"].as_str().unwrap_or_default().to_owned();
                let message = messages.by_ts.get_mut(&ts)?;
                *message = body.clone();
                return Some(ts);
            }
            if body.get("thread_ts").is_some() {
                messages.replies.push(body.clone());
                return Some("1.5".to_owned());
            }
            let ts = format!("1764000000.{:06}", messages.by_ts.len());
            messages.by_ts.insert(ts.clone(), body.clone());
            Some(ts)
        });
        match ts {
            Some(ts) => Answer::json(
                200,
                &json!({ "ok": true, "channel": "C0123456789", "ts": ts }),
            ),
            None => failed("message_not_found"),
        }
    }
}
