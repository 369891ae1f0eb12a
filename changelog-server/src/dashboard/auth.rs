//! Sign-in, sign-out and the switch between organizations.

use askama::Template;
use changelog_core::limits::MAX_EMAIL_CHARS;
use changelog_core::user::fold_email;
use changelog_core::{OrganizationId, ProblemCode, Timestamp, User};
use http::{HeaderValue, header};

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, page};
use crate::passwords::Ticket;
use crate::store::{Account, Actor, Bucket, StoreError, Tenant, Tx};
use crate::web::session::SessionTokens;
use crate::web::{ApiError, ApiResult, Request, cross_site, session};

#[derive(Template)]
#[template(path = "auth/sign_in.html")]
struct SignInPage<'a> {
    /// The address that was entered before.
    email: &'a str,
    /// Why the sign-in failed; empty before the first attempt.
    error: &'a str,
    /// Whether the browser had a session, which has ended.
    has_ended: bool,
    /// Whether there is no organization yet.
    awaits_setup: bool,
    /// The path to open after the sign-in; empty for the overview.
    next: &'a str,
}

/// Returns a path of this service unchanged, else an empty string: a link to the
/// sign-in page must not lead to another site.
fn local_path(next: &str) -> &str {
    let is_local = next.starts_with('/')
        && !next.starts_with("//")
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { next } else { "" }
}

/// `GET /sign-in`
pub(super) async fn sign_in_form(app: App, request: Request) -> ApiResult {
    let form = request.query_form();
    let next = local_path(form.value("next"));
    if session::find(&app, &request).await?.is_some() {
        return Ok(page::see_other(if next.is_empty() { "/" } else { next }));
    }
    let page = SignInPage {
        email: "",
        error: "",
        // Signing out removes the cookie.
        has_ended: session::token(&app, &request).is_some(),
        awaits_setup: app.store.awaits_setup().await?,
        next,
    };
    page::render(200, &page)
}

/// `POST /sign-in`
pub(super) async fn sign_in(app: App, mut request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let (email, password) = (form.value("email"), form.value("password"));
    let next = local_path(form.value("next"));
    let ticket = app.passwords.enter()?;
    let checked = check_password(&app, &request, &ticket, email, password).await?;
    let Some((login, tenant)) = (match checked {
        PasswordCheck::Throttled(seconds) => return throttled(email, next, seconds),
        PasswordCheck::Correct(login) => {
            let tenant = app.store.first_membership(login.user.id).await?;
            tenant.map(|tenant| (login, tenant))
        }
        PasswordCheck::Wrong => None,
    }) else {
        let page = SignInPage {
            email,
            error: "Incorrect email or password.",
            has_ended: false,
            awaits_setup: false,
            next,
        };
        return page::render(401, &page);
    };
    let mut tx = app.store.begin().await?;
    tx.record_success(&login.buckets).await?;
    let tokens = begin_session(&app, &mut tx, &request, &login.user, tenant).await?;
    tx.commit().await?;
    let mut response = page::see_other(if next.is_empty() { "/" } else { next });
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Returns the number of seconds until a time, rounded up, at least 1.
pub(super) fn seconds_until(until: Timestamp, now: Timestamp) -> u64 {
    let millis = u64::try_from(until.millis() - now.millis()).unwrap_or(0);
    millis.div_ceil(1_000).max(1)
}

/// The result of [`check_password`].
pub(super) enum PasswordCheck {
    Correct(Login),
    Wrong,
    /// Too many attempts have failed; the seconds until the next one is allowed.
    Throttled(u64),
}

/// An account whose password was given.
pub(super) struct Login {
    pub(super) user: User,
    /// Where the attempt was counted, for [`Tx::record_success`].
    pub(super) buckets: Vec<Bucket>,
}

/// Checks an email address and a password, and limits the number of attempts.
///
/// An attempt counts for the address and the client, and for the address and all
/// clients. A browser that has signed in to some of the accounts before has a
/// separate count for these, so that the attempts of others cannot lock out their
/// owner.
pub(super) async fn check_password(
    app: &App,
    request: &Request,
    ticket: &Ticket,
    email: &str,
    password: &str,
) -> Result<PasswordCheck, ApiError> {
    let password = password.to_owned();
    let folded = fold_email(email);
    if folded.chars().count() > MAX_EMAIL_CHARS || !folded.contains('@') {
        // No account has this address; the response must not be faster for that.
        ticket.verify(password, Vec::new()).await?;
        return Ok(PasswordCheck::Wrong);
    }
    let now = app.clock.for_expiry();
    let browser = session::browser_token(app, request);
    let known_users = match browser {
        Some(token) => app.store.accounts_of_browser(token, now).await?,
        None => Vec::new(),
    };
    let accounts = app.store.accounts(email).await?;
    let (known, others): (Vec<Account>, Vec<Account>) = accounts
        .into_iter()
        .partition(|account| known_users.contains(&account.user.id));
    let mut groups = Vec::new();
    if let (Some(token), false) = (browser, known.is_empty()) {
        groups.push((vec![Bucket::of_browser(token, email)], known));
    }
    if groups.is_empty() || !others.is_empty() {
        let client = Bucket::of_client(email, request.context.address);
        groups.push((vec![client, Bucket::of_address(email, now)], others));
    }
    let mut candidates = Vec::new();
    let mut counted_in = Vec::new();
    let mut retry_at: Option<Timestamp> = None;
    let mut tx = app.store.begin().await?;
    for (buckets, accounts) in groups {
        match tx.count_attempt(&buckets, now).await? {
            None => {
                counted_in.extend(buckets);
                candidates.extend(accounts);
            }
            Some(until) => retry_at = Some(retry_at.map_or(until, |other| other.min(until))),
        }
    }
    if let (Some(until), true) = (retry_at, counted_in.is_empty()) {
        return Ok(PasswordCheck::Throttled(seconds_until(until, now)));
    }
    tx.commit().await?;
    let hashes = candidates
        .iter()
        .map(|account| account.password_hash.clone());
    let found = ticket.verify(password, hashes.collect()).await?;
    Ok(found.map_or(PasswordCheck::Wrong, |index| {
        PasswordCheck::Correct(Login {
            user: candidates.swap_remove(index).user,
            buckets: counted_in,
        })
    }))
}

/// Begins a session with a new token, ends the browser's previous session and
/// records the sign-in.
pub(super) async fn begin_session(
    app: &App,
    tx: &mut Tx,
    request: &Request,
    user: &User,
    tenant: Tenant,
) -> Result<SessionTokens, StoreError> {
    let tokens = renew_session(app, tx, request, user, tenant).await?;
    let actor = Actor::person(user.id, &user.name, request.context.address);
    tx.record_sign_in(tenant, &actor, user, app.now()).await?;
    Ok(tokens)
}

/// Begins a session as [`begin_session`] does, for a user who is already signed in:
/// records no sign-in.
pub(super) async fn renew_session(
    app: &App,
    tx: &mut Tx,
    request: &Request,
    user: &User,
    tenant: Tenant,
) -> Result<SessionTokens, StoreError> {
    if let Some(old) = session::token(app, request) {
        tx.end_session(old).await?;
    }
    let tokens = SessionTokens::new();
    let now = app.clock.for_expiry();
    let agent = request.header(header::USER_AGENT.as_str());
    tx.insert_session(&tokens.session, user.id, tenant, agent, now)
        .await?;
    let browser = session::browser_token(app, request);
    tx.remember_browser(browser, &tokens.browser, user.id, now)
        .await?;
    Ok(tokens)
}

/// Responds with the form: too many sign-ins have failed.
fn throttled(email: &str, next: &str, seconds: u64) -> ApiResult {
    let error = format!("Too many attempts. Try again in {seconds} s.");
    let page = SignInPage {
        email,
        error: &error,
        has_ended: false,
        awaits_setup: false,
        next,
    };
    let mut response = page::render(429, &page)?;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Ok(response)
}

/// `POST /sign-out`
pub(super) async fn sign_out(app: App, request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    if let Some(token) = session::token(&app, &request) {
        let mut tx = app.store.begin().await?;
        tx.end_session(token).await?;
        tx.commit().await?;
    }
    let mut response = page::see_other("/sign-in");
    session::clear_cookie(&app, &mut response);
    Ok(response)
}

/// `POST /organization`
pub(super) async fn switch_organization(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Overview).await?;
    let form = request.form().await?;
    let target: OrganizationId = form.value("organization_id").parse().map_err(|bad| {
        ApiError::new(
            ProblemCode::ValidationFailed,
            format!("organization_id {bad}"),
        )
    })?;
    let token = session::token(&app, &request).unwrap_or_default();
    let mut tx = app.store.begin().await?;
    tx.switch_organization(token, viewer.session.person.id, target)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/"))
}
