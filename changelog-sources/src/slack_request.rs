//! The requests that Slack sends for a slash command, and for the button in its answer.

use changelog_core::Timestamp;
use changelog_core::written_time::{Tense, WrittenTime};
use chrono::Utc;
use serde_json::Value;

/// The limit on the words of a time at the beginning of a question.
const MAX_TIME_WORDS: usize = 3;

/// A request of Slack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackRequest {
    /// A slash command.
    Command(SlashCommand),
    /// A button of an answer was pressed.
    Button(PressedButton),
    /// Another one, such as a check of the certificate.
    Other,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// The name of the command, such as `/changes`.
    pub command: String,
    /// What follows the command.
    pub text: String,
    /// The name of the person.
    pub user: String,
    /// What identifies the command, the same if it is sent again.
    pub id: Option<String>,
}

/// A button that was pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressedButton {
    /// The value that the answer gave to the button.
    pub value: String,
    /// The name of the person.
    pub user: String,
    /// Where an answer to all may be sent.
    pub response_url: Option<String>,
}

/// What a person wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To see what changed before a time, now by default.
    Changes {
        /// The time.
        at: Option<Timestamp>,
        /// The name of the affected service.
        service: Option<String>,
    },
    /// To record a change with this title.
    Log(String),
    /// To see what can be written; with what was wrong, if anything was.
    Help(Option<String>),
}

impl SlackRequest {
    /// Reads the form of a request.
    pub fn read(body: &[u8]) -> Self {
        let mut fields: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
        let mut take = |name: &str| {
            let index = fields.iter().position(|(field, _)| field == name)?;
            Some(fields.swap_remove(index).1)
        };
        if let Some(payload) = take("payload") {
            let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
            return PressedButton::read(&payload).map_or(Self::Other, Self::Button);
        }
        let Some(command) = take("command") else {
            return Self::Other;
        };
        let user = take("user_name").or_else(|| take("user_id"));
        Self::Command(SlashCommand {
            command,
            text: unescaped(&take("text").unwrap_or_default()),
            user: user.unwrap_or_default(),
            id: take("trigger_id").filter(|id| !id.is_empty()),
        })
    }
}

impl PressedButton {
    fn read(payload: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let user = &payload["user"];
        Some(Self {
            value: text(&payload["actions"][0]["value"])?,
            user: text(&user["username"]).or_else(|| text(&user["name"]))?,
            response_url: text(&payload["response_url"]),
        })
    }
}

impl Wish {
    /// Reads what follows a command: `[TIME] [SERVICE]`, `log TITLE` or `help`. Times without
    /// an offset are UTC.
    pub fn read(text: &str, now: Timestamp) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [one] if one.eq_ignore_ascii_case("help") || *one == "?" => return Self::Help(None),
            [log, title @ ..] if log.eq_ignore_ascii_case("log") => {
                return if title.is_empty() {
                    Self::Help(Some("the title of the change is missing".to_owned()))
                } else {
                    Self::Log(title.join(" "))
                };
            }
            _ => {}
        }
        for count in (1..=words.len().min(MAX_TIME_WORDS)).rev() {
            let (time, rest) = words.split_at(count);
            match WrittenTime::parse(&time.join(" "), now, &Utc, Tense::Past) {
                Ok(None) => {}
                Ok(Some(at)) if at.start(now, &Utc) > now => {
                    return Self::Help(Some(format!("{} is in the future", time.join(" "))));
                }
                Ok(Some(at)) => return Self::changes(Some(at.start(now, &Utc)), rest),
                Err(why) => return Self::Help(Some(why)),
            }
        }
        Self::changes(None, &words)
    }

    fn changes(at: Option<Timestamp>, service: &[&str]) -> Self {
        Self::Changes {
            at,
            service: (!service.is_empty()).then(|| service.join(" ")),
        }
    }
}

/// Undoes Slack's escapes.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_a_question_or_a_change() {
        let now: Timestamp = "2026-11-21T15:00:00.000Z".parse().unwrap();
        let changes = |at: Option<&str>, service: Option<&str>| Wish::Changes {
            at: at.map(|at| at.parse().unwrap()),
            service: service.map(str::to_owned),
        };
        let at = "2026-11-21T14:20:00.000Z";
        for (text, expected) in [
            ("", changes(None, None)),
            ("payments", changes(None, Some("payments"))),
            ("14:20", changes(Some(at), None)),
            ("14:20 payments", changes(Some(at), Some("payments"))),
            (" 40m  Card  Vault ", changes(Some(at), Some("Card Vault"))),
            (
                "40 minutes ago payments",
                changes(Some(at), Some("payments")),
            ),
            ("today 14:20 payments", changes(Some(at), Some("payments"))),
            (
                "2026-11-21 14:20 payments",
                changes(Some(at), Some("payments")),
            ),
            (
                "log Deploy payments 4.2",
                Wish::Log("Deploy payments 4.2".to_owned()),
            ),
            ("HELP", Wish::Help(None)),
        ] {
            assert_eq!(Wish::read(text, now), expected, "{text}");
        }
        for wrong in ["log", "in 2h payments", "2026-12-01"] {
            assert!(
                matches!(Wish::read(wrong, now), Wish::Help(Some(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn forms_and_payloads_are_read() {
        let form = b"command=%2Fchanges&text=log+a+%26amp%3B+b&user_name=ada&trigger_id=1.2";
        let command = SlashCommand {
            command: "/changes".to_owned(),
            text: "log a & b".to_owned(),
            user: "ada".to_owned(),
            id: Some("1.2".to_owned()),
        };
        assert_eq!(SlackRequest::read(form), SlackRequest::Command(command));
        let payload = r#"{"type":"block_actions","user":{"id":"U1","username":"ada"},
            "actions":[{"value":"change 1"}],"response_url":"https://hooks.slack.com/a"}"#;
        let mut form = form_urlencoded::Serializer::new(String::new());
        let form = form.append_pair("payload", payload).finish();
        let SlackRequest::Button(button) = SlackRequest::read(form.as_bytes()) else {
            panic!("no button");
        };
        assert_eq!((&*button.value, &*button.user), ("change 1", "ada"));
        for other in [
            &b"ssl_check=1"[..],
            b"payload=%7B",
            b"payload=[]",
            b"\xff\x00",
            b"",
        ] {
            assert_eq!(SlackRequest::read(other), SlackRequest::Other);
        }
    }
}
