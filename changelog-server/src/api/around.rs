//! `/api/changes/around`: the changes before a time, most suspicious first.

use std::collections::HashMap;
use std::fmt::Write;

use bytes::Bytes;
use changelog_core::change::around::Ranked;
use changelog_core::{Around, AroundFilter, ChangeId, Environment, HostId, ServiceId, Timestamp};

use crate::app::App;
use crate::around::investigate;
use crate::store::ChangeJson;
use crate::web::{ApiError, ApiResult, Request, reply};

/// Ranks the changes before a time, with the reasons for each rank.
#[utoipa::path(get, path = "/api/changes/around", tag = "changes", operation_id = "changes_around",
    params(
        ("at" = Option<Timestamp>, Query, description = "The time of the incident; now when absent"),
        ("service_id" = Option<ServiceId>, Query,
            description = "The affected service: its changes rank higher, and those of services that it depends on or that depend on it"),
        ("host_id" = Option<HostId>, Query,
            description = "The affected host: changes on it and in its environment rank higher"),
        ("environment" = Option<Environment>, Query,
            description = "The affected environment: its changes rank higher; that of the host when absent"),
        ("q" = Option<String>, Query,
            description = "The symptom, such as an error message: changes rank higher if their title or service has words of it",
            example = "card payments time out"),
        ("window_minutes" = Option<u64>, Query, minimum = 1, maximum = 10_080,
            description = "The length of the time range before `at`, in minutes; when absent 1,440, and more if that has nothing of weight",
            example = 1_440),
        ("planned" = Option<bool>, Query, description = "Whether to rank planned changes, too; false when absent"),
        ("limit" = Option<u64>, Query, minimum = 1,
            description = "The maximum number of changes; 20 when absent, at most 100", example = 20),
    ),
    responses((status = 200, description = "The changes, most suspicious first", body = Around)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let filter = request.filter(AroundFilter::from_query)?;
    let found = investigate(&app, caller.tenant, &filter).await?;
    let pieces = pieces(&found.answer, &found.ranked, found.documents);
    Ok(reply::joined_json(
        pieces.map_err(|error| ApiError::internal(&error))?,
    ))
}

/// Returns the response in pieces, without copying the changes, which are JSON.
fn pieces(
    envelope: &Around,
    ranked: &[Ranked],
    documents: Vec<(ChangeId, ChangeJson)>,
) -> Result<Vec<Bytes>, serde_json::Error> {
    let mut documents: HashMap<_, _> = documents.into_iter().collect();
    let envelope = serde_json::to_string(envelope)?;
    // The empty list of changes.
    let (before, after) = envelope.split_once("[]").unwrap_or_default();
    let mut pieces = Vec::new();
    let mut between = format!("{before}[");
    for Ranked { id, score, reasons } in ranked {
        // A change may have been deleted since it was ranked.
        let Some(ChangeJson(change)) = documents.remove(id) else {
            continue;
        };
        let reasons = serde_json::to_string(reasons)?;
        let _ = write!(
            between,
            r#"{{"score":{score},"reasons":{reasons},"change":"#
        );
        pieces.extend([Bytes::from(between), change.into()]);
        between = String::from("},");
    }
    if !pieces.is_empty() {
        between.pop();
    }
    pieces.push(format!("{between}]{after}").into());
    Ok(pieces)
}
