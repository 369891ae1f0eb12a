//! Where a connection sends, and with which secrets. It is encrypted as a whole where it
//! is stored, because the addresses of Slack and Teams are secrets, too.

use std::fmt;

use changelog_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a connection sends.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// The address of the receiver; for Grafana and Slack's bot the address of the API.
    pub url: String,
    /// The token that is sent: a bot's token, a token of a Grafana service account, or
    /// PagerDuty's routing key.
    pub token: Option<String>,
    /// The id of the channel that a Slack bot writes to.
    pub channel: Option<String>,
    /// The dashboard that annotations are shown on; all dashboards without it.
    pub dashboard_uid: Option<String>,
    /// The panel of that dashboard.
    pub panel_id: Option<i64>,
    /// The namespace of Grafana's API of resources; the former API without it.
    pub grafana_namespace: Option<String>,
    /// The key of PagerDuty's REST API, and the user who writes notes on incidents.
    pub api_token: Option<String>,
    /// See `api_token`.
    pub from: Option<String>,
    /// The secrets that webhooks are signed with: the present one first.
    pub signing_secrets: Vec<SigningSecret>,
    /// The seed of the ed25519 key that webhooks are signed with, as base64.
    pub ed25519_seed: Option<String>,
}

/// A secret that webhooks are signed with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret {
    /// The secret, `whsec_` and base64.
    pub secret: String,
    /// The end of its use after a rotation.
    pub valid_until: Option<Timestamp>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecret").finish_non_exhaustive()
    }
}
