//! JSON schemas with the limits of strings and lists, for the OpenAPI document.
//!
//! The attributes of utoipa take literals only, so each kind of value is a type
//! here, which the fields name as their `value_type`.

use std::fmt::Write;

use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, Schema, Type,
};
use utoipa::openapi::{KnownFormat, Ref, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::{
    MAX_BULK_CHANGES, MAX_DEPENDENCIES, MAX_EMAIL_CHARS, MAX_FQDN_CHARS,
    MAX_HOST_DESCRIPTION_CHARS, MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_ROLES,
    MAX_SERVICES, MAX_TAGS, MAX_TITLE_CHARS, MAX_URL_CHARS, MIN_SERVICE_NAME_CHARS,
    MIN_TITLE_CHARS,
};
use crate::rules::TextKind;
use crate::time::Timestamp;

/// Matches the year of a time that is not before 1970.
const YEAR: &str = "(19[7-9][0-9]|[2-9][0-9]{3})";
/// Matches a hex color.
const HEX_COLOR: &str = "^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";

macro_rules! schemas {
    ($( $(#[$doc:meta])* $name:ident = $schema:expr; )+) => { $(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::from($schema))
            }
        }

        impl ToSchema for $name {}
    )+ };
}
pub(crate) use schemas;

schemas! {
    /// The title of a change.
    Title = text(MIN_TITLE_CHARS, MAX_TITLE_CHARS, TextKind::Line).examples(["Deploy api 2.3"]);
    /// An optional text of several lines.
    LongText = text(0, MAX_LONG_TEXT_CHARS, TextKind::MultiLine)
        .examples(["Rolls out the new rate limiter."]);
    /// A tag, the label of a link, or the name of an automation.
    Name = text(1, MAX_NAME_CHARS, TextKind::Line).examples(["web-1"]);
    /// The name of a host, or a role.
    KeyName = text(1, MAX_NAME_CHARS, TextKind::Key).examples(["web-1"]);
    /// The same as `Name` where an empty string is allowed.
    OptionalName = text(0, MAX_NAME_CHARS, TextKind::Line).examples(["Debian 12"]);
    /// The name of a service or host instead of its id; empty counts as absent.
    NameInstead = text(0, MAX_NAME_CHARS, TextKind::Line);
    /// The name of a service.
    ServiceName =
        text(MIN_SERVICE_NAME_CHARS, MAX_NAME_CHARS, TextKind::Key).examples(["payments"]);
    /// The fully qualified domain name of a host.
    Fqdn = text(0, MAX_FQDN_CHARS, TextKind::Line).examples(["web-1.example.com"]);
    /// The address of a host.
    IpAddress = AnyOfBuilder::new()
        .item(formatted(SchemaFormat::KnownFormat(KnownFormat::Ipv4)))
        .item(formatted(SchemaFormat::KnownFormat(KnownFormat::Ipv6)))
        .examples(["192.0.2.10"]);
    /// The description of a host.
    HostDescription = text(0, MAX_HOST_DESCRIPTION_CHARS, TextKind::MultiLine)
        .examples(["Behind the balancer"]);
    /// The URL of a link.
    LinkUrl = formatted(SchemaFormat::Custom("uri".to_owned()))
        .max_length(Some(MAX_URL_CHARS))
        .pattern(Some("^[hH][tT][tT][pP][sS]?://"))
        .examples(["https://ci.example.com/runs/42"]);
    /// The same as `LinkUrl` where an empty string counts as absent.
    OptionalUrl = AnyOfBuilder::new()
        .item(LinkUrl::schema())
        .item(ObjectBuilder::new().schema_type(Type::String).max_length(Some(0)));
    /// The color of a service.
    Color = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(HEX_COLOR))
        .examples(["#6366f1"]);
    /// The tags of a change.
    Tags = list("Name", MAX_TAGS).examples([json!(["terraform", "prod"])]);
    /// The services of a change.
    ServiceIds = list("ServiceId", MAX_SERVICES);
    /// The person for whom an API key acts.
    PersonClaim = text(0, MAX_EMAIL_CHARS, TextKind::Line).examples(["ada@example.com"]);
    /// A commit.
    Commit = text(0, MAX_NAME_CHARS, TextKind::Line).examples(["1a2b3c4d5e6f"]);
    /// The run of an automation.
    AgentRun = text(0, MAX_URL_CHARS, TextKind::Line).examples(["https://ci.example.com/runs/42"]);
    /// The roles of a host.
    Roles = list("KeyName", MAX_ROLES).examples([json!(["web", "cache"])]);
    /// The services that a service depends on.
    Dependencies = list("ServiceId", MAX_DEPENDENCIES);
    /// The links of a change.
    Links = list("NewLink", MAX_LINKS);
    /// The changes of a bulk request.
    BulkChanges = list("NewChange", MAX_BULK_CHANGES).min_items(Some(1));
    /// A time at which something has happened.
    PastTime = formatted(SchemaFormat::KnownFormat(KnownFormat::DateTime))
        .pattern(Some(format!("^{YEAR}-")))
        .description(Some("RFC 3339 with any offset, from 1970 on, not in the future"))
        .examples(["2026-01-15T08:30:00.000Z"]);
    /// A time, or milliseconds since 1970.
    GraphTime = AnyOfBuilder::new()
        .item(Timestamp::schema())
        .item(ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]{1,18}$")));
    /// The place of a change in lists.
    Cursor = AnyOfBuilder::new()
        .item(formatted(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
        .item(ObjectBuilder::new().schema_type(Type::String).pattern(Some(format!("^{UUID}@{YEAR}-{REST}$"))));
}

/// Matches an id.
const UUID: &str = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
/// Matches what follows the year of a time and `-`.
const REST: &str = "((0[1-9]|1[0-2])-(0[1-9]|[12][0-9])|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)\
                    T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

/// Returns the schema of a string of one line.
pub fn line() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern(TextKind::Line, false)))
}

fn text(min_chars: usize, max_chars: usize, kind: TextKind) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length((min_chars > 0).then_some(min_chars))
        .max_length(Some(max_chars))
        .pattern(Some(pattern(kind, min_chars > 0)))
}

fn formatted(format: SchemaFormat) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(format))
}

/// Returns the schema of an object that a client sends: other members are refused.
pub(crate) fn closed<T: PartialSchema>(required: &[&str]) -> Schema {
    let mut object = match T::schema() {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::new(),
    };
    object.required = required.iter().map(ToString::to_string).collect();
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    object.into()
}

fn list(element: &str, max: usize) -> ArrayBuilder {
    ArrayBuilder::new()
        .items(Ref::from_schema_name(element))
        .max_items(Some(max))
}

/// Returns the pattern of the texts of a kind, which are not only white space if they are
/// `visible`: it is trimmed. Characters above U+FFFF are left out:
/// implementations differ in how they read them.
fn pattern(kind: TextKind, visible: bool) -> String {
    let forbids = |c: &char| kind.forbids(*c);
    let mut numbers = ('\0'..='\u{ffff}')
        .filter(forbids)
        .map(u32::from)
        .peekable();
    let mut class = String::new();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if_eq(&(last + 1)) {
            last = next;
        }
        let _ = write!(class, "\\u{first:04x}-\\u{last:04x}");
    }
    match kind {
        // A line feed may follow a carriage return.
        TextKind::MultiLine => format!("^([^{class}]|\\r\\n)*$"),
        _ if visible => format!("^[^{class}]*[^\\s{class}][^{class}]*$"),
        _ => format!("^[^{class}]*$"),
    }
}

/// Returns the JSON schema of "if the object matches `condition`, then its members match
/// `then`".
pub(crate) fn implies(condition: &Value, then: &Value) -> Value {
    json!({ "if": condition, "then": { "properties": then } })
}
