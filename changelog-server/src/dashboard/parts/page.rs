//! Renders pages, redirects and failures.

use askama::Template;
use bytes::Bytes;
use changelog_core::ProblemCode;
use http::{HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};
use warp::reply::Response;

use super::viewer::{SECTIONS, Section};
use super::{assets, format};
use crate::web::request::RequestInfo;
use crate::web::{ApiError, ApiResult, Request, compression, reply};

pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Renders a page.
pub(crate) fn render(status: u16, page: &impl Template) -> ApiResult {
    let html = page.render().map_err(|error| ApiError::internal(&error))?;
    Ok(reply::text(status, HTML, html))
}

/// Renders a page without secrets that browsers request repeatedly: compressed, and as 304
/// without a body if the browser has the same page.
pub(crate) fn render_live(request: &Request, page: &impl Template) -> ApiResult {
    let html = page.render().map_err(|error| ApiError::internal(&error))?;
    Ok(cacheable(request, HTML, html))
}

/// Returns content without secrets that is requested repeatedly: compressed, and as 304
/// without a body if the client has the same content.
pub(crate) fn cacheable(request: &Request, media_type: &'static str, text: String) -> Response {
    // Weak, because the bytes depend on the encoding.
    let tag = format!("W/\"{}\"", hex::encode(&Sha256::digest(&text)[..12]));
    let is_known = request.header(header::IF_NONE_MATCH.as_str()) == Some(tag.as_str());
    let mut response = if is_known {
        let mut response = Response::new(Bytes::new().into());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        reply::with_media_type(compression::compressible(text), media_type)
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Redirects the browser to another page.
pub(crate) fn see_other(location: &str) -> Response {
    let mut response = Response::new(String::new().into());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Returns the path of the sign-in page that redirects to `next` afterwards.
fn sign_in_path(next: &str) -> String {
    if next == "/" {
        return "/sign-in".to_owned();
    }
    format!("/sign-in?{}", format::query("next", next))
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'p> {
    problem: &'p changelog_core::Problem,
    title: &'static str,
    /// The sections, for the pages of people who are signed in.
    sections: &'static [(Section, &'static str, &'static str)],
    /// What to request again; empty if that cannot help.
    retry: &'p str,
}

/// Paths of people who are not signed in.
const WITHOUT_NAVIGATION: [&str; 7] = [
    "/sign-in",
    "/sso/",
    "/setup",
    "/invitations/",
    "/unsubscribe/",
    "/problems/",
    "/api/docs",
];

/// Returns the title of a failure.
fn title(code: &ProblemCode) -> &'static str {
    match code {
        ProblemCode::NotFound | ProblemCode::MalformedId => "Page not found",
        ProblemCode::Forbidden => "You don't have permission",
        ProblemCode::Unavailable => "Temporarily unavailable",
        ProblemCode::OutcomeUnknown => "This may have been saved",
        ProblemCode::TooManyRequests => "Too many requests",
        ProblemCode::PlanRequired => "Not part of your plan",
        ProblemCode::Internal => "Something went wrong",
        _ => "This didn't work",
    }
}

/// Renders a failure as a page; redirects to the sign-in page without a session.
pub(crate) fn failure(error: ApiError, request: &RequestInfo) -> Response {
    if *error.code() == ProblemCode::Unauthorized {
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        // A form is lost; its page has what was typed.
        let next = match request.sent_from.as_str() {
            _ if is_read => &request.target,
            "" => "/",
            form => form,
        };
        return see_other(&sign_in_path(next));
    }
    error.into_response_with(&request.id, |problem| {
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        let may_retry = matches!(
            problem.code,
            ProblemCode::Unavailable | ProblemCode::TooManyRequests | ProblemCode::Internal
        );
        let is_public = WITHOUT_NAVIGATION
            .iter()
            .any(|path| request.target.starts_with(path));
        let page = FailurePage {
            problem,
            title: title(&problem.code),
            sections: if is_public { &[] } else { &SECTIONS },
            retry: if is_read && may_retry {
                &request.target
            } else {
                ""
            },
        };
        render(problem.status, &page).unwrap_or_else(|error| error.into_response(&request.id))
    })
}
