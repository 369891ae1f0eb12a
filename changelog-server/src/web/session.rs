//! Browser sessions: the cookie, and the check that a request is not forged.

use changelog_core::ProblemCode;
use http::{HeaderValue, Method, header};
use warp::reply::Response;

use crate::app::App;
use crate::store::{Session, StoreError};
use crate::web::{ApiError, Request};

/// A cookie, by its name over http and over https, where the prefix keeps other
/// hosts of the domain from setting it; and for how long a browser keeps it, in
/// seconds.
pub(crate) struct Cookie {
    pub(crate) plain: &'static str,
    secure: &'static str,
    max_age: u32,
}

/// The session; kept for as long as one can last.
pub(crate) const SESSION: Cookie = Cookie {
    plain: "changelog_session",
    secure: "__Host-changelog_session",
    max_age: 30 * 24 * 60 * 60,
};
/// By which a browser that has signed in before is known; see
/// [`crate::store::Bucket::of_browser`]. It signs nobody in.
const BROWSER: Cookie = Cookie {
    plain: "changelog_browser",
    secure: "__Host-changelog_browser",
    max_age: 180 * 24 * 60 * 60,
};

impl Cookie {
    fn name(&self, app: &App) -> &'static str {
        if app.settings.is_https() {
            self.secure
        } else {
            self.plain
        }
    }

    fn set(&self, app: &App, response: &mut Response, token: &str, max_age: u32) {
        let name = self.name(app);
        let secure = if app.settings.is_https() {
            "; Secure"
        } else {
            ""
        };
        let cookie =
            format!("{name}={token}; HttpOnly; SameSite=Lax; Path=/; Max-Age={max_age}{secure}");
        if let Ok(value) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
}

/// The tokens of a session that has just begun, for the browser's cookies.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) session: String,
    pub(crate) browser: String,
}

impl Begun {
    /// Makes tokens that nobody has seen before.
    pub(crate) fn new() -> Self {
        Self {
            session: new_token(),
            browser: new_token(),
        }
    }

    /// Gives them to the browser.
    pub(crate) fn set_cookies(&self, app: &App, response: &mut Response) {
        SESSION.set(app, response, &self.session, SESSION.max_age);
        BROWSER.set(app, response, &self.browser, BROWSER.max_age);
    }
}

/// Makes the token of a new session: 256 random bits.
pub(crate) fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// Returns the token of the session that a request carries.
pub(crate) fn token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    request.cookie(SESSION.name(app))
}

/// Returns the token of a browser that has signed in before.
pub(crate) fn browser_token<'r>(app: &App, request: &'r Request) -> Option<&'r str> {
    request.cookie(BROWSER.name(app))
}

/// Finds the session of a request, and notes that it was used.
pub(crate) async fn find(app: &App, request: &Request) -> Result<Option<Session>, ApiError> {
    let Some(token) = token(app, request) else {
        return Ok(None);
    };
    let now = app.clock.for_expiry();
    let session = app.store.session(token, now).await?;
    if let Some(session) = &session {
        // Set once a request; a second look finds the same.
        let _ = request.context.state.tenant.set(session.tenant);
    }
    if session.as_ref().is_some_and(|session| session.stale)
        && let Err(error) = touch(app, token).await
    {
        // Reading goes on where writing does not.
        tracing::warn!(%error, "the use of a session could not be noted");
    }
    Ok(session)
}

async fn touch(app: &App, token: &str) -> Result<(), StoreError> {
    let mut tx = app.store.begin().await?;
    tx.touch_session(token, app.clock.for_expiry()).await?;
    tx.commit().await
}

/// Takes the token of the session away from the browser.
pub(crate) fn clear_cookie(app: &App, response: &mut Response) {
    SESSION.set(app, response, "", 0);
}

/// Refuses a request that changes something and that a browser sent from
/// another site. A request with neither header is not from a browser.
pub(crate) fn refuse_cross_site(app: &App, request: &Request) -> Result<(), ApiError> {
    if matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let own = if let Some(site) = request.headers.get("sec-fetch-site") {
        matches!(site.as_bytes(), b"same-origin" | b"none")
    } else if let Some(origin) = request.headers.get(header::ORIGIN) {
        origin
            .to_str()
            .is_ok_and(|origin| is_own_origin(app, request, origin))
    } else {
        true
    };
    if own {
        return Ok(());
    }
    let detail = "a browser sent this from another site; open the page here and try again";
    Err(ApiError::new(ProblemCode::CrossSite, detail))
}

/// The service's own origin is its public address; without one it is whatever
/// host the browser asked for.
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
