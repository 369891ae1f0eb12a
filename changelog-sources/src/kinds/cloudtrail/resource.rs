//! What a call of AWS is about: a name or an id in its parameters, and the words for it.

use serde_json::Value;

use crate::json::{list, text};
use crate::kinds::calls::{is_name, joint, last_part, sentence, singular, words};

/// What a call was about.
pub(super) struct Resource {
    /// Its kind, as the member is called that has its name: `bucket`, `routeTable`. Empty if
    /// it is only called `name` or `id`.
    kind: String,
    pub(super) name: String,
}

impl Resource {
    /// Finds it in the members that fit the call's name, such as `bucketName` of
    /// `DeleteBucket`, first of the request and then of the response, which has the id of what
    /// was made. Only names and ids are looked at.
    pub(super) fn of(event: &Value, call: &str) -> Option<Self> {
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
pub(super) fn what(call: &str, resource: Option<&Resource>) -> String {
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
