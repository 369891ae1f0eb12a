//! The templates, and how a page is answered.

use askama::Template;
use changelog_core::Change;

use crate::store::Session;
use crate::web::{ApiError, ApiResult, reply};

/// `/sign-in`
#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignIn<'a> {
    /// What was typed before.
    pub(super) email: &'a str,
    /// What was wrong with it; empty when nothing was.
    pub(super) error: &'a str,
}

/// `/`
#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct Home<'a> {
    pub(super) session: &'a Session,
    pub(super) changes: &'a [Change],
    pub(super) count: u64,
}

/// Answers a page.
pub(super) fn render(status: u16, page: &impl Template) -> ApiResult {
    let html = page.render().map_err(|error| ApiError::internal(&error))?;
    Ok(reply::text(status, "text/html; charset=utf-8", html))
}
