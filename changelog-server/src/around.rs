//! The changes before a moment at which something broke, most suspicious first. Core
//! ranks the changes; this module selects them, bounded in time and number. Statements that
//! do not need each other's results run at the same time, each on its own connection.

use std::collections::{BTreeMap, HashMap};

use changelog_core::change::around::{Affected, Candidate, Ranked, SymptomWord, rank};
use changelog_core::limits::MAX_WINDOW_MINUTES;
use changelog_core::{
    Around, AroundFilter, ChangeId, Host, Service, ServiceId, ServiceRef, Timestamp,
};
use chrono::TimeDelta;
use futures_util::future::{try_join, try_join_all, try_join3};

use crate::app::App;
use crate::coverage::coverage;
use crate::store::{CandidateSource, ChangeJson, NewestOf, StoreError, Tenant, existing};

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

/// The ranked changes before a moment.
pub(crate) struct Investigation {
    /// What was affected.
    pub(crate) affected: Affected,
    /// The answer, without its changes.
    pub(crate) answer: Around,
    /// The changes with the highest scores, highest first.
    pub(crate) ranked: Vec<Ranked>,
    /// These changes, in any order; one that was deleted since is missing.
    pub(crate) documents: Vec<(ChangeId, ChangeJson)>,
}

/// Ranks the changes before a moment.
pub(crate) async fn investigate(
    app: &App,
    tenant: Tenant,
    filter: &AroundFilter,
) -> Result<Investigation, StoreError> {
    let at = filter.at.unwrap_or(app.now().into());
    let affected = affected(app, tenant, filter).await?;
    let found = candidates(app, tenant, filter, &affected, at).await?;
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
    let ids = ranking.ranked.iter().map(|one| one.id);
    let documents = app.store.changes_of(tenant, ids);
    let coverage = Box::pin(async {
        let mut coverage = coverage(app, tenant, ranking.since).await?;
        coverage.gaps.retain(|gap| gap.since < at);
        Ok(coverage)
    });
    let (facets, documents, coverage) = try_join3(facets, documents, coverage).await?;
    let answer = Around {
        data: Vec::new(),
        at,
        since: ranking.since,
        window_minutes: ranking.window_minutes,
        widened: ranking.widened,
        considered: ranking.considered,
        complete: found.complete_since <= ranking.since,
        facets,
        coverage,
    };
    Ok(Investigation {
        affected,
        answer,
        ranked: ranking.ranked,
        documents,
    })
}

/// Returns what was affected. An unknown id matches no change.
pub(crate) async fn affected(
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
        && let Some(service) = existing(app.store.item::<Service>(tenant, id).await)?
    {
        let related = app.store.dependencies_of(tenant, id).await?;
        affected.dependencies = related.depends_on;
        affected.dependents = related.needed_by;
        affected.service = Some(ServiceRef::from(&service));
    }
    if let Some(id) = filter.host_id
        && affected.environment.is_none()
    {
        let host = existing(app.store.item::<Host>(tenant, id).await)?;
        affected.environment = host.and_then(|host| host.environment);
    }
    for word in filter.words() {
        let found = app
            .store
            .items_matching::<Service>(tenant, &word, MAX_PER_WORD);
        let services = found.await?;
        affected.words.push(SymptomWord { word, services });
    }
    Ok(affected)
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
    let newest = read(CandidateSource::All, MAX_NEWEST);
    let related = sources.into_iter().map(|source| read(source, MAX_PER_KIND));
    // If the newest changes are all of the window, the related ones are among them, and few.
    let (newest, related) = try_join(newest, try_join_all(related)).await?;
    let is_all = (newest.len() as u64) < MAX_NEWEST;
    let oldest = newest.iter().map(|change| change.started_at).min();
    let complete_since = match oldest {
        // Of the millisecond of the oldest one, others may be missing.
        Some(oldest) if !is_all => oldest.plus(TimeDelta::milliseconds(1)),
        _ => since,
    };
    let found = newest.into_iter().chain(related.into_iter().flatten());
    let all: HashMap<ChangeId, Candidate> = found.map(|change| (change.id, change)).collect();
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
