//! AWS CloudTrail: <https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html>.
//!
//! A management event that writes and succeeded is a call: alone, in `Records`, from
//! EventBridge, and each of them wrapped by SNS. Reads, data events, failures, sign-ins and
//! what AWS services do for themselves are no changes.

use serde_json::Value;

use super::Kind;
use super::calls::{
    NoCall, Told, Who, deletes, digest_of, events_in, ignored, is_name, joint, last_part, logged,
    read_each, reads, sentence, singular, tool_of, unreadable, values, words,
};
use super::sns;
use crate::json::{links, list, parse, text, time};
use crate::observation::{Call, CallProgress, Reading, Tool, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    handshake: sns::handshake,
    request_id: |received| {
        let body = parse(received.body).ok()?;
        // EventBridge has `id`; a bare record has neither.
        text(&body, "/MessageId").or_else(|| text(&body, "/id"))
    },
    ..Kind::new(read)
};

fn read(received: &Received<'_>, _: &Settings) -> Result<Reading, Unreadable> {
    let mut events = Vec::new();
    for value in values(received.body)? {
        unwrap(value, &mut events, MAX_DEPTH);
    }
    read_each(&events, |event| record(event, received))
}

/// The wrappings around a record: a list of a delivery of SNS of an event of EventBridge, and one
/// more.
const MAX_DEPTH: u8 = 5;

/// Adds the records of a value: lists and the wrapping of SNS, of EventBridge and of CloudWatch
/// Logs are taken off, up to a depth.
fn unwrap(mut value: Value, events: &mut Vec<Value>, depth: u8) {
    let Some(depth) = depth.checked_sub(1) else {
        events.push(value);
        return;
    };
    let inner = match value.get_mut("Records").map(Value::take) {
        Some(Value::Array(records)) => records,
        _ if value.is_array() => events_in(value, &[]),
        _ if is_by_cloudtrail(&value) => value
            .get_mut("detail")
            .map(Value::take)
            .into_iter()
            .collect(),
        _ => {
            let message = text(&value, "/Message");
            let message = message.and_then(|message| parse(message.as_bytes()).ok());
            match logged(&value).or_else(|| Some(vec![message?])) {
                Some(inner) => inner,
                None => return events.push(value),
            }
        }
    };
    for value in inner {
        unwrap(value, events, depth);
    }
}

fn is_by_cloudtrail(value: &Value) -> bool {
    text(value, "/detail-type").is_some_and(|kind| kind.ends_with("via CloudTrail"))
}

/// The calls that sign in or assume a role, including the variants that S3 and others use.
const SIGN_INS: [&str; 16] = [
    "AdminInitiateAuth",
    "AdminRespondToAuthChallenge",
    "Authenticate",
    "Authorize",
    "ConsoleLogin",
    "CreateOAuth2Token",
    "CreateSession",
    "CreateToken",
    "Federate",
    "InitiateAuth",
    "Logout",
    "RegisterClient",
    "RespondToAuthChallenge",
    "RevokeToken",
    "StartDeviceAuthorization",
    "SwitchRole",
];

/// The calls by which agents on instances and in containers report, and fetch what to do, all
/// of which are said to write: of Systems Manager, CloudWatch, ECS, ECR, EFS and Auto Scaling.
const AGENT_CALLS: [&str; 26] = [
    "AcknowledgeMessage",
    "CompleteLayerUpload",
    "CreateControlChannel",
    "CreateDataChannel",
    "CreateLogStream",
    "DiscoverPollEndpoint",
    "FailMessage",
    "InitiateLayerUpload",
    "NewClientConnection",
    "OpenControlChannel",
    "OpenDataChannel",
    "Poll",
    "PutComplianceItems",
    "PutConfigurePackageResult",
    "PutInventory",
    "RecordLifecycleActionHeartbeat",
    "RegisterContainerInstance",
    "SendReply",
    "StartTelemetrySession",
    "SubmitAttachmentStateChanges",
    "SubmitContainerStateChange",
    "SubmitTaskStateChange",
    "UpdateInstanceAssociationStatus",
    "UpdateInstanceInformation",
    "UpdateInstanceCustomAttributes",
    "UploadLayerPart",
];

/// The services that only agents call, and the terminal in the console, which calls for itself.
const AGENT_SERVICES: [&str; 5] = [
    "cloudshell",
    "codedeploy-commands",
    "codedeploy-commands-secure",
    "ec2messages",
    "ssmmessages",
];

/// The calls on the data of S3, Lambda and others, for records of before there was a category.
const DATA_CALLS: [&str; 16] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "Invoke",
    "InvokeExecution",
    "PutLogEvents",
    "PutMetricData",
    "PutObject",
    "PutObjectAcl",
    "PutObjectTagging",
    "PutSystemLogEvents",
    "PutTraceSegments",
    "UploadPart",
];

/// Reads a record.
fn record(event: &Value, received: &Received<'_>) -> Result<Call, NoCall> {
    let Some(name) = text(event, "/eventName") else {
        return Err(no_record(event));
    };
    let source = text(event, "/eventSource").unwrap_or_default();
    let service = source.split('.').next().unwrap_or_default().to_owned();
    ignore(event, &name, &service)?;
    let who = who(event)?;
    let account =
        text(event, "/recipientAccountId").or_else(|| text(event, "/userIdentity/accountId"));
    let region = text(event, "/awsRegion");
    let id = text(event, "/sharedEventID").or_else(|| text(event, "/eventID"));
    let id = id.unwrap_or_else(|| digest_of(event));
    let resource = Resource::of(event, &name);
    let what = what(&name, resource.as_ref());
    let resource = resource.map(|resource| resource.name);
    let account = account.unwrap_or_default();
    Ok(Told {
        at: time(event, "/eventTime").unwrap_or(received.at),
        progress: CallProgress::Succeeded,
        tool: tool(event),
        what,
        place: format!(" ({service})"),
        deletes: deletes(&name),
        services: Vec::new(),
        host: instance(event),
        places: [
            Some(account.clone()),
            role(event),
            resource.clone(),
            region.clone(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        links: links([("CloudTrail", link(event, region.as_deref()))]),
        method: name,
        who,
        scope: account,
        area: service,
        id,
        resource,
        region,
    }
    .into())
}

/// Returns the id of the instance that a call is about; `None` if it is about several.
fn instance(event: &Value) -> Option<String> {
    let of_items = || match list(event, "/requestParameters/instancesSet/items") {
        [item] => text(item, "/instanceId"),
        _ => None,
    };
    text(event, "/requestParameters/instanceId").or_else(of_items)
}

/// Returns why a value that is no record is none.
fn no_record(event: &Value) -> NoCall {
    let reason = if let Some(kind) = text(event, "/detail-type") {
        format!("events of the detail type {kind} are no changes")
    } else if let Some(kind) = text(event, "/Type") {
        match kind.as_str() {
            "Notification" => "the notification has no event of CloudTrail".to_owned(),
            _ => format!("messages of type {kind} are no changes"),
        }
    } else if event.get("s3Bucket").is_some() {
        "the message only names files in S3: let EventBridge send the events".to_owned()
    } else {
        return unreadable("expected an event of CloudTrail, with an eventName");
    };
    NoCall::Ignored(reason)
}

/// Rejects events that are not changes, regardless of who caused them.
fn ignore(event: &Value, name: &str, service: &str) -> Result<(), NoCall> {
    let of = |pointer: &str| text(event, pointer);
    let flag = |name: &str| match event.get(name) {
        Some(Value::Bool(is_set)) => Some(*is_set),
        Some(Value::String(word)) => word.to_ascii_lowercase().parse().ok(),
        _ => None,
    };
    let category = of("/eventCategory");
    let kind = of("/eventType").unwrap_or_default();
    let is_sign_in = kind == "AwsConsoleSignIn"
        || matches!(service, "signin" | "sts")
        || name.starts_with("AssumeRole")
        || SIGN_INS.contains(&name);
    let is_data = match &category {
        Some(category) => category == "Data",
        None => DATA_CALLS.contains(&name),
    };
    if is_sign_in {
        return ignored("sign-ins and taken roles are no changes");
    }
    // Notifications of S3 about objects look alike, with the source `aws:s3`.
    if is_data || service.starts_with("aws:") || flag("managementEvent") == Some(false) {
        return ignored("calls on data are no changes");
    }
    if let Some(category) = category.filter(|category| category != "Management") {
        return ignored(format!("events of the category {category} are no changes"));
    }
    let only_reads = ["Describe", "Get", "Head", "List"]
        .iter()
        .any(|verb| name.starts_with(verb))
        || is_query(name)
        || flag("readOnly").unwrap_or_else(|| reads(name) || name.starts_with("GenerateDataKey"));
    if only_reads {
        return ignored("calls that only read are no changes");
    }
    if AGENT_CALLS.contains(&name) || AGENT_SERVICES.contains(&service) {
        return ignored("what agents report is no change");
    }
    if of("/errorCode").is_some() || of("/errorMessage").is_some() {
        return ignored("calls that failed are no changes");
    }
    if kind == "AwsServiceEvent" {
        return ignored(BY_AWS);
    }
    Ok(())
}

/// Returns whether a call runs a query, as those of Athena and of logs, which are said to write.
fn is_query(name: &str) -> bool {
    matches!(
        name,
        "StartQuery" | "StopQuery" | "StartQueryExecution" | "StopQueryExecution"
    )
}

const BY_AWS: &str = "what AWS services do for themselves is no change";

/// Returns who made a call.
fn who(event: &Value) -> Result<Who, NoCall> {
    let of = |pointer: &str| text(event, &format!("/userIdentity{pointer}"));
    let arn = of("/arn").unwrap_or_default();
    let issuer = of("/sessionContext/sessionIssuer/arn").unwrap_or_default();
    if issuer.contains("/aws-service-role/") || arn.contains("assumed-role/AWSServiceRole") {
        return ignored(BY_AWS);
    }
    let named = || {
        let name = of("/userName").or_else(|| of("/onBehalfOf/userId"));
        let name = name.or_else(|| is_name(&arn).then(|| last_part(&arn).to_owned()));
        let account = || of("/accountId").map(|id| Who::machine(format!("account {id}")));
        name.map(Who::named)
            .or_else(account)
            .unwrap_or_else(Who::unknown)
    };
    Ok(match of("/type").unwrap_or_default().as_str() {
        "AWSService" => return ignored(BY_AWS),
        "" if of("/invokedBy").is_some() => return ignored(BY_AWS),
        "Root" => Who::person("root"),
        "AssumedRole" => assumed(event),
        _ => named(),
    })
}

/// Returns the name of the role that made a call.
fn role(event: &Value) -> Option<String> {
    let issuer = "/userIdentity/sessionContext/sessionIssuer";
    let arn = text(event, "/userIdentity/arn").unwrap_or_default();
    let in_arn = arn
        .split_once(":assumed-role/")
        .and_then(|(_, path)| Some(path.rsplit_once('/')?.0.to_owned()));
    text(event, &format!("{issuer}/userName")).or(in_arn)
}

/// Returns who has taken a role: the person whom the session is named after, or the role.
fn assumed(event: &Value) -> Who {
    let session = text(event, "/userIdentity/principalId")
        .and_then(|id| Some(id.split_once(':')?.1.to_owned()))
        .or_else(|| Some(last_part(&text(event, "/userIdentity/arn")?).to_owned()))
        .filter(|session| is_name(session));
    let role = role(event).unwrap_or_default();
    match session {
        Some(session)
            if session.contains('@')
                || role.starts_with("AWSReservedSSO_")
                || tool(event) == Tool::Console =>
        {
            Who::person(session)
        }
        _ if role.is_empty() => Who::unknown(),
        _ => Who::machine(format!("role {role}")),
    }
}

/// Returns what a call was made with.
fn tool(event: &Value) -> Tool {
    let agent = text(event, "/userAgent").unwrap_or_default();
    let invoker = text(event, "/userIdentity/invokedBy").unwrap_or_default();
    let by_console = text(event, "/sessionCredentialFromConsole").as_deref() == Some("true")
        || event.get("sessionCredentialFromConsole") == Some(&Value::Bool(true));
    match tool_of(&format!("{agent} {invoker}"), ("AWS CLI", &["aws-cli/"])) {
        // A service that the call went through is also named by the user agent.
        Tool::Other if by_console => Tool::Console,
        tool => tool,
    }
}

/// What a call was about.
struct Resource {
    /// Its kind, as the member is called that has its name: `bucket`, `routeTable`. Empty if
    /// it is only called `name` or `id`.
    kind: String,
    name: String,
}

impl Resource {
    /// Finds it in the members that fit the call's name, such as `bucketName` of
    /// `DeleteBucket`, first of the request and then of the response, which has the id of what
    /// was made. Only names and ids are looked at.
    fn of(event: &Value, call: &str) -> Option<Self> {
        let call = call.to_lowercase();
        let request = members(event.get("requestParameters"));
        let response = members(event.get("responseElements"));
        let of = |(kind, value): (String, &Value)| {
            let name = names(value)?;
            Some(Self { kind, name })
        };
        let own = |members: &[(&String, &Value)]| {
            let fitting = members
                .iter()
                .filter_map(|(key, value)| Some((kind_of(key)?, *value)));
            let mut fitting: Vec<_> = fitting
                .filter(|(kind, _)| {
                    kind.len() > 2 && call.contains(kind.to_lowercase().trim_end_matches('s'))
                })
                .collect();
            // The policy is what is attached, not to what.
            fitting.sort_by_key(|(kind, _)| (kind == "policy", std::cmp::Reverse(kind.len())));
            fitting.into_iter().find_map(of)
        };
        let called = || {
            let name = event.pointer("/requestParameters/name").and_then(names)?;
            Some(Self {
                kind: String::new(),
                name,
            })
        };
        let other = || {
            let mut others = OTHERS.iter().filter_map(|key| {
                let found = request
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case(key));
                Some((kind_of(key).unwrap_or_default(), found?.1))
            });
            others.find_map(of)
        };
        // What the request for a new thing names else is what holds it.
        let is_new = ["allocate", "create", "run"]
            .iter()
            .any(|verb| call.starts_with(verb));
        let new = || is_new.then(|| own(&response)).flatten();
        let items = |parent: &str| {
            let mut lists = [
                ("instancesSet", "instanceId"),
                ("resourcesSet", "resourceId"),
            ]
            .iter();
            let name = lists.find_map(|(name, id)| {
                let items = list(event, &format!("/{parent}/{name}/items"));
                let ids = items
                    .iter()
                    .filter_map(|item| text(item, &format!("/{id}")));
                let ids = ids.filter(|id| is_name(id));
                joined(&ids.collect::<Vec<_>>())
            })?;
            let kind = if call.contains("instance") {
                "instance"
            } else {
                "resource"
            };
            Some(Self {
                kind: kind.to_owned(),
                name,
            })
        };
        let arn = || {
            let arn =
                text(event, "/resources/0/ARN").or_else(|| text(event, "/resources/0/arn"))?;
            is_name(&arn).then(|| Self {
                kind: String::new(),
                name: last_part(&arn).to_owned(),
            })
        };
        own(&request)
            .or_else(called)
            .or_else(|| items("requestParameters"))
            .or_else(|| items("responseElements"))
            .or_else(new)
            .or_else(other)
            .or_else(|| own(&response))
            .or_else(arn)
    }
}

/// The members that name what a call is about, if none fits the name of the call, the most
/// telling first.
const OTHERS: [&str; 27] = [
    "bucketName",
    "functionName",
    "roleName",
    "userName",
    "groupName",
    "groupId",
    "instanceId",
    "instanceIds",
    "clusterName",
    "service",
    "cluster",
    "tableName",
    "autoScalingGroupName",
    "logGroupName",
    "trailName",
    "hostedZoneId",
    "distributionId",
    "restApiId",
    "routeTableId",
    "repositoryName",
    "family",
    "rule",
    "vpcId",
    "target",
    "resourceId",
    "resourceArn",
    "id",
];

/// Returns the members of the parameters of a call, and those of the objects in it: the answer
/// to `CreateSubnet` is a `subnet` with its `subnetId`.
fn members(parameters: Option<&Value>) -> Vec<(&String, &Value)> {
    let outer = parameters.and_then(Value::as_object).into_iter().flatten();
    let inner = outer
        .clone()
        .filter_map(|(_, value)| value.as_object())
        .flatten();
    outer.chain(inner).collect()
}

/// Returns of what kind a thing is whose name or id is in a member. What may hold a secret is
/// never looked at, nor is the id of a key to sign with.
fn kind_of(member: &str) -> Option<String> {
    const ENDS: [&str; 6] = ["identifier", "names", "name", "ids", "id", "arn"];
    let lower = member.to_lowercase();
    let end = ENDS.iter().find(|end| lower.ends_with(*end));
    let kind = match end {
        Some(end) => member.get(..member.len().checked_sub(end.len())?)?,
        // `cluster`, `service`
        None if OTHERS.contains(&member) => member,
        None => return None,
    };
    let is_harmless = !["accesskey", "password", "token"]
        .iter()
        .any(|word| lower.contains(word));
    is_harmless.then(|| kind.to_owned())
}

/// Returns what was done, up to the name of the resource: `DeleteBucket` is `Delete bucket`,
/// `PutBucketPolicy` is `Set policy of bucket`, and `CreateAccessKey` is `Create access key of
/// user`.
fn what(call: &str, resource: Option<&Resource>) -> String {
    let sentence = sentence(call);
    let Some(Resource { kind, name }) = resource.filter(|resource| !resource.kind.is_empty())
    else {
        return sentence;
    };
    let all: Vec<&str> = sentence.split(' ').collect();
    let Some((verb, rest)) = all.split_first() else {
        return sentence;
    };
    // `dBInstance` is `DB instance`.
    let is_kind = |words: &[&str]| {
        let words = words.concat().to_lowercase();
        words.trim_end_matches('s') == kind.to_lowercase().trim_end_matches('s')
    };
    if (0..rest.len()).any(|start| is_kind(&rest[start..])) {
        let is_one = !name.contains(" more");
        return if is_one {
            singular(&sentence)
        } else {
            sentence
        };
    }
    let verb = match (*verb, rest) {
        ("Put", ["image"]) => "Push",
        ("Put", _) => "Set",
        (verb, _) => verb,
    };
    let joint = joint(verb);
    let own = (1..rest.len()).find_map(|end| is_kind(&rest[..end]).then(|| rest.split_at(end)));
    match own {
        // `RestoreDBInstanceFromDBSnapshot`
        Some((own, ["from" | "in" | "to" | "with", ..])) => format!("{verb} {}", own.join(" ")),
        Some((own, more)) => format!("{verb} {} {joint} {}", more.join(" "), own.join(" ")),
        None => {
            let rest = rest.join(" ");
            let kind = words(kind).join(" ");
            let is_said = rest.to_lowercase().contains(&kind.to_lowercase());
            if is_said || ["target", "resource"].contains(&kind.as_str()) {
                format!("{verb} {rest} {joint}")
            } else {
                format!("{verb} {rest} {joint} {kind}")
            }
        }
    }
}

/// Returns the name that a value is, or the names that it lists.
fn names(value: &Value) -> Option<String> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let names: Vec<String> = values
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| is_name(name))
        .map(|name| match name.strip_prefix("arn:") {
            Some(_) => last_part(name).to_owned(),
            None => name.to_owned(),
        })
        .collect();
    joined(&names)
}

/// Writes the first name, and how many there are besides.
fn joined(names: &[String]) -> Option<String> {
    let (first, rest) = names.split_first()?;
    Some(match rest.len() {
        0 => first.clone(),
        more => format!("{first} and {more} more"),
    })
}

/// Returns the page of an event.
fn link(event: &Value, region: Option<&str>) -> Option<String> {
    let region = region.filter(|region| is_name(region))?;
    let id = text(event, "/eventID").filter(|id| is_name(id))?;
    Some(format!(
        "https://{region}.console.aws.amazon.com/cloudtrailv2/home?region={region}#/events/{id}"
    ))
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::json;

    use super::*;
    use crate::kinds::testing::{changes_of, reading_of, received};

    const KIND: SourceKind = SourceKind::Cloudtrail;

    fn event(name: &str, second: u32) -> Value {
        json!({
            "eventVersion": "1.10", "eventCategory": "Management", "managementEvent": true,
            "eventType": "AwsApiCall", "readOnly": false, "eventSource": "s3.amazonaws.com",
            "eventName": name, "eventID": format!("id-{name}-{second}"),
            "eventTime": format!("2026-11-20T10:00:{second:02}Z"), "awsRegion": "eu-west-1",
            "recipientAccountId": "111122223333", "userAgent": "aws-cli/2.17 md/x",
            "userIdentity": { "type": "IAMUser", "userName": "ada" },
            "requestParameters": { "bucketName": "acme-logs", "policy": "hunter2" },
        })
    }

    fn with(mut event: Value, members: &Value) -> Value {
        for (name, value) in members.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn title_of(event: &Value) -> String {
        let changes = changes_of(&KIND, &Settings::default(), &[(vec![], event.to_string())]);
        assert_eq!(changes.len(), 1, "{event}");
        assert!(!format!("{changes:?}").contains("hunter2"));
        changes[0].fields["title"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_call_is_one_change_however_it_is_wrapped_and_repeated() {
        let record = event("DeleteBucket", 1);
        let bridged = json!({
            "id": "e-1", "detail-type": "AWS API Call via CloudTrail", "detail": record,
        });
        let notified = json!({
            "Type": "Notification", "MessageId": "m-1", "Message": bridged.to_string(),
        });
        let bodies = [
            record.clone(),
            json!({ "Records": [record, {}, 7] }),
            json!([bridged, notified]),
            bridged,
            notified,
        ];
        let requests = bodies.map(|body| (vec![], body.to_string()));
        let changes = changes_of(&KIND, &Settings::default(), &requests);
        assert_eq!(changes.len(), 1);
        assert_eq!(
            Value::Object(changes[0].fields.clone()),
            json!({
                "title": "Delete bucket acme-logs (s3) by ada via AWS CLI",
                "risk_level": "high", "status": "completed", "outcome": "succeeded",
                "occurred_at": "2026-11-20T10:00:01.000Z",
                "started_at": "2026-11-20T10:00:01.000Z",
                "ended_at": "2026-11-20T10:00:01.000Z",
                "on_behalf_of": "ada", "tags": ["cloudtrail", "by-hand"],
                "links": [{
                    "label": "CloudTrail",
                    "url": "https://eu-west-1.console.aws.amazon.com/cloudtrailv2/home?region=eu-west-1#/events/id-DeleteBucket-1",
                }],
            })
        );
    }

    #[test]
    fn calls_of_one_session_are_one_change() {
        let records = [event("CreateBucket", 1), event("PutBucketPolicy", 9)];
        let body = json!({ "Records": records }).to_string();
        let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
        assert_eq!(changes[0].fields["title"], "AWS CLI by ada: 2 calls, s3");
        assert_eq!(
            changes[0].fields["description"],
            "- `CreateBucket acme-logs (eu-west-1)`\n- `PutBucketPolicy acme-logs (eu-west-1)`"
        );
    }

    #[test]
    fn a_call_about_one_instance_names_a_host() {
        let host_of = |parameters: Value| {
            let mut event = event("RebootInstances", 1);
            event["eventSource"] = json!("ec2.amazonaws.com");
            event["requestParameters"] = parameters;
            let requests = [(vec![], event.to_string())];
            let mut changes = changes_of(&KIND, &Settings::default(), &requests);
            changes.remove(0).hostname
        };
        let items = |ids: &[&str]| {
            let items: Vec<Value> = ids.iter().map(|id| json!({ "instanceId": id })).collect();
            json!({ "instancesSet": { "items": items } })
        };
        assert_eq!(host_of(items(&["i-1"])).as_deref(), Some("i-1"));
        assert_eq!(host_of(items(&["i-1", "i-2"])), None);
        assert_eq!(
            host_of(json!({ "instanceId": "i-1" })).as_deref(),
            Some("i-1")
        );
    }

    #[test]
    fn titles_tell_who_did_what_with_what() {
        let role = |role: &str, session: &str| {
            json!({
                "type": "AssumedRole", "principalId": format!("AROA:{session}"),
                "sessionContext": { "sessionIssuer": { "userName": role, "arn": "arn:aws:iam::1:role/x" } },
            })
        };
        for (members, title) in [
            (
                json!({
                    "eventName": "RunInstances", "eventSource": "ec2.amazonaws.com",
                    "userIdentity": role("deployer", "ci-7"), "requestParameters": null,
                    "userAgent": "APN/1.0 HashiCorp/1.0 Terraform/1.9.0",
                    "responseElements": { "instancesSet": { "items": [{ "instanceId": "i-0abc" }, { "instanceId": "i-0abd" }] } },
                }),
                "Run instances i-0abc and 1 more (ec2) by role deployer via Terraform",
            ),
            (
                json!({ "userIdentity": role("AWSReservedSSO_Admin_0a", "ada@example.com"), "sessionCredentialFromConsole": "true", "userAgent": "x" }),
                "Delete bucket acme-logs (s3) by ada@example.com in the console",
            ),
            (
                json!({ "userIdentity": { "type": "Root" }, "userAgent": "signin.amazonaws.com" }),
                "Delete bucket acme-logs (s3) by root in the console",
            ),
            (
                json!({ "userIdentity": { "type": "IAMUser", "userName": "ci-deployer", "invokedBy": "cloudformation.amazonaws.com" }, "userAgent": "cloudformation.amazonaws.com" }),
                "Delete bucket acme-logs (s3) by ci-deployer via CloudFormation",
            ),
            (
                json!({ "eventName": "PutSecretValue", "eventSource": "secretsmanager.amazonaws.com", "userAgent": "Boto3/1.3", "requestParameters": { "secretId": "db", "secretString": "hunter2" } }),
                "Set value of secret db (secretsmanager) by ada",
            ),
            (
                json!({ "userAgent": "x", "userIdentity": null }),
                "Delete bucket acme-logs (s3)",
            ),
        ] {
            assert_eq!(title_of(&with(event("DeleteBucket", 1), &members)), title);
        }
    }

    #[test]
    fn titles_name_what_was_changed_and_not_what_holds_it() {
        for (call, request, response, expected) in [
            (
                "CreateSubnet",
                json!({ "vpcId": "vpc-1" }),
                json!({ "subnet": { "subnetId": "subnet-1", "vpcId": "vpc-1" } }),
                "Create subnet subnet-1",
            ),
            (
                "StopInstances",
                json!({ "instancesSet": { "items": [{ "instanceId": "i-1" }] } }),
                json!(null),
                "Stop instance i-1",
            ),
            (
                "ModifyDBSnapshotAttribute",
                json!({ "dBSnapshotIdentifier": "nightly" }),
                json!(null),
                "Modify attribute of DB snapshot nightly",
            ),
            (
                "RestoreDBInstanceFromDBSnapshot",
                json!({ "dBInstanceIdentifier": "orders", "dBSnapshotIdentifier": "nightly" }),
                json!(null),
                "Restore DB instance orders",
            ),
            (
                "AttachRolePolicy",
                json!({ "policyArn": "arn:aws:iam::aws:policy/ReadOnly", "roleName": "deployer" }),
                json!(null),
                "Attach policy to role deployer",
            ),
            (
                "AddPermission20150331v2",
                json!({ "functionName": "payments", "action": "lambda:InvokeFunction" }),
                json!(null),
                "Add permission to function payments",
            ),
            (
                "CreateAccessKey",
                json!({ "userName": "ada" }),
                json!({ "accessKey": { "accessKeyId": "hunter2", "userName": "ada" } }),
                "Create access key of user ada",
            ),
            (
                "DeleteNatGateway",
                json!({ "DeleteNatGatewayRequest": { "NatGatewayId": "nat-1" } }),
                json!(null),
                "Delete NAT gateway nat-1",
            ),
            (
                "CreateTags",
                json!({ "resourcesSet": { "items": [{ "resourceId": "i-1" }, { "resourceId": "i-2" }] } }),
                json!(null),
                "Create tags of i-1 and 1 more",
            ),
        ] {
            let members = json!({
                "eventName": call, "requestParameters": request, "responseElements": response,
            });
            let title = title_of(&with(event(call, 1), &members));
            assert_eq!(title, format!("{expected} (s3) by ada via AWS CLI"));
        }
    }

    #[test]
    fn calls_of_whom_nobody_knows_are_no_session() {
        let unknown = |second| {
            with(
                event("CreateBucket", second),
                &json!({ "userIdentity": null }),
            )
        };
        let body = json!({ "Records": [unknown(1), unknown(2)] }).to_string();
        let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
        assert_eq!(changes.len(), 2);
    }

    #[test]
    fn deliveries_of_cloudwatch_logs_and_byte_order_marks_are_taken_off() {
        let message = event("DeleteBucket", 1).to_string();
        let delivery = json!({
            "messageType": "DATA_MESSAGE", "logGroup": "trail",
            "logEvents": [{ "id": "1", "message": message }, { "id": "2", "message": "started" }],
        });
        for body in [
            delivery.to_string(),
            format!("\u{feff}{message}\n{message}\n"),
        ] {
            let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
            assert_eq!(changes.len(), 1);
            assert_eq!(
                changes[0].fields["title"],
                "Delete bucket acme-logs (s3) by ada via AWS CLI"
            );
        }
    }

    #[test]
    fn what_changes_nothing_is_ignored_with_a_reason() {
        for (members, reason) in [
            (
                json!({ "eventName": "UpdateInstanceInformation", "eventSource": "ssm.amazonaws.com" }),
                "what agents report is no change",
            ),
            (
                json!({ "eventName": "DeleteMessage", "eventSource": "ec2messages.amazonaws.com" }),
                "what agents report is no change",
            ),
            (
                json!({ "eventName": "StartQueryExecution", "eventSource": "athena.amazonaws.com" }),
                "calls that only read are no changes",
            ),
            (
                json!({ "eventName": "ObjectCreated:Put", "eventSource": "aws:s3", "eventCategory": null, "managementEvent": null }),
                "calls on data are no changes",
            ),
            (
                json!({ "readOnly": true }),
                "calls that only read are no changes",
            ),
            (
                json!({ "readOnly": "true" }),
                "calls that only read are no changes",
            ),
            (
                json!({ "readOnly": null, "eventName": "ListBuckets" }),
                "calls that only read are no changes",
            ),
            (
                json!({ "eventCategory": "Data" }),
                "calls on data are no changes",
            ),
            (
                json!({ "managementEvent": false }),
                "calls on data are no changes",
            ),
            (
                json!({ "eventCategory": "Insight" }),
                "events of the category Insight are no changes",
            ),
            (
                json!({ "errorCode": "AccessDenied" }),
                "calls that failed are no changes",
            ),
            (
                json!({ "eventName": "ConsoleLogin" }),
                "sign-ins and taken roles are no changes",
            ),
            (
                json!({ "eventName": "AssumeRoleWithSAML" }),
                "sign-ins and taken roles are no changes",
            ),
            (json!({ "eventType": "AwsServiceEvent" }), BY_AWS),
            (json!({ "userIdentity": { "type": "AWSService" } }), BY_AWS),
            (
                json!({ "userIdentity": { "invokedBy": "rds.amazonaws.com" } }),
                BY_AWS,
            ),
        ] {
            let body = with(event("DeleteBucket", 1), &members).to_string();
            let reading = reading_of(&KIND, &Settings::default(), &[], &body).unwrap();
            assert_eq!(reading, Reading::ignored(reason));
        }
        let other =
            json!({ "detail-type": "EC2 Instance State-change Notification", "detail": {} });
        let reading = reading_of(&KIND, &Settings::default(), &[], &other.to_string()).unwrap();
        assert_eq!(
            reading,
            Reading::ignored(
                "events of the detail type EC2 Instance State-change Notification are no changes"
            )
        );
    }

    #[test]
    fn a_subscription_is_confirmed_by_a_person() {
        let body = json!({ "Type": "SubscriptionConfirmation", "SubscribeURL": "https://sns.example.com/1" });
        let body = body.to_string();
        let answer = received(&[], &body, sns::handshake);
        assert_eq!(
            answer,
            Some(crate::handshake::Handshake::Confirm(
                "https://sns.example.com/1".to_owned()
            ))
        );
    }

    #[test]
    fn what_is_no_event_is_unreadable() {
        for body in ["", "{", "{}", "7", "nothing"] {
            assert!(
                reading_of(&KIND, &Settings::default(), &[], body).is_err(),
                "{body}"
            );
        }
    }
}
