//! Microsoft Teams: Adaptive Cards, sent to a webhook of Workflows.

use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{self, Outcome};
use super::render::{Group, Neighbors, Summary, Tone, clipped_as};
use super::request;
use crate::integrations::http::{ReceiverClient, ReceiverResponse};
use crate::integrations::message::{Message, Verdict};

/// The limit on a request. Teams refuses cards of 28,672 bytes after it has written them
/// anew, which makes them longer.
const MAX_BODY_BYTES: usize = 20_000;
/// The room for what follows a list of titles.
const REST_BYTES: usize = 2_000;
/// The limits of ours, which keep cards short.
const TITLE_CHARS: usize = 320;
const GROUPED_TITLE_CHARS: usize = 120;
const VALUE_CHARS: usize = 250;
const EXCERPT_CHARS: usize = 400;

pub(super) async fn send(http: &ReceiverClient, message: &Message<'_>) -> Outcome {
    let body = match Group::of(message) {
        Some(group) => grouped(message, &group),
        None => single(&Summary::of(message)),
    };
    match http.send(request::post(&message.target.url, &body)).await {
        Ok(response) => Outcome::answered(verdict(message, &response), response),
        Err(error) => Outcome::failed(&error),
    }
}

fn verdict(message: &Message<'_>, response: &ReceiverResponse) -> Verdict {
    match response.status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => {
            answer::refused_message("Microsoft Teams")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => answer::needs_person(
            "The workflow does not accept the address. Copy the address from the workflow again; \
             anyone must be able to trigger it.",
        ),
        StatusCode::NOT_FOUND => answer::needs_person(
            "The workflow no longer exists or is turned off. Turn it on, or enter the address of \
             another one.",
        ),
        _ => answer::by_status(response, message.now),
    }
}

fn single(summary: &Summary) -> Value {
    let title = format!(
        "{} {}",
        summary.tone.emoji(),
        escaped(&summary.title, TITLE_CHARS)
    );
    let mut body = vec![
        json!({
            "type": "TextBlock", "text": title, "size": "Large", "weight": "Bolder",
            "wrap": true,
        }),
        text_block(
            &escaped(&summary.headline, VALUE_CHARS),
            color(summary.tone),
        ),
    ];
    let facts: Vec<Value> = summary
        .facts
        .iter()
        .map(|fact| json!({ "title": fact.label, "value": escaped(&fact.value, VALUE_CHARS) }))
        .collect();
    if !facts.is_empty() {
        body.push(json!({ "type": "FactSet", "facts": facts }));
    }
    if let Some(excerpt) = &summary.excerpt {
        body.push(text_block(&escaped(excerpt, EXCERPT_CHARS), "Default"));
    }
    body.push(json!({
        "type": "TextBlock", "text": escaped(&summary.byline, EXCERPT_CHARS), "size": "Small",
        "isSubtle": true, "wrap": true,
    }));
    card(&summary.fallback(), &body, "Show the change", &summary.url)
}

fn grouped(message: &Message<'_>, group: &Group<'_>) -> Value {
    let mut body = vec![json!({
        "type": "TextBlock", "text": escaped(&group.title, TITLE_CHARS), "size": "Large",
        "weight": "Bolder", "wrap": true,
    })];
    let mut length = REST_BYTES + body[0].to_string().len();
    let count = group.events.len();
    for (index, event) in group.events.iter().enumerate() {
        let of_event = Message {
            event,
            grouped: &[],
            ..*message
        };
        let summary = Summary::of(&of_event);
        let text = format!(
            "{} [{}]({}) · {}",
            summary.tone.emoji(),
            escaped(&summary.title, GROUPED_TITLE_CHARS),
            summary.url,
            escaped(&summary.headline, GROUPED_TITLE_CHARS),
        );
        let block = text_block(&text, "Default");
        length += block.to_string().len() + 1;
        if length > MAX_BODY_BYTES {
            body.push(text_block(
                &format!("and {} more", count - index),
                "Default",
            ));
            break;
        }
        body.push(block);
    }
    card(&group.title, &body, group.link, &group.url)
}

/// Returns the color of a line.
fn color(tone: Tone) -> &'static str {
    match tone {
        Tone::Completed | Tone::Heard => "Good",
        Tone::Failed => "Attention",
        Tone::RolledBack | Tone::OutcomeUnknown | Tone::Silent => "Warning",
        Tone::InProgress => "Accent",
        Tone::Planned | Tone::Deleted => "Default",
    }
}

fn text_block(text: &str, color: &str) -> Value {
    json!({ "type": "TextBlock", "text": text, "color": color, "wrap": true })
}

fn card(fallback: &str, body: &[Value], button: &str, url: &str) -> Value {
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.2",
                "msteams": { "width": "full" },
                "fallbackText": clipped_as(fallback, TITLE_CHARS, |c, _| c.to_string()),
                "body": body,
                "actions": [{ "type": "Action.OpenUrl", "title": button, "url": url }],
            },
        }],
    })
}

/// Returns text of users so that Teams shows it as it is: without formatting, links and
/// dates.
fn escaped(text: &str, max_chars: usize) -> String {
    clipped_as(text, max_chars, escape)
}

/// Separates signs that would be formatting by a space without width: a backslash is not
/// understood everywhere.
fn escape(c: char, neighbors: Neighbors) -> String {
    let separated = || format!("{c}\u{200b}");
    match c {
        '*' | '_' | '~' if !neighbors.are_of_word() => format!("\u{200b}{c}\u{200b}"),
        '[' | ']' | '`' | '\\' | '!' | '<' | '&' | '{' | '|' => separated(),
        // At the beginning: a heading, a list, a quotation.
        '#' | '-' | '+' | '>' if neighbors.before.is_none() => format!("\u{200b}{c}"),
        // `1. ` would be a list.
        '.' | ')'
            if neighbors
                .before
                .is_some_and(|before| before.is_ascii_digit())
                && neighbors.after == Some(' ') =>
        {
            format!("\u{200b}{c}")
        }
        c => c.to_string(),
    }
}
