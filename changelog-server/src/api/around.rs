//! `/api/changes/around`: what changed before a moment, the most suspicious
//! first. core ranks changes; this module selects the changes to compare, bounded in
//! time and number.

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

/// How many of the newest changes of the window are compared.
const NEWEST: u64 = 500;
/// How many changes of the service, and of the host, are compared in addition.
const OF_EACH: u64 = 250;

/// Ranks what changed before a moment, with the reasons of each.
#[utoipa::path(get, path = "/api/changes/around", tag = "changes", operation_id = "changes_around",
    params(
        ("at" = Option<Timestamp>, Query, description = "The moment before which is looked; now when absent"),
        ("service_id" = Option<ServiceId>, Query,
            description = "The service that was affected: changes to it rank higher"),
        ("host_id" = Option<HostId>, Query,
            description = "The host that was affected: changes on it rank higher, and so do changes on \
                           hosts of its environment"),
        ("window_minutes" = Option<u64>, Query, minimum = 1, maximum = 10_080,
            description = "How far to look back; 120 when absent", example = 120),
        ("limit" = Option<u64>, Query, minimum = 1,
            description = "How many to answer; 20 when absent, and 100 when more is asked for", example = 20),
    ),
    responses((status = 200, description = "The changes, the most suspicious first", body = Around)))]
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

/// Writes the answer around changes that are JSON already, without copying them.
fn pieces(
    envelope: &Around,
    ranked: &[Ranked],
    documents: Vec<(ChangeId, ChangeJson)>,
) -> Result<Vec<Bytes>, serde_json::Error> {
    let mut documents: HashMap<_, _> = documents.into_iter().collect();
    let envelope = serde_json::to_string(envelope)?;
    // Its list of changes, which is empty.
    let (before, behind) = envelope.split_once("[]").unwrap_or_default();
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
    pieces.push(format!("{between}]{behind}").into());
    Ok(pieces)
}

/// Returns what changes are compared with. An id that the organization does not
/// have matches no change.
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

/// Reads the changes to rank, and returns whether these are all changes of the
/// window.
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
    let newest = read(Some(Compared::All), NEWEST).await?;
    let of_service = read(filter.service_id.map(Compared::Service), OF_EACH).await?;
    let on_host = read(filter.host_id.map(Compared::Host), OF_EACH).await?;
    let complete = (newest.len() as u64) < NEWEST;
    let all: HashMap<ChangeId, Candidate> = newest
        .into_iter()
        .chain(of_service)
        .chain(on_host)
        .map(|candidate| (candidate.id, candidate))
        .collect();
    Ok((all.into_values().collect(), complete))
}
