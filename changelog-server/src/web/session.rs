//! Browser sessions and their cookies.

use changelog_core::ProblemCode;
use changelog_core::user::fold_email;
use cookie::time::Duration;
use cookie::{Cookie, SameSite};
use http::{HeaderValue, header};
use warp::reply::Response;

use super::{ApiError, Request};
use crate::app::App;
use crate::store::{Session, SignInMethod};

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

/// What the browser has begun at the identity provider of an organization, encrypted; see
/// [`crate::sso::flow`].
pub(crate) const SSO_FLOW: CookieSpec = CookieSpec {
    http_name: "changelog_sso",
    https_name: "__Host-changelog_sso",
    max_age: Duration::minutes(15),
};
/// The id of the organization that the browser has last signed in to by its identity provider,
/// which the sign-in page offers again. It grants no access.
pub(crate) const SSO_ORGANIZATION: CookieSpec = CookieSpec {
    http_name: "changelog_sso_organization",
    https_name: "__Host-changelog_sso_organization",
    max_age: Duration::days(180),
};

impl CookieSpec {
    /// Returns the value in a request's cookies.
    pub(crate) fn read<'r>(&self, app: &App, request: &'r Request) -> Option<&'r str> {
        request.cookie(self.name(app.settings.is_https()))
    }

    /// Sets the cookie in the browser.
    pub(crate) fn set(&self, app: &App, response: &mut Response, value: &str) {
        set_cookie(response, &self.build(app.settings.is_https(), value));
    }

    /// Removes the cookie from the browser.
    pub(crate) fn clear(&self, app: &App, response: &mut Response) {
        let mut cookie = self.build(app.settings.is_https(), "");
        cookie.set_max_age(Duration::ZERO);
        set_cookie(response, &cookie);
    }

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
        SESSION.set(app, response, &self.session);
        BROWSER.set(app, response, &self.browser);
    }
}

/// Removes the session's cookie from the browser.
pub(crate) fn clear_cookie(app: &App, response: &mut Response) {
    SESSION.clear(app, response);
}

/// Returns a new token: 256 random bits in hexadecimal.
pub(crate) fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// Returns the session token in a request's cookies.
pub(crate) fn token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    SESSION.read(app, request)
}

/// Returns the browser token in a request's cookies.
pub(crate) fn browser_token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    BROWSER.read(app, request)
}

/// Returns the email address of the person who has signed in at the trusted proxy that has sent
/// a request, if the operator has named its header.
pub(crate) fn proxy_email<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    let header = app.settings.trusted_sign_in_header.as_ref()?;
    if !request.context.is_from_proxy {
        return None;
    }
    let email = request.header(header.as_str())?.trim();
    (!email.is_empty()).then_some(email)
}

/// Returns whether the person of a session is still signed in. One who was signed in by a proxy
/// is so for as long as the proxy says it of the same person.
fn is_still_signed_in(app: &App, request: &Request, session: &Session) -> bool {
    session.method != SignInMethod::Proxy
        || proxy_email(app, request)
            .is_some_and(|email| fold_email(email) == fold_email(&session.person.email))
}

/// Finds the session of a request and records that it was used.
pub(crate) async fn find(app: &App, request: &Request) -> Result<Option<Session>, ApiError> {
    let Some(token) = token(app, request) else {
        return Ok(None);
    };
    let now = app.clock.for_expiry();
    let session = app.store.session(token, now).await?;
    let session = session.filter(|session| is_still_signed_in(app, request, session));
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
