//! `/api/changes/annotations`: changes as annotations of graphs.

use changelog_core::change::annotation::{Annotated, Annotation, AnnotationFilter, annotations};
use changelog_core::limits::{MAX_ANNOTATED_CHANGES, MAX_PER_PAGE};
use changelog_core::{Change, ChangeFilter};

use super::caller::Caller;
use super::openapi::parameters::{Annotations, Selection};
use crate::app::App;
use crate::blocking_pool;
use crate::store::{StoreError, Tenant};
use crate::web::{ApiResult, Request, reply};

/// Lists changes as annotations, for the Infinity data source of Grafana.
///
/// Planned changes are left out unless `status` has them. The response is an array
/// without an envelope. If more changes match than `max`, those
/// next to each other are merged; of more than 2,000 changes, the older ones are only
/// counted, in one annotation before the others.
#[utoipa::path(get, path = "/api/changes/annotations", tag = "changes", operation_id = "changes_annotations",
    params(Annotations, Selection),
    responses((status = 200, description = "The annotations, oldest first", body = Vec<Annotation>)))]
pub(super) async fn get(app: App, caller: Caller, request: Request) -> ApiResult {
    let filter = request.filter(AnnotationFilter::from_query)?;
    let max = usize::try_from(filter.max).unwrap_or(usize::MAX);
    let since = filter.changes.since;
    let (changes, older) = read(&app, caller.tenant, filter.changes).await?;
    let mut all = annotations(changes, max);
    if let (Some(count), Some(first)) = (older, all.first()) {
        let older = Annotation::of_older(count, since, first.time);
        all.insert(0, older);
    }
    Ok(reply::json(200, &all))
}

/// Reads the newest changes that match, and counts the older ones if there are more.
async fn read(
    app: &App,
    tenant: Tenant,
    filter: ChangeFilter,
) -> Result<(Vec<Annotated>, Option<u64>), StoreError> {
    let mut filter = ChangeFilter {
        page: 1,
        per_page: MAX_PER_PAGE,
        ..filter
    };
    let first = app.store.changes(tenant, &filter).await?;
    let count = first.count;
    let mut page = first.json;
    let mut changes = Vec::new();
    loop {
        let url = app.url();
        // A page may be 18 MB: parsing it would block an async worker.
        let (part, last) = blocking_pool::run_sized(page.0.len(), move || {
            let parsed: Vec<Change> = page.parse()?;
            let annotated = parsed.iter().map(|change| {
                let link = format!("{url}/changes/{}", change.id);
                Annotated::new(change, link)
            });
            let last = parsed.last().map(Change::cursor);
            Ok::<_, StoreError>((annotated.collect::<Vec<_>>(), last))
        })
        .await?;
        let is_last = (part.len() as u64) < MAX_PER_PAGE;
        changes.extend(part);
        let read = changes.len() as u64;
        if is_last || last.is_none() || read >= count.min(MAX_ANNOTATED_CHANGES) {
            let older = count.saturating_sub(read);
            return Ok((changes, (older > 0).then_some(older)));
        }
        filter.before = last;
        page = app.store.changes_without_count(tenant, &filter).await?;
    }
}
