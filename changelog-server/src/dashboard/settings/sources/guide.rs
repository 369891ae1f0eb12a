//! How a sender is set up, for each kind: what is entered or pasted where.

use changelog_core::SourceKind;

/// Stands for the token in an address that is not known any more.
pub(super) const TOKEN: &str = "YOUR-TOKEN";
/// Stands for a secret that is not known any more.
pub(super) const SECRET: &str = "YOUR-SECRET";

/// Stands for the address in the texts below.
const ADDRESS: &str = "ADDRESS";

/// A step of a guide.
pub(super) enum Step {
    /// What to do.
    Text(String),
    /// The fields of a form of the sender, and what goes into them.
    Fields(Vec<(&'static str, String)>),
    /// What is pasted, and where: into a file or a terminal.
    Paste { into: &'static str, text: String },
}

/// A step with placeholders.
enum Part {
    Text(&'static str),
    Fields(&'static [(&'static str, &'static str)]),
    Paste(&'static str, &'static str),
}

use Part::{Fields, Paste, Text};

/// Returns how a sender is set up that posts to an address with a secret.
pub(super) fn steps(kind: &SourceKind, address: &str, secret: &str) -> Vec<Step> {
    let filled = |text: &str| text.replace(ADDRESS, address).replace(SECRET, secret);
    let step = |part: &Part| match part {
        Text(text) => Step::Text(filled(text)),
        Fields(fields) => Step::Fields(
            fields
                .iter()
                .map(|(name, value)| (*name, filled(value)))
                .collect(),
        ),
        Paste(into, text) => Step::Paste {
            into,
            text: filled(text),
        },
    };
    parts(kind).iter().map(step).collect()
}

fn parts(kind: &SourceKind) -> &'static [Part] {
    match kind {
        SourceKind::Github => GITHUB,
        SourceKind::Gitlab => GITLAB,
        SourceKind::Cdevents => CDEVENTS,
        SourceKind::TerraformCloud => TERRAFORM_CLOUD,
        SourceKind::Argocd => ARGOCD,
        SourceKind::Flux => FLUX,
        SourceKind::Kubernetes => KUBERNETES,
        SourceKind::Cloudtrail => CLOUDTRAIL,
        SourceKind::Azure => AZURE,
        SourceKind::Gcp => GCP,
        SourceKind::Launchdarkly => LAUNCHDARKLY,
        SourceKind::Unleash => UNLEASH,
        SourceKind::Generic => GENERIC,
        SourceKind::Alertmanager => ALERTMANAGER,
        SourceKind::Grafana => GRAFANA,
        SourceKind::Pagerduty => PAGERDUTY,
        SourceKind::Datadog => DATADOG,
        SourceKind::Cloudwatch => CLOUDWATCH,
        SourceKind::Sentry => SENTRY,
        SourceKind::GenericAlert => GENERIC_ALERT,
        SourceKind::SlackCommand => SLACK_COMMAND,
        _ => &[],
    }
}

const GITHUB: &[Part] = &[
    Text("In the repository or the organization, under Settings, Webhooks: Add webhook."),
    Fields(&[
        ("Payload URL", ADDRESS),
        ("Content type", "application/json"),
        ("Secret", SECRET),
        (
            "Which events",
            "Let me select individual events: Deployments, Deployment statuses, Releases and \
             Workflow runs; not Pushes.",
        ),
    ]),
    Text("Runs become changes only of the workflows that are named in the settings below."),
];

const GITLAB: &[Part] = &[
    Text("In the project or the group, under Settings, Webhooks: Add new webhook."),
    Fields(&[
        ("URL", ADDRESS),
        ("Secret token", SECRET),
        (
            "Trigger",
            "Deployment events, Feature flag events and Releases events.",
        ),
    ]),
    Text(
        "If GitLab has generated a signing token for the webhook, enter that one as the secret of \
         this source instead.",
    ),
];

const CDEVENTS: &[Part] = &[
    Text(
        "Any sender of CloudEvents over HTTP can post CDEvents to the address: in binary mode, in \
         structured mode or in batches.",
    ),
    Fields(&[("URL", ADDRESS), ("Method", "POST")]),
    Paste(
        "Or try it in a terminal",
        r#"curl ADDRESS \
  -H 'Content-Type: application/cloudevents+json' -d '{
  "specversion": "1.0", "id": "1", "source": "/try",
  "type": "dev.cdevents.service.deployed.0.2.0",
  "data": {
    "context": {"version": "0.4.1", "id": "1", "source": "/try",
      "type": "dev.cdevents.service.deployed.0.2.0", "timestamp": "2026-01-01T00:00:00Z"},
    "subject": {"id": "payments", "type": "service", "content": {
      "environment": {"id": "staging"}, "artifactId": "pkg:oci/payments@sha256:0"}}
  }
}'"#,
    ),
];

const TERRAFORM_CLOUD: &[Part] = &[
    Text("In the workspace, under Settings, Notifications: Create a notification."),
    Fields(&[
        ("Destination", "Webhook"),
        ("Name", "Change log"),
        ("Webhook URL", ADDRESS),
        ("Token", SECRET),
        ("Triggers", "All run events"),
    ]),
];

/// What one trigger of Argo CD sends; the members that the reader knows. `dig` is for what
/// an application may lack: Go's templates fail at a member of nothing.
macro_rules! argocd_template {
    ($name:literal, $trigger:literal) => {
        concat!(
            "  template.changelog-",
            $name,
            ": |\n    webhook:\n      changelog:\n        method: POST\n        body: |\n          {\n            \"trigger\": \"",
            $trigger,
            r#"",
            "app": {{ .app.metadata.name | toJson }},
            "uid": {{ .app.metadata.uid | toJson }},
            "project": {{ .app.spec.project | toJson }},
            "namespace": {{ dig "spec" "destination" "namespace" "" .app | toJson }},
            "cluster": {{ dig "spec" "destination" "name" "" .app | toJson }},
            "server": {{ dig "spec" "destination" "server" "" .app | toJson }},
            "repoURL": {{ dig "spec" "source" "repoURL" "" .app | toJson }},
            "targetRevision": {{ dig "spec" "source" "targetRevision" "" .app | toJson }},
            "revision": {{ dig "status" "operationState" "syncResult" "revision" "" .app | toJson }},
            "revisions": {{ dig "status" "operationState" "syncResult" "revisions" list .app | toJson }},
            "phase": {{ dig "status" "operationState" "phase" "" .app | toJson }},
            "message": {{ dig "status" "operationState" "message" "" .app | toJson }},
            "startedAt": {{ dig "status" "operationState" "startedAt" "" .app | toJson }},
            "finishedAt": {{ dig "status" "operationState" "finishedAt" "" .app | toJson }},
            "initiatedBy": {{ dig "status" "operationState" "operation" "initiatedBy" "username" "" .app | toJson }},
            "automated": {{ dig "status" "operationState" "operation" "initiatedBy" "automated" false .app | toJson }},
            "health": {{ dig "status" "health" "status" "" .app | toJson }},
            "healthChangedAt": {{ dig "status" "health" "lastTransitionTime" "" .app | toJson }},
            "url": "{{ .context.argocdUrl }}/applications/{{ .app.metadata.namespace }}/{{ .app.metadata.name }}"
          }
"#
        )
    };
}

const ARGOCD: &[Part] = &[
    Paste(
        "If this source has a secret, add it to the Secret argocd-notifications-secret",
        "stringData:
  changelog-secret: YOUR-SECRET
",
    ),
    Paste(
        "Add to the data of the ConfigMap argocd-notifications-cm",
        concat!(
            r"data:
  service.webhook.changelog: |
    url: ADDRESS
    headers:
      - name: Content-Type
        value: application/json
      - name: Authorization
        value: $changelog-secret
",
            argocd_template!("sync", "sync"),
            argocd_template!("degraded", "degraded"),
            r"  trigger.changelog-on-sync-running: |
    - when: app.status.operationState != nil and app.status.operationState.phase in ['Running']
      oncePer: app.status.operationState.startedAt
      send: [changelog-sync]
  trigger.changelog-on-deployed: |
    - when: app.status.operationState != nil and app.status.operationState.phase in ['Succeeded']
      oncePer: app.status.operationState.startedAt
      send: [changelog-sync]
  trigger.changelog-on-sync-failed: |
    - when: app.status.operationState != nil and app.status.operationState.phase in ['Error', 'Failed']
      oncePer: app.status.operationState.startedAt
      send: [changelog-sync]
  trigger.changelog-on-health-degraded: |
    - when: app.status.operationState != nil and app.status.health.status == 'Degraded'
      send: [changelog-degraded]
"
        ),
    ),
    Paste(
        "Annotate the applications, or an AppProject for all of its applications",
        r#"metadata:
  annotations:
    notifications.argoproj.io/subscribe.changelog-on-sync-running.changelog: ""
    notifications.argoproj.io/subscribe.changelog-on-deployed.changelog: ""
    notifications.argoproj.io/subscribe.changelog-on-sync-failed.changelog: ""
    notifications.argoproj.io/subscribe.changelog-on-health-degraded.changelog: ""
"#,
    ),
    Text("Without a secret, leave the Authorization header out."),
];

const FLUX: &[Part] = &[
    Paste(
        "Apply to the cluster",
        "apiVersion: v1
kind: Secret
metadata:
  name: changelog
  namespace: flux-system
stringData:
  address: ADDRESS
  token: YOUR-SECRET
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Provider
metadata:
  name: changelog
  namespace: flux-system
spec:
  type: generic-hmac
  secretRef:
    name: changelog
---
apiVersion: notification.toolkit.fluxcd.io/v1beta3
kind: Alert
metadata:
  name: changelog
  namespace: flux-system
spec:
  providerRef:
    name: changelog
  eventSeverity: info
  eventMetadata:
    environment: production
    cluster: NAME-OF-THE-CLUSTER
  eventSources:
    - kind: Kustomization
      name: '*'
    - kind: HelmRelease
      name: '*'
",
    ),
    Text(
        "An Alert takes the objects of its own namespace: for others, add their namespace to the \
         eventSources.",
    ),
];

const CLOUDTRAIL: &[Part] = &[
    Text(
        "A trail must record management events. In Amazon EventBridge, in each region, create a \
         rule with this pattern; what is global, such as IAM, is in us-east-1.",
    ),
    Paste(
        "Event pattern",
        r#"{
  "detail-type": ["AWS API Call via CloudTrail"],
  "detail": {"readOnly": [false]}
}
"#,
    ),
    Text("Its target is an API destination:"),
    Fields(&[
        ("API destination endpoint", ADDRESS),
        ("HTTP method", "POST"),
        (
            "Connection",
            "Authorization type API key, with any name and value: EventBridge requires one, and \
             it is not checked.",
        ),
        ("Target input", "Matched event"),
    ]),
    Text(
        "Or subscribe the address to an SNS topic that the rule sends to, with the protocol HTTPS. \
         The link that confirms the subscription then appears on this page; open it.",
    ),
];

const AZURE: &[Part] = &[
    Paste(
        "In a terminal: an Event Grid subscription",
        "az eventgrid event-subscription create --name change-log \\
  --source-resource-id /subscriptions/SUBSCRIPTION-ID \\
  --endpoint 'ADDRESS' \\
  --included-event-types Microsoft.Resources.ResourceWriteSuccess \\
    Microsoft.Resources.ResourceDeleteSuccess Microsoft.Resources.ResourceActionSuccess
",
    ),
    Text("Or, for alerts on the activity log, an action group with a webhook:"),
    Fields(&[
        ("Action type", "Webhook"),
        ("URI", ADDRESS),
        ("Enable the common alert schema", "Yes"),
    ]),
];

const GCP: &[Part] = &[
    Paste(
        "In a terminal",
        "gcloud pubsub topics create change-log
gcloud logging sinks create change-log \\
  pubsub.googleapis.com/projects/PROJECT/topics/change-log \\
  --log-filter='logName:\"cloudaudit.googleapis.com%2Factivity\"'
gcloud pubsub topics add-iam-policy-binding change-log \\
  --role=roles/pubsub.publisher --member=WRITER-IDENTITY
gcloud pubsub subscriptions create change-log --topic=change-log \\
  --push-endpoint='ADDRESS'
",
    ),
    Text(
        "The second command prints the WRITER-IDENTITY, such as serviceAccount:…. A sink of a folder \
         or an organization needs --include-children.",
    ),
];

const KUBERNETES: &[Part] = &[
    Paste(
        "/etc/kubernetes/changelog-webhook.yaml",
        "apiVersion: v1
kind: Config
clusters:
  - name: changelog
    cluster:
      server: ADDRESS
contexts:
  - name: changelog
    context:
      cluster: changelog
      user: ''
current-context: changelog
",
    ),
    Paste(
        "/etc/kubernetes/changelog-policy.yaml",
        "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    resources:
      - group: ''
        resources: [events]
      - group: coordination.k8s.io
        resources: [leases]
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
",
    ),
    Paste(
        "Flags of kube-apiserver",
        "--audit-policy-file=/etc/kubernetes/changelog-policy.yaml
--audit-webhook-config-file=/etc/kubernetes/changelog-webhook.yaml
",
    ),
    Text(
        "The level Metadata is enough: objects are never read. kube-apiserver must be able to read \
         both files.",
    ),
];

const LAUNCHDARKLY: &[Part] = &[
    Text("In LaunchDarkly, under Integrations, Webhooks: Add integration."),
    Fields(&[
        ("Name", "Change log"),
        ("URL", ADDRESS),
        ("Sign this webhook", "Checked, with the secret below."),
        ("Secret", SECRET),
        (
            "Policy",
            "All flags and segments of the projects whose changes matter.",
        ),
    ]),
];

const UNLEASH: &[Part] = &[
    Text("In Unleash, under Configure, Integrations: Webhook."),
    Fields(&[
        (
            "Events",
            "Those of flags, strategies, variants, segments and release plans, or all: others \
             are ignored.",
        ),
        ("Webhook URL", ADDRESS),
        ("Content-Type", "application/json"),
        ("Authorization", SECRET),
        ("Body template", "Leave it empty."),
    ]),
];

const GENERIC: &[Part] = &[
    Text(
        "Let a program post JSON to the address. If this source has a secret, it is sent as well:",
    ),
    Paste(
        "In a terminal",
        r#"curl ADDRESS \
  -H 'Authorization: YOUR-SECRET' \
  -H 'Content-Type: application/json' \
  -d '{"title": "Deploy payments 1.4.2", "service": "payments", "environment": "prod"}'
"#,
    ),
    Text(
        "Senders that sign requests can send the HMAC-SHA256 of the body by the secret instead, as \
         X-Signature-256: sha256=….",
    ),
    Text(
        "Without templates, only a title is looked for. With those in the settings below, the other \
         fields of a change are filled, too. What is set aside because it cannot be read can be \
         replayed when they are right.",
    ),
];

const ALERTMANAGER: &[Part] = &[
    Text(
        "Add a receiver and a route to the configuration of Alertmanager, and reload it. \
         Leave http_config out if this source has no secret.",
    ),
    Paste(
        "In alertmanager.yml",
        r"route:
  routes:
    - receiver: changes
      continue: true
receivers:
  - name: changes
    webhook_configs:
      - url: ADDRESS
        send_resolved: true
        http_config:
          authorization:
            credentials: YOUR-SECRET
",
    ),
    Text(
        "A group of alerts is one incident, so group_by decides what one incident is: for example \
         by alertname and service.",
    ),
];

const GRAFANA: &[Part] = &[
    Text("In Grafana, under Alerting, Contact points: Create contact point."),
    Fields(&[
        ("Integration", "Webhook"),
        ("URL", ADDRESS),
        ("HTTP Method", "POST"),
        ("HMAC signature: Secret", SECRET),
        ("HMAC signature: Header", "X-Grafana-Alerting-Signature"),
        (
            "HMAC signature: Timestamp header",
            "X-Grafana-Alerting-Timestamp",
        ),
        ("Disable resolved message", "Not checked."),
        ("Custom payload", "Leave it empty."),
    ]),
    Text("Then route alerts to it under Notification policies. A group of alerts is one incident."),
];

const PAGERDUTY: &[Part] = &[
    Text("In PagerDuty, under Integrations, Generic Webhooks (v3): New Webhook."),
    Fields(&[
        ("Webhook URL", ADDRESS),
        (
            "Scope",
            "The account, a team or the services whose incidents matter.",
        ),
        (
            "Event Subscription",
            "The events of incidents; notes and responders are ignored.",
        ),
    ]),
    Text(
        "PagerDuty then shows the secret of the webhook, once: enter it in the settings below, \
         instead of YOUR-SECRET.",
    ),
];

const DATADOG: &[Part] = &[
    Text("In Datadog, under Integrations, Webhooks: New Webhook."),
    Fields(&[
        ("Name", "changes"),
        ("URL", ADDRESS),
        ("Encode as form", "Not checked."),
    ]),
    Paste(
        "Payload",
        r#"{
  "cycle": "$ALERT_CYCLE_KEY",
  "monitor": "$ALERT_ID",
  "transition": "$ALERT_TRANSITION",
  "type": "$ALERT_TYPE",
  "priority": "$ALERT_PRIORITY",
  "title": "$ALERT_TITLE",
  "tags": "$TAGS",
  "link": "$LINK",
  "date": "$DATE"
}
"#,
    ),
    Paste(
        "Custom headers, if this source has a secret",
        r#"{"Authorization": "YOUR-SECRET"}
"#,
    ),
    Text("Then add @webhook-changes to the message of the monitors."),
];

const CLOUDWATCH: &[Part] = &[
    Text("Create a topic of SNS with a subscription, and let alarms notify it."),
    Paste(
        "In a terminal",
        r"aws sns create-topic --name changes
aws sns subscribe --topic-arn TOPIC-ARN --protocol https --notification-endpoint ADDRESS
aws cloudwatch put-metric-alarm --alarm-name NAME … \
  --alarm-actions TOPIC-ARN --ok-actions TOPIC-ARN
",
    ),
    Text(
        "SNS asks for a confirmation: its link appears on this page, and an admin opens it. The \
         alarm must notify for OK as well, or its incident stays open.",
    ),
];

const SENTRY: &[Part] = &[
    Text("In Sentry, under Settings, Custom Integrations: Create New Integration, Internal."),
    Fields(&[
        ("Webhook URL", ADDRESS),
        ("Alert Rule Action", "On"),
        ("Permissions", "Issue & Event: Read"),
        ("Webhooks", "issue"),
    ]),
    Text(
        "Enter the client secret of the integration in the settings below, instead of \
         YOUR-SECRET. Then choose the integration as the action of issue alerts and metric alerts.",
    ),
];

const GENERIC_ALERT: &[Part] = &[
    Text(
        "Let a program post JSON to the address when an alert fires and when it is resolved. If \
         this source has a secret, it is sent as well:",
    ),
    Paste(
        "In a terminal",
        r#"curl ADDRESS \
  -H 'Authorization: YOUR-SECRET' \
  -H 'Content-Type: application/json' \
  -d '{"title": "Checkout is down", "status": "firing", "service": "checkout"}'
"#,
    ),
    Text(
        "Without templates, only a title is looked for, and each request is an alert that fires. \
         The templates in the settings below fill the rest, for example {{ status }} for the \
         status.",
    ),
];

const SLACK_COMMAND: &[Part] = &[
    Text(
        "At api.slack.com/apps, make an app for the workspace, or open one. Its Signing Secret is \
         under Basic Information, App Credentials: enter it as the secret of this source.",
    ),
    Text("Under Slash Commands: Create New Command."),
    Fields(&[
        ("Command", "/changes"),
        ("Request URL", ADDRESS),
        (
            "Short Description",
            "What changed, and what may have broken it",
        ),
        ("Usage Hint", "[TIME] [SERVICE] | log TITLE"),
    ]),
    Text(
        "Under Interactivity & Shortcuts, turn Interactivity on, so that an answer can be shown to \
         the channel.",
    ),
    Fields(&[("Request URL", ADDRESS), ("Signing secret, here", SECRET)]),
    Text("Install the app to the workspace, and enter /changes in a channel."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_guide_with_the_address() {
        for kind in SourceKind::ALL {
            let steps = steps(kind, "https://log.example/api/ingest/x/y", "s3cret");
            let text: Vec<String> = steps
                .into_iter()
                .flat_map(|step| match step {
                    Step::Text(text) | Step::Paste { text, .. } => vec![text],
                    Step::Fields(fields) => fields.into_iter().map(|(_, value)| value).collect(),
                })
                .collect();
            let text = text.join("\n");
            assert!(
                text.contains("https://log.example/api/ingest/x/y"),
                "{kind}"
            );
            assert!(!text.contains(ADDRESS) && !text.contains(SECRET), "{kind}");
            assert_eq!(
                text.contains("s3cret"),
                changelog_sources::takes_secret(kind),
                "{kind}: {text}"
            );
        }
    }
}
