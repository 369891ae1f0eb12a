//! Protection against cross-site request forgery, by the headers that browsers
//! add; the algorithm of Go's `http.CrossOriginProtection`.

use changelog_core::ProblemCode;
use http::{Method, header};

use super::{ApiError, Request};
use crate::app::App;

/// Refuses a request that changes something and that a browser sent from another
/// site. A request without `Sec-Fetch-Site` and `Origin` is not from a browser.
pub(crate) fn refuse(app: &App, request: &Request) -> Result<(), ApiError> {
    if matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_own = if let Some(site) = request.headers.get("sec-fetch-site") {
        matches!(site.as_bytes(), b"same-origin" | b"none")
    } else if let Some(origin) = request.headers.get(header::ORIGIN) {
        origin
            .to_str()
            .is_ok_and(|origin| is_own_origin(app, request, origin))
    } else {
        true
    };
    if is_own {
        return Ok(());
    }
    let detail = "a browser sent this from another site; open the page here and try again";
    Err(ApiError::new(ProblemCode::CrossSite, detail))
}

/// Compares an origin with the public URL, or without one with the `Host` header.
fn is_own_origin(app: &App, request: &Request, origin: &str) -> bool {
    match &app.settings.public_url {
        Some(public) => public.origin().ascii_serialization() == origin,
        None => request.header(header::HOST.as_str()).is_some_and(|host| {
            origin
                .split_once("://")
                .is_some_and(|(_, authority)| authority == host)
        }),
    }
}
