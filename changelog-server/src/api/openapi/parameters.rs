//! The query parameters of the endpoints, with the limits of core.

use changelog_core::limits::{
    DEFAULT_ACTIVITY_ENTRIES, DEFAULT_ANNOTATIONS, DEFAULT_PER_PAGE, DEFAULT_SUSPECTS,
    DEFAULT_WINDOWS_MINUTES, MAX_ACTIVITY_ENTRIES, MAX_ANNOTATIONS, MAX_ITEMS_PER_PAGE,
    MAX_NAME_CHARS, MAX_PER_PAGE, MAX_QUERY_WORDS, MAX_SUSPECTS, MAX_TAGS, MAX_WINDOW_MINUTES,
    MIN_ID_PREFIX,
};
use changelog_core::{ChangeEvent, ResourceType, activity, schema};
use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, Ref, RefOr, Required, SchemaFormat};
use utoipa::{IntoParams, PartialSchema};

macro_rules! parameters {
    ($( $(#[$doc:meta])* $name:ident = [$( $parameter:expr, )+]; )+) => { $(
        $(#[$doc])*
        pub(in crate::api) struct $name;

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($parameter.build()),+]
            }
        }
    )+ };
}

parameters! {
    /// Which changes, in lists, annotations and streams.
    Selection = [
        query("q", string(), &format!(
            "Search words, at most {MAX_QUERY_WORDS}; the title must contain a word that starts with \
             each, ignoring case and diacritics"
        )).example(Some("deploy api".into())),
        query("text", string(), &format!(
            "Search words, at most {MAX_QUERY_WORDS}; the title, a tag, or the name of a service or the \
             host must contain a word that starts with each. At least {MIN_ID_PREFIX} digits of an id \
             also find the changes whose id starts with them"
        )).example(Some("payments rollout".into())),
        query("service_id", named("ServiceId"), "Changes of this service, whether it is the first or not"),
        query("host_id", named("HostId"), "Changes on this host"),
        words("environment", "Environment", json!(["prod", "staging"]), "Changes of one of these environments"),
        words("risk_level", "RiskLevel", json!(["medium", "high"]), "Changes with one of these risk levels"),
        query("min_risk", named("RiskLevel"), "Changes with this risk level or a higher one")
            .example(Some("medium".into())),
        words("status", "Status", json!(["completed", "rolled_back"]), "Changes with one of these statuses"),
        words("not_status", "Status", json!(["planned"]), "Changes with another status than these"),
        query("active", boolean(), "Changes that are in progress, or that are not").example(Some(false.into())),
        query("created_by", schema::line().min_length(Some(1)).max_length(Some(MAX_NAME_CHARS)),
            "Changes recorded by this API key or person: an id, or a name regardless of ASCII case")
            .example(Some("ci".into())),
        query("source", schema::line().min_length(Some(1)).max_length(Some(MAX_NAME_CHARS)),
            "Changes that this source told of: an id, or a name regardless of ASCII case")
            .example(Some("github".into())),
        query("agent", schema::line().min_length(Some(1)).max_length(Some(MAX_NAME_CHARS)),
            "Changes that this automation made, by its name regardless of ASCII case")
            .example(Some("terraform".into())),
        words("by", "MadeBy", json!(["hand"]), "Changes that were made by one of these; `unattended` are those of agents without a person \
             behind them"),
        query("tag", ArrayBuilder::new().items(schema::line()).max_items(Some(MAX_TAGS)),
            "Changes with this tag; repeat the parameter to require several tags")
            .explode(Some(true)).example(Some(json!(["terraform"]))),
    ];
    /// Which part of the list of changes.
    ChangesPage = [
        query("page", number(1, Some(1), None), "The number of the page, from 1").example(Some(1.into())),
        query("per_page", number(1, Some(DEFAULT_PER_PAGE), None),
            &reduced("The number of changes per page", MAX_PER_PAGE)).example(Some(DEFAULT_PER_PAGE.into())),
        query("since", named("Timestamp"),
            "Changes whose effective time (`started_at`, else `occurred_at`) is this or later; if the range \
             contains the present time, also those in progress"),
        query("until", named("Timestamp"), "Changes whose effective time is before this"),
        query("before", schema::Cursor::schema(),
            "Changes after this one in the list, to read the next page: its id, or better its id, `@` and its \
             effective time, which holds the place if the change moves meanwhile; `count` stays that of the \
             whole list")
            .example(Some("018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90@2026-01-15T08:30:00.000Z".into())),
        query("include", string().enum_values(Some(["updated_by"])),
            "`updated_by`: the changes have this field, who made the last update").example(Some("updated_by".into())),
    ];
    /// How many planned changes.
    UpcomingPage = [
        limit("The maximum number of changes", DEFAULT_PER_PAGE, MAX_PER_PAGE),
    ];
    /// The times and the number of annotations.
    Annotations = [
        query("from", schema::GraphTime::schema(),
            "Only changes at or after this time: milliseconds since 1970, or RFC 3339").example(Some("1767225600000".into())),
        query("to", schema::GraphTime::schema(),
            "Only changes before this time: milliseconds since 1970, or RFC 3339").example(Some("2026-01-02T00:00:00Z".into())),
        query("max", number(1, Some(DEFAULT_ANNOTATIONS), None),
            &reduced("The maximum number of annotations", MAX_ANNOTATIONS)).example(Some(DEFAULT_ANNOTATIONS.into())),
    ];
    /// Which events of a stream.
    Events = [
        words("events", "ChangeEvent", json!(ChangeEvent::WORDS),
            "What to stream; `created` when absent. The other parameters compare the change in its present state; \
             incidents are selected by `service_id` and `environment` only"),
    ];
    /// What was affected, and how far to look back.
    Incident = [
        query("at", named("Timestamp"), "The time of the incident; now when absent"),
        query("service_id", named("ServiceId"),
            "The affected service: its changes rank higher, and those of services that it depends on or that \
             depend on it"),
        query("host_id", named("HostId"),
            "The affected host: changes on it and in its environment rank higher"),
        query("environment", named("Environment"),
            "The affected environment: its changes rank higher; that of the host when absent"),
        query("q", string(),
            "The symptom, such as an error message: changes rank higher if their title or service has words of it")
            .example(Some("card payments time out".into())),
        query("window_minutes", number(1, None, Some(MAX_WINDOW_MINUTES)), &format!(
            "The length of the time range before `at`, in minutes; when absent {}, and more if that has \
             nothing of weight", DEFAULT_WINDOWS_MINUTES[0]
        )).example(Some(DEFAULT_WINDOWS_MINUTES[0].into())),
        query("planned", boolean().default(Some(false.into())), "Whether to rank planned changes, too"),
        limit("The maximum number of changes", DEFAULT_SUSPECTS, MAX_SUSPECTS),
    ];
    /// Which incidents.
    IncidentsPage = [
        query("id", string().pattern(Some("^-*([0-9a-fA-F]-*){8,32}$")), "Only incidents whose id begins with this: 8 to 32 hexadecimal digits, with hyphens or without. The latest \
             recorded come first"),
        query("status", named("IncidentStatus"), "Only open or only resolved incidents"),
        query("service_id", named("ServiceId"), "Only incidents of this service"),
        query("since", named("Timestamp"), "Only incidents that started at this time or later"),
        query("until", named("Timestamp"), "Only incidents that started before this time"),
        query("before", named("IncidentId"),
            "Continue after this incident, to read the next page: the id of the last one of the page"),
        limit("The maximum number of incidents", DEFAULT_PER_PAGE, MAX_PER_PAGE),
    ];
    /// A page of hosts or services.
    NamesPage = [
        query("limit", number(1, None, None), &format!(
            "The maximum number of items, at most {MAX_ITEMS_PER_PAGE}; without this and `after`, all are returned"
        )).example(Some(100.into())),
        query("after", string().pattern(Some("^[^\\u0000]*$")),
            "Return items whose name comes after this one: the last of the previous page"),
    ];
    /// Which entries of the activity log.
    Entries = [
        limit("The maximum number of entries", DEFAULT_ACTIVITY_ENTRIES, MAX_ACTIVITY_ENTRIES),
        query("offset", number(0, Some(0), None), "The number of newest entries to skip").example(Some(0.into())),
        query("resource", ResourceType::schema(), "Entries about this type of resource"),
        query("actor_id",
            AnyOfBuilder::new()
                .item(string().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid))))
                .item(string().enum_values(Some([activity::API_KEY_ACTOR]))),
            &format!("Entries by this person, or by API keys with `{}`", activity::API_KEY_ACTOR))
            .example(Some(activity::API_KEY_ACTOR.into())),
    ];
}

fn query(name: &str, schema: impl Into<RefOr<Schema>>, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
}

/// Returns a parameter of several words, separated by commas.
fn words(name: &str, word: &str, example: Value, description: &str) -> ParameterBuilder {
    let list = ArrayBuilder::new().items(named(word)).min_items(Some(1));
    query(
        name,
        list,
        &format!("{description}, separated by commas or in repeated parameters"),
    )
    .style(Some(ParameterStyle::Form))
    .explode(Some(false))
    .example(Some(example))
}

fn limit(what: &str, default: u64, max: u64) -> ParameterBuilder {
    query("limit", number(1, Some(default), None), &reduced(what, max))
        .example(Some(default.into()))
}

/// Describes a number of which a larger one is not refused.
fn reduced(what: &str, max: u64) -> String {
    format!("{what}; a number above {max} counts as {max}")
}

fn named(schema: &str) -> Ref {
    Ref::from_schema_name(schema)
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn boolean() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// Returns the schema of a whole number of any size, see `Query::number`.
fn number(minimum: usize, default: Option<u64>, maximum: Option<u64>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(minimum))
        .maximum(maximum.and_then(|maximum| usize::try_from(maximum).ok()))
        .default(default.map(Value::from))
}
