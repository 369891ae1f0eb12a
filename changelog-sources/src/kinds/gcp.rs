//! Google Cloud audit logs: <https://cloud.google.com/logging/docs/audit>.
//!
//! An entry of the admin activity log that succeeded is a call: pushed by Pub/Sub, with or
//! without its wrapping, or as `gcloud logging read` writes it. The first and the last entry
//! of an operation are one. Requests to a cluster are read by the rules of Kubernetes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::Kind;
use super::calls::{
    NoCall, Told, Who, deletes, digest_of, events_in, ignored, is_name, last_part, phrase,
    read_each, reads, sentence, singular, tool_of, unreadable, values, words,
};
use super::kubernetes::{self, Target};
use crate::json::{links, parse, text, time};
use crate::observation::{Call, CallProgress, Reading, Tool, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    request_id: |received| {
        let body = parse(received.body).ok()?;
        text(&body, "/message/messageId").or_else(|| text(&body, "/message/message_id"))
    },
    ..Kind::new(read)
};

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let mut entries = Vec::new();
    for mut value in values(received.body)? {
        if let Some(data) = value.pointer("/message/data") {
            value = pushed(data)?;
        }
        entries.extend(events_in(value, &["entries"]));
    }
    read_each(&entries, |value| entry(value, received))
}

/// Returns the entry that Pub/Sub has pushed.
fn pushed(data: &Value) -> Result<Value, Unreadable> {
    let data = data
        .as_str()
        .and_then(|data| BASE64_STANDARD.decode(data).ok());
    let data = data.ok_or_else(|| Unreadable("the message's data is no base64".to_owned()))?;
    parse(&data)
}

/// Reads an entry of a log.
pub(super) fn entry(entry: &Value, received: &Received<'_>) -> Result<Call, NoCall> {
    let of = |pointer: &str| text(entry, pointer);
    let log = of("/logName").unwrap_or_default();
    if !log.is_empty() {
        ignore_logs(&log)?;
    }
    let permission = of("/protoPayload/authorizationInfo/0/permission");
    let method = of("/protoPayload/methodName")
        .or(permission)
        .ok_or_else(|| {
            unreadable("expected an entry of an audit log, with a protoPayload.methodName")
        })?;
    let service = of("/protoPayload/serviceName").unwrap_or_default();
    let path = of("/protoPayload/resourceName").unwrap_or_default();
    let project = of("/resource/labels/project_id")
        .or_else(|| log.split('/').nth(1).map(str::to_owned))
        .unwrap_or_default();
    let email = of("/protoPayload/authenticationInfo/principalEmail")
        .or_else(|| of("/protoPayload/authenticationInfo/principalSubject"))
        .unwrap_or_default();
    let agent = of("/protoPayload/requestMetadata/callerSuppliedUserAgent").unwrap_or_default();
    let tool = tool_of(&agent, ("gcloud", &["gcloud/", "gsutil"]));
    let who = who(&email);
    let what = if service == "k8s.io" || method.starts_with("io.k8s.") {
        in_cluster(entry, &method, &path, (&email, &agent), &who, &tool)?
    } else {
        in_cloud(entry, &service, &method, &path)?
    };
    let cluster = of("/resource/labels/cluster_name");
    let location = ["zone", "location", "region"].iter();
    let mut locations = location
        .filter_map(|name| of(&format!("/resource/labels/{name}")))
        .filter(|name| is_name(name));
    let insert_id = of("/insertId");
    let id = of("/operation/id").or_else(|| insert_id.clone());
    let id = id.unwrap_or_else(|| digest_of(entry));
    let at = of("/timestamp");
    let is_known = is_name(&project) && insert_id.as_deref().is_some_and(is_name);
    let link = insert_id.zip(at).filter(|_| is_known).map(|(id, at)| {
        format!("https://console.cloud.google.com/logs/query;query=insertId%3D%22{id}%22;cursorTimestamp={at}?project={project}")
    });
    Ok(Told {
        id: format!("{project}/{id}"),
        at: time(entry, "/timestamp").unwrap_or(received.at),
        progress: progress(entry)?,
        deletes: deletes(&method),
        places: [
            what.namespace.clone(),
            // The name of an object in a cluster tells nothing.
            what.resource.clone().filter(|_| cluster.is_none()),
            cluster,
            Some(project.clone()),
        ]
        .into_iter()
        .flatten()
        .collect(),
        services: what.service.into_iter().collect(),
        host: (service == "compute.googleapis.com")
            .then(|| path.split_once("/instances/"))
            .flatten()
            .and_then(|(_, name)| name.split('/').next())
            .map(str::to_owned),
        links: links([("log entry", link)]),
        scope: project,
        region: what.namespace.or_else(|| locations.next()),
        area: what.area,
        what: what.what,
        method: what.method,
        resource: what.resource,
        place: what.place,
        who,
        tool,
    }
    .into())
}

/// Sorts out the logs that have no changes.
fn ignore_logs(log: &str) -> Result<(), NoCall> {
    if !log.contains("cloudaudit.googleapis.com") {
        return ignored("entries of logs other than audit logs are no changes");
    }
    match log
        .replace("%2F", "/")
        .rsplit('/')
        .next()
        .unwrap_or_default()
    {
        "activity" => Ok(()),
        "data_access" => ignored(DATA_ACCESS),
        "system_event" => ignored("what Google does for itself is no change"),
        "policy" => ignored("requests that a policy denied are no changes"),
        other => ignored(format!("entries of the log {other} are no changes")),
    }
}

const DATA_ACCESS: &str = "access to data is no change";

/// Returns what became of the call.
fn progress(entry: &Value) -> Result<CallProgress, NoCall> {
    let flag =
        |name: &str| entry.pointer(&format!("/operation/{name}")) == Some(&Value::Bool(true));
    let (is_first, is_last) = (flag("first"), flag("last"));
    let code = text(entry, "/protoPayload/status/code");
    match code.filter(|code| code != "0") {
        Some(_) if is_last && !is_first => Ok(CallProgress::Failed),
        Some(_) => ignored("calls that failed are no changes"),
        None if is_first && !is_last => Ok(CallProgress::Accepted),
        None => Ok(CallProgress::Succeeded),
    }
}

/// Returns who has an address, or the subject of another provider of identities.
fn who(email: &str) -> Who {
    if email.is_empty() {
        return Who::unknown();
    }
    if email.starts_with("system:") {
        return kubernetes::who(email);
    }
    match email.split_once('@') {
        Some((name, domain)) if domain.ends_with("gserviceaccount.com") => {
            let name = name.trim_start_matches("serviceAccount:");
            Who::machine(format!("service account {name}"))
        }
        Some(_) => Who::named(last_part(email)),
        None => {
            let subject = email.split_once("/subject/");
            Who::machine(subject.map_or(email, |(_, subject)| subject))
        }
    }
}

/// What was done, in words.
struct Done {
    what: String,
    method: String,
    area: String,
    resource: Option<String>,
    namespace: Option<String>,
    place: String,
    service: Option<String>,
}

/// Reads what was done by an API of the cloud.
fn in_cloud(entry: &Value, service: &str, method: &str, path: &str) -> Result<Done, NoCall> {
    let parts: Vec<&str> = method
        .split(['.', '/'])
        .filter(|part| !part.is_empty())
        .collect();
    let verb = parts.last().copied().unwrap_or(method);
    if reads(verb) {
        return ignored("calls that only read are no changes");
    }
    let area = service.split('.').next().unwrap_or_default().to_owned();
    // For entries that are posted without the name of their log.
    if area == "iamcredentials" || method.starts_with("storage.objects.") {
        return ignored(DATA_ACCESS);
    }
    // `compute.instances.insert` and BigQuery's old `datasetservice.insert` name the kind of
    // thing; `storage.setIamPermissions` and `google.pubsub.v1.Publisher.CreateTopic` do not.
    let is_noun = |part: &&str| {
        let is_version = part.starts_with('v') && part.chars().any(char::is_numeric);
        let is_service = part.ends_with("service");
        (parts.len() > 2 || is_service) && !is_version && part.starts_with(char::is_lowercase)
    };
    let noun = parts.iter().rev().nth(1).copied().filter(is_noun);
    let noun = noun.filter(|_| verb.starts_with(char::is_lowercase));
    let resource = resource(entry, verb, path);
    let what = match noun.map(|noun| noun.strip_suffix("service").unwrap_or(noun)) {
        Some(noun) => phrase(verb, &singular(&words(noun).join(" "))),
        None if resource.is_some() && verb.to_lowercase().starts_with("set") => {
            format!("{} of", sentence(verb))
        }
        None => match sentence(verb).strip_prefix("Insert ") {
            Some(noun) => format!("Create {noun}"),
            None => sentence(verb),
        },
    };
    Ok(Done {
        what,
        method: parts
            .iter()
            .rev()
            .take(2)
            .rev()
            .copied()
            .collect::<Vec<_>>()
            .join("."),
        place: Some(&area)
            .filter(|area| !area.is_empty())
            .map_or_else(String::new, |area| format!(" ({area})")),
        resource,
        namespace: None,
        service: None,
        area: if area.is_empty() {
            "other services".to_owned()
        } else {
            area
        },
    })
}

/// Returns the name of what was changed. What creates something is often called on what
/// will hold it, or on all of its kind.
fn resource(entry: &Value, verb: &str, path: &str) -> Option<String> {
    const HOLDERS: [&str; 7] = [
        "projects",
        "locations",
        "regions",
        "zones",
        "organizations",
        "folders",
        "clusters",
    ];
    let verb = verb.to_lowercase();
    // Kinds and names take turns, but for `global`.
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "global").collect();
    let holder = parts.iter().rev().nth(1).copied().unwrap_or_default();
    let is_new = verb.starts_with("create") || verb.starts_with("insert");
    let is_kind = parts.len() > 2 && parts.len() % 2 == 1;
    // A cluster is created on the path that it will have.
    let is_own = verb.ends_with(&singular(holder)) && !is_kind;
    let name = if is_kind || is_new && HOLDERS.contains(&holder) && !is_own {
        let names = ["/protoPayload/response/name", "/protoPayload/request/name"];
        let mut names = names.iter().filter_map(|pointer| text(entry, pointer));
        // The answer may be the operation that will make it.
        names.find(|name| !name.starts_with("operation-") && !name.contains("operations/"))
    } else {
        Some(path.to_owned())
    };
    let name = name?.rsplit('/').next()?.to_owned();
    is_name(&name).then_some(name)
}

/// Reads what was done in a cluster.
fn in_cluster(
    entry: &Value,
    method: &str,
    path: &str,
    user: (&str, &str),
    who: &Who,
    tool: &Tool,
) -> Result<Done, NoCall> {
    let verb = method.rsplit('.').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('/').collect();
    // `apps/v1/namespaces/shop/deployments/payments`; a namespace itself has no more parts.
    let namespace = match parts.as_slice() {
        [_, _, "namespaces", namespace, _, ..] => Some((*namespace).to_owned()),
        _ => None,
    };
    let group = parts
        .first()
        .copied()
        .filter(|group| *group != "core")
        .unwrap_or_default();
    parts.drain(..parts.len().min(if namespace.is_some() { 4 } else { 2 }));
    let part = |at: usize| parts.get(at).copied().unwrap_or_default().to_owned();
    let target = Target {
        group: group.to_owned(),
        resource: part(0),
        subresource: part(2),
    };
    kubernetes::ignore_noise(verb, &target, user, who, tool)?;
    let name = Some(part(1)).filter(|name| !name.is_empty());
    let name = name.or_else(|| text(entry, "/protoPayload/response/metadata/name"));
    Ok(Done {
        what: target.what(verb),
        method: target.method(verb),
        area: target.area(),
        place: namespace
            .as_ref()
            .map(|name| format!(" in {name}"))
            .unwrap_or_default(),
        service: name.clone().filter(|_| target.is_workload()),
        resource: name,
        namespace,
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{changes_of_bodies, reading_of, received};

    const KIND: SourceKind = SourceKind::Gcp;

    fn logged(method: &str, path: &str) -> Value {
        let service = if method.starts_with("io.k8s") {
            "k8s.io"
        } else {
            "compute.googleapis.com"
        };
        json!({
            "insertId": "i-1", "timestamp": "2026-11-20T10:00:01.5Z",
            "logName": "projects/acme-prod/logs/cloudaudit.googleapis.com%2Factivity",
            "resource": { "labels": { "project_id": "acme-prod", "zone": "europe-west1-b" } },
            "protoPayload": {
                "serviceName": service, "methodName": method, "resourceName": path,
                "authenticationInfo": { "principalEmail": "ada@example.com" },
                "requestMetadata": { "callerSuppliedUserAgent": "google-cloud-sdk gcloud/500 command/x" },
                "request": { "metadata": { "items": [{ "key": "k", "value": "hunter2" }] } },
                "status": {},
            },
        })
    }

    fn with(mut entry: Value, pointer: &str, value: Value) -> Value {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        entry.pointer_mut(parent).unwrap()[name] = value;
        entry
    }

    fn push(entry: &Value) -> Value {
        let data = BASE64_STANDARD.encode(entry.to_string());
        json!({ "message": { "data": data, "messageId": "7" }, "subscription": "projects/acme/subscriptions/s" })
    }

    fn changes_in(bodies: &[Value]) -> Vec<crate::ObservedChange> {
        changes_of_bodies(&KIND, bodies)
    }

    #[test]
    fn the_first_and_the_last_entry_of_an_operation_are_one_change() {
        let entry = logged(
            "v1.compute.instances.insert",
            "projects/acme-prod/zones/europe-west1-b/instances/web-1",
        );
        let first = with(
            entry.clone(),
            "/operation",
            json!({ "id": "o-1", "first": true }),
        );
        let last = with(entry, "/operation", json!({ "id": "o-1", "last": true }));
        let last = with(last, "/insertId", json!("i-2"));
        let changes = changes_in(&[push(&first), json!([last, 7]), push(&first)]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].hostname.as_deref(), Some("web-1"));
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Create instance web-1 (compute) by ada@example.com via gcloud",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:01.500Z",
                "started_at": "2026-11-20T10:00:01.500Z",
                "ended_at": "2026-11-20T10:00:01.500Z",
                "environment": "prod", "on_behalf_of": "ada@example.com",
                "tags": ["gcp", "by-hand"],
                "links": [{
                    "label": "log entry",
                    "url": "https://console.cloud.google.com/logs/query;query=insertId%3D%22i-1%22;cursorTimestamp=2026-11-20T10:00:01.5Z?project=acme-prod",
                }],
            })
        );
        let id = received(&[], &push(&first).to_string(), |received| {
            (super::KIND.request_id)(received)
        });
        assert_eq!(id.as_deref(), Some("7"));
    }

    #[test]
    fn titles_tell_who_did_what() {
        let deployer = "deployer@acme.iam.gserviceaccount.com";
        for (method, path, email, title) in [
            (
                "google.iam.admin.v1.CreateServiceAccount",
                "projects/acme-prod",
                deployer,
                "Create service account (compute) by service account deployer via gcloud",
            ),
            (
                "SetIamPolicy",
                "projects/acme-prod",
                "ada@example.com",
                "Set IAM policy of acme-prod (compute) by ada@example.com via gcloud",
            ),
            (
                "SetIamPolicy",
                "",
                "ada@example.com",
                "Set IAM policy (compute) by ada@example.com via gcloud",
            ),
            (
                "google.container.v1.ClusterManager.CreateCluster",
                "projects/p/zones/z/clusters/shop",
                "ada@example.com",
                "Create cluster shop (compute) by ada@example.com via gcloud",
            ),
            (
                "datasetservice.insert",
                "projects/p/datasets",
                "ada@example.com",
                "Create dataset (compute) by ada@example.com via gcloud",
            ),
            (
                "google.cloud.bigquery.v2.TableService.InsertTable",
                "projects/p/datasets/d/tables/orders",
                "ada@example.com",
                "Create table orders (compute) by ada@example.com via gcloud",
            ),
            (
                "beta.compute.instances.setMetadata",
                "projects/p/zones/z/instances/web-1",
                "ada@example.com",
                "Set metadata of instance web-1 (compute) by ada@example.com via gcloud",
            ),
            (
                "storage.buckets.delete",
                "projects/_/buckets/logs",
                "ada@example.com",
                "Delete bucket logs (compute) by ada@example.com via gcloud",
            ),
            (
                "io.k8s.apps.v1.deployments.patch",
                "apps/v1/namespaces/shop/deployments/payments",
                "ada@example.com",
                "Update deployment payments in shop by ada@example.com via gcloud",
            ),
        ] {
            let entry = with(
                logged(method, path),
                "/protoPayload/authenticationInfo",
                json!({ "principalEmail": email }),
            );
            // The answer to what takes long is an operation.
            let entry = with(
                entry,
                "/protoPayload/response",
                json!({ "name": "operation-17-0a" }),
            );
            assert_eq!(changes_in(&[entry])[0].fields["title"], title);
        }
    }

    #[test]
    fn what_changes_nothing_is_ignored_with_a_reason() {
        let entry = || {
            logged(
                "v1.compute.instances.stop",
                "projects/p/zones/z/instances/web-1",
            )
        };
        let log = |name: &str| {
            with(
                entry(),
                "/logName",
                json!(format!(
                    "projects/p/logs/cloudaudit.googleapis.com%2F{name}"
                )),
            )
        };
        let failed = with(
            entry(),
            "/protoPayload/status",
            json!({ "code": 7, "message": "no" }),
        );
        let lease = logged(
            "io.k8s.coordination.v1.leases.update",
            "coordination.k8s.io/v1/namespaces/a/leases/b",
        );
        for (entry, reason) in [
            (log("data_access"), DATA_ACCESS),
            (
                logged("storage.objects.delete", "projects/_/buckets/b/objects/o"),
                DATA_ACCESS,
            ),
            (
                log("system_event"),
                "what Google does for itself is no change",
            ),
            (
                log("policy"),
                "requests that a policy denied are no changes",
            ),
            (
                with(entry(), "/logName", json!("projects/p/logs/syslog")),
                "entries of logs other than audit logs are no changes",
            ),
            (failed.clone(), "calls that failed are no changes"),
            (
                logged("google.iam.admin.v1.ListRoles", "projects/p"),
                "calls that only read are no changes",
            ),
            (lease, "leases are no changes"),
        ] {
            let reading = reading_of(&KIND, &Settings::default(), &[], &entry.to_string()).unwrap();
            assert_eq!(reading, Reading::ignored(reason));
        }
        let last = with(failed, "/operation", json!({ "id": "o-1", "last": true }));
        let reading = reading_of(&KIND, &Settings::default(), &[], &last.to_string()).unwrap();
        match reading.observations.as_slice() {
            [crate::Observation::Call(call)] => assert_eq!(call.progress, CallProgress::Failed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_entry_is_unreadable() {
        let data = json!({ "message": { "data": "*" } }).to_string();
        for body in ["", "{", "{}", "7", &data] {
            assert!(
                reading_of(&KIND, &Settings::default(), &[], body).is_err(),
                "{body}"
            );
        }
    }
}
