//! The kinds of connections, as people choose them.

use changelog_core::{ConnectionKind, EventKind};

use super::form;

/// A kind and what it needs.
pub(super) struct OfferedKind {
    pub(super) kind: ConnectionKind,
    /// What it is for.
    pub(super) sentence: &'static str,
    /// What is needed from the other side, after "You need".
    pub(super) needs: &'static str,
    /// Where it sends.
    pub(super) fields: &'static [ReceiverField],
}

/// A field about where a connection sends.
pub(super) struct ReceiverField {
    /// As in [`ReceiverInput`](changelog_core::ReceiverInput).
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// Whether its value is never shown.
    pub(super) is_secret: bool,
    pub(super) is_required: bool,
}

impl ReceiverField {
    const fn secret(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self {
            name,
            label,
            hint,
            is_secret: true,
            is_required: true,
        }
    }

    const fn shown(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self {
            is_secret: false,
            ..Self::secret(name, label, hint)
        }
    }

    const fn optional(self) -> Self {
        Self {
            is_required: false,
            ..self
        }
    }
}

/// In the order in which they are offered.
pub(super) static KINDS: [OfferedKind; 5] = [
    OfferedKind {
        kind: ConnectionKind::Slack,
        sentence: "A message in a channel when a change is recorded or its status changes.",
        needs: "the URL of an incoming webhook, or a bot's token with the scope chat:write and \
                the ID of a channel.",
        fields: &[
            ReceiverField::secret(
                "url",
                "Incoming webhook URL",
                "In your Slack app under Features, Incoming Webhooks. Empty for a bot.",
            )
            .optional(),
            ReceiverField::secret(
                "token",
                "Bot token",
                "Instead of a webhook. Begins with xoxb-. The bot keeps one message for each \
                 change up to date.",
            )
            .optional(),
            ReceiverField::shown(
                "channel",
                "Channel ID",
                "For a bot, such as C0123456789: at the end of the channel's details. Invite the \
                 bot to the channel.",
            )
            .optional(),
        ],
    },
    OfferedKind {
        kind: ConnectionKind::Teams,
        sentence: "A card in a channel when a change is recorded or its status changes.",
        needs: "the URL of a workflow that posts to the channel when it receives a webhook \
                request.",
        fields: &[ReceiverField::secret(
            "url",
            "Workflow URL",
            "In Teams under Workflows: “Send webhook alerts to a channel”.",
        )],
    },
    OfferedKind {
        kind: ConnectionKind::Grafana,
        sentence: "Changes as annotations on your graphs, from their start to their end.",
        needs: "the URL of Grafana, and a token of a service account that may create, write and \
                delete annotations.",
        fields: &[
            ReceiverField::shown("url", "Grafana URL", "Such as https://grafana.example.com."),
            ReceiverField::secret(
                "token",
                "Service account token",
                "In Grafana under Administration, Service accounts. Begins with glsa_.",
            ),
            ReceiverField::shown(
                "dashboard_uid",
                "Dashboard UID",
                "Empty for all dashboards.",
            )
            .optional(),
            ReceiverField::shown("panel_id", "Panel ID", "A number. Empty for all panels.")
                .optional(),
            ReceiverField::shown(
                "grafana_namespace",
                "Namespace",
                "Only for Grafana's new annotation API (alpha), such as default.",
            )
            .optional(),
        ],
    },
    OfferedKind {
        kind: ConnectionKind::PagerDuty,
        sentence: "A change event on a service when a change has ended, and a note with the \
                   suspects on each incident.",
        needs: "the integration key of a service (Events API V2); for notes an API key, too.",
        fields: &[
            ReceiverField::secret(
                "token",
                "Integration key",
                "32 characters, in PagerDuty under the service's Integrations.",
            ),
            ReceiverField::secret(
                "url",
                "Events URL",
                "Empty for events.pagerduty.com. In the EU: \
                 https://events.eu.pagerduty.com/v2/change/enqueue.",
            )
            .optional(),
            ReceiverField::secret(
                "api_token",
                "API key",
                "Only for notes on incidents that a PagerDuty source has opened. In PagerDuty \
                 under Integrations, API Access Keys.",
            )
            .optional(),
            ReceiverField::shown(
                "from",
                "Author of notes",
                "The email address of a PagerDuty user. Empty for no notes.",
            )
            .optional(),
        ],
    },
    OfferedKind {
        kind: ConnectionKind::Webhook,
        sentence: "Signed requests with JSON for your own programs (Standard Webhooks).",
        needs: "an https URL that takes POST requests.",
        fields: &[ReceiverField::secret(
            "url",
            "URL",
            "Every request is signed with a secret, which is shown once when you have connected.",
        )],
    },
];

/// Finds a kind; `None` for one that this version does not know.
pub(super) fn kind_of(kind: &ConnectionKind) -> Option<&'static OfferedKind> {
    KINDS.iter().find(|one| one.kind == *kind)
}

impl OfferedKind {
    /// Returns whether people choose the kinds of events. PagerDuty is sent a change once.
    pub(super) fn takes_events(&self) -> bool {
        self.kind != ConnectionKind::PagerDuty
    }

    /// Returns the kinds of events that people choose from, with their labels. Grafana shows
    /// changes only.
    pub(super) fn events(&self) -> Vec<(&'static str, &'static str)> {
        let has = |kind: &EventKind| self.kind != ConnectionKind::Grafana || kind.is_of_change();
        let kinds = form::events().into_iter().zip(EventKind::ALL);
        kinds
            .filter(|(_, kind)| has(kind))
            .map(|(labelled, _)| labelled)
            .collect()
    }

    /// Returns what a delivery that the receiver has taken is called.
    pub(super) fn delivered(&self) -> &'static str {
        match self.kind {
            // Later failures are seen only in the run history of the workflow.
            ConnectionKind::Teams => "Accepted by Teams",
            _ => "Delivered",
        }
    }
}
