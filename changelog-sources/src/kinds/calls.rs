//! What the kinds share whose events are single calls to an API.

use changelog_core::{Link, Timestamp};
use serde_json::Value;

use crate::json::{self, fit, parse, text};
use crate::observation::{Call, CallProgress, Facts, Observation, Reading, Tool, Unreadable};

/// The characters of a resource's name that a title or a line has.
const MAX_RESOURCE_CHARS: usize = 100;

/// Why an event is no call that changes something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoCall {
    /// It says nothing about a change.
    Ignored(String),
    /// It is not what the kind sends.
    Unreadable(String),
}

/// Returns that an event says nothing about a change.
pub(super) fn ignored<T>(reason: impl Into<String>) -> Result<T, NoCall> {
    Err(NoCall::Ignored(reason.into()))
}

/// Returns that an event is not what the kind sends.
pub(super) fn unreadable(expected: impl Into<String>) -> NoCall {
    NoCall::Unreadable(expected.into())
}

/// Reads the events of a request. One that cannot be read is an error only if it is alone:
/// the others are not lost by it.
pub(super) fn read_each(
    events: &[Value],
    read: impl Fn(&Value) -> Result<Call, NoCall>,
) -> Result<Reading, Unreadable> {
    let mut reading = Reading::default();
    for event in events {
        match read(event) {
            Ok(call) => reading.observations.push(Observation::Call(Box::new(call))),
            Err(NoCall::Ignored(reason)) => reading.ignore(reason),
            Err(NoCall::Unreadable(reason)) if events.len() == 1 => return Err(Unreadable(reason)),
            Err(NoCall::Unreadable(reason)) => {
                reading.ignore(format!("one of the events cannot be read: {reason}"));
            }
        }
    }
    if events.is_empty() {
        reading.ignore("the request has no events");
    }
    Ok(reading)
}

/// Reads a body that is one JSON value, or one a line as in files of logs. A line that is
/// no JSON is null, as the others are to be read.
pub(super) fn values(body: &[u8]) -> Result<Vec<Value>, Unreadable> {
    let error = match parse(body) {
        Ok(value) => return Ok(vec![value]),
        Err(error) => error,
    };
    let lines = body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    let values: Vec<Value> = lines.map(|line| parse(line).unwrap_or_default()).collect();
    if values.iter().any(Value::is_object) {
        Ok(values)
    } else {
        Err(error)
    }
}

/// Returns the events of a value: the elements of the first of the members that is a list, or
/// of the value if it is one; else the value itself.
pub(super) fn events_in(mut value: Value, members: &[&str]) -> Vec<Value> {
    let list = members.iter().find_map(|member| match value.get(member) {
        Some(Value::Array(_)) => value.get_mut(member).map(Value::take),
        _ => None,
    });
    match list.unwrap_or(value) {
        Value::Array(events) => events,
        value => vec![value],
    }
}

/// Returns the JSON objects among the messages that a subscription of CloudWatch Logs
/// delivers; `None` if a value is no such delivery. Other lines of the log are left out:
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/SubscriptionFilters.html>.
pub(super) fn logged(value: &Value) -> Option<Vec<Value>> {
    let events = value.get("logEvents")?.as_array()?;
    let messages = events.iter().filter_map(|event| text(event, "/message"));
    let parsed = messages.filter_map(|message| parse(message.as_bytes()).ok());
    Some(parsed.filter(Value::is_object).collect())
}

/// A call, in the words of which titles and lines are made.
pub(super) struct Told {
    /// What the sender calls it.
    pub(super) id: String,
    pub(super) at: Timestamp,
    pub(super) progress: CallProgress,
    pub(super) who: Who,
    pub(super) tool: Tool,
    pub(super) scope: String,
    pub(super) area: String,
    /// What was done: `Delete bucket`.
    pub(super) what: String,
    /// To what; it ends the title's first part.
    pub(super) resource: Option<String>,
    /// Where: ` in shop`, ` (s3)`.
    pub(super) place: String,
    /// The call in the sender's own words, without the resource: `DeleteBucket`.
    pub(super) method: String,
    /// What stands behind it in brackets, such as the region.
    pub(super) region: Option<String>,
    pub(super) deletes: bool,
    pub(super) services: Vec<String>,
    /// The machine that it is about.
    pub(super) host: Option<String>,
    pub(super) places: Vec<String>,
    pub(super) links: Vec<Link>,
}

impl From<Told> for Call {
    fn from(told: Told) -> Self {
        let resource = told
            .resource
            .map(|name| format!(" {}", fit(&name, MAX_RESOURCE_CHARS)))
            .unwrap_or_default();
        let via = match &told.tool {
            Tool::Console => " in the console".to_owned(),
            Tool::CommandLine(name) | Tool::Automation(name) => format!(" via {name}"),
            Tool::Other => String::new(),
        };
        let who = told.who;
        let by = match who.name.as_str() {
            UNKNOWN => String::new(),
            name => format!(" by {name}"),
        };
        let region = told.region.map(|region| format!(" ({region})"));
        // The calls of whom nobody knows may be of several: they are no session.
        let scope = match who.name.as_str() {
            UNKNOWN => format!("{} {}", told.scope, told.id),
            _ => told.scope,
        };
        Self {
            id: told.id,
            at: told.at,
            progress: told.progress,
            line: format!("{}{resource}{}", told.method, region.unwrap_or_default()),
            facts: Facts {
                title: format!("{}{resource}{}{by}{via}", told.what, told.place),
                services: told.services,
                hostname: told.host,
                places: told.places,
                links: told.links,
                person: who.is_person.then(|| who.name.clone()),
                deletes: told.deletes,
                ..Facts::default()
            },
            principal: who.name,
            is_person: who.is_person,
            tool: told.tool,
            scope,
            area: told.area,
        }
    }
}

/// The name of who cannot be known.
const UNKNOWN: &str = "unknown";

/// Who made a call.
pub(super) struct Who {
    pub(super) name: String,
    pub(super) is_person: bool,
}

impl Who {
    pub(super) fn person(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_person: true,
        }
    }

    pub(super) fn unknown() -> Self {
        Self::machine(UNKNOWN)
    }

    pub(super) fn machine(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            is_person: false,
        }
    }

    /// Returns who has a name that people and machines can have: a machine if a word of it
    /// says so.
    pub(super) fn named(name: impl Into<String>) -> Self {
        const MACHINES: [&str; 22] = [
            "automation",
            "bot",
            "ci",
            "cd",
            "cicd",
            "controller",
            "deploy",
            "deployer",
            "deployment",
            "github",
            "gitlab",
            "jenkins",
            "operator",
            "pipeline",
            "robot",
            "runner",
            "sa",
            "service",
            "svc",
            "system",
            "terraform",
            "terraformer",
        ];
        let name = name.into();
        let lower = name.to_lowercase();
        let (local, domain) = lower.split_once('@').unwrap_or((&lower, ""));
        let mut words = local.split(|letter: char| !letter.is_alphanumeric());
        let is_person =
            !words.any(|word| MACHINES.contains(&word)) && !domain.ends_with("gserviceaccount.com");
        Self { name, is_person }
    }
}

/// Returns the tool that a user agent names; `cli` is the name of the sender's own command
/// line and how its user agent begins.
pub(super) fn tool_of(agent: &str, cli: (&str, &[&str])) -> Tool {
    const AUTOMATIONS: [(&str, &str); 12] = [
        ("terraform", "Terraform"),
        ("opentofu", "OpenTofu"),
        ("pulumi", "Pulumi"),
        ("cloudformation.amazonaws.com", "CloudFormation"),
        ("aws-cdk", "CDK"),
        ("crossplane", "Crossplane"),
        ("ansible", "Ansible"),
        ("helm/", "Helm"),
        ("argocd", "Argo CD"),
        ("kustomize-controller", "Flux"),
        ("helm-controller", "Flux"),
        ("deployment-manager", "Deployment Manager"),
    ];
    const CONSOLES: [&str; 5] = [
        "console.amazonaws.com",
        "signin.amazonaws.com",
        "aws internal",
        "googlecloudconsole",
        "mozilla/",
    ];
    let agent = agent.to_lowercase();
    let automation = AUTOMATIONS
        .iter()
        .find(|(word, _)| agent.contains(word))
        .map(|(_, name)| Tool::Automation((*name).to_owned()));
    automation.unwrap_or_else(|| {
        let (name, beginnings) = cli;
        if beginnings.iter().any(|word| agent.contains(word)) {
            Tool::CommandLine(name.to_owned())
        } else if agent.contains("kubectl") {
            Tool::CommandLine("kubectl".to_owned())
        } else if CONSOLES.iter().any(|word| agent.contains(word)) {
            Tool::Console
        } else {
            Tool::Other
        }
    })
}

/// Returns the words of a name in CamelCase, the first with a capital: `CreateDBInstance`
/// is `Create DB instance`. The version at the end of some names of AWS is left out.
pub(super) fn sentence(name: &str) -> String {
    let words = words(name);
    let mut sentence = words.join(" ");
    if let Some(first) = sentence.chars().next() {
        let rest = sentence.split_off(first.len_utf8());
        sentence = first.to_uppercase().chain(rest.chars()).collect();
    }
    sentence
}

/// Returns what was done to one thing: `Restart virtual machine`, and with a verb of several
/// words `Regenerate key of storage account`.
pub(super) fn phrase(verb: &str, noun: &str) -> String {
    let verb = match verb {
        "insert" => "Create".to_owned(),
        "patch" => "Update".to_owned(),
        verb => sentence(verb),
    };
    match verb.split_once(' ') {
        Some((first, _)) if !verb.ends_with(" off") => format!("{verb} {} {noun}", joint(first)),
        _ => format!("{verb} {noun}"),
    }
}

/// Returns the word between what a verb does and to whom: `Attach policy to`, `Remove
/// permission from`, `Update code of`.
pub(super) fn joint(verb: &str) -> &'static str {
    match verb.to_lowercase().as_str() {
        "add" | "assign" | "associate" | "attach" | "push" | "register" | "send" => "to",
        "run" | "start" => "on",
        "deregister" | "detach" | "disassociate" | "remove" | "unassign" => "from",
        _ => "of",
    }
}

/// Returns the words of a name in CamelCase, in lower case unless they are abbreviations.
pub(super) fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = without_version(name).chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let is_lower = |at: usize| letters.get(at).is_some_and(|letter| letter.is_lowercase());
        let before = index.checked_sub(1).and_then(|at| letters.get(at));
        // In `DBInstance` the last capital begins a word, but `ACLs` is one.
        let ends_capitals = || {
            let is_plural = letters.get(index + 1) == Some(&'s') && !is_lower(index + 2);
            is_lower(index + 1) && !is_plural
        };
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| !before.is_uppercase() || ends_capitals());
        if (begins || !letter.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.push(*letter);
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    for word in &mut words {
        let capitals = word.chars().filter(|letter| letter.is_uppercase()).count();
        if capitals < 2 {
            *word = word.to_lowercase();
        }
        if ABBREVIATIONS.contains(&word.as_str()) {
            *word = word.to_uppercase();
        }
    }
    words
}

/// The words that are written in capitals, whatever their case in a name.
const ABBREVIATIONS: [&str; 23] = [
    "acl", "api", "cidr", "cors", "db", "dns", "ebs", "iam", "ip", "kms", "mfa", "nat", "oidc",
    "saml", "sql", "ssh", "ssl", "sso", "tls", "vm", "vpc", "vpn", "waf",
];

/// Returns a name without a date as its version: `UpdateFunctionCode20150331v2`.
fn without_version(name: &str) -> &str {
    let version = name.find("20").filter(|at| {
        *at > 0 && name.len() - at >= 8 && {
            let mut letters = name.chars().skip_while(|letter| !letter.is_numeric());
            letters.all(|letter| letter.is_numeric() || matches!(letter, '_' | 'v'))
        }
    });
    version.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// Returns one of what a plural names: `virtual machines`, `policies`, `addresses`.
pub(super) fn singular(plural: &str) -> String {
    let replaced = |end: &str, by: &str| plural.strip_suffix(end).map(|rest| format!("{rest}{by}"));
    if ["ss", "is", "us"].iter().any(|end| plural.ends_with(end)) {
        return plural.to_owned();
    }
    replaced("ies", "y")
        .or_else(|| replaced("sses", "ss"))
        .or_else(|| replaced("classes", "class"))
        .or_else(|| replaced("s", ""))
        .unwrap_or_else(|| plural.to_owned())
}

/// Returns whether a name of a call says that it only reads.
pub(super) fn reads(name: &str) -> bool {
    const READING: [&str; 24] = [
        "check", "decrypt", "describe", "detect", "discover", "download", "encrypt", "estimate",
        "export", "get", "head", "list", "lookup", "preview", "query", "read", "scan", "search",
        "select", "simulate", "validate", "verify", "view", "watch",
    ];
    let words = words(name);
    let mut words = words.iter().map(|word| word.to_lowercase());
    let first = words.find(|word| word != "batch").unwrap_or_default();
    READING.contains(&first.as_str())
        || (first == "aggregated" || first == "test")
            && words.any(|word| READING.contains(&word.as_str()) || word == "permissions")
}

/// Returns whether a name of a call says that it deletes.
pub(super) fn deletes(name: &str) -> bool {
    const DELETING: [&str; 9] = [
        "delete",
        "deletecollection",
        "deletion",
        "destroy",
        "drop",
        "evict",
        "purge",
        "remove",
        "terminate",
    ];
    let words = words(name);
    words
        .iter()
        .any(|word| DELETING.contains(&word.to_lowercase().as_str()))
}

/// Returns an id for an event that has none.
pub(super) fn digest_of(event: &Value) -> String {
    json::digest_of(event.to_string().as_bytes())
}

/// Returns whether a string is safe to show as a name: short, without spaces or punctuation
/// that values such as documents and keys have.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_alphanumeric() || "-_./:@+".contains(letter);
    !text.is_empty() && text.chars().count() <= MAX_RESOURCE_CHARS && text.chars().all(is_allowed)
}

/// Returns the last part of a path or an ARN.
pub(super) fn last_part(path: &str) -> &str {
    path.rsplit(['/', ':'])
        .find(|part| !part.is_empty())
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls_are_split_into_words() {
        for (name, expected) in [
            ("RunInstances", "Run instances"),
            ("CreateDBInstance", "Create DB instance"),
            ("DeactivateMFADevice", "Deactivate MFA device"),
            ("PutBucketACL", "Put bucket ACL"),
            ("SetACLs", "Set ACLs"),
            ("UpdateFunctionCode20150331v2", "Update function code"),
            ("CreateDistribution2020_05_31", "Create distribution"),
            ("setIamPolicy", "Set IAM policy"),
            ("CreateInstance2", "Create instance2"),
            ("virtualMachines", "Virtual machines"),
            ("", ""),
        ] {
            assert_eq!(sentence(name), expected);
        }
    }

    #[test]
    fn plurals_have_a_singular() {
        for (plural, expected) in [
            ("virtual machines", "virtual machine"),
            ("policies", "policy"),
            ("public IP addresses", "public IP address"),
            ("databases", "database"),
            ("redis", "redis"),
            ("ingresses", "ingress"),
        ] {
            assert_eq!(singular(plural), expected);
        }
    }

    #[test]
    fn names_of_calls_tell_whether_they_read_or_delete() {
        for name in [
            "GetObject",
            "BatchGetItem",
            "listKeys",
            "aggregatedList",
            "TestIamPermissions",
        ] {
            assert!(reads(name), "{name}");
        }
        for name in ["RunInstances", "Getaway", "ResetImage", "BatchWriteItem"] {
            assert!(!reads(name), "{name}");
        }
        for name in [
            "DeleteBucket",
            "BatchDeleteImage",
            "ScheduleKeyDeletion",
            "TerminateInstances",
        ] {
            assert!(deletes(name), "{name}");
        }
        assert!(!deletes("UndeleteVault"));
    }

    #[test]
    fn lines_that_are_no_json_do_not_lose_the_others() {
        let values = values(b"{\"a\": 1}\nnothing\n\n{\"a\": 2}\n").unwrap();
        assert_eq!(values.len(), 3);
        assert!(super::values(b"nothing\nat all").is_err());
    }
}
