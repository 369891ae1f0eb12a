//! `/activity.csv` and `/activity.ndjson`: all matching entries, read while they are sent.

use std::collections::BTreeMap;

use backon::{ConstantBuilder, Retryable};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use serde_json::{Value, json};

use super::filter;
use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::download::{
    BYTE_ORDER_MARK, OVERLOAD_RETRIES, attachment, csv_row, json_line,
};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::response_memory::Holder;
use crate::store::{ActivitySearch, StoreError, StoredEntry, Tenant};
use crate::web::{ApiError, ApiResult, Request};

/// The number of entries that one statement reads.
const BATCH: u64 = 500;
/// The largest entry in memory, in bytes: an update whose fields are excerpts.
const MAX_ENTRY_BYTES: usize = 64 * 1024;

const COLUMNS: [&str; 11] = [
    "created_at",
    "actor",
    "actor_type",
    "actor_id",
    "action",
    "resource_type",
    "resource_label",
    "resource_id",
    "address",
    "metadata",
    "id",
];

/// `GET /activity.csv`
pub(in crate::dashboard) async fn as_csv(app: App, request: Request) -> ApiResult {
    let mut header_row = BYTE_ORDER_MARK.as_bytes().to_vec();
    header_row.extend(csv_row(COLUMNS.map(str::to_owned).into()));
    let line = |entry: &StoredEntry| {
        let fields = fields(entry);
        let cell = |name: &&str| match &fields[*name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        csv_row(COLUMNS.iter().map(cell).collect())
    };
    download(app, request, "csv", header_row, line).await
}

/// `GET /activity.ndjson`
pub(in crate::dashboard) async fn as_ndjson(app: App, request: Request) -> ApiResult {
    download(app, request, "ndjson", Vec::new(), line).await
}

/// Reads the matching entries as lines of JSON, the newest first.
pub(in crate::dashboard) fn lines(
    app: App,
    tenant: Tenant,
    search: ActivitySearch,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    chunks(app, tenant, search, Vec::new(), line)
}

fn line(entry: &StoredEntry) -> Vec<u8> {
    json_line(&fields(entry))
}

/// Returns the fields of an entry by the names of the columns.
fn fields(stored: &StoredEntry) -> BTreeMap<&'static str, Value> {
    let (actor, entry) = (stored.actor(), &stored.entry);
    let values = [
        json!(entry.created_at),
        json!(actor.name),
        json!(actor.kind),
        json!(actor.id),
        json!(entry.action),
        json!(entry.resource_type),
        json!(entry.resource_label),
        json!(entry.resource_id),
        json!(stored.address),
        entry.metadata.clone(),
        json!(entry.id),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

async fn download(
    app: App,
    request: Request,
    extension: &'static str,
    header_row: Vec<u8>,
    line: impl Fn(&StoredEntry) -> Vec<u8> + Copy + Send + Sync + 'static,
) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Activity).await?;
    let search = filter::read(&request.query, viewer.now).map_err(|invalid| {
        ApiError::invalid(changelog_core::ProblemCode::MalformedQuery, invalid)
    })?;
    let chunks = chunks(app, viewer.tenant(), search, header_row, line);
    Ok(attachment(&viewer, "activity", extension, chunks))
}

/// Reads the log in batches; each waits until the previous one was sent and memory is
/// available.
fn chunks(
    app: App,
    tenant: Tenant,
    search: ActivitySearch,
    header_row: Vec<u8>,
    line: impl Fn(&StoredEntry) -> Vec<u8> + Copy + Send + Sync + 'static,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    let reservable = app.memory.items_per_reservation(MAX_ENTRY_BYTES);
    let batch = u64::try_from(reservable).map_or(BATCH, |count| count.min(BATCH));
    let start = (Some(search), header_row, app);
    try_unfold(start, move |(search, mut chunk, app)| async move {
        let Some(mut search) = search else {
            return Ok(None);
        };
        let holder = Holder::Organization(tenant);
        let reserved = reservable.min(100) * MAX_ENTRY_BYTES;
        let permit = app.memory.reserve(holder, reserved, MAX_ENTRY_BYTES).await;
        // A download that breaks off must be started again from the beginning.
        let read = || app.store.search_activity(tenant, &search, batch);
        let page = read
            .retry(ConstantBuilder::new().with_max_times(OVERLOAD_RETRIES))
            .when(|error| matches!(error, StoreError::Overloaded))
            .await?;
        search.before = page.next;
        let next = page.next.is_some().then_some(search);
        let formatted = blocking_pool::run(move || {
            chunk.extend(page.entries.iter().flat_map(line));
            chunk
        });
        Ok(Some((permit.fit(formatted.await), (next, Vec::new(), app))))
    })
}
