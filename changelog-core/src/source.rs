//! Sources: other systems that send what changes, at an address of their own.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::change::RiskLevel;
use crate::host::Environment;
use crate::ids::SourceId;
use crate::input::{Input, ObjectReader};
use crate::limits::{MAX_NAME_CHARS, MAX_TOKEN_CHARS};
use crate::problem::{BadValue, Violations};
use crate::rules::{self, TextKind};
use crate::time::Timestamp;
use crate::wire_enum::wire_enum;

/// The limit on the rules of a source for environments, and on its workflows.
const MAX_RULES: usize = 100;
/// The limit on the labels that name a service or an environment.
const MAX_LABELS: usize = 20;
/// The limit on a template, in characters.
const MAX_TEMPLATE_CHARS: usize = 2_000;

wire_enum! {
    /// What sends to a source, which decides how its requests are verified and read.
    SourceKind, "a kind of source", example "github" {
        /// GitHub webhooks: deployments and releases.
        Github = "github",
        /// GitLab webhooks: deployments, releases and feature flags.
        Gitlab = "gitlab",
        /// CDEvents in CloudEvents, version 0.4 and 0.5.
        Cdevents = "cdevents",
        /// Notifications of HCP Terraform and Terraform Enterprise.
        TerraformCloud = "terraform-cloud",
        /// Argo CD notifications, by a template of ours.
        Argocd = "argocd",
        /// Flux notifications.
        Flux = "flux",
        /// The audit webhook of Kubernetes.
        Kubernetes = "kubernetes",
        /// AWS CloudTrail, through EventBridge or SNS.
        Cloudtrail = "cloudtrail",
        /// The Azure activity log, through Event Grid, alerts or a diagnostic export.
        Azure = "azure",
        /// Google Cloud audit logs, through Pub/Sub.
        Gcp = "gcp",
        /// LaunchDarkly webhooks.
        Launchdarkly = "launchdarkly",
        /// Unleash webhooks.
        Unleash = "unleash",
        /// Any JSON, by templates of the source.
        Generic = "generic",
        /// Alerts of Prometheus Alertmanager.
        Alertmanager = "alertmanager",
        /// Alerts of Grafana.
        Grafana = "grafana",
        /// Incidents of PagerDuty, webhooks version 3.
        Pagerduty = "pagerduty",
        /// Monitors of Datadog, by a template of ours.
        Datadog = "datadog",
        /// Alarms of Amazon CloudWatch, through SNS.
        Cloudwatch = "cloudwatch",
        /// Alerts and issues of Sentry.
        Sentry = "sentry",
        /// Alerts as any JSON, by templates of the source.
        GenericAlert = "generic-alert",
        /// Slash commands of Slack, which are answered.
        SlackCommand = "slack-command",
    }
}

impl SourceKind {
    /// Returns whether its requests are alerts, which open and resolve incidents; the others
    /// tell of changes.
    pub fn is_of_alerts(&self) -> bool {
        matches!(
            self,
            Self::Alertmanager
                | Self::Grafana
                | Self::Pagerduty
                | Self::Datadog
                | Self::Cloudwatch
                | Self::Sentry
                | Self::GenericAlert
        )
    }

    /// Returns whether its requests tell of changes that happen without it, rather than of
    /// alerts or of what people ask for.
    pub fn tells_of_changes(&self) -> bool {
        !self.is_of_alerts() && *self != Self::SlackCommand
    }

    /// Returns whether its changes come by themselves, so that it can be missed when it is
    /// silent.
    pub fn has_rhythm(&self) -> bool {
        self.tells_of_changes()
    }
}

/// How the requests of a source are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSettings {
    /// The service of changes and incidents for which the sender names none.
    pub service: Option<String>,
    /// The environment of changes and incidents for which the sender names none.
    pub environment: Option<Environment>,
    /// Whether services that the sender names are created when they are missing, and hosts
    /// that the templates of a generic source name.
    pub create_missing: bool,
    /// The environment of an account, cluster, namespace, branch or environment of the
    /// sender, by its name without regard to case.
    pub environments: BTreeMap<String, Environment>,
    /// The names of the workflows of GitHub Actions and of the pipelines of CDEvents that
    /// deploy.
    pub workflows: Vec<String>,
    /// The risk of a change.
    pub risk: RiskRules,
    /// How the JSON of a generic source is read.
    pub generic: GenericTemplates,
    /// How the JSON of a generic source of alerts is read.
    pub alert: AlertTemplates,
    /// The labels or tags of an alert that name its service, the first one that it has; those
    /// of [`SERVICE_LABELS`] if empty.
    pub service_labels: Vec<String>,
    /// The labels or tags of an alert that name its environment; those of
    /// [`ENVIRONMENT_LABELS`] if empty.
    pub environment_labels: Vec<String>,
}

/// The labels of an alert that name its service, unless the source has others.
pub const SERVICE_LABELS: &[&str] = &[
    "service",
    "service_name",
    "app",
    "application",
    "app_kubernetes_io_name",
    "component",
    "job",
];
/// The labels of an alert that name its environment, unless the source has others.
pub const ENVIRONMENT_LABELS: &[&str] = &[
    "environment",
    "env",
    "deployment_environment",
    "stage",
    "namespace",
    "cluster",
];

/// The risk of a change: the greatest of those that apply, or else low.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RiskRules {
    /// Of what deletes.
    pub deletes: RiskLevel,
    /// Of what failed.
    pub failures: RiskLevel,
    /// In production.
    pub production: RiskLevel,
}

impl Default for RiskRules {
    fn default() -> Self {
        Self {
            deletes: RiskLevel::High,
            failures: RiskLevel::High,
            production: RiskLevel::Medium,
        }
    }
}

/// Defines the templates of a generic source, and how they are read.
macro_rules! templates {
    ($(#[$of:meta])* $templates:ident $member:literal {
        $( $(#[$doc:meta])* $name:ident, )+
    }) => {
        $(#[$of])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $templates {
            $( $(#[$doc])* pub $name: String, )+
        }

        impl $templates {
            /// The names of the templates.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name) ),+];

            /// Returns the templates with their names.
            pub fn pairs(&self) -> Vec<(&'static str, &str)> {
                vec![$( (stringify!($name), self.$name.as_str()) ),+]
            }

            fn read(object: &mut ObjectReader<'_>) -> Self {
                Self { $( $name: object.string(stringify!($name)).unwrap_or_default(), )+ }
            }

            fn check(&mut self, problems: &mut Violations) {
                $(
                    let pointer = concat!("/", $member, "/", stringify!($name));
                    let chars = 0..=MAX_TEMPLATE_CHARS;
                    rules::text(problems, pointer, &mut self.$name, chars, TextKind::MultiLine);
                )+
            }
        }
    };
}

templates! {
    /// Templates for the fields of a change, in the language of Jinja, over the JSON
    /// body: for example `{{ deployment.service }} {{ deployment.version }}`. What is
    /// empty after rendering is not set.
    GenericTemplates "templates" {
        /// A JSON pointer to a list, such as `/events`, of which every element is one change;
        /// the other templates are then over the element. The whole body if empty.
        each,
        /// What is ignored: if this renders to `true`.
        ignore,
        /// What tells one change from another; the id of the request if empty.
        key,
        /// The title, required.
        title,
        /// The description, in Markdown.
        description,
        /// `planned`, `in_progress`, `completed` or `failed`, or the sender's own word for one
        /// of them; `completed` if empty.
        status,
        /// When that status was reached, as RFC 3339 or seconds or milliseconds since 1970.
        at,
        /// The name of a service.
        service,
        /// The name of a host.
        host,
        /// The sender's word for the environment.
        environment,
        /// The person who did it.
        person,
        /// A URL.
        link,
        /// A commit.
        commit,
    }
}

templates! {
    /// Templates for the fields of an alert, as [`GenericTemplates`] are for changes.
    AlertTemplates "alert_templates" {
        /// A JSON pointer to a list, such as `/alerts`, of which every element is one alert;
        /// the other templates are then over the element. The whole body if empty.
        each,
        /// What is ignored: if this renders to `true`.
        ignore,
        /// What tells one alert from another, the same when it fires and when it is resolved;
        /// the title if empty.
        key,
        /// The title, required.
        title,
        /// `firing` or `resolved`, or the sender's own word for one of them; `firing` if empty.
        status,
        /// `critical`, `warning` or `info`, or the sender's own word for one of them;
        /// `warning` if empty.
        severity,
        /// When that status was reached, as RFC 3339 or seconds or milliseconds since 1970.
        at,
        /// When the alert began to fire, if the sender says so in each request.
        started_at,
        /// The name of a service.
        service,
        /// The sender's word for the environment.
        environment,
        /// A URL.
        link,
    }
}

/// Input for making a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSource {
    /// What sends to it.
    pub kind: SourceKind,
    /// A name, unique in the organization without regard to case.
    pub name: String,
    /// By which the sender proves its requests.
    pub secret: Option<String>,
    /// How its requests are read.
    pub settings: SourceSettings,
}

/// Input for changing a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePatch {
    /// The name.
    pub name: String,
    /// The new secret; the present one stays without it.
    pub secret: Option<String>,
    /// How its requests are read.
    pub settings: SourceSettings,
}

impl Input for NewSource {
    const FIELDS: &'static [&'static str] = &[
        "kind",
        "name",
        "secret",
        "service",
        "environment",
        "create_missing",
        "environments",
        "workflows",
        "risk_deletes",
        "risk_failures",
        "risk_production",
        "templates",
        "alert_templates",
        "service_labels",
        "environment_labels",
    ];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        let kind: Option<SourceKind> = object.parsed("kind");
        let SourcePatch {
            name,
            secret,
            settings,
        } = SourcePatch::read_shared(object);
        Self {
            kind: kind.unwrap_or(SourceKind::Unknown("".into())),
            name,
            secret,
            settings,
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check(
            problems,
            &mut self.name,
            &mut self.secret,
            &mut self.settings,
        );
    }
}

impl Input for SourcePatch {
    const FIELDS: &'static [&'static str] = NewSource::FIELDS;

    fn read(object: &mut ObjectReader<'_>) -> Self {
        object.refuse_immutable("kind", "cannot be changed; make another source");
        Self::read_shared(object)
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check(
            problems,
            &mut self.name,
            &mut self.secret,
            &mut self.settings,
        );
    }
}

impl SourcePatch {
    fn read_shared(object: &mut ObjectReader<'_>) -> Self {
        let risk = RiskRules::default();
        let rules = object
            .parsed_list("environments", MAX_RULES)
            .unwrap_or_default();
        Self {
            name: object.required_string("name"),
            secret: object.string("secret"),
            settings: SourceSettings {
                service: object.string("service"),
                environment: object.parsed("environment"),
                create_missing: object.boolean("create_missing").unwrap_or_default(),
                environments: rules
                    .into_iter()
                    .map(|EnvironmentRule(name, of)| (name, of))
                    .collect(),
                workflows: object.strings("workflows", MAX_RULES).unwrap_or_default(),
                risk: RiskRules {
                    deletes: object.parsed("risk_deletes").unwrap_or(risk.deletes),
                    failures: object.parsed("risk_failures").unwrap_or(risk.failures),
                    production: object.parsed("risk_production").unwrap_or(risk.production),
                },
                generic: object
                    .object("templates", GenericTemplates::NAMES, GenericTemplates::read)
                    .unwrap_or_default(),
                alert: object
                    .object(
                        "alert_templates",
                        AlertTemplates::NAMES,
                        AlertTemplates::read,
                    )
                    .unwrap_or_default(),
                service_labels: labels(object, "service_labels"),
                environment_labels: labels(object, "environment_labels"),
            },
        }
    }
}

fn labels(object: &mut ObjectReader<'_>, name: &str) -> Vec<String> {
    object.strings(name, MAX_LABELS).unwrap_or_default()
}

/// The environment of a name, written `payments-eu=prod`.
struct EnvironmentRule(String, Environment);

impl FromStr for EnvironmentRule {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .rsplit_once('=')
            .filter(|(name, _)| !name.trim().is_empty());
        let (name, environment) = parts.ok_or_else(|| {
            let given = rules::quoted(text);
            BadValue::format(format!(
                "must be NAME=ENVIRONMENT such as payments-eu=prod, got {given}"
            ))
        })?;
        Ok(Self(name.trim().to_owned(), environment.trim().parse()?))
    }
}

fn check(
    problems: &mut Violations,
    name: &mut String,
    secret: &mut Option<String>,
    settings: &mut SourceSettings,
) {
    rules::text(problems, "/name", name, 1..=MAX_NAME_CHARS, TextKind::Name);
    let line = TextKind::Line;
    rules::optional_text(problems, "/secret", secret, MAX_TOKEN_CHARS, line);
    rules::optional_text(
        problems,
        "/service",
        &mut settings.service,
        MAX_NAME_CHARS,
        TextKind::Key,
    );
    for absent in [secret, &mut settings.service] {
        if absent.as_ref().is_some_and(String::is_empty) {
            *absent = None;
        }
    }
    rules::names(
        problems,
        "/workflows",
        &mut settings.workflows,
        MAX_RULES,
        line,
    );
    for (pointer, labels) in [
        ("/service_labels", &mut settings.service_labels),
        ("/environment_labels", &mut settings.environment_labels),
    ] {
        rules::names(problems, pointer, labels, MAX_LABELS, line);
    }
    settings.generic.check(problems);
    settings.alert.check(problems);
}

/// The source that told of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceRef {
    /// The id.
    pub id: SourceId,
    /// What sends to it.
    pub kind: SourceKind,
    /// The name that the source had when the change was recorded.
    pub name: String,
}
