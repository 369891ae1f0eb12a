//! JSON schemas with the limits of strings and lists, for the OpenAPI document.
//!
//! The attributes of utoipa take literals only, so each kind of value is a type
//! here, which the fields name as their `value_type`.

use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::ids::ServiceId;
use crate::limits::{
    MAX_BULK_CHANGES, MAX_DEPENDENCIES, MAX_EMAIL_CHARS, MAX_FQDN_CHARS,
    MAX_HOST_DESCRIPTION_CHARS, MAX_LINKS, MAX_LONG_TEXT_CHARS, MAX_NAME_CHARS, MAX_ROLES,
    MAX_SERVICES, MAX_TAGS, MAX_TITLE_CHARS, MAX_URL_CHARS, MIN_SERVICE_NAME_CHARS,
    MIN_TITLE_CHARS,
};

/// Matches a string without control characters.
const ONE_LINE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// Matches a string whose only control characters are line ends and tabs.
const MULTI_LINE: &str = "^([^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]|\\r\\n)*$";
/// Matches a hex color.
const HEX_COLOR: &str = "^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";

macro_rules! schemas {
    ($( $(#[$doc:meta])* $name:ident = $schema:expr; )+) => { $(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::from($schema))
            }
        }

        impl ToSchema for $name {}
    )+ };
}

schemas! {
    /// The title of a change.
    Title = text(MIN_TITLE_CHARS, MAX_TITLE_CHARS, ONE_LINE).examples(["Deploy api 2.3"]);
    /// An optional text of several lines.
    LongText = text(0, MAX_LONG_TEXT_CHARS, MULTI_LINE).examples(["Rolls out the new rate limiter."]);
    /// The name of a host, a tag, a role, the label of a link, an operating system.
    Name = text(1, MAX_NAME_CHARS, ONE_LINE).examples(["web-1"]);
    /// The same where an empty string is allowed.
    OptionalName = text(0, MAX_NAME_CHARS, ONE_LINE).examples(["Debian 12"]);
    /// The name of a service.
    ServiceName = text(MIN_SERVICE_NAME_CHARS, MAX_NAME_CHARS, ONE_LINE).examples(["payments"]);
    /// The fully qualified domain name of a host.
    Fqdn = text(0, MAX_FQDN_CHARS, ONE_LINE).examples(["web-1.example.com"]);
    /// The description of a host.
    HostDescription =
        text(0, MAX_HOST_DESCRIPTION_CHARS, MULTI_LINE).examples(["Behind the balancer"]);
    /// The URL of a link.
    LinkUrl = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(MAX_URL_CHARS))
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .examples(["https://ci.example.com/runs/42"]);
    /// The color of a service.
    Color = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(HEX_COLOR))
        .examples(["#6366f1"]);
    /// The tags of a change.
    Tags = ArrayBuilder::new()
        .items(Name::schema())
        .max_items(Some(MAX_TAGS))
        .examples([serde_json::json!(["terraform", "prod"])]);
    /// The services of a change.
    ServiceIds = ArrayBuilder::new().items(ServiceId::schema()).max_items(Some(MAX_SERVICES));
    /// The person for whom an API key acts.
    PersonClaim = text(0, MAX_EMAIL_CHARS, ONE_LINE).examples(["ada@example.com"]);
    /// A commit.
    Commit = text(0, MAX_NAME_CHARS, ONE_LINE).examples(["1a2b3c4d5e6f"]);
    /// The roles of a host.
    Roles = ArrayBuilder::new()
        .items(Name::schema())
        .max_items(Some(MAX_ROLES))
        .examples([serde_json::json!(["web", "cache"])]);
    /// The services that a service depends on.
    Dependencies = ArrayBuilder::new()
        .items(ServiceId::schema())
        .max_items(Some(MAX_DEPENDENCIES));
    /// The links of a change.
    Links = ArrayBuilder::new().items(Ref::from_schema_name("Link")).max_items(Some(MAX_LINKS));
    /// The changes of a bulk request.
    NewChanges = ArrayBuilder::new()
        .items(Ref::from_schema_name("NewChange"))
        .min_items(Some(1))
        .max_items(Some(MAX_BULK_CHANGES));
}

fn text(min_chars: usize, max_chars: usize, pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length((min_chars > 0).then_some(min_chars))
        .max_length(Some(max_chars))
        .pattern(Some(pattern))
}
