//! `/api/changes/around`: the changes before a time, most suspicious first. Core ranks
//! the changes; this module selects them, bounded in time and number.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use bytes::Bytes;
use changelog_core::change::around::{Affected, Candidate, Ranked, SymptomWord, rank};
use changelog_core::limits::MAX_WINDOW_MINUTES;
use changelog_core::{
    Around, AroundFilter, ChangeId, Environment, HostId, ServiceId, ServiceRef, Timestamp,
};
use chrono::TimeDelta;

use crate::app::App;
use crate::store::{CandidateSource, ChangeJson, NewestOf, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, reply};

/// The limit on the newest changes of the window that are ranked.
const MAX_NEWEST: u64 = 500;
/// The limit on changes of the service, on changes that touched it, and on changes of
/// each further kind that are ranked in addition.
const MAX_PER_KIND: u64 = 250;
/// The limit on changes of each service that is related to the affected one, or that the
/// symptom names.
const MAX_PER_RELATED: u64 = 10;
/// The limit on such services.
const MAX_RELATED: usize = 60;
/// The limit on services that one word of the symptom names.
const MAX_PER_WORD: u64 = 20;
/// The number of services whose changes are counted in the answer.
const MAX_SERVICE_COUNTS: usize = 25;

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
    let tenant = caller.tenant;
    let filter = request.filter(AroundFilter::from_query)?;
    let at = filter.at.unwrap_or(app.now().into());
    let affected = affected(&app, tenant, &filter).await?;
    let found = candidates(&app, tenant, &filter, &affected, at).await?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let ranking = rank(
        found.candidates,
        &affected,
        at,
        filter.window_minutes,
        limit,
    );
    let mut services = ranking.services;
    services.truncate(MAX_SERVICE_COUNTS);
    let window = ranking.since.millis()..at.millis().saturating_add(1);
    let now = app.now().into();
    let facets = app.store.counts_by_place(tenant, window, now, &services);
    let facets = facets.await?;
    let ids = ranking.ranked.iter().map(|one| one.id);
    let documents = app.store.changes_of(tenant, ids).await?;
    let envelope = Around {
        data: Vec::new(),
        at,
        since: ranking.since,
        window_minutes: ranking.window_minutes,
        widened: ranking.widened,
        considered: ranking.considered,
        complete: found.complete_since <= ranking.since,
        facets,
    };
    let pieces = pieces(&envelope, &ranking.ranked, documents);
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
    let mut affected = Affected {
        host: filter.host_id,
        environment: filter.environment.clone(),
        ..Affected::default()
    };
    if let Some(id) = filter.service_id
        && let Some(service) = existing(app.store.service(tenant, id).await)?
    {
        let related = app.store.dependencies_of(tenant, id).await?;
        affected.dependencies = related.depends_on;
        affected.dependents = related.needed_by;
        affected.service = Some(ServiceRef {
            id,
            name: service.name,
            color: service.color,
        });
    }
    if let Some(id) = filter.host_id
        && affected.environment.is_none()
    {
        let host = existing(app.store.host(tenant, id).await)?;
        affected.environment = host.and_then(|host| host.environment);
    }
    for word in filter.words() {
        let found = app.store.catalog_matches(tenant, &word, MAX_PER_WORD);
        let (services, _) = found.await?;
        affected.words.push(SymptomWord { word, services });
    }
    Ok(affected)
}

/// Returns what was found; `None` if it does not exist.
fn existing<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The changes to rank.
struct Candidates {
    candidates: Vec<Candidate>,
    /// The time from which on they are all changes until the moment.
    complete_since: Timestamp,
}

/// Reads the changes to rank: the newest ones, and the newest of each kind that is
/// related to what was affected. If the window is chosen later, they are those of the
/// longest one.
async fn candidates(
    app: &App,
    tenant: Tenant,
    filter: &AroundFilter,
    affected: &Affected,
    at: Timestamp,
) -> Result<Candidates, StoreError> {
    let minutes = filter.window_minutes.unwrap_or(MAX_WINDOW_MINUTES);
    let minutes = i64::try_from(minutes).unwrap_or(i64::MAX);
    let since = at.plus(-TimeDelta::minutes(minutes));
    let window = since.millis()..at.millis().saturating_add(1);
    let read = async |source, limit| {
        let newest = NewestOf {
            source,
            millis: window.clone(),
            planned: filter.planned,
            limit,
        };
        app.store.candidates(tenant, newest).await
    };
    let newest = read(CandidateSource::All, MAX_NEWEST).await?;
    let is_all = (newest.len() as u64) < MAX_NEWEST;
    let oldest = newest.iter().map(|change| change.started_at).min();
    let complete_since = match oldest {
        // Of the millisecond of the oldest one, others may be missing.
        Some(oldest) if !is_all => oldest.plus(TimeDelta::milliseconds(1)),
        _ => since,
    };
    let mut sources = vec![CandidateSource::UndoneAfter(at)];
    let services = related_services(affected);
    if !services.is_empty() {
        sources.push(CandidateSource::Services(services));
    }
    sources.extend(affected.host.map(CandidateSource::Host));
    sources.extend(
        affected
            .environment
            .clone()
            .map(CandidateSource::Environment),
    );
    if !affected.words.is_empty() {
        let words = affected.words.iter().map(|word| word.word.clone());
        sources.push(CandidateSource::Words(words.collect()));
    }
    let mut all: HashMap<ChangeId, Candidate> = HashMap::new();
    let mut keep = |found: Vec<Candidate>| {
        all.extend(found.into_iter().map(|change| (change.id, change)));
    };
    keep(newest);
    for source in sources {
        // What is more than the newest changes is missing only if those are not all.
        if !is_all {
            keep(read(source, MAX_PER_KIND).await?);
        }
    }
    Ok(Candidates {
        candidates: all.into_values().collect(),
        complete_since,
    })
}

/// Returns the services whose changes are candidates, with the limit for each.
fn related_services(affected: &Affected) -> Vec<(ServiceId, u64)> {
    let related = (affected.dependencies.iter().chain(&affected.dependents))
        .map(|service| service.id)
        .chain(affected.words.iter().flat_map(|word| word.services.clone()))
        .take(MAX_RELATED)
        .map(|id| (id, MAX_PER_RELATED));
    // Each service once, with its highest limit.
    let mut limits: BTreeMap<ServiceId, u64> = related.collect();
    limits.extend(
        affected
            .service
            .iter()
            .map(|service| (service.id, MAX_PER_KIND)),
    );
    limits.into_iter().collect()
}
