//! Input for making and changing a connection.

use serde::Serialize;

use super::{ConnectionKind, EventFilter, Receiver};
use crate::input::{Input, ObjectReader};
use crate::limits::{
    MAX_EMAIL_CHARS, MAX_FILTER_VALUES, MAX_NAME_CHARS, MAX_TAGS, MAX_TOKEN_CHARS, MAX_URL_CHARS,
};
use crate::problem::{ViolationCode, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;

/// Where a connection sends. Each kind needs some of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReceiverInput {
    /// The address of the receiver; PagerDuty and a bot of Slack have one by default.
    pub url: Option<String>,
    /// A bot's token, a token of a Grafana service account, or PagerDuty's routing key.
    pub token: Option<String>,
    /// The id of the channel that a Slack bot writes to.
    pub channel: Option<String>,
    /// The dashboard of Grafana that annotations are shown on; all without it.
    pub dashboard_uid: Option<String>,
    /// The panel of that dashboard.
    pub panel_id: Option<String>,
    /// The namespace of Grafana's API of resources; without it, the former API is used.
    pub grafana_namespace: Option<String>,
    /// The key of PagerDuty's REST API; without it, no notes are written on incidents.
    pub api_token: Option<String>,
    /// The address of the user of PagerDuty who writes the notes.
    pub from: Option<String>,
}

/// Input for making a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewConnection {
    /// What it sends to.
    pub kind: ConnectionKind,
    /// A name, unique in the organization without regard to case.
    pub name: String,
    /// Where it sends.
    #[serde(flatten)]
    pub receiver: ReceiverInput,
    /// Which events it sends; those of [`EventFilter::default_of`] if nothing is given.
    #[serde(flatten)]
    pub filter: EventFilter,
}

/// Input for changing a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionPatch {
    /// The name.
    pub name: String,
    /// Where it sends; what is absent keeps its value.
    #[serde(flatten)]
    pub receiver: ReceiverInput,
    /// Which events it sends.
    #[serde(flatten)]
    pub filter: EventFilter,
}

impl Input for NewConnection {
    const FIELDS: &'static [&'static str] = &[
        "kind",
        "name",
        "url",
        "token",
        "channel",
        "dashboard_uid",
        "panel_id",
        "grafana_namespace",
        "api_token",
        "from",
        "events",
        "service_ids",
        "environments",
        "tags",
        "statuses",
        "min_risk",
        "any_risk_in",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let kind = object.parsed("kind");
        let name = object.required_string("name");
        let receiver = ReceiverInput::read(object);
        let filter = read_filter(object);
        let kind = kind.unwrap_or(ConnectionKind::Unknown("".into()));
        Self {
            filter: if filter == EventFilter::default() {
                EventFilter::default_of(&kind)
            } else {
                filter
            },
            kind,
            name,
            receiver,
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_tags(problems, &mut self.filter);
        self.receiver.check_lengths(problems);
        let ReceiverInput {
            url,
            token,
            channel,
            api_token,
            from,
            ..
        } = &self.receiver;
        Receiver {
            kind: &self.kind,
            url: url.as_deref().unwrap_or_default(),
            token: token.as_deref().unwrap_or_default(),
            channel: channel.as_deref().unwrap_or_default(),
            api_token: api_token.as_deref().unwrap_or_default(),
            from: from.as_deref().unwrap_or_default(),
        }
        .check(problems);
    }
}

impl Input for ConnectionPatch {
    const FIELDS: &'static [&'static str] = NewConnection::FIELDS;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        object.refuse_immutable("kind", "cannot be changed; make another connection");
        Self {
            name: object.required_string("name"),
            receiver: ReceiverInput::read(object),
            filter: read_filter(object),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_name(problems, &mut self.name);
        check_tags(problems, &mut self.filter);
        self.receiver.check_lengths(problems);
    }
}

impl ReceiverInput {
    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            url: object.string("url"),
            token: object.string("token"),
            channel: object.string("channel"),
            dashboard_uid: object.string("dashboard_uid"),
            panel_id: object.string("panel_id"),
            grafana_namespace: object.string("grafana_namespace"),
            api_token: object.string("api_token"),
            from: object.string("from"),
        }
    }

    fn check_lengths(&mut self, problems: &mut Violations) {
        for (pointer, value, max) in [
            ("/url", &mut self.url, MAX_URL_CHARS),
            ("/token", &mut self.token, MAX_TOKEN_CHARS),
            ("/channel", &mut self.channel, MAX_NAME_CHARS),
            ("/api_token", &mut self.api_token, MAX_TOKEN_CHARS),
            ("/from", &mut self.from, MAX_EMAIL_CHARS),
            ("/dashboard_uid", &mut self.dashboard_uid, MAX_NAME_CHARS),
            (
                "/grafana_namespace",
                &mut self.grafana_namespace,
                MAX_NAME_CHARS,
            ),
        ] {
            rules::optional_text(problems, pointer, value, max, TextKind::Line);
        }
        if let Some(id) = &self.panel_id
            && id.parse::<u32>().is_err()
        {
            let message = "must be the number of a panel, such as 4";
            problems.add("/panel_id", ViolationCode::InvalidFormat, message);
        }
    }
}

fn check_name(problems: &mut Violations, name: &mut String) {
    rules::text(problems, "/name", name, 1..=MAX_NAME_CHARS, TextKind::Name);
}

fn check_tags(problems: &mut Violations, filter: &mut EventFilter) {
    rules::names(problems, "/tags", &mut filter.tags, MAX_TAGS, TextKind::Key);
}

fn read_filter(object: &mut ObjectReader<'_>) -> EventFilter {
    const MAX: usize = MAX_FILTER_VALUES;
    EventFilter {
        events: object.parsed_list("events", MAX).unwrap_or_default(),
        service_ids: object.parsed_list("service_ids", MAX).unwrap_or_default(),
        environments: object.parsed_list("environments", MAX).unwrap_or_default(),
        tags: object.strings("tags", MAX).unwrap_or_default(),
        statuses: object.parsed_list("statuses", MAX).unwrap_or_default(),
        min_risk: object.parsed("min_risk"),
        any_risk_in: object.parsed_list("any_risk_in", MAX).unwrap_or_default(),
    }
}
