//! Sources: other systems that send what changes, at an address of their own.

use serde::{Deserialize, Serialize};

use crate::ids::SourceId;
use crate::wire_enum::wire_enum;

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
    }
}

/// The source that a change comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRef {
    /// The id.
    pub id: SourceId,
    /// What sends to it.
    pub kind: SourceKind,
    /// The name that the source had when the change was recorded.
    pub name: String,
}
