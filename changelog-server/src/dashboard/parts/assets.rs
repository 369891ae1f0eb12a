//! The style sheet, the script and the icon. Their paths contain a hash of the
//! content, so that browsers may cache them forever.

use std::sync::LazyLock;

use changelog_core::ProblemCode;
use http::{HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::web::{ApiError, ApiResult, Request, reply};

const CACHE_FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

struct Asset {
    name: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, media_type: &'static str, content: &'static str) -> Self {
        let hash = hex::encode(&Sha256::digest(content)[..6]);
        Self {
            name: format!("{stem}-{hash}.{extension}"),
            media_type,
            content,
        }
    }
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new(
            "style",
            "css",
            "text/css; charset=utf-8",
            include_str!("../../../assets/style.css"),
        ),
        Asset::new(
            "app",
            "js",
            "text/javascript; charset=utf-8",
            include_str!("../../../assets/app.js"),
        ),
        Asset::new(
            "icon",
            "svg",
            "image/svg+xml",
            include_str!("../../../assets/icon.svg"),
        ),
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
    let mut response = reply::text(200, asset.media_type, asset.content.to_owned());
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, CACHE_FOREVER);
    Ok(response)
}
