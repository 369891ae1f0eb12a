//! `/changes.csv` and `/changes.ndjson`: all matching changes, read while they are
//! sent.

use backon::{ConstantBuilder, Retryable};
use bytes::Bytes;
use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{Change, ChangeFilter, ProblemCode, csv};
use futures_util::Stream;
use futures_util::stream::try_unfold;

use super::chips;
use super::filters::Selection;
use super::list::filter_values;
use crate::app::App;
use crate::blocking_pool;
use crate::dashboard::parts::download::{
    BYTE_ORDER_MARK, OVERLOAD_RETRIES, attachment, csv_row, json_line,
};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::response_memory::{Holder, MAX_CHANGE_BYTES};
use crate::store::{StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request};

/// The most characters of the filters in the name of a file.
const MAX_SLUG: usize = 60;

/// `GET /changes.csv`
pub(in crate::dashboard) async fn as_csv(app: App, request: Request) -> ApiResult {
    let mut header_row = BYTE_ORDER_MARK.as_bytes().to_vec();
    header_row.extend(csv_row(csv::COLUMNS.map(str::to_owned).into()));
    download(app, request, "csv", header_row, |change| {
        csv_row(csv::row(change))
    })
    .await
}

/// `GET /changes.ndjson`
pub(in crate::dashboard) async fn as_ndjson(app: App, request: Request) -> ApiResult {
    download(app, request, "ndjson", Vec::new(), json_line).await
}

/// Reads the matching changes as lines of JSON, the newest first.
pub(in crate::dashboard) fn lines(
    app: App,
    tenant: Tenant,
    filter: ChangeFilter,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    chunks(app, tenant, filter, Vec::new(), json_line)
}

async fn download(
    app: App,
    request: Request,
    extension: &str,
    header_row: Vec<u8>,
    line: impl Fn(&Change) -> Vec<u8> + Send + Sync + 'static,
) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Changes).await?;
    let selection = Selection::read(&request.query, viewer.now)
        .map_err(|invalid| ApiError::invalid(ProblemCode::MalformedQuery, invalid))?;
    let name = file_name(&app, &viewer, &request.query, &selection).await?;
    let filter = selection.filter;
    let chunks = chunks(app, viewer.tenant(), filter, header_row, line);
    Ok(attachment(&viewer, &name, extension, chunks))
}

/// Returns the start of the name of a file, with the filters: `changes-payments-high-risk`.
async fn file_name(
    app: &App,
    viewer: &Viewer,
    query: &str,
    selection: &Selection,
) -> Result<String, ApiError> {
    let names = filter_values(app, viewer, query, selection, &[]).await?;
    let title = chips::title(&chips::chips(query, &names, viewer.zone));
    Ok(format!("changes{}", slug(&title)))
}

/// Returns the ASCII letters and digits of a string; each run of them follows a hyphen.
fn slug(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let mut slug = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if slug.len() + word.len() >= MAX_SLUG {
            break;
        }
        slug.push('-');
        slug.push_str(word);
    }
    slug
}

/// Reads the list page by page; each page waits until the previous one was sent and
/// memory is available.
fn chunks(
    app: App,
    tenant: Tenant,
    filter: ChangeFilter,
    header_row: Vec<u8>,
    line: impl Fn(&Change) -> Vec<u8> + Send + Sync + 'static,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static {
    let reservable = app.memory.items_per_reservation(MAX_CHANGE_BYTES);
    let per_page = u64::try_from(reservable).map_or(MAX_PER_PAGE, |count| count.min(MAX_PER_PAGE));
    let reserved = reservable.min(100) * MAX_CHANGE_BYTES;
    let first = ChangeFilter {
        page: 1,
        per_page,
        ..filter
    };
    let start = (Some(first), header_row, app, line);
    try_unfold(start, move |(filter, mut chunk, app, line)| async move {
        let Some(mut filter) = filter else {
            return Ok(None);
        };
        let holder = Holder::Organization(tenant);
        let permit = app.memory.reserve(holder, reserved, MAX_CHANGE_BYTES).await;
        // A download that breaks off must be started again from the beginning.
        let read = || app.store.changes_without_count(tenant, &filter);
        let json = read
            .retry(ConstantBuilder::new().with_max_times(OVERLOAD_RETRIES))
            .when(|error| matches!(error, StoreError::Overloaded))
            .await?;
        // A page may be 18 MB: parsing it would block an async worker.
        let mut changes = blocking_pool::run(move || json.parse()).await?;
        let read = app.store.add_updaters(tenant, &mut changes);
        read.await?;
        let formatted = blocking_pool::run(move || {
            let last = changes.last().map(Change::cursor);
            let is_last = (changes.len() as u64) < per_page;
            for change in &changes {
                chunk.extend(line(change));
            }
            Ok::<_, StoreError>((last, is_last, chunk, line))
        });
        let (last, is_last, chunk, line) = formatted.await?;
        filter.before = last;
        let next = (!is_last).then_some(filter);
        Ok(Some((permit.fit(chunk), (next, Vec::new(), app, line))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_safe_characters() {
        for (title, expected) in [
            ("", ""),
            (
                "payments, high risk, last 4 hours",
                "-payments-high-risk-last-4-hours",
            ),
            ("../\"x\"; a\r\nb", "-x-a-b"),
            ("日本, café", "-caf"),
        ] {
            assert_eq!(slug(title), expected, "{title}");
        }
        let long = "word ".repeat(40);
        assert!(slug(&long).len() <= MAX_SLUG);
        assert_eq!(slug(&"x".repeat(300)), "");
    }
}
