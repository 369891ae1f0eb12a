//! Answers to slash commands, as Slack's blocks.

use std::str::FromStr;

use changelog_core::{Around, Change, ChangeId, Environment, ServiceId, Timestamp};
use serde_json::{Value, json};

use crate::integrations::senders::slack::blocks::{context, escaped, link, section};

/// The limits on the characters of what others wrote.
const TITLE_CHARS: usize = 200;
const NAME_CHARS: usize = 100;
const REASON_CHARS: usize = 120;
const MISTAKE_CHARS: usize = 600;
/// The limit on the reasons of a suspect.
const MAX_REASONS: usize = 3;
/// The limit on the gaps that are named.
const MAX_GAPS: usize = 3;

/// What an answer shows. Buttons have it as their value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The changes before a time, most suspicious first.
    Changes {
        at: Timestamp,
        service: Option<ServiceId>,
    },
    /// A change.
    Change(ChangeId),
}

impl Shown {
    fn value(&self) -> String {
        match self {
            Self::Changes { at, service: None } => format!("changes {at}"),
            Self::Changes {
                at,
                service: Some(service),
            } => format!("changes {at} {service}"),
            Self::Change(id) => format!("change {id}"),
        }
    }
}

impl FromStr for Shown {
    type Err = ();

    fn from_str(value: &str) -> Result<Self, ()> {
        let words: Vec<&str> = value.split(' ').collect();
        match words.as_slice() {
            ["change", id] => id.parse().map(Self::Change).map_err(|_| ()),
            ["changes", at, service @ ..] if service.len() <= 1 => {
                let service = service.first().map(|id| id.parse()).transpose();
                Ok(Self::Changes {
                    at: at.parse().map_err(|_| ())?,
                    service: service.map_err(|_| ())?,
                })
            }
            _ => Err(()),
        }
    }
}

/// Returns an answer that only the person sees.
pub(super) fn ephemeral(blocks: &[Value]) -> Value {
    json!({ "response_type": "ephemeral", "blocks": blocks })
}

/// Returns an answer that all in the channel see, in place of that to the person.
pub(super) fn in_channel(blocks: &[Value]) -> Value {
    json!({
        "response_type": "in_channel",
        "delete_original": true,
        "unfurl_links": false,
        "blocks": blocks,
    })
}

/// Returns the button that shows an answer to the channel.
pub(super) fn button(shown: &Shown) -> Value {
    json!({
        "type": "actions",
        "elements": [{
            "type": "button",
            "action_id": "show",
            "text": { "type": "plain_text", "text": "Show to the channel" },
            "value": shown.value(),
        }],
    })
}

/// Says who has shown an answer.
pub(super) fn shown_by(user: &str) -> Value {
    context(&format!("Shown by {user}"))
}

/// Says what can be written, after what was wrong.
pub(super) fn help(command: &str, wrong: Option<&str>) -> Value {
    let command = escaped(command, NAME_CHARS);
    let mut blocks = Vec::new();
    if let Some(wrong) = wrong {
        let wrong = escaped(wrong, MISTAKE_CHARS);
        blocks.push(section(&format!("That could not be read: {wrong}")));
    }
    blocks.push(section(&format!(
        "`{command}` – what changed lately\n\
         `{command} payments` – what may have broken a service\n\
         `{command} 14:20 payments` – before a time: `14:20` (UTC), `20m`, `yesterday 08:30`, \
         `2026-11-21 14:20`\n\
         `{command} log Deploy payments 4.2` – records a change that was made"
    )));
    ephemeral(&blocks)
}

/// Returns the changes before a time, with the reasons for each.
pub(super) fn changes(
    dashboard: &str,
    around: &Around,
    service: Option<&str>,
    suspects: &[(Change, Vec<String>)],
) -> Vec<Value> {
    let of = service.map(|name| format!(" of {}", escaped(name, NAME_CHARS)));
    let of = of.unwrap_or_default();
    let (since, at) = (time(around.since), time(around.at));
    let head = if suspects.is_empty() {
        format!("*No change{of}* between {since} and {at}")
    } else {
        format!("*What may have broken something{of}* before {at}")
    };
    let mut blocks = vec![section(&head)];
    for (number, (change, reasons)) in (1..).zip(suspects) {
        let reasons = reasons.iter().take(MAX_REASONS);
        let reasons: Vec<String> = reasons.map(|text| escaped(text, REASON_CHARS)).collect();
        blocks.push(section(&format!(
            "{number}. {}\n{}\n{}",
            title(dashboard, change),
            facts(change),
            reasons.join(", ")
        )));
    }
    let gaps = around.coverage.gaps.iter().take(MAX_GAPS);
    let gaps: Vec<String> = gaps
        .map(|gap| {
            let name = escaped(&gap.name, NAME_CHARS);
            let until = gap.until.map(|until| format!(" until {}", time(until)));
            format!(
                "*{name}* was not heard from {}{}",
                time(gap.since),
                until.unwrap_or_default()
            )
        })
        .collect();
    if !gaps.is_empty() {
        let gaps = gaps.join("; ");
        blocks.push(section(&format!("Changes may be missing: {gaps}")));
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("at", &around.at.to_string());
    query.extend_pairs(service.map(|name| ("service", name)));
    let page = format!("{dashboard}/around?{}", query.finish());
    blocks.push(section(&link(&page, "All changes before it", NAME_CHARS)));
    blocks
}

/// Returns a change.
pub(super) fn change(dashboard: &str, change: &Change) -> Vec<Value> {
    let mut text = format!("{}\n{}", title(dashboard, change), facts(change));
    if let Some(person) = &change.on_behalf_of {
        text.push_str(" · for ");
        text.push_str(&escaped(person, NAME_CHARS));
    }
    vec![section(&text)]
}

/// Says that a change was deleted.
pub(super) fn gone() -> Vec<Value> {
    vec![section("The change was deleted.")]
}

fn title(dashboard: &str, change: &Change) -> String {
    let url = format!("{dashboard}/changes/{}", change.id);
    format!("*{}*", link(&url, &change.title, TITLE_CHARS))
}

fn facts(change: &Change) -> String {
    let service = change.service.as_ref().map(|service| &*service.name);
    let environment = change.environment.as_ref().map(Environment::as_str);
    let named = service.into_iter().chain(environment);
    let facts: Vec<String> = [
        time(change.effective_at()),
        change.status_label().to_owned(),
    ]
    .into_iter()
    .chain([format!("{} risk", change.risk_level)])
    .chain(named.map(|name| escaped(name, NAME_CHARS)))
    .collect();
    facts.join(" · ")
}

/// Returns a time that Slack shows in the zone of each reader.
fn time(at: Timestamp) -> String {
    let utc = at.to_datetime().format("%Y-%m-%d %H:%M UTC");
    format!(
        "<!date^{}^{{date_short_pretty}} {{time}}|{utc}>",
        at.millis() / 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_button_says_what_is_shown() {
        let at = "2026-11-21T14:20:00.000Z".parse().unwrap();
        let id = "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
        for shown in [
            Shown::Changes { at, service: None },
            Shown::Changes {
                at,
                service: id.parse().ok(),
            },
            Shown::Change(id.parse().unwrap()),
        ] {
            assert_eq!(shown.value().parse(), Ok(shown));
        }
        for bad in [
            "",
            "change",
            "changes x",
            "change x",
            "changes 1 2 3",
            "delete x",
        ] {
            assert_eq!(bad.parse::<Shown>(), Err(()), "{bad}");
        }
    }
}
