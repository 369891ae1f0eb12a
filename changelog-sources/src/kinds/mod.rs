//! The kinds of sources, one file each: how their requests are verified and read.

mod actor;
mod alert_group;
mod alertmanager;
mod argocd;
mod azure;
mod calls;
mod cdevents;
mod cloudtrail;
mod cloudwatch;
mod datadog;
mod flux;
mod gcp;
mod generic;
mod generic_alert;
mod github;
mod gitlab;
mod grafana;
mod kubernetes;
mod launchdarkly;
mod pagerduty;
mod sentry;
mod slack_command;
mod sns;
mod template;
mod terraform_cloud;
#[cfg(test)]
mod testing;
mod unleash;

use changelog_core::SourceKind;

use crate::handshake::Handshake;
use crate::observation::{Reading, Unreadable};
use crate::proof::{self, Proof, Unproven};
use crate::received::Received;
use crate::settings::Settings;

/// What one kind does.
struct Kind {
    /// The ways to prove the origin; none if the token in the address is the proof.
    proofs: &'static [Proof],
    /// Whether a source of this kind must have a secret.
    is_signed: bool,
    /// Answers a request that only checks the address.
    handshake: fn(&Received<'_>) -> Option<Handshake>,
    /// Returns what the sender calls the request, the same if it is sent again.
    request_id: fn(&Received<'_>) -> Option<String>,
    /// Reads a request.
    read: fn(&Received<'_>, &Settings) -> Result<Reading, Unreadable>,
}

impl Kind {
    /// A kind whose token in the address is the proof, without handshake and without ids
    /// of requests.
    const fn new(read: fn(&Received<'_>, &Settings) -> Result<Reading, Unreadable>) -> Self {
        Self {
            proofs: &[],
            is_signed: false,
            handshake: |_| None,
            request_id: |_| None,
            read,
        }
    }
}

/// Returns what a kind does; `None` for one that this version does not know.
fn kind(kind: &SourceKind) -> Option<&'static Kind> {
    match kind {
        SourceKind::Alertmanager => Some(&alertmanager::KIND),
        SourceKind::Argocd => Some(&argocd::KIND),
        SourceKind::Azure => Some(&azure::KIND),
        SourceKind::Cdevents => Some(&cdevents::KIND),
        SourceKind::Cloudtrail => Some(&cloudtrail::KIND),
        SourceKind::Cloudwatch => Some(&cloudwatch::KIND),
        SourceKind::Datadog => Some(&datadog::KIND),
        SourceKind::Flux => Some(&flux::KIND),
        SourceKind::Gcp => Some(&gcp::KIND),
        SourceKind::Generic => Some(&generic::KIND),
        SourceKind::GenericAlert => Some(&generic_alert::KIND),
        SourceKind::Github => Some(&github::KIND),
        SourceKind::Gitlab => Some(&gitlab::KIND),
        SourceKind::Grafana => Some(&grafana::KIND),
        SourceKind::Kubernetes => Some(&kubernetes::KIND),
        SourceKind::Launchdarkly => Some(&launchdarkly::KIND),
        SourceKind::Pagerduty => Some(&pagerduty::KIND),
        SourceKind::Sentry => Some(&sentry::KIND),
        SourceKind::SlackCommand => Some(&slack_command::KIND),
        SourceKind::TerraformCloud => Some(&terraform_cloud::KIND),
        SourceKind::Unleash => Some(&unleash::KIND),
        _ => None,
    }
}

/// Returns whether a source of this kind can have a secret by which requests are verified.
pub fn takes_secret(of: &SourceKind) -> bool {
    kind(of).is_some_and(|kind| !kind.proofs.is_empty())
}

/// Returns whether a source of this kind must have such a secret.
pub fn is_signed(of: &SourceKind) -> bool {
    kind(of).is_some_and(|kind| kind.is_signed)
}

/// Returns whether a source of this kind lacks the secret that it must have.
pub fn lacks_secret(of: &SourceKind, has_secret: bool) -> bool {
    is_signed(of) && !has_secret
}

/// Requires that a request proves its origin, if the source has a secret or must have one.
///
/// # Errors
/// [`Unproven`] says which header is missing or does not fit, or that the source has no secret.
pub fn verify(
    of: &SourceKind,
    secret: Option<&str>,
    received: &Received<'_>,
) -> Result<(), Unproven> {
    match (kind(of), secret) {
        (Some(kind), Some(secret)) if !kind.proofs.is_empty() => {
            proof::require(kind.proofs, secret, received)
        }
        (Some(_), secret) if lacks_secret(of, secret.is_some()) => Err(Unproven(
            "the source has no secret: enter that of the sender".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Answers a request that only checks the address; `None` for an event.
pub fn handshake(of: &SourceKind, received: &Received<'_>) -> Option<Handshake> {
    (kind(of)?.handshake)(received)
}

/// Returns what the sender calls a request, the same if it is sent again.
pub fn request_id(of: &SourceKind, received: &Received<'_>) -> Option<String> {
    (kind(of)?.request_id)(received)
}

/// Reads a request.
///
/// # Errors
/// [`Unreadable`] says why the body is set aside.
pub fn read(
    of: &SourceKind,
    received: &Received<'_>,
    settings: &Settings,
) -> Result<Reading, Unreadable> {
    match kind(of) {
        Some(kind) => (kind.read)(received, settings),
        None => Err(Unreadable(format!("this version does not read {of}"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::kinds::testing::received_bytes;

    /// Members that the kinds look for, so that arbitrary JSON gets far into them.
    const MEMBERS: [&str; 46] = [
        "groupKey",
        "alerts",
        "labels",
        "startsAt",
        "event",
        "event_type",
        "transition",
        "AlarmName",
        "NewStateValue",
        "action",
        "Records",
        "detail-type",
        "detail",
        "Message",
        "Type",
        "eventName",
        "eventID",
        "userIdentity",
        "requestParameters",
        "records",
        "value",
        "data",
        "schemaId",
        "eventType",
        "operationName",
        "status",
        "correlationId",
        "identity",
        "claims",
        "authorization",
        "resourceId",
        "message",
        "entries",
        "logName",
        "protoPayload",
        "methodName",
        "resourceName",
        "operation",
        "items",
        "verb",
        "stage",
        "objectRef",
        "user",
        "auditID",
        "name",
        "title",
    ];

    /// Texts that decide something in a kind.
    const TEXTS: [&str; 21] = [
        "firing",
        "incident.triggered",
        "Triggered",
        "ALARM",
        "resolved",
        "",
        "/",
        "::",
        "é20",
        "AWS API Call via CloudTrail",
        "Notification",
        "AssumedRole",
        "azureMonitorCommonAlertSchema",
        "Microsoft.Resources.ResourceWriteSuccess",
        "A/b/write",
        "/subscriptions/",
        "Succeeded",
        "ResponseComplete",
        "create",
        "projects/p/logs/cloudaudit.googleapis.com%2Factivity",
        "k8s.io",
    ];

    fn json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            proptest::sample::select(&TEXTS[..]).prop_map(str::to_owned),
            any::<String>(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((proptest::sample::select(&MEMBERS[..]), inner), 0..10)
                    .prop_map(|members| {
                        let members = members.into_iter();
                        members
                            .map(|(name, value)| (name.to_owned(), value))
                            .collect()
                    }),
            ]
        })
    }

    fn handle(body: &[u8]) {
        for kind in SourceKind::ALL {
            let headers = [
                ("x-github-event", "deployment"),
                ("sentry-hook-resource", "event_alert"),
            ];
            received_bytes(&headers, body, |received| {
                let _ = handshake(kind, received);
                let _ = request_id(kind, received);
                let _ = verify(kind, Some("secret"), received);
                let _ = read(kind, received, &Settings::default());
            });
        }
    }

    #[test]
    fn only_kinds_without_a_required_secret_take_requests_without_one() {
        for kind in SourceKind::ALL {
            received_bytes(&[], b"{}", |received| {
                let is_taken = verify(kind, None, received).is_ok();
                assert_eq!(is_taken, !is_signed(kind), "{kind}");
            });
        }
        assert!(is_signed(&SourceKind::Github) && !is_signed(&SourceKind::Alertmanager));
    }

    proptest! {
        #[test]
        fn no_kind_panics_on_bytes(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            handle(&body);
        }

        #[test]
        fn no_kind_panics_on_json(body in json()) {
            handle(body.to_string().as_bytes());
        }
    }
}
