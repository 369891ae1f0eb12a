//! The OpenAPI document, generated from the handlers and the types.
//!
//! Each handler describes its own endpoint. What endpoints have in common (errors,
//! the request id, the idempotency key) is added here, depending on the method, the
//! body, the parameters and the `security` of the handler.

mod envelopes;
pub(super) mod parameters;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use changelog_core::change::schemas::{NewLink, conditions};
use changelog_core::limits::{
    IDEMPOTENCY_TTL, MAX_BODY_BYTES, MAX_IDEMPOTENCY_KEY_CHARS, MAX_VIOLATIONS,
};
use changelog_core::{ChangeEvent, MadeBy, Problem, ProblemCode, Scope, Violation, headers};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};

use super::{
    activity, annotations, around, changes, health, history, hosts, incidents, ingest, key,
    services, stream,
};
use crate::app::App;
use crate::blocking_pool;
use crate::web::compression::Compressed;
use crate::web::session;
use crate::web::{ApiResult, Request, reply};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Change log",
        description = "Records an organization's infrastructure changes: deployments, configuration \
                       edits, Terraform applies. Keys are made by the operator or in the dashboard; \
                       API access requires the Pro plan.",
        license(name = "MIT", identifier = "MIT"),
    ),
    paths(
        changes::list, changes::upcoming, changes::get, changes::create, changes::create_many, changes::update,
        history::get, stream::watch, around::get, annotations::get,
        hosts::list, hosts::get, hosts::create, hosts::update,
        services::list, services::get, services::create, services::update,
        incidents::list, incidents::get, incidents::create, incidents::update, incidents::mark_cause,
        key::get,
        ingest::receive,
        activity::list, activity::actors,
        health::get, get,
    ),
    components(schemas(Problem, Violation, NewLink, ChangeEvent, MadeBy)),
    tags(
        (name = "changes", description = "Infrastructure changes, done or planned"),
        (name = "hosts", description = "Machines"),
        (name = "services", description = "Logical applications"),
        (name = "incidents", description = "What broke, and which changes may have caused it"),
        (name = "key", description = "The API key of the request"),
        (name = "sources", description = "What other systems send"),
        (name = "activity", description = "Who did what; by browser session only"),
        (name = "health", description = "Whether the service can work, and what it can do"),
    ),
    servers((url = "/", description = "The service that has sent this document")),
    security(("api_key" = []), ("id_token" = [])),
    modifiers(&Common),
)]
struct Api;

/// The document, generated once.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // A document of plain maps and strings always serializes.
    Api::openapi().to_pretty_json().unwrap_or_default()
});

/// The document as it is served.
static CONTENT: OnceCell<Compressed> = OnceCell::const_new();

/// Returns the OpenAPI document as JSON.
///
/// The first call generates it, which takes several milliseconds.
pub fn document() -> &'static str {
    &DOCUMENT
}

/// Answers this document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "health", operation_id = "get_openapi", security(()),
    responses((status = 200, description = "This document", body = Object)))]
pub(super) async fn get(_app: App, request: Request) -> ApiResult {
    let generate = || blocking_pool::run(|| Compressed::new(document()));
    let content = CONTENT.get_or_init(generate).await;
    let response = content.response(&request.headers).await;
    Ok(reply::with_media_type(response, "application/json"))
}

/// Adds what all endpoints have in common.
struct Common;

impl Modify for Common {
    fn modify(&self, api: &mut OpenApi) {
        let components = api.components.get_or_insert_default();
        components.add_security_scheme(
            "api_key",
            SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(headers::API_KEY))),
        );
        components.add_security_scheme(
            "id_token",
            SecurityScheme::Http(
                HttpBuilder::new()
                    .scheme(HttpAuthScheme::Bearer)
                    .bearer_format("JWT")
                    .description(Some(
                        "The id token of a pipeline's job, which fits a workload identity",
                    ))
                    .build(),
            ),
        );
        components.add_security_scheme(
            "session",
            SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(session::SESSION.http_name))),
        );
        for item in api.paths.paths.values_mut() {
            for (operation, creates, reads) in [
                (item.get.as_mut(), false, true),
                (item.post.as_mut(), true, false),
                (item.patch.as_mut(), false, false),
                (item.put.as_mut(), false, false),
            ] {
                let Some(operation) = operation else { continue };
                complete(operation, creates, reads);
            }
        }
        envelopes::rename(api);
        if let Some(components) = &mut api.components {
            for (name, conditions) in conditions() {
                if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(name) {
                    let conditions = ("allOf", Value::Array(conditions));
                    object.extensions = Some(Extensions::from_iter([conditions]));
                }
            }
            if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut("Problem")
                && let Some(RefOr::T(Schema::Array(errors))) = object.properties.get_mut("errors")
            {
                errors.max_items = Some(MAX_VIOLATIONS);
            }
            for schema in components.schemas.values_mut() {
                lift_descriptions(schema);
            }
        }
    }
}

/// Moves the description of a property that may be null from its type to the property.
fn lift_descriptions(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else {
        return;
    };
    for property in object.properties.values_mut() {
        if let RefOr::T(Schema::OneOf(choices)) = property
            && choices.description.is_none()
            && let Some(RefOr::Ref(of)) = choices
                .items
                .iter_mut()
                .find(|one| matches!(one, RefOr::Ref(_)))
        {
            choices.description =
                Some(std::mem::take(&mut of.description)).filter(|text| !text.is_empty());
        }
    }
}

/// Who may call an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// An API key: the default of the document.
    Key,
    /// A person, by a browser session.
    Session,
    /// Everyone.
    Public,
}

impl Access {
    /// Returns what the handler's `security(…)` says.
    fn of(operation: &Operation) -> Self {
        let session = SecurityRequirement::new::<_, [&str; 0], _>("session", []);
        match operation.security.as_deref() {
            None => Self::Key,
            Some(required) if required.contains(&session) => Self::Session,
            Some(_) => Self::Public,
        }
    }
}

/// Returns the scope that a key needs for an operation, if it needs one. `api/mod.rs` has what
/// is required; a test compares both.
fn scope(operation: &Operation, reads: bool) -> Option<Scope> {
    match reads {
        _ if has_tag(operation, "key") => None,
        true => Some(Scope::Read),
        false if has_tag(operation, "hosts") || has_tag(operation, "services") => {
            Some(Scope::Admin)
        }
        false => Some(Scope::Record),
    }
}

fn complete(operation: &mut Operation, creates: bool, reads: bool) {
    if has_tag(operation, ingest::TAG) {
        return complete_ingest(operation);
    }
    let access = Access::of(operation);
    let takes_body = operation.request_body.is_some();
    let parameters = operation.parameters.get_or_insert_default();
    let in_path = parameters.iter().any(|parameter| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == ParameterIn::Path,
        RefOr::Ref(_) => false,
    });
    if creates {
        parameters.push(RefOr::T(idempotency_key()));
    }
    let is_stream = parameters.iter().any(|parameter| match parameter {
        RefOr::T(parameter) => parameter.name.eq_ignore_ascii_case(headers::LAST_EVENT_ID),
        RefOr::Ref(_) => false,
    });
    // A host or a service has a name, and there may be a limit on their number.
    let is_named = has_tag(operation, "hosts") || has_tag(operation, "services");
    let mut codes = Vec::new();
    if access != Access::Public {
        codes.extend([ProblemCode::MalformedQuery, ProblemCode::Unauthorized]);
        codes.push(ProblemCode::TooManyRequests);
        codes.extend([ProblemCode::Internal, ProblemCode::Unavailable]);
        if !reads {
            codes.push(ProblemCode::OutcomeUnknown);
        }
    }
    if access == Access::Key {
        codes.push(ProblemCode::PlanRequired);
        if let Some(scope) = scope(operation, reads) {
            codes.push(ProblemCode::ScopeRequired);
            if scope == Scope::Record {
                codes.push(ProblemCode::OutOfBounds);
            }
            let required = |scheme| SecurityRequirement::new(scheme, [scope.as_str()]);
            operation.security = Some(vec![required("api_key"), required("id_token")]);
        }
    }
    if in_path {
        codes.push(ProblemCode::MalformedId);
    }
    // A list of incidents continues after one of them.
    if in_path || (reads && has_tag(operation, "incidents")) {
        codes.push(ProblemCode::NotFound);
    }
    if takes_body {
        codes.extend([
            ProblemCode::MalformedBody,
            ProblemCode::RequestTimeout,
            ProblemCode::PayloadTooLarge,
            ProblemCode::UnsupportedMediaType,
            ProblemCode::ValidationFailed,
        ]);
    }
    if takes_body && is_named {
        codes.push(ProblemCode::Conflict);
    }
    if creates && is_named {
        codes.push(ProblemCode::QuotaExceeded);
    }
    if creates {
        codes.extend([
            ProblemCode::IdempotencyInProgress,
            ProblemCode::IdempotencyKeyReused,
        ]);
    }
    if creates || is_stream {
        codes.push(ProblemCode::MalformedHeader);
    }
    add_problems(operation, codes);
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.description = Some(format!(
            "A JSON object of at most {} KiB",
            MAX_BODY_BYTES / 1024
        ));
    }
    describe_responses(operation, creates);
}

fn has_tag(operation: &Operation, tag: &str) -> bool {
    operation.tags.iter().flatten().any(|one| one == tag)
}

/// The same for the address of a source: senders have no key, and send what they want.
fn complete_ingest(operation: &mut Operation) {
    let codes = [
        ProblemCode::Unauthorized,
        ProblemCode::PlanRequired,
        ProblemCode::NotFound,
        ProblemCode::RequestTimeout,
        ProblemCode::PayloadTooLarge,
        ProblemCode::UnsupportedMediaType,
        ProblemCode::TooManyRequests,
        ProblemCode::Internal,
        ProblemCode::Unavailable,
        ProblemCode::OutcomeUnknown,
    ];
    add_problems(operation, codes);
    describe_responses(operation, false);
}

/// Adds the responses with problems, one for each status.
fn add_problems(operation: &mut Operation, codes: impl IntoIterator<Item = ProblemCode>) {
    let mut by_status = BTreeMap::<u16, Vec<ProblemCode>>::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        operation
            .responses
            .responses
            .entry(status.to_string())
            .or_insert_with(|| RefOr::T(problem(&codes)));
    }
}

fn describe_responses(operation: &mut Operation, creates: bool) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            describe_headers(response, status, creates);
        }
    }
}

/// Returns the response with any of these problems, which have the same status. The
/// extension `x-codes` has their codes; the example is of the first.
fn problem(codes: &[ProblemCode]) -> Response {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .example(codes.first().map(example))
        .build();
    let titles: Vec<_> = codes.iter().map(ProblemCode::title).collect();
    let mut response = ResponseBuilder::new()
        .description(titles.join(", or: "))
        .content(crate::web::error::PROBLEM_JSON, content)
        .build();
    let codes = ExtensionsBuilder::new().add("x-codes", json!(codes));
    response.extensions = Some(codes.build());
    response
}

/// Returns a body with a problem.
fn example(code: &ProblemCode) -> Value {
    let mut example = json!({
        "type": format!("/problems/{code}"),
        "title": code.title(),
        "status": code.status(),
        "detail": code.title(),
        "code": code,
        "request_id": "018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90",
    });
    if *code == ProblemCode::ValidationFailed {
        example["detail"] = "title: must have 3 to 300 characters, got 2".into();
        example["errors"] = json!([{
            "pointer": "/title",
            "code": "too_short",
            "message": "must have 3 to 300 characters, got 2",
        }]);
    }
    example
}

fn describe_headers(response: &mut Response, status: &str, creates: bool) {
    let text = |description: &str| {
        HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String).build()))
            .description(Some(description))
            .build()
    };
    let mut add = |name: &str, description: &str| {
        response
            .headers
            .insert(name.to_owned(), RefOr::T(text(description)));
    };
    add(
        headers::REQUEST_ID,
        "The id of this request in the log of the service",
    );
    if matches!(status, "429" | "503") {
        add("retry-after", "Seconds to wait before the next attempt");
    }
    if status == "401" {
        add("www-authenticate", "How to authenticate");
    }
    if creates && status == "201" {
        add("location", "The path of what was created");
        add(
            headers::IDEMPOTENT_REPLAYED,
            "`true` when the response is that of an earlier request",
        );
    }
}

fn idempotency_key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(format!(
            "Identifies this request when it is repeated: for {} hours the same key with the same body \
             returns the same response; for example `deploy-4711`",
            IDEMPOTENCY_TTL.num_hours()
        )))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(MAX_IDEMPOTENCY_KEY_CHARS))
                .pattern(Some("^[ -~]+$"))
                .build(),
        ))
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Requires that everything in a part of the document that is referred to exists.
    fn check_references(document: &Value, part: &Value) {
        if let Some(reference) = part["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let members = part
            .as_object()
            .into_iter()
            .flat_map(|object| object.values());
        for member in members.chain(part.as_array().into_iter().flatten()) {
            check_references(document, member);
        }
    }

    #[test]
    fn everything_that_is_referred_to_exists() {
        let document: Value = serde_json::from_str(document()).unwrap();
        check_references(&document, &document);
    }

    #[test]
    fn the_document_names_what_the_service_reads() {
        assert!(
            idempotency_key()
                .name
                .eq_ignore_ascii_case(headers::IDEMPOTENCY_KEY)
        );
        let document: serde_json::Value = serde_json::from_str(document()).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(
            document["components"]["securitySchemes"]["api_key"]["name"],
            headers::API_KEY
        );
    }
}
