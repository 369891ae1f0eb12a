//! What every chat shows of an event.

use changelog_core::coverage::API_KEY_KIND;
use changelog_core::{
    AuthorType, Change, Event, EventKind, EventOfChange, EventOfIncident, EventOfSource,
    Outcome as ChangeOutcome, Status, Timestamp,
};

use crate::findings::findings;
use crate::format::{self, line};
use crate::integrations::message::Message;

/// The limit on the characters of a description in a chat.
const MAX_EXCERPT_CHARS: usize = 300;
/// The limit on the names of a list in a chat.
const MAX_NAMES: usize = 5;
/// The limit on the digits of a commit.
const COMMIT_CHARS: usize = 12;

/// How a change or a source is doing: which color and which sign its message has. The dashboard
/// distinguishes the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Planned,
    InProgress,
    Completed,
    RolledBack,
    Failed,
    OutcomeUnknown,
    Deleted,
    Silent,
    Heard,
}

impl Tone {
    pub(super) fn of(event: &EventOfChange) -> Self {
        if event.kind == EventKind::Deleted {
            return Self::Deleted;
        }
        match (event.change.status_label(), &event.change.status) {
            ("failed", _) => Self::Failed,
            ("outcome unknown", _) => Self::OutcomeUnknown,
            ("rolled back", _) => Self::RolledBack,
            (_, Status::Completed) => Self::Completed,
            (_, Status::InProgress) => Self::InProgress,
            _ => Self::Planned,
        }
    }

    /// Returns the emoji in front of the title.
    pub(super) fn emoji(self) -> &'static str {
        match self {
            Self::Planned => "🗓️",
            Self::InProgress => "🚧",
            Self::Completed => "✅",
            Self::RolledBack => "↩️",
            Self::Failed => "❌",
            Self::OutcomeUnknown => "❔",
            Self::Deleted => "🗑️",
            Self::Silent => "🔇",
            Self::Heard => "🔊",
        }
    }
}

/// A fact about a change or a source: a label and its value, which users may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) value: String,
}

/// What a chat shows of an event. Users have written parts of every string but the URL.
/// They contain no control characters, and need the escaping of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) tone: Tone,
    /// The title of the change, or the name of the source.
    pub(super) title: String,
    /// The page of the change or the source.
    pub(super) url: String,
    /// What happened, as in `Completed, high risk`.
    pub(super) headline: String,
    pub(super) facts: Vec<Fact>,
    /// The beginning of the description, if the event is the first one of the change.
    pub(super) excerpt: Option<String>,
    /// Who did it, as in `Updated by Ada: title, description`.
    pub(super) byline: String,
}

impl Summary {
    pub(super) fn of(message: &Message<'_>) -> Self {
        match message.event {
            Event::Change(event) => Self::of_change(message, event),
            Event::Source(event) => Self::of_source(message, event),
            Event::Incident(event) => Self::of_incident(message, event),
        }
    }

    fn of_incident(message: &Message<'_>, event: &EventOfIncident) -> Self {
        let incident = &event.incident;
        let service = incident.service.as_ref().map(|service| Fact {
            label: "Service",
            value: line(&service.name),
        });
        let environment = incident.environment.as_ref().map(|environment| Fact {
            label: "Environment",
            value: environment.to_string(),
        });
        let started = Fact {
            label: "Started",
            value: time(incident.started_at),
        };
        let findings = findings(incident, time).into_iter().map(|finding| Fact {
            label: finding.label,
            value: finding.value,
        });
        let (tone, headline) = match incident.resolved_at {
            None => (
                Tone::Failed,
                format!("Open incident, {}", incident.severity),
            ),
            Some(at) => (Tone::Completed, format!("Resolved at {}", time(at))),
        };
        Self {
            tone,
            title: line(&incident.title),
            url: format!("{}/incidents/{}", message.dashboard, incident.id),
            headline,
            facts: [service, environment, Some(started)]
                .into_iter()
                .flatten()
                .chain(findings)
                .collect(),
            excerpt: None,
            byline: format!("{} · {}", line(&event.actor), line(message.organization)),
        }
    }

    fn of_source(message: &Message<'_>, event: &EventOfSource) -> Self {
        let source = &event.source;
        let is_key = source.kind == API_KEY_KIND;
        let since = time(source.since);
        let (tone, headline) = match source.until {
            None => (
                Tone::Silent,
                format!("Silent for longer than usual, since {since}"),
            ),
            Some(until) => (Tone::Heard, format!("Heard again at {}", time(until))),
        };
        let silence = source.until.map(|until| {
            let length = until.to_datetime() - source.since.to_datetime();
            Fact {
                label: "Silence",
                value: format!("{} since {since}", format::duration(&length)),
            }
        });
        let kind = Fact {
            label: "Kind",
            value: line(if is_key { "API key" } else { &source.kind }),
        };
        Self {
            tone,
            title: line(&source.name),
            url: if is_key {
                format!("{}/settings/api-keys", message.dashboard)
            } else {
                format!("{}/settings/sources/{}", message.dashboard, source.id)
            },
            headline,
            facts: [Some(kind), silence].into_iter().flatten().collect(),
            excerpt: None,
            byline: format!("Changes may be missing · {}", line(message.organization)),
        }
    }

    fn of_change(message: &Message<'_>, event: &EventOfChange) -> Self {
        let change = &event.change;
        let is_first = event.kind == EventKind::Created;
        let description = change.description.as_deref().filter(|_| is_first);
        Self {
            tone: Tone::of(event),
            title: line(&change.title),
            url: change_url(message.dashboard, change),
            headline: headline(event),
            facts: facts(change),
            excerpt: description.map(excerpt).filter(|text| !text.is_empty()),
            byline: byline(event, message.organization),
        }
    }

    /// Returns the message as one line, for notifications.
    pub(super) fn fallback(&self) -> String {
        format!("{} {}: {}", self.tone.emoji(), self.title, self.headline)
    }
}

/// Returns the page of a change; the list for the change of a test, which has none.
pub(super) fn change_url(dashboard: &str, change: &Change) -> String {
    if change.id.0.is_nil() {
        format!("{dashboard}/changes")
    } else {
        format!("{dashboard}/changes/{}", change.id)
    }
}

/// Returns what happened, beginning with a capital letter.
fn headline(event: &EventOfChange) -> String {
    let change = &event.change;
    let status = change.status_label();
    let risk = format!("{} risk", change.risk_level);
    if event.kind == EventKind::Deleted {
        return format!("Deleted from the change log (was {status}, {risk})");
    }
    let previous = event.changes.get("status").and_then(|it| it.from.as_str());
    match previous.filter(|_| event.kind == EventKind::StatusChanged) {
        Some(from) => format!("{}, was {}, {risk}", capital(status), format::label(from)),
        None => format!("{}, {risk}", capital(status)),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// Returns the facts about a change, the most important first.
pub(super) fn facts(change: &Change) -> Vec<Fact> {
    let services: Vec<&str> = change
        .all_services()
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    let service_label = if services.len() > 1 {
        "Services"
    } else {
        "Service"
    };
    let host = change.host_ref.as_ref().map(|host| line(&host.hostname));
    let environment = change.environment.as_ref().map(|it| line(it.as_str()));
    let is_waiting = change.status == Status::Planned;
    let scheduled = change.scheduled_for.filter(|_| is_waiting).map(time);
    let started = change.started_at.filter(|_| !is_waiting).map(time);
    let duration = change.duration().filter(|_| change.status.is_ended());
    let commit = change.commit.as_deref().map(|commit| {
        let start: String = commit.chars().take(COMMIT_CHARS).collect();
        line(&start)
    });
    // The other outcomes are part of the status.
    let outcome = change
        .outcome
        .as_ref()
        .filter(|outcome| **outcome == ChangeOutcome::Succeeded)
        .map(|outcome| format::label(outcome.as_str()));
    let facts = [
        (service_label, names(&services)),
        ("Environment", environment),
        ("Host", host),
        ("Risk", Some(line(change.risk_level.as_str()))),
        ("Outcome", outcome),
        ("Scheduled for", scheduled),
        ("Started", started),
        ("Duration", duration.map(|took| format::duration(&took))),
        ("Commit", commit),
        ("Recorded by", author(change)),
    ];
    let present = facts.into_iter();
    present
        .filter_map(|(label, value)| value.map(|value| Fact { label, value }))
        .collect()
}

/// Returns who recorded a change, and for whom and with what they did it.
fn author(change: &Change) -> Option<String> {
    let mut who = change.created_by.as_ref().map(|author| {
        let name = line(&author.name);
        match author.kind {
            AuthorType::ApiKey => format!("API key {name}"),
            AuthorType::Source => format!("source {name}"),
            AuthorType::Workload => format!("pipeline {name}"),
            _ => name,
        }
    });
    let mut add = |words: &str, name: &str| {
        let name = line(name);
        who = Some(match who.take() {
            Some(who) => format!("{who} {words} {name}"),
            None => format!("{words} {name}"),
        });
    };
    if let Some(person) = &change.on_behalf_of {
        add("on behalf of", person);
    }
    if let Some(agent) = &change.agent {
        let mode = agent.mode.as_ref().map(|mode| format!(" ({mode})"));
        add(
            "with",
            &format!("{}{}", agent.name, mode.unwrap_or_default()),
        );
    }
    who
}

/// Returns who caused an event, and which fields an update changed.
fn byline(event: &EventOfChange, organization: &str) -> String {
    let verb = match event.kind {
        EventKind::Created => "Recorded",
        EventKind::Deleted => "Deleted",
        _ => "Updated",
    };
    let mut text = format!("{verb} by {}", line(&event.actor));
    let fields = event.changes.keys().filter(|name| *name != "status");
    let fields: Vec<String> = fields.map(|name| format::label(name)).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    if let Some(fields) = names(&fields) {
        text = format!("{text}: {fields}");
    }
    if let Some(reason) = &event.reason {
        text = format!("{text} ({})", excerpt(reason));
    }
    format!("{text} · {}", line(organization))
}

/// Lists names, at most [`MAX_NAMES`], or returns `None` without any.
fn names(names: &[&str]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let shown = &names[..names.len().min(MAX_NAMES)];
    let shown: Vec<String> = shown.iter().map(|name| line(name)).collect();
    let text = shown.join(", ");
    match names.len() - shown.len() {
        0 => Some(text),
        more => Some(format!("{text} and {more} more")),
    }
}

/// Formats a time for people everywhere.
pub(super) fn time(at: Timestamp) -> String {
    at.to_datetime().format("%-d %b %Y %H:%M UTC").to_string()
}

/// Returns the first lines of a string.
fn excerpt(text: &str) -> String {
    clipped(&line(text.trim()), MAX_EXCERPT_CHARS)
}

/// Returns the beginning of a string.
pub(super) fn clipped(text: &str, max_chars: usize) -> String {
    clipped_as(text, max_chars, |c, _| c.to_string())
}

/// Returns the beginning of a string whose escaped form has at most `max_chars` characters.
/// `escape` returns a character as it is written; it is given the characters next to it.
pub(super) fn clipped_as(
    text: &str,
    max_chars: usize,
    escape: impl Fn(char, Neighbors) -> String,
) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Where the text is cut if it is too long, to have room for the ellipsis.
    let (mut length, mut cut) = (0, 0);
    let mut characters = text.chars().peekable();
    let mut before = None;
    while let Some(c) = characters.next() {
        let neighbors = Neighbors {
            before,
            after: characters.peek().copied(),
        };
        let written = escape(c, neighbors);
        length += written.chars().count();
        if length > max_chars {
            escaped.truncate(cut);
            if max_chars > 0 {
                escaped.push('…');
            }
            return escaped;
        }
        escaped.push_str(&written);
        if length < max_chars {
            cut = escaped.len();
        }
        before = Some(c);
    }
    escaped
}

/// The characters next to one, if it is not the first or last one.
#[derive(Clone, Copy)]
pub(super) struct Neighbors {
    pub(super) before: Option<char>,
    pub(super) after: Option<char>,
}

impl Neighbors {
    /// Returns whether the character is inside of a word, where chats do not take it for
    /// formatting.
    pub(super) fn are_of_word(self) -> bool {
        let is_of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        is_of_word(self.before) && is_of_word(self.after)
    }
}

/// What a chat shows of many events at once.
pub(super) struct Group<'m> {
    /// As in `12 changes of payments within a minute`.
    pub(super) title: String,
    /// The page with them, and what leads there.
    pub(super) url: String,
    pub(super) link: &'static str,
    /// The events, the latest one of each change and source, in order.
    pub(super) events: Vec<&'m Event>,
}

impl<'m> Group<'m> {
    /// Returns the group of a message, or `None` if it has one event only.
    pub(super) fn of(message: &Message<'m>) -> Option<Self> {
        if message.grouped.is_empty() {
            return None;
        }
        let mut events: Vec<&Event> = Vec::new();
        for event in std::iter::once(message.event).chain(message.grouped) {
            events.retain(|earlier| earlier.subject() != event.subject());
            events.push(event);
        }
        let mut changes = events.iter().map(|event| event.of_change());
        let first = changes.next().flatten();
        let are_incidents = (events.iter()).all(|event| matches!(event, Event::Incident(_)));
        let (one, many) = if first.is_some() && changes.all(|event| event.is_some()) {
            ("change", "changes")
        } else if are_incidents {
            ("incident", "incidents")
        } else {
            ("event", "events")
        };
        let count = format::counted(events.len(), one, many);
        let mut services = first
            .into_iter()
            .flat_map(|event| event.change.all_services());
        let common = services.find(|service| {
            let mut changes = events.iter().map(|event| event.of_change());
            changes.all(|event| {
                event.is_some_and(|event| event.change.service_ids.contains(&service.id))
            })
        });
        let dashboard = message.dashboard;
        let (title, url) = match common {
            Some(service) => (
                format!("{count} of {} within a minute", line(&service.name)),
                format!("{dashboard}/changes?service_id={}", service.id),
            ),
            None if are_incidents => (
                format!("{count} within a minute"),
                format!("{dashboard}/incidents"),
            ),
            None => (
                format!("{count} within a minute"),
                format!("{dashboard}/changes"),
            ),
        };
        Some(Self {
            title,
            url,
            link: if are_incidents {
                "Show the incidents"
            } else {
                "Show the changes"
            },
            events,
        })
    }
}

/// Returns whether an event makes its change a failed one, or one that was rolled back.
pub(super) fn is_new_failure(event: &Event) -> bool {
    let Some(event) = event.of_change() else {
        return false;
    };
    let is_failure = matches!(Tone::of(event), Tone::Failed | Tone::RolledBack);
    let has_changed = |name| event.changes.contains_key(name);
    is_failure && (has_changed("status") || has_changed("outcome"))
}
