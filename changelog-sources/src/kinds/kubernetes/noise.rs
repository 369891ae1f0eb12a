//! The requests to Kubernetes that are no changes.

use serde_json::Value;

use super::{SERVICE_ACCOUNT, Target};
use crate::json::{list, text};
use crate::kinds::calls::{NoCall, Who, ignored};
use crate::observation::Tool;

/// Sorts out what changed nothing, whatever it was about.
pub(super) fn ignore_failures(event: &Value, uri: &str) -> Result<(), NoCall> {
    let code = text(event, "/responseStatus/code").and_then(|code| code.parse::<u16>().ok());
    if code.is_some_and(|code| code >= 300) {
        return ignored("requests that failed are no changes");
    }
    let dry_run = list(event, "/requestObject/dryRun");
    if uri.contains("dryRun=") || !dry_run.is_empty() {
        return ignored("dry runs are no changes");
    }
    Ok(())
}

/// Sorts out requests by what they were for and who made them.
pub(in crate::kinds) fn ignore_noise(
    verb: &str,
    target: &Target,
    (user, agent): (&str, &str),
    who: &Who,
    tool: &Tool,
) -> Result<(), NoCall> {
    if !matches!(
        verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    ) {
        return ignored("requests that only read are no changes");
    }
    if target.resource.is_empty() {
        return ignored("requests for no resource are no changes");
    }
    if matches!(
        target.resource.as_str(),
        "leases" | "events" | "endpoints" | "endpointslices"
    ) {
        return ignored(format!("{} are no changes", target.resource));
    }
    if target.resource.ends_with("reviews") || target.subresource == "token" {
        return ignored("tokens and reviews of access are no changes");
    }
    if matches!(
        target.subresource.as_str(),
        "status" | "binding" | "proxy" | "portforward" | "log" | "attach"
    ) {
        return ignored(format!(
            "requests for {} are no changes",
            target.subresource
        ));
    }
    if is_part_of_cluster(user) || *tool == Tool::Other && is_controller(user, agent) {
        return ignored("what controllers write for themselves is no change");
    }
    let is_made_by_controllers = matches!(
        target.resource.as_str(),
        "pods" | "replicasets" | "controllerrevisions"
    ) || target.is_custom();
    if target.is_of_automation() && !who.is_person && matches!(tool, Tool::Automation(_)) {
        return ignored("what controllers write for themselves is no change");
    }
    if is_made_by_controllers && !who.is_person && *tool == Tool::Other {
        return ignored("pods and custom resources that controllers write are no changes");
    }
    Ok(())
}

/// Returns whether a user is a part of the cluster itself.
fn is_part_of_cluster(user: &str) -> bool {
    const NAMESPACES: [&str; 10] = [
        "amazon-",
        "azure-",
        "calico-",
        "cattle-",
        "gke-",
        "gmp-",
        "istio-",
        "kube-",
        "openshift-",
        "tigera-",
    ];
    if let Some(account) = user.strip_prefix(SERVICE_ACCOUNT) {
        return NAMESPACES.iter().any(|start| account.starts_with(start));
    }
    // The first is the admin of some distributions; nobody knows who the other one is.
    let is_part = !matches!(user, "system:admin" | "system:anonymous");
    is_part && user.starts_with("system:")
        || user.starts_with("eks:")
        || matches!(
            user,
            "acsService" | "aksService" | "hcpService" | "kube-apiserver" | "nodeclient"
        )
}

/// Returns whether a service account is that of a controller, and not of a pipeline: by its
/// name, or by a user agent such as `manager/v0.0.0 (linux/amd64) kubernetes/$Format`, which
/// programs with the libraries of Kubernetes have that set none of their own.
fn is_controller(user: &str, agent: &str) -> bool {
    const WORDS: [&str; 9] = [
        "autoscaler",
        "cainjector",
        "controller",
        "injector",
        "leader",
        "operator",
        "provisioner",
        "scheduler",
        "webhook",
    ];
    let Some(account) = user.strip_prefix(SERVICE_ACCOUNT) else {
        return false;
    };
    let has_word = |text: &str| {
        let mut words = text.split(|letter: char| !letter.is_alphanumeric());
        words.any(|word| WORDS.contains(&word))
    };
    agent.contains("kubernetes/$Format") || has_word(account) || has_word(&agent.to_lowercase())
}
