//! The rules of where a connection sends. Messages never quote what was given: addresses
//! and tokens are secrets.

use url::Url;

use super::ConnectionKind;
use crate::problem::{ViolationCode, Violations};

/// The length of PagerDuty's integration keys, in characters.
const ROUTING_KEY_CHARS: usize = 32;
/// The hosts of Slack's incoming webhooks.
const SLACK_HOOKS: [&str; 2] = ["hooks.slack.com", "hooks.slack-gov.com"];

/// Where a connection sends, as a user enters it. Empty strings are absent values.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'r> {
    /// The kind of the connection.
    pub kind: &'r ConnectionKind,
    /// The address; it may be empty where the kind has a default.
    pub url: &'r str,
    /// A Slack bot's token, a token of a Grafana service account, or PagerDuty's
    /// integration key.
    pub token: &'r str,
    /// The id of the channel that a Slack bot writes to.
    pub channel: &'r str,
    /// The key of PagerDuty's REST API that notes on incidents are written with.
    pub api_token: &'r str,
    /// The address of the user of PagerDuty who writes them.
    pub from: &'r str,
}

impl Receiver<'_> {
    /// Checks the receiver. The pointers are those of the fields, such as `/url`.
    pub fn check(&self, problems: &mut Violations) {
        self.check_url(problems);
        self.check_token(problems);
        self.check_notes(problems);
        let is_bot = *self.kind == ConnectionKind::Slack && !self.token.is_empty();
        if is_bot && self.channel.is_empty() {
            problems.add("/channel", ViolationCode::Required, "is required");
        } else if is_bot && !is_channel_id(self.channel) {
            let message = "must be the id of a channel such as C0123456789, which Slack shows \
                           at the end of the channel's details";
            problems.add("/channel", ViolationCode::InvalidFormat, message);
        }
    }

    /// Returns whether the kind has a default address.
    fn has_default_url(&self) -> bool {
        match self.kind {
            ConnectionKind::PagerDuty => true,
            ConnectionKind::Slack => !self.token.is_empty(),
            _ => false,
        }
    }

    fn check_url(&self, problems: &mut Violations) {
        let mut invalid = |message: &str| {
            problems.add("/url", ViolationCode::InvalidFormat, message);
        };
        if self.url.is_empty() {
            if !self.has_default_url() {
                problems.add("/url", ViolationCode::Required, "is required");
            }
            return;
        }
        // The parser would leave out line breaks.
        let url = Url::parse(self.url).ok();
        let url = url.filter(|_| !self.url.contains(|c: char| c.is_control() || c == ' '));
        // Which networks are reached by plain http is checked when something is sent.
        let url = url.filter(|url| matches!(url.scheme(), "https" | "http"));
        let Some(url) = url else {
            return invalid("must be an https URL");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return invalid("must be a URL without a user name and password");
        }
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        match self.kind {
            ConnectionKind::Teams if is_retired_connector(host, url.path()) => invalid(
                "must be the address of a workflow: Microsoft has retired the connectors of \
                 Microsoft 365. Create a workflow from the template \"Send webhook alerts to a \
                 channel\" and enter its address",
            ),
            ConnectionKind::Slack if self.token.is_empty() && is_other_slack(host, url.path()) => {
                invalid(
                    "must be an incoming webhook of Slack, which begins with \
                     https://hooks.slack.com/services/",
                );
            }
            _ => {}
        }
    }

    fn check_token(&self, problems: &mut Violations) {
        let mut invalid = |message: &str| {
            problems.add("/token", ViolationCode::InvalidFormat, message);
        };
        if !is_sent_in_header(self.token) {
            return invalid("must have only letters, digits and punctuation of ASCII");
        }
        match self.kind {
            ConnectionKind::Grafana | ConnectionKind::PagerDuty if self.token.is_empty() => {
                problems.add("/token", ViolationCode::Required, "is required");
            }
            ConnectionKind::Slack if !self.token.is_empty() && !self.token.starts_with("xoxb-") => {
                invalid("must be a bot's token, which begins with xoxb-");
            }
            ConnectionKind::PagerDuty if self.token.chars().count() != ROUTING_KEY_CHARS => {
                invalid("must be the integration key of a service, which has 32 characters");
            }
            ConnectionKind::PagerDuty if self.token.starts_with('R') => invalid(
                "must be the integration key of a service: keys that begin with R are those of \
                 event orchestrations, which do not accept change events",
            ),
            _ => {}
        }
    }

    /// Notes in PagerDuty need a key and a user.
    fn check_notes(&self, problems: &mut Violations) {
        if !is_sent_in_header(self.api_token) {
            let message = "must have only letters, digits and punctuation of ASCII";
            problems.add("/api_token", ViolationCode::InvalidFormat, message);
        }
        let is_address = self
            .from
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
        match (self.api_token.is_empty(), self.from.is_empty()) {
            (false, true) => {
                let message = "is required with an API key: PagerDuty shows who wrote a note";
                problems.add("/from", ViolationCode::Required, message);
            }
            (true, false) => {
                let message = "is required, because an address for notes is given";
                problems.add("/api_token", ViolationCode::Required, message);
            }
            (false, false) if !is_address || !is_sent_in_header(self.from) => {
                let message = "must be the email address of a user of PagerDuty";
                problems.add("/from", ViolationCode::InvalidFormat, message);
            }
            _ => {}
        }
    }
}

/// Returns whether a string can be the value of a header.
fn is_sent_in_header(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_graphic())
}

/// Returns whether an address is one of the connectors that Microsoft has retired.
fn is_retired_connector(host: &str, path: &str) -> bool {
    host == "webhook.office.com"
        || host.ends_with(".webhook.office.com")
        || (host == "outlook.office.com" && path.starts_with("/webhook"))
        || (host == "outlook.office365.com" && path.starts_with("/webhook"))
}

/// Returns whether an address is one of Slack, but not an incoming webhook. Servers that
/// understand the format of Slack have other hosts.
fn is_other_slack(host: &str, path: &str) -> bool {
    if SLACK_HOOKS.contains(&host) {
        return !path.starts_with("/services/");
    }
    host == "slack.com" || host.ends_with(".slack.com")
}

/// Returns whether a string is the id of a channel or of a direct message.
fn is_channel_id(text: &str) -> bool {
    let is_id = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.len() >= 9
        && text.len() <= 32
        && text.starts_with(['C', 'G', 'D'])
        && text.chars().all(is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pointers of the violations.
    fn violations(kind: &ConnectionKind, url: &str, token: &str, channel: &str) -> Vec<String> {
        let mut problems = Violations::default();
        Receiver {
            kind,
            url,
            token,
            channel,
            api_token: "",
            from: "",
        }
        .check(&mut problems);
        match problems.into_result(()) {
            Ok(()) => Vec::new(),
            Err(invalid) => {
                for violation in &invalid.violations {
                    let quotes = [url, token]
                        .iter()
                        .any(|secret| !secret.is_empty() && violation.message.contains(secret));
                    assert!(!quotes, "{violation}");
                }
                invalid
                    .violations
                    .into_iter()
                    .map(|it| it.pointer)
                    .collect()
            }
        }
    }

    #[test]
    fn addresses_are_https_without_a_user() {
        let webhook = |url| violations(&ConnectionKind::Webhook, url, "", "");
        for url in [
            "https://example.com",
            "https://example.com:8443/a?b=c",
            "https://[::1]/",
        ] {
            assert!(webhook(url).is_empty(), "{url}");
        }
        for url in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https://user@example.com",
            "https://user:password@example.com",
            "https://exam\nple.com",
            " https://example.com",
        ] {
            assert_eq!(webhook(url), ["/url"], "{url}");
        }
    }

    #[test]
    fn kinds_have_rules_of_their_own() {
        use ConnectionKind::{Grafana, PagerDuty, Slack, Teams};
        let hook = "https://hooks.slack.com/services/T000/B000/XXXX";
        let flow = "https://prod-01.westus.logic.azure.com/workflows/abc/triggers/manual?sig=x";
        let key = "0123456789abcdef0123456789abcdef";
        let none: [&str; 0] = [];
        for (kind, url, token, channel, expected) in [
            (Slack, hook, "", "", &none[..]),
            (Slack, "https://chat.example.com/hooks/abc", "", "", &none),
            (
                Slack,
                "https://hooks.slack.com/triggers/T000/1/2",
                "",
                "",
                &["/url"],
            ),
            (
                Slack,
                "https://example.slack.com/archives/C0123456789",
                "",
                "",
                &["/url"],
            ),
            (Slack, "", "", "", &["/url"]),
            (Slack, "", "xoxb-1", "C0123456789", &none),
            (Slack, "", "xoxb-1", "#general", &["/channel"]),
            (Slack, "", "xoxp-1", "C0123456789", &["/token"]),
            (Slack, "", "xoxb-1\n", "C0123456789", &["/token"]),
            (Teams, flow, "", "", &none),
            (
                Teams,
                "https://example.webhook.office.com/webhookb2/x",
                "",
                "",
                &["/url"],
            ),
            (
                Teams,
                "https://EXAMPLE.webhook.office.com./webhookb2/x",
                "",
                "",
                &["/url"],
            ),
            (
                Teams,
                "https://outlook.office.com/webhook/x",
                "",
                "",
                &["/url"],
            ),
            (Grafana, "https://grafana.example.com", "glsa_1", "", &none),
            (Grafana, "https://grafana.example.com", "", "", &["/token"]),
            (PagerDuty, "", key, "", &none),
            (PagerDuty, "", "", "", &["/token"]),
            (PagerDuty, "", &key[1..], "", &["/token"]),
            (
                PagerDuty,
                "",
                "R123456789abcdef0123456789abcdef",
                "",
                &["/token"],
            ),
        ] {
            let label = format!("{kind} {url} {token} {channel}");
            assert_eq!(violations(&kind, url, token, channel), expected, "{label}");
        }
    }

    #[test]
    fn notes_need_a_key_and_a_user() {
        for (api_token, from, expected) in [
            ("", "", None),
            ("u+abc", "ada@example.com", None),
            ("u+abc", "", Some("/from")),
            ("", "ada@example.com", Some("/api_token")),
            ("u+abc", "ada", Some("/from")),
            ("u+abc", "ada@example.com\n", Some("/from")),
            ("u+ä", "ada@example.com", Some("/api_token")),
        ] {
            let mut problems = Violations::default();
            Receiver {
                kind: &ConnectionKind::PagerDuty,
                url: "",
                token: "0123456789abcdef0123456789abcdef",
                channel: "",
                api_token,
                from,
            }
            .check(&mut problems);
            let found = problems.into_result(()).err();
            let pointers: Vec<String> = found
                .into_iter()
                .flat_map(|invalid| invalid.violations)
                .map(|violation| violation.pointer)
                .collect();
            assert_eq!(pointers, Vec::from_iter(expected), "{api_token} {from}");
        }
    }
}
