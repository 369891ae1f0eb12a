//! The Azure activity log: <https://learn.microsoft.com/azure/azure-monitor/platform/activity-log-schema>.
//!
//! A write, a delete or an action of Azure Resource Manager is a call: from Event Grid in
//! both of its schemas, from an alert in the common schema, or from a diagnostic export.
//! That it was started, accepted and succeeded is said of one and the same call.

mod names;
mod operation;

use std::borrow::Cow;

use serde_json::{Value, json};

use self::names::name_of;
use self::operation::Operation;
use super::calls::{
    NoCall, Told, Who, deletes, digest_of, events_in, ignored, last_part, read_each, unreadable,
    values,
};
use super::{Kind, kubernetes};
use crate::handshake::Handshake;
use crate::json::{links, parse, text, time};
use crate::observation::{Call, CallProgress, Reading, Tool, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    handshake,
    request_id: |received| {
        let body = parse(received.body).ok()?;
        // Event Grid may send an event again together with others.
        let ids = ["/0/id", "/id", "/data/essentials/alertId"].iter();
        let mut ids = ids.filter(|_| body.pointer("/1").is_none());
        ids.find_map(|pointer| text(&body, pointer))
    },
    ..Kind::new(read)
};

/// Answers Event Grid, which checks that the address belongs to who subscribes.
fn handshake(received: &Received<'_>) -> Option<Handshake> {
    let event = received.headers.get("aeg-event-type")?;
    let body = parse(received.body).ok()?;
    let code = text(&body, "/0/data/validationCode")?;
    (event == "SubscriptionValidation")
        .then(|| Handshake::Json(json!({ "validationResponse": code })))
}

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let values = values(received.body)?.into_iter();
    let events: Vec<Value> = values
        .flat_map(|value| events_in(value, &["records", "value"]))
        .collect();
    read_each(&events, |event| entry_of(event, received))
}

/// What is known of an operation, from each of the formats.
struct Entry<'e> {
    /// What has most of it: the event's data, or the context of the alert.
    data: &'e Value,
    authorization: Cow<'e, Value>,
    claims: Cow<'e, Value>,
    status: Option<String>,
}

/// Takes off the wrapping of an event, and reads it.
fn entry_of(event: &Value, received: &Received<'_>) -> Result<Call, NoCall> {
    if let Some(schema) = text(event, "/schemaId") {
        return alert(event, &schema, received);
    }
    let kind = text(event, "/eventType").or_else(|| text(event, "/type"));
    match kind {
        Some(kind) if event.get("data").is_some() => grid_event(event, &kind, received),
        _ => {
            let category = text(event, "/category/value").or_else(|| text(event, "/category"));
            let is_writing = |category: &String| {
                ["Administrative", "Write", "Delete", "Action"].contains(&category.as_str())
            };
            if category
                .as_ref()
                .is_some_and(|category| category.starts_with("kube-audit"))
            {
                return kubernetes::audit_event(event, received);
            }
            if let Some(category) = category.filter(|category| !is_writing(category)) {
                return ignored(format!("entries of the category {category} are no changes"));
            }
            entry(event, event, None, received)
        }
    }
}

/// Reads an alert that the activity log has fired.
fn alert(event: &Value, schema: &str, received: &Received<'_>) -> Result<Call, NoCall> {
    if let Some(context) = event.pointer("/data/context/activityLog") {
        return entry(event, context, None, received);
    }
    let service = text(event, "/data/essentials/monitoringService").unwrap_or_default();
    if service != "Activity Log - Administrative" {
        return ignored(format!("alerts of {service} are no changes"));
    }
    match event.pointer("/data/alertContext") {
        Some(context) => entry(event, context, None, received),
        None => Err(unreadable(format!(
            "expected an alertContext in the alert of the schema {schema}"
        ))),
    }
}

/// Reads an event of Event Grid.
fn grid_event(event: &Value, kind: &str, received: &Received<'_>) -> Result<Call, NoCall> {
    let end = ["Write", "Delete", "Action"].iter().find_map(|verb| {
        kind.strip_prefix("Microsoft.Resources.Resource")?
            .strip_prefix(verb)
    });
    match (end, event.get("data")) {
        (Some("Success"), Some(data)) => entry(event, data, Some("Succeeded"), received),
        // Event Grid never says that something was accepted.
        (Some(_), _) => ignored("operations that did not succeed are no changes"),
        _ => ignored(format!("events of type {kind} are no changes")),
    }
}

/// Reads an operation.
fn entry(
    event: &Value,
    data: &Value,
    status: Option<&str>,
    received: &Received<'_>,
) -> Result<Call, NoCall> {
    let mut statuses = ["/status/value", "/status", "/resultType"].iter();
    let status = status.map(str::to_owned);
    let entry = Entry {
        data,
        authorization: either(data, "/authorization", "/identity/authorization"),
        claims: either(data, "/claims", "/identity/claims"),
        status: status.or_else(|| statuses.find_map(|pointer| text(data, pointer))),
    };
    let operation = Operation::of(&entry)?;
    let progress = entry.progress()?;
    let resource_id = entry.resource_id(event).unwrap_or_default();
    let part_after = |name: &str| {
        let mut parts = resource_id.split('/');
        parts.find(|part| part.eq_ignore_ascii_case(name))?;
        parts
            .next()
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
    };
    let subscription = part_after("subscriptions").map(|id| id.to_lowercase());
    let resource = name_of(&resource_id);
    let id = text(data, "/correlationId").map(|id| {
        format!(
            "{id}/{}/{}",
            operation.full.to_lowercase(),
            resource_id.to_lowercase()
        )
    });
    let mut ids = ["/eventDataId", "/id"].iter();
    let id = id.or_else(|| ids.find_map(|pointer| text(data, pointer)));
    let times = ["/eventTimestamp", "/eventTime", "/time"].iter();
    let mut times = times.flat_map(|pointer| [time(data, pointer), time(event, pointer)]);
    let portal = format!("https://portal.azure.com/#@/resource{resource_id}");
    Ok(Told {
        id: id.unwrap_or_else(|| digest_of(data)),
        at: times.find_map(|at| at).unwrap_or(received.at),
        progress,
        who: entry.who(),
        tool: entry.tool(),
        place: format!(" ({})", operation.area),
        deletes: deletes(&operation.verb),
        what: operation.what(),
        services: Vec::new(),
        host: part_after("virtualMachines"),
        places: [
            part_after("resourceGroups"),
            resource.clone(),
            subscription.clone(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        links: links([("resource", resource_id.starts_with('/').then_some(portal))]),
        scope: subscription.unwrap_or_else(|| "tenant".to_owned()),
        area: operation.area,
        region: part_after("resourceGroups"),
        method: operation.full,
        resource,
    }
    .into())
}

/// Returns the object at one of two JSON pointers, which some formats have as text.
fn either<'v>(value: &'v Value, one: &str, other: &str) -> Cow<'v, Value> {
    match value.pointer(one).or_else(|| value.pointer(other)) {
        Some(Value::String(json)) => Cow::Owned(serde_json::from_str(json).unwrap_or_default()),
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(Value::Null),
    }
}

/// Returns the text that has capitals where they belong: exports write all in capitals.
fn in_mixed_case(text: Option<String>, mixed: Option<String>) -> Option<String> {
    match (text, mixed) {
        (Some(text), Some(mixed)) if text.eq_ignore_ascii_case(&mixed) => Some(mixed),
        (Some(text), _) if !text.contains(char::is_lowercase) => Some(text.to_lowercase()),
        (text, mixed) => text.or(mixed),
    }
}

/// The applications of Microsoft with which people work: the portal has no name.
const APPLICATIONS: [(&str, Option<&str>); 3] = [
    ("c44b4083-3bb0-49c1-b47d-974e53cbdf3c", None),
    ("04b07795-8ddb-461a-bbee-02f9e1bf7b46", Some("Azure CLI")),
    (
        "1950a258-227b-4e31-a9cf-717495945fc2",
        Some("Azure PowerShell"),
    ),
];

impl Entry<'_> {
    /// Returns what became of the operation.
    fn progress(&self) -> Result<CallProgress, NoCall> {
        let status = self.status.clone().unwrap_or_default();
        let detail = ["/subStatus/value", "/subStatus", "/resultSignature"];
        let mut details = detail.iter().filter_map(|pointer| text(self.data, pointer));
        let is_refused =
            details.any(|detail| detail.contains("Forbidden") || detail.contains("Unauthorized"));
        match status.to_lowercase().as_str() {
            "start" | "started" | "accept" | "accepted" => Ok(CallProgress::Accepted),
            "success" | "succeeded" => Ok(CallProgress::Succeeded),
            "fail" | "failed" | "failure" if !is_refused => Ok(CallProgress::Failed),
            "fail" | "failed" | "failure" => ignored("operations that were refused are no changes"),
            "" => Err(unreadable("the entry has no status")),
            _ => ignored(format!("entries with the status {status} are no changes")),
        }
    }

    /// Returns the path of what the operation was about.
    fn resource_id(&self, event: &Value) -> Option<String> {
        let scope = text(&self.authorization, "/scope");
        let mut ids = ["/resourceUri", "/resourceId"].iter();
        let id = ids.find_map(|pointer| text(self.data, pointer));
        let id = id.or_else(|| text(event, "/subject").filter(|subject| subject.starts_with('/')));
        let id = in_mixed_case(id, scope);
        id.or_else(|| text(event, "/data/essentials/alertTargetIDs/0"))
    }

    /// Returns a claim of who called, by the end of its name.
    fn claim(&self, name: &str) -> Option<String> {
        let claims = self.claims.as_object()?;
        let mut claims = claims.iter().filter(|(claim, _)| last_part(claim) == name);
        claims.find_map(|(_, value)| text(value, ""))
    }

    fn who(&self) -> Who {
        let evidence = || text(&self.authorization, "/evidence/principalId");
        let name = text(self.data, "/caller")
            .or_else(|| self.claim("upn"))
            .or_else(|| self.claim("emailaddress"))
            .or_else(|| self.claim("name"))
            .or_else(|| self.claim("appid"))
            .or_else(evidence);
        let Some(name) = name else {
            return Who::unknown();
        };
        let digits = name.chars().filter(char::is_ascii_hexdigit).count();
        if name.contains('@') {
            // Guests of a tenant are called `live.com#ada@example.com`.
            Who::person(name.rsplit('#').next().unwrap_or_default())
        } else if digits == 32 && name.len() <= 36 {
            Who::machine(format!(
                "application {}",
                name.chars().take(8).collect::<String>()
            ))
        } else {
            Who {
                is_person: name.contains(' '),
                name,
            }
        }
    }

    /// Returns the tool, which only the application of the token tells.
    fn tool(&self) -> Tool {
        let id = self.claim("appid").unwrap_or_default();
        match APPLICATIONS.iter().find(|(known, _)| *known == id) {
            Some((_, Some(name))) => Tool::CommandLine((*name).to_owned()),
            Some((_, None)) => Tool::Console,
            None => Tool::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;

    use super::operation::READ;
    use super::*;
    use crate::kinds::testing::{changes_of_bodies, reading_of, received};

    const KIND: SourceKind = SourceKind::Azure;
    const VM: &str = "/subscriptions/AB-1/resourceGroups/shop-prod/providers/Microsoft.Compute/virtualMachines/web-1";

    fn operation(verb: &str) -> String {
        format!("Microsoft.Compute/virtualMachines/{verb}")
    }

    fn record(verb: &str, result: &str, second: u32) -> Value {
        json!({
            "time": format!("2026-11-20T10:00:{second:02}.1234567Z"),
            "resourceId": VM.to_uppercase(), "operationName": operation(verb).to_uppercase(),
            "category": "Administrative", "resultType": result, "resultSignature": "Started.",
            "correlationId": "c-1",
            "identity": {
                "authorization": { "scope": VM, "action": operation(verb), "evidence": { "role": "Owner" } },
                "claims": { "appid": "c44b4083-3bb0-49c1-b47d-974e53cbdf3c", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn": "ada@example.com" },
            },
            "properties": { "requestbody": "hunter2" },
        })
    }

    fn grid(verb: &str, kind: &str) -> Value {
        json!({
            "id": "g-1", "topic": "/subscriptions/AB-1", "subject": VM, "eventTime": "2026-11-20T10:00:09Z",
            "eventType": format!("Microsoft.Resources.{kind}"),
            "data": {
                "authorization": json!({ "scope": VM, "action": operation(verb) }).to_string(),
                "claims": json!({ "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn": "ada@example.com", "appid": "c44b4083-3bb0-49c1-b47d-974e53cbdf3c" }).to_string(),
                "correlationId": "c-1", "resourceUri": VM, "operationName": operation(verb), "status": "Succeeded",
            },
        })
    }

    fn alert(service: &str) -> Value {
        json!({
            "schemaId": "azureMonitorCommonAlertSchema",
            "data": {
                "essentials": { "signalType": "Activity Log", "monitoringService": service, "alertTargetIDs": [VM.to_lowercase()] },
                "alertContext": {
                    "authorization": { "action": operation("delete"), "scope": VM },
                    "caller": "0a1b2c3d-0000-4000-8000-000000000001", "correlationId": "c-2",
                    "eventTimestamp": "2026-11-20T11:00:00Z", "operationName": operation("delete"),
                    "status": "Succeeded", "subStatus": "OK", "properties": { "responseBody": "hunter2" },
                },
            },
        })
    }

    fn changes_in(bodies: &[Value]) -> Vec<crate::ObservedChange> {
        changes_of_bodies(&KIND, bodies)
    }

    #[test]
    fn all_that_is_said_of_one_operation_is_one_change() {
        let cloud_event = {
            let mut event = grid("restart/action", "ResourceActionSuccess");
            event["type"] = event["eventType"].take();
            event["specversion"] = "1.0".into();
            event
        };
        let changes = changes_in(&[
            json!({ "records": [
                record("restart/action", "Start", 1),
                record("restart/action", "Accept", 2),
                record("restart/action", "Success", 9),
                7,
            ] }),
            json!([grid("restart/action", "ResourceActionSuccess")]),
            cloud_event,
        ]);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].hostname.as_deref(), Some("web-1"));
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Restart virtual machine web-1 (compute) by ada@example.com in the console",
                "risk_level": "medium", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:01.123Z",
                "started_at": "2026-11-20T10:00:01.123Z",
                "ended_at": "2026-11-20T10:00:01.123Z",
                "environment": "prod", "on_behalf_of": "ada@example.com",
                "tags": ["azure", "by-hand"],
                "links": [{ "label": "resource", "url": format!("https://portal.azure.com/#@/resource{VM}") }],
            })
        );
    }

    #[test]
    fn exports_in_capitals_are_told_in_words() {
        const GROUP: &str = "/subscriptions/1/resourceGroups/shop/providers";
        for (operation, path, title, risk) in [
            (
                "STORAGE/STORAGEACCOUNTS/BLOBSERVICES/CONTAINERS/WRITE",
                "Storage/storageAccounts/orders/blobServices/default/containers/images",
                "Create or update container orders/images (storage)",
                "low",
            ),
            (
                "STORAGE/STORAGEACCOUNTS/REGENERATEKEY/ACTION",
                "Storage/storageAccounts/orders",
                "Regenerate key of storage account orders (storage)",
                "low",
            ),
            (
                "COMPUTE/VIRTUALMACHINES/RUNCOMMAND/ACTION",
                "Compute/virtualMachines/web-1",
                "Run command on virtual machine web-1 (compute)",
                "low",
            ),
            (
                "KEYVAULT/LOCATIONS/DELETEDVAULTS/PURGE/ACTION",
                "KeyVault/locations/westus/deletedVaults/old",
                "Purge deleted vault old (keyvault)",
                "high",
            ),
        ] {
            let record = json!({
                "operationName": format!("MICROSOFT.{operation}"), "category": "Administrative",
                "resourceId": format!("{GROUP}/Microsoft.{path}"), "resultType": "Success",
            });
            let changes = changes_in(&[record]);
            assert_eq!(changes[0].fields["title"], title);
            assert_eq!(changes[0].fields["risk_level"], risk);
        }
        for path in [
            "",
            "/",
            "/subscriptions/1",
            "/subscriptions/1/providers/Microsoft.X",
        ] {
            assert_eq!(name_of(path), None, "{path}");
        }
        assert_eq!(
            name_of("/subscriptions/1/resourceGroups/shop").as_deref(),
            Some("shop")
        );
    }

    #[test]
    fn audit_logs_of_clusters_are_read_by_the_rules_of_kubernetes() {
        let event = json!({
            "stage": "ResponseComplete", "verb": "delete", "user": { "username": "ada" },
            "objectRef": { "resource": "services", "namespace": "shop", "name": "web" },
        });
        let changes = changes_in(&[json!({
            "category": "kube-audit-admin", "properties": { "log": event.to_string() },
            "operationName": "Microsoft.ContainerService/managedClusters/diagnosticLogs/Read",
        })]);
        assert_eq!(
            changes[0].fields["title"],
            "Delete service web in shop by ada"
        );
    }

    #[test]
    fn alerts_of_the_activity_log_are_read() {
        let changes = changes_in(&[alert("Activity Log - Administrative")]);
        assert_eq!(
            changes[0].fields["title"],
            "Delete virtual machine web-1 (compute) by application 0a1b2c3d"
        );
        assert_eq!(changes[0].fields["risk_level"], "high");
    }

    #[test]
    fn an_operation_that_fails_after_it_was_accepted_is_told() {
        let body = record("write", "Failure", 9).to_string();
        let reading = reading_of(&KIND, &Settings::default(), &[], &body).unwrap();
        match reading.observations.as_slice() {
            [crate::Observation::Call(call)] => assert_eq!(call.progress, CallProgress::Failed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_changes_nothing_is_ignored_with_a_reason() {
        let with = |name: &str, value: &str| {
            let mut record = record("write", "Failure", 1);
            record[name] = value.into();
            record
        };
        let named = |operation: &str| json!({ "operationName": operation, "status": "Succeeded", "correlationId": "c" });
        for (body, reason) in [
            (record("read", "Success", 1), READ),
            (record("listKeys/action", "Success", 1), READ),
            (
                with("category", "Policy"),
                "entries of the category Policy are no changes",
            ),
            (
                with("resultSignature", "Failed.Forbidden"),
                "operations that were refused are no changes",
            ),
            (
                with("resultType", "Active"),
                "entries with the status Active are no changes",
            ),
            (
                named("Microsoft.Authorization/policies/audit/action"),
                "evaluations of policies are no changes",
            ),
            (
                named("Microsoft.ResourceHealth/healthevent/Activated/action"),
                "reports of health are no changes",
            ),
            (
                named("Sign-in activity"),
                "operations such as Sign-in activity are no changes",
            ),
            (
                grid("write", "ResourceWriteFailure"),
                "operations that did not succeed are no changes",
            ),
            (
                json!([{ "eventType": "Microsoft.Storage.BlobCreated", "data": {} }]),
                "events of type Microsoft.Storage.BlobCreated are no changes",
            ),
            (alert("Platform"), "alerts of Platform are no changes"),
        ] {
            let reading = reading_of(&KIND, &Settings::default(), &[], &body.to_string()).unwrap();
            assert_eq!(reading, Reading::ignored(reason));
        }
    }

    #[test]
    fn event_grid_is_answered_with_its_code() {
        let body = json!([{ "data": { "validationCode": "512d38b6" } }]).to_string();
        let headers = [("aeg-event-type", "SubscriptionValidation")];
        let answer = received(&headers, &body, handshake);
        let expected = json!({ "validationResponse": "512d38b6" });
        assert_eq!(answer, Some(Handshake::Json(expected)));
        assert_eq!(received(&[], &body, handshake), None);
    }

    #[test]
    fn what_is_no_entry_is_unreadable() {
        for body in ["", "{", "{}", "7", r#"{"operationName":"A/b/write"}"#] {
            assert!(
                reading_of(&KIND, &Settings::default(), &[], body).is_err(),
                "{body}"
            );
        }
    }
}
