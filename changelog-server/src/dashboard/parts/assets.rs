//! The style sheet, the script and the icon. Their paths contain a hash of the
//! content, so that browsers may cache them forever.

use std::sync::LazyLock;

use changelog_core::ProblemCode;
use http::{HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::web::compression::Compressed;
use crate::web::{ApiError, ApiResult, Request, reply};

const CACHE_FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

struct Asset {
    name: String,
    media_type: &'static str,
    content: Compressed,
}

impl Asset {
    fn new(stem: &str, extension: &str, media_type: &'static str, files: &[&str]) -> Self {
        let content = files.join("\n");
        let hash = hex::encode(&Sha256::digest(&content)[..6]);
        Self {
            name: format!("{stem}-{hash}.{extension}"),
            media_type,
            content: Compressed::new(content),
        }
    }
}

/// The files of an asset in the order in which they are joined.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(include_str!(concat!("../../../assets/", $path))),*]
    };
}

/// Later rules override earlier ones.
const STYLE: &[&str] = files![
    "css/base.css",
    "css/frame.css",
    "css/cards.css",
    "css/rows.css",
    "css/tables.css",
    "css/forms.css",
    "css/integrations.css",
    "css/filters.css",
    "css/prose.css",
    "css/charts.css",
    "css/timeline.css",
    "css/incidents.css",
    "css/activity.css",
    "css/live.css",
    "css/palette.css",
    "css/reference.css",
    "css/print.css",
];

/// `main.js` calls the functions of the others.
const SCRIPT: &[&str] = files![
    "js/times.js",
    "js/theme.js",
    "js/copy.js",
    "js/drafts.js",
    "js/organization.js",
    "js/live.js",
    "js/filters.js",
    "js/timeline.js",
    "js/charts.js",
    "js/keyboard.js",
    "js/palette.js",
    "js/menus.js",
    "js/main.js",
];

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new("style", "css", "text/css; charset=utf-8", STYLE),
        Asset::new("app", "js", "text/javascript; charset=utf-8", SCRIPT),
        Asset::new("icon", "svg", "image/svg+xml", files!["icon.svg"]),
    ]
});

/// Returns the path of the style sheet.
pub(crate) fn style() -> String {
    path(0)
}

/// Returns the path of the script.
pub(crate) fn script() -> String {
    path(1)
}

/// Returns the path of the icon.
pub(crate) fn icon() -> String {
    path(2)
}

fn path(index: usize) -> String {
    format!("/assets/{}", ASSETS[index].name)
}

/// `GET /assets/NAME`
pub(crate) async fn get(_app: App, request: Request) -> ApiResult {
    let asset = ASSETS.iter().find(|asset| asset.name == request.parameter);
    let Some(asset) = asset else {
        let detail = "there is no such file; reload the page";
        return Err(ApiError::new(ProblemCode::NotFound, detail));
    };
    let response = asset.content.response(&request.headers).await;
    let mut response = reply::with_media_type(response, asset.media_type);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, CACHE_FOREVER);
    Ok(response)
}
