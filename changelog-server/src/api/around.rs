//! `/api/changes/around`: the changes before a time, most suspicious first.

use std::collections::HashMap;
use std::fmt::Write;

use bytes::Bytes;
use changelog_core::change::around::Ranked;
use changelog_core::{Around, AroundFilter, ChangeId};

use super::caller::Caller;
use super::openapi::parameters::Incident;
use crate::app::App;
use crate::around::investigate;
use crate::store::ChangeJson;
use crate::web::{ApiError, ApiResult, Request, reply};

/// Ranks the changes before a time, with the reasons for each rank.
#[utoipa::path(get, path = "/api/changes/around", tag = "changes", operation_id = "changes_around",
    params(Incident),
    responses((status = 200, description = "The changes, most suspicious first", body = Around)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
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
