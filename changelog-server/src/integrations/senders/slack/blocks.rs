//! Messages as blocks.
//!
//! Slack counts characters after `&`, `<` and `>` have been escaped.

use serde_json::{Value, json};

use crate::integrations::message::Message;
use crate::integrations::senders::render::{Group, Neighbors, Summary, Tone, clipped_as};

/// The limit on the characters of a section.
const MAX_SECTION_CHARS: usize = 3_000;
/// The limit on the characters of a field.
const MAX_FIELD_CHARS: usize = 2_000;
/// The limit on the fields of a section.
const MAX_FIELDS: usize = 10;
/// The limits of ours, which keep messages short.
const TITLE_CHARS: usize = 1_600;
const GROUPED_TITLE_CHARS: usize = 150;
const VALUE_CHARS: usize = 600;
const EXCERPT_CHARS: usize = 1_200;
const CONTEXT_CHARS: usize = 1_800;
const FALLBACK_CHARS: usize = 2_000;

/// Returns the message about an event, or about many.
pub(super) fn message(message: &Message<'_>) -> Value {
    match Group::of(message) {
        Some(group) => grouped(message, &group),
        None => single(&Summary::of(message)),
    }
}

/// Returns the reply to a message whose change failed.
pub(super) fn reply(message: &Message<'_>) -> Value {
    let summary = Summary::of(message);
    let text = format!(
        "{} *{}*\n{}",
        summary.tone.emoji(),
        escaped(&summary.headline, VALUE_CHARS),
        escaped(&summary.byline, CONTEXT_CHARS),
    );
    body(&summary.fallback(), &[section(&text)])
}

fn single(summary: &Summary) -> Value {
    let title = link(&summary.url, &summary.title, TITLE_CHARS);
    let title = match summary.tone {
        Tone::Deleted => format!("~{title}~"),
        _ => format!("*{title}*"),
    };
    let headline = escaped(&summary.headline, VALUE_CHARS);
    let text = format!("{} {title}\n{headline}", summary.tone.emoji());
    let mut blocks = vec![section(&text)];
    let facts = summary.facts.iter().take(MAX_FIELDS);
    let fields: Vec<Value> = facts
        .map(|fact| {
            let value = escaped(&fact.value, VALUE_CHARS);
            mrkdwn(&format!("*{}*\n{value}", fact.label), MAX_FIELD_CHARS)
        })
        .collect();
    if !fields.is_empty() {
        blocks.push(json!({ "type": "section", "fields": fields }));
    }
    if let Some(excerpt) = &summary.excerpt {
        blocks.push(section(&escaped(excerpt, EXCERPT_CHARS)));
    }
    blocks.push(context(&summary.byline));
    body(&summary.fallback(), &blocks)
}

fn grouped(message: &Message<'_>, group: &Group<'_>) -> Value {
    let mut text = format!("*{}*", link(&group.url, &group.title, TITLE_CHARS));
    let mut length = text.chars().count();
    let count = group.events.len();
    for (index, event) in group.events.iter().enumerate() {
        let of_event = Message {
            event,
            grouped: &[],
            ..*message
        };
        let summary = Summary::of(&of_event);
        let title = link(&summary.url, &summary.title, GROUPED_TITLE_CHARS);
        let headline = escaped(&summary.headline, GROUPED_TITLE_CHARS);
        let line = format!("\n{} {title} · {headline}", summary.tone.emoji());
        let more = format!("\nand {} more", count - index);
        length += line.chars().count();
        if length + more.len() > MAX_SECTION_CHARS {
            text.push_str(&more);
            break;
        }
        text.push_str(&line);
    }
    let organization = context(message.organization);
    body(&group.title, &[section(&text), organization])
}

fn body(fallback: &str, blocks: &[Value]) -> Value {
    json!({
        "text": escaped(fallback, FALLBACK_CHARS),
        "blocks": blocks,
        // A preview of the dashboard would be its sign-in page.
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

pub(crate) fn section(text: &str) -> Value {
    json!({ "type": "section", "text": mrkdwn(text, MAX_SECTION_CHARS) })
}

pub(crate) fn context(text: &str) -> Value {
    let text = escaped(text, CONTEXT_CHARS);
    json!({ "type": "context", "elements": [mrkdwn(&text, CONTEXT_CHARS)] })
}

/// Returns Slack's text object for an escaped string, which must not exceed the limit; callers
/// shorten its parts. `verbatim` keeps Slack from turning names into mentions.
fn mrkdwn(text: &str, max_chars: usize) -> Value {
    debug_assert!(text.chars().count() <= max_chars, "{text}");
    json!({ "type": "mrkdwn", "text": text, "verbatim": true })
}

/// Returns a link. The characters of the URL are not counted.
pub(crate) fn link(url: &str, text: &str, max_chars: usize) -> String {
    let url = url.replace('&', "&amp;").replace('|', "%7C");
    let text = clipped_as(text, max_chars, |c, neighbors| match c {
        // Ends the text of a link.
        '|' => "¦".to_owned(),
        c => escape(c, neighbors),
    });
    format!("<{url}|{text}>")
}

/// Returns text of users so that Slack shows it as it is: without formatting, mentions
/// and links.
pub(crate) fn escaped(text: &str, max_chars: usize) -> String {
    clipped_as(text, max_chars, escape)
}

fn escape(c: char, neighbors: Neighbors) -> String {
    match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        // At the beginning of a line it would be a quotation.
        '>' if neighbors.before.is_none() => "\u{200b}&gt;".to_owned(),
        '>' => "&gt;".to_owned(),
        // Slack has no escape for them: a space without width after the sign keeps it from
        // being formatting.
        '`' => "`\u{200b}".to_owned(),
        '*' | '_' | '~' if !neighbors.are_of_word() => format!("\u{200b}{c}\u{200b}"),
        // `@here` and names, which `verbatim` already keeps from being mentions.
        '@' if !neighbors.are_of_word() => "@\u{200b}".to_owned(),
        c => c.to_string(),
    }
}
