//! The audit webhook of Kubernetes: <https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/>.
//!
//! A request to the API that wrote and succeeded is a call, once it is complete. What
//! controllers write for themselves, leases, events, tokens, statuses and dry runs are no
//! changes. Objects are never looked into, but for their names.

mod noise;
mod target;

use serde_json::{Value, json};

use self::noise::ignore_failures;
pub(super) use self::noise::ignore_noise;
pub(super) use self::target::Target;
use super::calls::{
    NoCall, Told, Who, deletes, digest_of, events_in, ignored, logged, read_each, tool_of,
    unreadable, values,
};
use super::{Kind, gcp};
use crate::json::{parse, text, time};
use crate::observation::{Call, CallProgress, Reading, Tool, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

/// The stage at which a request has been answered.
const COMPLETE: &str = "ResponseComplete";

pub(super) const KIND: Kind = Kind::new(read);

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let values = values(received.body)?.into_iter();
    let events: Vec<Value> = values
        .flat_map(|value| match of_eks(&value) {
            Some(events) => events,
            None => events_in(value, &["items", "records"]),
        })
        .collect();
    read_each(&events, |event| audit_event(event, received))
}

/// Returns the events that EKS has logged to CloudWatch, each wrapped as AKS does.
fn of_eks(value: &Value) -> Option<Vec<Value>> {
    // `/aws/eks/NAME/cluster`
    let group = text(value, "/logGroup").unwrap_or_default();
    let cluster = group.trim_end_matches("/cluster");
    let events = logged(value)?.into_iter();
    let wrap = |event| json!({ "resourceId": cluster, "properties": { "log": event } });
    Some(events.map(wrap).collect())
}

/// Reads an event, or what wraps it: the record of an export of AKS, or the entry of a log of
/// Google Cloud.
pub(super) fn audit_event(event: &Value, received: &Received<'_>) -> Result<Call, NoCall> {
    if event.get("protoPayload").is_some() {
        return gcp::entry(event, received);
    }
    let cluster =
        text(event, "/resourceId").and_then(|id| Some(id.rsplit_once('/')?.1.to_lowercase()));
    match event.pointer("/properties/log") {
        Some(Value::String(log)) => match parse(log.as_bytes()) {
            Ok(event) => request(&event, cluster, received),
            Err(Unreadable(reason)) => Err(unreadable(reason)),
        },
        Some(event) => request(event, cluster, received),
        None => request(event, None, received),
    }
}

/// Reads a request to the API.
fn request(
    event: &Value,
    cluster: Option<String>,
    received: &Received<'_>,
) -> Result<Call, NoCall> {
    let of = |pointer: &str| text(event, pointer);
    // Collectors may leave out the stage: a request with a response is complete.
    let answered = of("/responseStatus/code").map(|_| COMPLETE.to_owned());
    let (Some(verb), Some(stage)) = (of("/verb"), of("/stage").or(answered)) else {
        return Err(unreadable(
            "expected events of audit.k8s.io, with a verb and a stage",
        ));
    };
    if stage != COMPLETE {
        return ignored(format!(
            "requests are changes once complete, not at {stage}"
        ));
    }
    let target = Target {
        group: of("/objectRef/apiGroup").unwrap_or_default(),
        resource: of("/objectRef/resource").unwrap_or_default(),
        subresource: of("/objectRef/subresource").unwrap_or_default(),
    };
    let uri = of("/requestURI").unwrap_or_default();
    ignore_failures(event, &uri)?;
    let user = of("/impersonatedUser/username").or_else(|| of("/user/username"));
    let user = user.unwrap_or_default();
    let agent = of("/userAgent").unwrap_or_default();
    let name = of("/objectRef/name")
        .or_else(|| of("/requestObject/metadata/name"))
        .or_else(|| of("/responseObject/metadata/name"));
    let release = name.as_deref().and_then(release);
    let tool = match release {
        Some(_) => Tool::Automation("Helm".to_owned()),
        None => tool(&agent),
    };
    let who = who(&user);
    ignore_noise(&verb, &target, (&user, &agent), &who, &tool)?;
    // A namespace is in itself.
    let is_namespace = target.resource == "namespaces";
    let namespace = of("/objectRef/namespace").filter(|_| !is_namespace);
    let id = of("/auditID").unwrap_or_else(|| digest_of(event));
    let restarts = uri.contains("fieldManager=kubectl-rollout");
    let (what, resource) = match release {
        Some((release, revision)) => (
            helm(&verb).to_owned(),
            Some(format!("{release} (revision {revision})")),
        ),
        None if restarts => (format!("Restart {}", target.noun()), name.clone()),
        None => (target.what(&verb), name.clone()),
    };
    let service = match release {
        Some((release, _)) => Some(release.to_owned()),
        None => resource.clone().filter(|_| target.is_workload()),
    };
    Ok(Told {
        at: time(event, "/requestReceivedTimestamp")
            .or_else(|| time(event, "/stageTimestamp"))
            .unwrap_or(received.at),
        progress: CallProgress::Succeeded,
        // Old revisions are removed by every release.
        deletes: release.is_none() && deletes(&verb),
        place: namespace
            .as_ref()
            .map(|name| format!(" in {name}"))
            .unwrap_or_default(),
        host: None,
        services: service.into_iter().collect(),
        // The name of an object tells nothing: `test-runner` may be in production.
        places: namespace
            .iter()
            .chain(resource.iter().filter(|_| is_namespace))
            .chain(&cluster)
            .cloned()
            .collect(),
        links: Vec::new(),
        scope: cluster.unwrap_or_else(|| "cluster".to_owned()),
        area: target.area(),
        method: target.method(&verb),
        region: namespace,
        who,
        tool,
        what,
        resource,
        id,
    }
    .into())
}

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Returns who a user is.
pub(super) fn who(user: &str) -> Who {
    match user.strip_prefix(SERVICE_ACCOUNT) {
        Some(account) => Who::machine(format!("service account {}", account.replace(':', "/"))),
        // An ARN, or the name that an identity provider adds its address to.
        None => match user
            .rsplit(['/', '#'])
            .next()
            .filter(|name| !name.is_empty())
        {
            Some("system:admin") => Who::person(user),
            Some("system:anonymous") => Who::machine("an anonymous user"),
            None => Who::unknown(),
            Some(name) => Who::named(name.strip_prefix("oidc:").unwrap_or(name)),
        },
    }
}

/// Returns the tool of a user agent.
pub(super) fn tool(agent: &str) -> Tool {
    tool_of(agent, ("kubectl", &["kubectl"]))
}

/// Returns the name and the revision of the Helm release that a secret or a config map is.
fn release(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("sh.helm.release.v1.")?.rsplit_once(".v")
}

/// Returns what Helm does when it writes the record of a revision.
fn helm(verb: &str) -> &'static str {
    match verb {
        "create" => "Deploy Helm release",
        "update" | "patch" => "Update Helm release",
        _ => "Delete record of Helm release",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{changes_of, reading_of};
    use changelog_core::SourceKind;

    const KIND: SourceKind = SourceKind::Kubernetes;

    fn event(verb: &str, resource: &str, name: &str, user: &str) -> Value {
        let group = match resource {
            "deployments" | "replicasets" => "apps",
            "rollouts" => "argoproj.io",
            _ => "",
        };
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
            "auditID": format!("{verb}-{resource}-{name}"), "stage": "ResponseComplete",
            "requestURI": "/apis/x?fieldManager=kubectl-client-side-apply", "verb": verb,
            "user": { "username": user, "groups": ["system:authenticated"] },
            "userAgent": "kubectl/v1.31.0 (linux/amd64)",
            "objectRef": { "resource": resource, "namespace": "shop-prod", "name": name, "apiGroup": group },
            "responseStatus": { "code": 200 },
            "requestObject": { "metadata": { "name": name, "annotations": { "a": "hunter2" } }, "data": { "k": "hunter2" } },
            "annotations": { "a": "hunter2" },
            "requestReceivedTimestamp": "2026-11-20T10:00:00.000000Z",
        })
    }

    fn changes_in(events: &[Value]) -> Vec<crate::ObservedChange> {
        let body = json!({ "kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": events });
        let request = (vec![], body.to_string());
        let changes = changes_of(&KIND, &Settings::default(), &[request.clone(), request]);
        assert!(!format!("{changes:?}").contains("hunter2"));
        changes
    }

    #[test]
    fn one_kubectl_apply_is_one_change() {
        let changes = changes_in(&[
            event("patch", "deployments", "payments", "ada"),
            event("create", "configmaps", "settings", "ada"),
            json!("nothing"),
        ]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].services, ["payments"]);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "kubectl by ada: 2 calls, apps and core",
                "description": "- `patch deployments payments (shop-prod)`\n- `create configmaps settings (shop-prod)`",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:00.000Z",
                "started_at": "2026-11-20T10:00:00.000Z",
                "ended_at": "2026-11-20T10:00:00.000Z",
                "environment": "prod", "on_behalf_of": "ada",
                "tags": ["kubernetes", "by-hand"], "links": [],
            })
        );
    }

    #[test]
    fn titles_tell_who_did_what_with_what() {
        let with = |event: Value, pointer: &str, value: &str| {
            let mut event = event;
            if let Some((parent, name)) = pointer.rsplit_once('/') {
                event.pointer_mut(parent).unwrap()[name] = value.into();
            }
            event
        };
        let scale = event("patch", "deployments", "payments", "ada");
        for (event, title) in [
            (
                event(
                    "deletecollection",
                    "configmaps",
                    "",
                    "arn:aws:iam::1:user/ada",
                ),
                "Delete every config map in shop-prod by ada via kubectl",
            ),
            (
                with(scale.clone(), "/objectRef/subresource", "scale"),
                "Scale deployment payments in shop-prod by ada via kubectl",
            ),
            (
                with(
                    scale.clone(),
                    "/requestURI",
                    "/x?fieldManager=kubectl-rollout",
                ),
                "Restart deployment payments in shop-prod by ada via kubectl",
            ),
            (
                with(scale, "/userAgent", "okhttp/4"),
                "Update deployment payments in shop-prod by ada",
            ),
            (
                event(
                    "create",
                    "rollouts",
                    "payments",
                    "system:serviceaccount:ci:deployer",
                ),
                "Create rollout payments in shop-prod by service account ci/deployer via kubectl",
            ),
            (
                event(
                    "delete",
                    "namespaces",
                    "shop",
                    "sso:x@acme.iam.gserviceaccount.com",
                ),
                "Delete namespace shop by sso:x@acme.iam.gserviceaccount.com via kubectl",
            ),
            (
                with(
                    event(
                        "patch",
                        "deployments",
                        "a",
                        "system:serviceaccount:argocd:controller",
                    ),
                    "/userAgent",
                    "argocd-application-controller/v0.0.0 (linux/amd64) kubernetes/$Format",
                ),
                "Update deployment a in shop-prod by service account argocd/controller via Argo CD",
            ),
            (
                event("create", "secrets", "sh.helm.release.v1.shop.v12", "ada"),
                "Deploy Helm release shop (revision 12) in shop-prod by ada via Helm",
            ),
        ] {
            let changes = changes_in(&[event]);
            assert_eq!(changes[0].fields["title"], title);
        }
    }

    #[test]
    fn what_changes_nothing_is_ignored_with_a_reason() {
        let plain = || event("update", "deployments", "payments", "ada");
        let set = |pointer: &str, value: Value| {
            let mut event = plain();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            event.pointer_mut(parent).unwrap()[name] = value;
            event
        };
        let controller = "what controllers write for themselves is no change";
        let tokens = "tokens and reviews of access are no changes";
        let mut operator = event(
            "update",
            "rollouts",
            "payments",
            "system:serviceaccount:argo:rollouts",
        );
        operator["userAgent"] = "okhttp/4".into();
        let by = |account: &str, agent: &str| {
            let user = format!("system:serviceaccount:{account}");
            let mut event = event("update", "configmaps", "a", &user);
            event["userAgent"] = agent.into();
            event
        };
        let mut application = by("argocd:argocd-application-controller", "argocd/v3");
        application["objectRef"]["apiGroup"] = "argoproj.io".into();
        application["objectRef"]["resource"] = "applications".into();
        for (event, reason) in [
            (
                set("/stage", json!("RequestReceived")),
                "requests are changes once complete, not at RequestReceived",
            ),
            (
                set("/responseStatus/code", json!(409)),
                "requests that failed are no changes",
            ),
            (
                set("/requestURI", json!("/x?dryRun=All")),
                "dry runs are no changes",
            ),
            (
                set("/verb", json!("list")),
                "requests that only read are no changes",
            ),
            (
                set("/objectRef/subresource", json!("status")),
                "requests for status are no changes",
            ),
            (
                set("/objectRef", json!({})),
                "requests for no resource are no changes",
            ),
            (
                event("update", "leases", "a", "ada"),
                "leases are no changes",
            ),
            (event("create", "subjectaccessreviews", "", "ada"), tokens),
            (
                event(
                    "update",
                    "deployments",
                    "a",
                    "system:serviceaccount:kube-system:a",
                ),
                controller,
            ),
            (event("update", "nodes", "a", "system:node:a"), controller),
            (by("cert-manager:cert-manager-cainjector", ""), controller),
            (by("web:web", "nginx-ingress-controller/v1"), controller),
            (
                by(
                    "shop:queue",
                    "manager/v0.0.0 (linux/amd64) kubernetes/$Format",
                ),
                controller,
            ),
            (application, controller),
            (
                operator,
                "pods and custom resources that controllers write are no changes",
            ),
        ] {
            let reading = reading_of(&KIND, &Settings::default(), &[], &event.to_string()).unwrap();
            assert_eq!(reading, Reading::ignored(reason));
        }
    }

    #[test]
    fn only_the_namespace_and_the_cluster_tell_the_environment() {
        let mut event = event("create", "pods", "test-runner", "ada");
        event["objectRef"]["namespace"] = "default".into();
        assert_eq!(changes_in(&[event])[0].fields.get("environment"), None);
    }

    #[test]
    fn logs_of_eks_and_gke_are_taken_off() {
        let message = event("delete", "services", "web", "ada").to_string();
        let of_eks = json!({
            "messageType": "DATA_MESSAGE", "logGroup": "/aws/eks/shop-live/cluster",
            "logEvents": [{ "message": message }, { "message": "time=\"10:00\" level=info" }],
        });
        let of_gke = json!({
            "logName": "projects/acme/logs/cloudaudit.googleapis.com%2Factivity",
            "protoPayload": {
                "serviceName": "k8s.io", "methodName": "io.k8s.core.v1.services.delete",
                "resourceName": "core/v1/namespaces/shop-prod/services/web",
                "authenticationInfo": { "principalEmail": "ada" },
                "requestMetadata": { "callerSuppliedUserAgent": "kubectl/v1.31.0" },
            },
            "resource": { "labels": { "cluster_name": "shop-live" } },
        });
        for body in [of_eks, of_gke] {
            let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body.to_string())]);
            assert_eq!(changes.len(), 1);
            assert_eq!(
                changes[0].fields["title"],
                "Delete service web in shop-prod by ada via kubectl"
            );
        }
    }

    #[test]
    fn exports_of_aks_name_the_cluster() {
        let log = event("delete", "services", "web", "ada");
        let export = json!({ "records": [{
            "category": "kube-audit-admin", "properties": { "log": log.to_string() },
            "resourceId": "/SUBSCRIPTIONS/1/RESOURCEGROUPS/A/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/LIVE",
        }] });
        let reading = reading_of(&KIND, &Settings::default(), &[], &export.to_string()).unwrap();
        match reading.observations.as_slice() {
            [crate::Observation::Call(call)] => assert_eq!(call.scope, "live"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_event_is_unreadable() {
        for body in ["", "{", "{}", "7", r#"{"properties":{"log":"{"}}"#] {
            assert!(
                reading_of(&KIND, &Settings::default(), &[], body).is_err(),
                "{body}"
            );
        }
    }
}
