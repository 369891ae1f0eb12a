//! The kinds of sources, as people choose them.

use changelog_core::SourceKind;

/// A kind of source.
pub(super) struct OfferedKind {
    pub(super) kind: SourceKind,
    /// What it is called.
    pub(super) label: &'static str,
    /// What becomes a change.
    pub(super) sentence: &'static str,
}

impl OfferedKind {
    const fn new(kind: SourceKind, label: &'static str, sentence: &'static str) -> Self {
        Self {
            kind,
            label,
            sentence,
        }
    }

    /// Returns whether its sender can prove its requests by a secret.
    pub(super) fn takes_secret(&self) -> bool {
        changelog_sources::takes_secret(&self.kind)
    }

    /// Returns whether its sender must do so.
    pub(super) fn is_signed(&self) -> bool {
        changelog_sources::is_signed(&self.kind)
    }

    /// Returns whether a source lacks the secret that it must have.
    pub(super) fn lacks_secret(&self, has_secret: bool) -> bool {
        changelog_sources::lacks_secret(&self.kind, has_secret)
    }

    /// Returns whether its changes or incidents are made by templates.
    pub(super) fn has_templates(&self) -> bool {
        matches!(self.kind, SourceKind::Generic | SourceKind::GenericAlert)
    }

    /// Returns whether its requests are alerts, which open and resolve incidents.
    pub(super) fn is_of_alerts(&self) -> bool {
        self.kind.is_of_alerts()
    }

    /// Returns whether labels of its alerts name services and environments.
    pub(super) fn has_labels(&self) -> bool {
        !matches!(self.kind, SourceKind::GenericAlert | SourceKind::Pagerduty)
            && self.is_of_alerts()
    }

    /// Returns whether an admin names the workflows that deploy.
    pub(super) fn has_workflows(&self) -> bool {
        matches!(self.kind, SourceKind::Github | SourceKind::Cdevents)
    }
}

/// Kinds that are offered together.
pub(super) struct Group {
    pub(super) label: &'static str,
    pub(super) kinds: &'static [OfferedKind],
}

/// In the order in which they are offered.
pub(super) static GROUPS: [Group; 6] = [
    Group {
        label: "Deployments",
        kinds: &[
            OfferedKind::new(
                SourceKind::Github,
                "GitHub",
                "Deployments, releases and runs of workflows.",
            ),
            OfferedKind::new(
                SourceKind::Gitlab,
                "GitLab",
                "Deployments, releases and feature flags.",
            ),
            OfferedKind::new(
                SourceKind::Argocd,
                "Argo CD",
                "Syncs of applications, and applications that are degraded.",
            ),
            OfferedKind::new(
                SourceKind::Flux,
                "Flux",
                "Reconciliations of Kustomizations and Helm releases.",
            ),
            OfferedKind::new(
                SourceKind::TerraformCloud,
                "HCP Terraform",
                "Runs from the plan to the end, also of Terraform Enterprise.",
            ),
            OfferedKind::new(
                SourceKind::Cdevents,
                "CDEvents",
                "Deployments and environments from any sender of CloudEvents.",
            ),
        ],
    },
    Group {
        label: "Clouds",
        kinds: &[
            OfferedKind::new(
                SourceKind::Cloudtrail,
                "AWS CloudTrail",
                "What people and tools change in AWS accounts.",
            ),
            OfferedKind::new(
                SourceKind::Azure,
                "Azure activity log",
                "What people and tools change in Azure subscriptions.",
            ),
            OfferedKind::new(
                SourceKind::Gcp,
                "Google Cloud audit logs",
                "What people and tools change in projects of Google Cloud.",
            ),
            OfferedKind::new(
                SourceKind::Kubernetes,
                "Kubernetes audit log",
                "What people and tools change in a cluster.",
            ),
        ],
    },
    Group {
        label: "Feature flags",
        kinds: &[
            OfferedKind::new(
                SourceKind::Launchdarkly,
                "LaunchDarkly",
                "Flags and segments that serve something else than before.",
            ),
            OfferedKind::new(
                SourceKind::Unleash,
                "Unleash",
                "Flags and segments that serve something else than before.",
            ),
        ],
    },
    Group {
        label: "Alerts",
        kinds: &[
            OfferedKind::new(
                SourceKind::Alertmanager,
                "Alertmanager",
                "Groups of alerts of Prometheus become incidents.",
            ),
            OfferedKind::new(
                SourceKind::Grafana,
                "Grafana Alerting",
                "Groups of alerts become incidents.",
            ),
            OfferedKind::new(
                SourceKind::Pagerduty,
                "PagerDuty",
                "Incidents from the trigger to the resolution.",
            ),
            OfferedKind::new(
                SourceKind::Datadog,
                "Datadog",
                "Monitors that alert and recover become incidents.",
            ),
            OfferedKind::new(
                SourceKind::Cloudwatch,
                "Amazon CloudWatch",
                "Alarms, through SNS, become incidents.",
            ),
            OfferedKind::new(
                SourceKind::Sentry,
                "Sentry",
                "Issue alerts and metric alerts become incidents.",
            ),
        ],
    },
    Group {
        label: "Anything else",
        kinds: &[
            OfferedKind::new(
                SourceKind::Generic,
                "Any JSON",
                "Templates of yours make changes of the JSON that a program sends.",
            ),
            OfferedKind::new(
                SourceKind::GenericAlert,
                "Alerts as any JSON",
                "Templates of yours make incidents of the JSON that a program sends.",
            ),
        ],
    },
    Group {
        label: "Commands",
        kinds: &[OfferedKind::new(
            SourceKind::SlackCommand,
            "Slack command",
            "Answers /changes with what may have broken a service, and records changes.",
        )],
    },
];

/// Finds a kind; `None` for one that this version does not know.
pub(super) fn kind_of(word: &str) -> Option<&'static OfferedKind> {
    let mut kinds = GROUPS.iter().flat_map(|group| group.kinds);
    kinds.find(|one| one.kind.as_str() == word)
}

/// Returns what a kind is called.
pub(super) fn label(kind: &SourceKind) -> &str {
    kind_of(kind.as_str()).map_or(kind.as_str(), |kind| kind.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_offered() {
        for word in SourceKind::WORDS {
            assert!(kind_of(word).is_some(), "{word}");
        }
    }
}
