//! Browser sessions and their cookies.

use changelog_core::ProblemCode;
use cookie::time::Duration;
use cookie::{Cookie, SameSite};
use http::{HeaderValue, header};
use warp::reply::Response;

use super::{ApiError, Request};
use crate::app::App;
use crate::store::Session;

/// A cookie of this service. Over https its name has the `__Host-` prefix, which
/// keeps other hosts of the domain from setting it.
pub(crate) struct CookieSpec {
    pub(crate) http_name: &'static str,
    https_name: &'static str,
    max_age: Duration,
}

/// The token of the session, for as long as a session can last.
pub(crate) const SESSION: CookieSpec = CookieSpec {
    http_name: "changelog_session",
    https_name: "__Host-changelog_session",
    max_age: Duration::days(30),
};
/// A token that recognizes a browser that has signed in before; see
/// [`crate::store::Bucket::of_browser`]. It grants no access.
const BROWSER: CookieSpec = CookieSpec {
    http_name: "changelog_browser",
    https_name: "__Host-changelog_browser",
    max_age: Duration::days(180),
};

impl CookieSpec {
    fn name(&self, is_https: bool) -> &'static str {
        if is_https {
            self.https_name
        } else {
            self.http_name
        }
    }

    fn build(&self, is_https: bool, token: &str) -> Cookie<'static> {
        Cookie::build((self.name(is_https), token.to_owned()))
            .http_only(true)
            .same_site(SameSite::Lax)
            .path("/")
            .max_age(self.max_age)
            .secure(is_https)
            .build()
    }
}

fn set_cookie(response: &mut Response, cookie: &Cookie<'_>) {
    if let Ok(value) = HeaderValue::try_from(cookie.to_string()) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// The tokens of a new session, for the browser's cookies.
#[derive(Debug)]
pub(crate) struct SessionTokens {
    pub(crate) session: String,
    pub(crate) browser: String,
}

impl SessionTokens {
    /// Draws new tokens.
    pub(crate) fn new() -> Self {
        Self {
            session: new_token(),
            browser: new_token(),
        }
    }

    /// Sets the browser's cookies.
    pub(crate) fn set_cookies(&self, app: &App, response: &mut Response) {
        let is_https = app.settings.is_https();
        set_cookie(response, &SESSION.build(is_https, &self.session));
        set_cookie(response, &BROWSER.build(is_https, &self.browser));
    }
}

/// Removes the session's cookie from the browser.
pub(crate) fn clear_cookie(app: &App, response: &mut Response) {
    let mut cookie = SESSION.build(app.settings.is_https(), "");
    cookie.set_max_age(Duration::ZERO);
    set_cookie(response, &cookie);
}

/// Returns a new token: 256 random bits in hexadecimal.
pub(crate) fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// Returns the session token in a request's cookies.
pub(crate) fn token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    request.cookie(SESSION.name(app.settings.is_https()))
}

/// Returns the browser token in a request's cookies.
pub(crate) fn browser_token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    request.cookie(BROWSER.name(app.settings.is_https()))
}

/// Finds the session of a request and records that it was used.
pub(crate) async fn find(app: &App, request: &Request) -> Result<Option<Session>, ApiError> {
    let Some(token) = token(app, request) else {
        return Ok(None);
    };
    let now = app.clock.for_expiry();
    let session = app.store.session(token, now).await?;
    if let Some(session) = &session {
        // A second lookup in the same request finds the same organization.
        let _ = request.context.state.tenant.set(session.tenant);
        app.last_used.note_session(session, now);
    }
    Ok(session)
}

/// Returns the session of a request, or an error that asks for a sign-in.
pub(crate) async fn require(app: &App, request: &Request) -> Result<Session, ApiError> {
    find(app, request).await?.ok_or_else(|| {
        let detail = "this takes the session of a signed-in person; API keys do not work here";
        ApiError::new(ProblemCode::Unauthorized, detail)
            .with_header(header::WWW_AUTHENTICATE, "Session realm=\"change log\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_from_scripts_and_other_sites() {
        assert_eq!(
            SESSION.build(true, "0a").to_string(),
            "__Host-changelog_session=0a; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=2592000"
        );
        assert_eq!(
            BROWSER.build(false, "0a").to_string(),
            "changelog_browser=0a; HttpOnly; SameSite=Lax; Path=/; Max-Age=15552000"
        );
    }
}
