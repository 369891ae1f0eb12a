//! `/api/changes/around`: what changed before a moment, the most suspicious
//! first. How changes are ranked stands in core; what is compared is chosen here,
//! bounded in time and in number.

use std::collections::HashMap;

use changelog_core::change::around::{Affected, rank};
use changelog_core::{
    Around, AroundFilter, Change, ChangeFilter, ChangeId, HostId, ServiceId, Timestamp,
};
use chrono::TimeDelta;
use futures_util::future::try_join3;

use crate::app::App;
use crate::store::{ChangeList, StoreError, Tenant};
use crate::web::{ApiResult, Request, reply};

/// How many of the newest changes of the time are compared.
const NEWEST: u64 = 500;
/// How many of the service's, and of the host's, beside them.
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
    let (changes, complete) = compared(&app, caller.tenant, &filter, since, at).await?;
    let considered = changes.len() as u64;
    let mut data = rank(changes, &affected, at);
    data.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    let around = Around {
        data,
        at,
        since,
        considered,
        complete,
    };
    Ok(reply::json(200, &around))
}

/// Finds out what changes are compared with. What the organization does not have
/// is affected by nothing, as a list of it is empty.
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

/// Reads the changes to be compared, and tells whether they are all there were.
async fn compared(
    app: &App,
    tenant: Tenant,
    filter: &AroundFilter,
    since: Timestamp,
    at: Timestamp,
) -> Result<(Vec<Change>, bool), StoreError> {
    let newest = ChangeFilter {
        since: Some(since),
        until: Some(at.plus(TimeDelta::milliseconds(1))),
        per_page: NEWEST,
        ..ChangeFilter::default()
    };
    let of_service = filter.service_id.map(|id| ChangeFilter {
        service_id: Some(id),
        per_page: OF_EACH,
        ..newest.clone()
    });
    let of_host = filter.host_id.map(|id| ChangeFilter {
        host_id: Some(id),
        per_page: OF_EACH,
        ..newest.clone()
    });
    let (newest, of_service, of_host) = try_join3(
        read(app, tenant, Some(newest)),
        read(app, tenant, of_service),
        read(app, tenant, of_host),
    )
    .await?;
    let complete = (newest.len() as u64) < NEWEST;
    let all: HashMap<ChangeId, Change> = newest
        .into_iter()
        .chain(of_service)
        .chain(of_host)
        .map(|change| (change.id, change))
        .collect();
    Ok((all.into_values().collect(), complete))
}

async fn read(
    app: &App,
    tenant: Tenant,
    filter: Option<ChangeFilter>,
) -> Result<Vec<Change>, StoreError> {
    let Some(filter) = filter else {
        return Ok(Vec::new());
    };
    let json = app.store.changes_without_count(tenant, &filter).await?;
    ChangeList { json, count: 0 }.parse()
}
