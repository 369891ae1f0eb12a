//! `/settings/sources/ID/events/EVENT`: what a sender has sent, as it arrived.

use askama::Template;
use changelog_core::{SourceEventId, Timestamp};
use serde_json::Value;

use super::PATH;
use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::store::StoreError;
use crate::web::{ApiResult, Request};

/// The limit on the body that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 256 * 1024;

#[derive(Template)]
#[template(path = "settings/sources/request.html")]
struct RequestPage<'a> {
    viewer: &'a Viewer,
    /// The path of the page of the source.
    address: String,
    name: String,
    received_at: Timestamp,
    bytes: u64,
    body: String,
    is_cut: bool,
}

/// `GET /settings/sources/ID/events/EVENT`
pub(in crate::dashboard) async fn get(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::manage(&app, &request, Section::Settings).await?;
    let both = std::mem::take(&mut request.parameter);
    let (source, event) = both.split_once('/').unwrap_or_default();
    event.clone_into(&mut request.parameter);
    let event: SourceEventId = request.id()?;
    source.clone_into(&mut request.parameter);
    let source = app.store.source_of(viewer.tenant(), request.id()?).await?;
    let received = app.store.source_requests(&source, [event]).await?;
    let received = received.into_iter().next().ok_or(StoreError::NotFound)?;
    let (body, is_cut) = shown(&received.body);
    let page = RequestPage {
        viewer: &viewer,
        address: format!("{PATH}/{}", source.id),
        name: format::visible(&source.name),
        received_at: received.received_at,
        bytes: received.body.len() as u64,
        body,
        is_cut,
    };
    page::render(200, &page)
}

/// Returns a body as text, with JSON indented, and whether its end is missing.
fn shown(body: &[u8]) -> (String, bool) {
    let text = serde_json::from_slice::<Value>(body)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    let is_cut = text.chars().nth(MAX_SHOWN_CHARS).is_some();
    let text: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    let lines: Vec<String> = text.lines().map(format::visible).collect();
    (lines.join("\n"), is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_as_text() {
        let (json, is_cut) = shown(br#"{"a":{"b":1}}"#);
        assert_eq!(json, "{\n  \"a\": {\n    \"b\": 1\n  }\n}");
        assert!(!is_cut);
        assert_eq!(shown(b"one\r\ntwo").0, "one\ntwo");
        assert!(shown(&[0xff, 0xfe]).0.contains('\u{fffd}'));
        let long = vec![b'a'; MAX_SHOWN_CHARS + 1];
        assert_eq!(shown(&long).0.len(), MAX_SHOWN_CHARS);
        assert!(shown(&long).1);
    }
}
