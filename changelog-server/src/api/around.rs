//! `/api/changes/around`: the changes before a time, most suspicious first. Core ranks
//! the changes; this module selects them, bounded in time and number.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;
use changelog_core::change::around::{Affected, Candidate, Ranked, rank};
use changelog_core::{Around, AroundFilter, ChangeId, HostId, ServiceId, Timestamp};
use chrono::TimeDelta;

use crate::app::App;
use crate::store::{ChangeJson, Compared, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, reply};

/// The limit on the newest changes of the window that are ranked.
const MAX_NEWEST: u64 = 500;
/// The limit on changes of the service, and on changes on the host, that are ranked
/// in addition.
const MAX_PER_REFERENCE: u64 = 250;

/// Ranks the changes before a time, with the reasons for each rank.
#[utoipa::path(get, path = "/api/changes/around", tag = "changes", operation_id = "changes_around",
    params(
        ("at" = Option<Timestamp>, Query, description = "The time of the incident; now when absent"),
        ("service_id" = Option<ServiceId>, Query,
            description = "The affected service: its changes rank higher"),
        ("host_id" = Option<HostId>, Query,
            description = "The affected host: changes on it and on hosts of its environment rank higher"),
        ("window_minutes" = Option<u64>, Query, minimum = 1, maximum = 10_080,
            description = "The length of the time range before `at`, in minutes; 120 when absent", example = 120),
        ("limit" = Option<u64>, Query, minimum = 1,
            description = "The maximum number of changes; 20 when absent, at most 100", example = 20),
    ),
    responses((status = 200, description = "The changes, most suspicious first", body = Around)))]
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let caller = app.caller(&request).await?;
    let filter = request.filter(AroundFilter::from_query)?;
    let at = filter.at.unwrap_or(app.now().into());
    let minutes = i64::try_from(filter.window_minutes).unwrap_or(i64::MAX);
    let since = at.plus(-TimeDelta::minutes(minutes));
    let affected = affected(&app, caller.tenant, &filter).await?;
    let time = since.millis()..at.millis().saturating_add(1);
    let (candidates, complete) = candidates(&app, caller.tenant, &filter, time).await?;
    let considered = candidates.len() as u64;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let ranked = rank(candidates, &affected, at, limit);
    let ids = ranked.iter().map(|one| one.id);
    let documents = app.store.changes_of(caller.tenant, ids).await?;
    let envelope = Around {
        data: Vec::new(),
        at,
        since,
        considered,
        complete,
    };
    let pieces = pieces(&envelope, &ranked, documents);
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

/// Returns what was affected. An unknown id matches no change.
async fn affected(
    app: &App,
    tenant: Tenant,
    filter: &AroundFilter,
) -> Result<Affected, StoreError> {
    let environment = match filter.host_id {
        Some(id) => match app.store.host(tenant, id).await {
            Ok(host) => host.environment,
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    Ok(Affected {
        service: filter.service_id,
        host: filter.host_id,
        environment,
    })
}

/// Reads the changes to rank, and returns whether they are all changes of the window.
async fn candidates(
    app: &App,
    tenant: Tenant,
    filter: &AroundFilter,
    millis: Range<i64>,
) -> Result<(Vec<Candidate>, bool), StoreError> {
    let read = async |compared: Option<Compared>, limit| match compared {
        Some(compared) => {
            let store = &app.store;
            store
                .candidates(tenant, compared, millis.clone(), limit)
                .await
        }
        None => Ok(Vec::new()),
    };
    let newest = read(Some(Compared::All), MAX_NEWEST).await?;
    let of_service = read(filter.service_id.map(Compared::Service), MAX_PER_REFERENCE).await?;
    let on_host = read(filter.host_id.map(Compared::Host), MAX_PER_REFERENCE).await?;
    let complete = (newest.len() as u64) < MAX_NEWEST;
    let all: HashMap<ChangeId, Candidate> = newest
        .into_iter()
        .chain(of_service)
        .chain(on_host)
        .map(|candidate| (candidate.id, candidate))
        .collect();
    Ok((all.into_values().collect(), complete))
}
