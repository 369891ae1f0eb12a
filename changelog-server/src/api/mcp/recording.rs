//! The tools that record.

use changelog_core::input::from_object;
use changelog_core::limits::MAX_IDEMPOTENCY_KEY_CHARS;
use changelog_core::{
    Change, ChangeId, ChangePatch, Host, NewChange, Service, Status, Timestamp, ViolationCode,
    Violations,
};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::answer::{self, Answer, excerpt};
use super::arguments::{refused, scheduled_time, time};
use super::tools::Tools;
use crate::api::{changes, idempotency};
use crate::store::KeyedRequest;
use crate::web::ApiError;

/// The argument that is a time to come.
const SCHEDULED_FOR: &str = "scheduled_for";
/// The arguments that are times.
const TIMES: [&str; 4] = ["started_at", "ended_at", SCHEDULED_FOR, "occurred_at"];
/// What idempotency keys of this tool are kept for; those of the API have other paths.
const LOG_PATH: &str = "/mcp/log_change";

/// Records a change, as `POST /api/changes` does.
pub(super) async fn log_change(
    tools: &Tools,
    mut arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let (app, caller) = (&tools.app, &tools.caller);
    let now = app.now();
    let body = Value::Object(arguments.clone()).to_string();
    let keyed = match arguments.remove("idempotency_key") {
        None | Some(Value::Null) => None,
        Some(key) => {
            let key = key.as_str().filter(|key| idempotency::is_valid_key(key));
            let key = key.ok_or_else(|| invalid("/idempotency_key", &key_rule()))?;
            let keyed = KeyedRequest::new(
                caller.tenant,
                caller.key,
                "POST",
                LOG_PATH,
                key,
                body.as_bytes(),
            );
            Some(keyed)
        }
    };
    write_times(&mut arguments, now.into())?;
    write_ids(tools, &mut arguments).await?;
    // As `chlog log`: what is logged without a word about its status has been done.
    let is_absent =
        |arguments: &JsonObject, name: &str| arguments.get(name).is_none_or(Value::is_null);
    if is_absent(&arguments, "status") && is_absent(&arguments, SCHEDULED_FOR) {
        arguments.insert("status".to_owned(), Status::Completed.as_str().into());
    }
    if is_absent(&arguments, "agent")
        && let Some(agent) = &caller.actor.agent
    {
        arguments.insert("agent".to_owned(), json!(agent));
    }
    let new: NewChange = from_object(arguments, now.into()).map_err(refused)?;
    let created = changes::create_one(app, caller, new, keyed, now).await?;
    let id = created.changes.first().map(|change| change.id);
    let id = id.ok_or_else(|| ApiError::internal(&"a created change has no id"))?;
    let change = app.store.change(caller.tenant, id).await?;
    Ok(recorded(tools, &change.parse()?, "recorded"))
}

/// Updates a change, as `PATCH /api/changes/ID` does.
pub(super) async fn update_change(
    tools: &Tools,
    mut arguments: JsonObject,
) -> Result<CallToolResult, ApiError> {
    let (app, caller) = (&tools.app, &tools.caller);
    let now = app.now();
    let id = match arguments.remove("id") {
        Some(Value::String(id)) => id.parse::<ChangeId>(),
        _ => return Err(invalid("/id", "is required: the id of a change")),
    };
    let id = id.map_err(|bad| invalid("/id", &bad.message))?;
    write_times(&mut arguments, now.into())?;
    write_ids(tools, &mut arguments).await?;
    let patch: ChangePatch = from_object(arguments, now.into()).map_err(refused)?;
    let change = changes::update_one(app, caller, id, &patch).await?;
    Ok(recorded(tools, &change, "updated"))
}

/// Replaces the names of a service and a host by the ids of the API.
async fn write_ids(tools: &Tools, arguments: &mut JsonObject) -> Result<(), ApiError> {
    let (store, tenant) = (&tools.app.store, tools.caller.tenant);
    if let Some(given) = arguments.remove("service") {
        let id = match given.as_str() {
            Some(name) => json!(store.id_named::<Service>(tenant, name, "/service").await?),
            None => given,
        };
        arguments.insert("service_id".to_owned(), id);
    }
    if let Some(given) = arguments.remove("host") {
        let id = match given.as_str() {
            Some(name) => json!(store.id_named::<Host>(tenant, name, "/host").await?),
            None => given,
        };
        arguments.insert("host_id".to_owned(), id);
    }
    Ok(())
}

/// Replaces times as people write them by those of the API.
fn write_times(arguments: &mut JsonObject, now: Timestamp) -> Result<(), ApiError> {
    let mut problems = Violations::default();
    for name in TIMES {
        let Some(Value::String(text)) = arguments.get_mut(name) else {
            continue;
        };
        let read = match name {
            SCHEDULED_FOR => scheduled_time,
            _ => time,
        };
        match read(text, now) {
            Ok(at) => *text = at.to_string(),
            Err(message) => {
                problems.add(format!("/{name}"), ViolationCode::InvalidFormat, message);
            }
        }
    }
    problems.into_result(()).map_err(refused)
}

fn invalid(pointer: &str, message: &str) -> ApiError {
    refused(changelog_core::Invalid::one(
        pointer,
        ViolationCode::InvalidFormat,
        message,
    ))
}

fn key_rule() -> String {
    format!("must be a string of 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters")
}

fn recorded(tools: &Tools, change: &Change, verb: &str) -> CallToolResult {
    let url = format!("{}/changes/{}", tools.app.url(), change.id);
    let title = excerpt(&change.title, 60);
    let line = format!("{verb} {}: {}", json!(title), url);
    let mut answer = Answer::new("changes", json!({ "url": url }), &line);
    answer.push(answer::item(change), &answer::line(change));
    answer.finish(None)
}
