//! What a request to Kubernetes is for, and the words for it.

use crate::kinds::calls::{sentence, singular};

/// What a request was for.
pub(in crate::kinds) struct Target {
    pub(in crate::kinds) group: String,
    /// The plural in lower case.
    pub(in crate::kinds) resource: String,
    pub(in crate::kinds) subresource: String,
}

impl Target {
    /// Returns what one of it is called: `deployment`, `config map`.
    pub(in crate::kinds) fn noun(&self) -> String {
        const COMPOUNDS: [(&str, &str); 22] = [
            ("certificatesigningrequests", "certificate signing request"),
            ("clusterrolebindings", "cluster role binding"),
            ("clusterroles", "cluster role"),
            ("apiservices", "API service"),
            ("configmaps", "config map"),
            ("cronjobs", "cron job"),
            ("customresourcedefinitions", "custom resource definition"),
            ("daemonsets", "daemon set"),
            ("horizontalpodautoscalers", "horizontal pod autoscaler"),
            ("ingressclasses", "ingress class"),
            (
                "mutatingwebhookconfigurations",
                "mutating webhook configuration",
            ),
            ("networkpolicies", "network policy"),
            ("persistentvolumeclaims", "persistent volume claim"),
            ("persistentvolumes", "persistent volume"),
            ("poddisruptionbudgets", "pod disruption budget"),
            ("priorityclasses", "priority class"),
            ("resourcequotas", "resource quota"),
            ("rolebindings", "role binding"),
            ("serviceaccounts", "service account"),
            ("statefulsets", "stateful set"),
            ("storageclasses", "storage class"),
            (
                "validatingwebhookconfigurations",
                "validating webhook configuration",
            ),
        ];
        let compound = COMPOUNDS
            .iter()
            .find(|(plural, _)| *plural == self.resource);
        compound.map_or_else(|| singular(&self.resource), |(_, noun)| (*noun).to_owned())
    }

    /// Returns what was done to one of it.
    pub(in crate::kinds) fn what(&self, verb: &str) -> String {
        let noun = self.noun();
        match (self.subresource.as_str(), verb) {
            ("scale", _) => format!("Scale {noun}"),
            ("exec", _) => format!("Run a command in {noun}"),
            ("eviction", _) => format!("Evict {noun}"),
            ("approval", _) => format!("Approve {noun}"),
            (_, "patch") => format!("Update {noun}"),
            (_, "deletecollection") => format!("Delete every {noun}"),
            _ => format!("{} {noun}", sentence(verb)),
        }
    }

    /// Returns the words for a line: `patch deployments/scale`.
    pub(in crate::kinds) fn method(&self, verb: &str) -> String {
        match self.subresource.as_str() {
            "" => format!("{verb} {}", self.resource),
            subresource => format!("{verb} {}/{subresource}", self.resource),
        }
    }

    /// Returns its API group, by which sessions are summed up.
    pub(in crate::kinds) fn area(&self) -> String {
        match self.group.as_str() {
            "" => "core".to_owned(),
            group => group.split('.').next().unwrap_or_default().to_owned(),
        }
    }

    /// Returns whether it runs a service.
    pub(in crate::kinds) fn is_workload(&self) -> bool {
        matches!(
            self.resource.as_str(),
            "deployments" | "statefulsets" | "daemonsets" | "cronjobs"
        )
    }

    /// Returns whether Argo CD or Flux keep in it what they are doing.
    pub(super) fn is_of_automation(&self) -> bool {
        let kinds = ["applications", "applicationsets", "appprojects"];
        self.group.ends_with(".fluxcd.io")
            || self.group == "argoproj.io" && kinds.contains(&self.resource.as_str())
    }

    /// Returns whether its kind was added to the cluster.
    pub(super) fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }
}
