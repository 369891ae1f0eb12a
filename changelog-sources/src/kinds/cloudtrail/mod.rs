//! AWS CloudTrail: <https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html>.
//!
//! A management event that writes and succeeded is a call: alone, in `Records`, from
//! EventBridge, and each of them wrapped by SNS. Reads, data events, failures, sign-ins and
//! what AWS services do for themselves are no changes.

mod noise;
mod resource;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::noise::{BY_AWS, ignore};
use self::resource::{Resource, what};
use super::Kind;
use super::calls::{
    NoCall, Told, Who, deletes, digest_of, events_in, ignored, is_name, last_part, logged,
    read_each, tool_of, unreadable, values,
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

/// Returns the page of an event.
fn link(event: &Value, region: Option<&str>) -> Option<String> {
    let region = region.filter(|region| is_name(region))?;
    let id = text(event, "/eventID").filter(|id| is_name(id))?;
    Some(format!(
        "https://{region}.console.aws.amazon.com/cloudtrailv2/home?region={region}#/events/{id}"
    ))
}
