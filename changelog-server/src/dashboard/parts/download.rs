//! What downloads share.

use bytes::Bytes;
use changelog_core::csv;
use futures_util::Stream;
use http::{HeaderValue, header};
use serde::Serialize;
use warp::reply::Response;

use super::viewer::Viewer;
use crate::store::StoreError;
use crate::web::reply;

/// The maximum number of retries of a read, 1 s apart, while the organization has too
/// many other requests.
pub(crate) const OVERLOAD_RETRIES: usize = 10;

/// Without it, Excel takes UTF-8 for another encoding.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Returns a file `NAME-DAY.EXTENSION`, `csv`, `ndjson` or `zip`, that is read while it is sent.
pub(crate) fn attachment(
    viewer: &Viewer,
    name: &str,
    extension: &str,
    chunks: impl Stream<Item = Result<Bytes, StoreError>> + Send + 'static,
) -> Response {
    let media_type = match extension {
        "csv" => "text/csv; charset=utf-8",
        "zip" => "application/zip",
        _ => "application/x-ndjson",
    };
    let mut response = reply::streamed(media_type, chunks);
    let day = viewer.zone.today();
    let name = format!("attachment; filename=\"{name}-{day}.{extension}\"");
    if let Ok(name) = HeaderValue::try_from(name) {
        response
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

/// Formats a record as a line of JSON.
pub(crate) fn json_line<R: Serialize>(record: &R) -> Vec<u8> {
    // Records are structs and maps with text keys, which serialization cannot refuse.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Formats a CSV row, RFC 4180.
pub(crate) fn csv_row(cells: Vec<String>) -> Vec<u8> {
    let mut writer = ::csv::WriterBuilder::new()
        .terminator(::csv::Terminator::CRLF)
        .from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(cells.into_iter().map(csv::guarded));
    writer.into_inner().unwrap_or_default()
}
