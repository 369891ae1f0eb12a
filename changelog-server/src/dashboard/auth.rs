//! Signing in and out, and the switch from one organization to another.

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
struct SignIn<'a> {
    /// What was typed before.
    email: &'a str,
    /// What was wrong with it; empty when nothing was.
    error: &'a str,
    /// Where to go then; empty for the overview.
    next: &'a str,
}

/// Takes an address of this service only: a link must not lead elsewhere after
/// the sign-in.
fn own_address(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && next
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { next } else { "" }
}

/// `GET /sign-in`
pub(super) async fn sign_in_form(app: App, request: Request) -> ApiResult {
    let form = request.query_form();
    let next = own_address(form.value("next"));
    if session::find(&app, &request).await?.is_some() {
        return Ok(page::see_other(if next.is_empty() { "/" } else { next }));
    }
    let page = SignIn {
        email: "",
        error: "",
        next,
    };
    page::render(200, &page)
}

/// `POST /sign-in`
pub(super) async fn sign_in(app: App, mut request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let (email, password) = (form.value("email"), form.value("password"));
    let next = own_address(form.value("next"));
    let ticket = app.passwords.enter()?;
    let Some((known, tenant)) = (match check(&app, &request, &ticket, email, password).await? {
        Checked::Wait(seconds) => return wait(email, next, seconds),
        Checked::Known(known) => {
            let tenant = app.store.first_membership(known.user.id).await?;
            tenant.map(|tenant| (known, tenant))
        }
        Checked::Wrong => None,
    }) else {
        let error = "The address or the password is wrong.";
        return page::render(401, &SignIn { email, error, next });
    };
    let mut tx = app.store.begin().await?;
    tx.attempt_succeeded(&known.counted).await?;
    let tokens = begin_session(&app, &mut tx, &request, &known.user, tenant).await?;
    tx.commit().await?;
    let mut response = page::see_other(if next.is_empty() { "/" } else { next });
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Returns for how many seconds to wait, at least one.
pub(super) fn seconds_until(until: Timestamp, now: Timestamp) -> u64 {
    let millis = u64::try_from(until.millis() - now.millis()).unwrap_or(0);
    millis.div_ceil(1_000).max(1)
}

/// What came of an address and a password.
pub(super) enum Checked {
    Known(Known),
    Wrong,
    /// Too many have failed; seconds until the next may be tried.
    Wait(u64),
}

/// Whose password it was.
pub(super) struct Known {
    pub(super) user: User,
    /// What the attempt was counted under, for [`Tx::attempt_succeeded`].
    pub(super) counted: Vec<Bucket>,
}

/// Checks a password, of which only so many may be tried.
///
/// An attempt is counted for the client and the address, and for all clients and
/// the address. A browser that has signed in to one of the accounts before has a
/// count of its own for these: whoever knows the address cannot keep out whoever
/// has the account.
pub(super) async fn check(
    app: &App,
    request: &Request,
    ticket: &Ticket,
    email: &str,
    password: &str,
) -> Result<Checked, ApiError> {
    let password = password.to_owned();
    let folded = fold_email(email);
    if folded.chars().count() > MAX_EMAIL_CHARS || !folded.contains('@') {
        // Nobody has it, and saying so takes as long as anything else.
        ticket.verify(password, Vec::new()).await?;
        return Ok(Checked::Wrong);
    }
    let now = app.clock.for_expiry();
    let browser = session::browser_token(app, request);
    let own = match browser {
        Some(token) => app.store.accounts_of_browser(token, now).await?,
        None => Vec::new(),
    };
    let accounts = app.store.accounts(email).await?;
    let (own, others): (Vec<Account>, Vec<Account>) = accounts
        .into_iter()
        .partition(|account| own.contains(&account.user.id));
    let mut rounds = Vec::new();
    if let (Some(token), false) = (browser, own.is_empty()) {
        rounds.push((vec![Bucket::of_browser(token, email)], own));
    }
    if rounds.is_empty() || !others.is_empty() {
        let client = Bucket::of_client(email, request.context.address);
        rounds.push((vec![client, Bucket::of_address(email, now)], others));
    }
    let mut candidates = Vec::new();
    let mut counted = Vec::new();
    let mut wait: Option<Timestamp> = None;
    let mut tx = app.store.begin().await?;
    for (buckets, accounts) in rounds {
        match tx.count_attempt(&buckets, now).await? {
            None => {
                counted.extend(buckets);
                candidates.extend(accounts);
            }
            Some(until) => wait = Some(wait.map_or(until, |other| other.min(until))),
        }
    }
    if let (Some(until), true) = (wait, counted.is_empty()) {
        return Ok(Checked::Wait(seconds_until(until, now)));
    }
    tx.commit().await?;
    let hashes = candidates
        .iter()
        .map(|account| account.password_hash.clone());
    let found = ticket.verify(password, hashes.collect()).await?;
    let user = found.map(|number| candidates.swap_remove(number).user);
    Ok(user.map_or(Checked::Wrong, |user| {
        Checked::Known(Known { user, counted })
    }))
}

/// Begins a session of a person, with an id that nobody has seen before; a
/// session that the browser had ends.
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

/// The same for somebody who is signed in already, which is nothing to record.
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

/// Answers that too many sign-ins have failed, with the form again.
fn wait(email: &str, next: &str, seconds: u64) -> ApiResult {
    let error = format!("Too many failed attempts. Try again in {seconds} s.");
    let page = SignIn {
        email,
        error: &error,
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
pub(super) async fn switch(app: App, mut request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Overview).await?;
    let form = request.form().await?;
    let to: OrganizationId = form.value("organization_id").parse().map_err(|bad| {
        ApiError::new(
            ProblemCode::ValidationFailed,
            format!("organization_id {bad}"),
        )
    })?;
    let token = session::token(&app, &request).unwrap_or_default();
    let mut tx = app.store.begin().await?;
    tx.switch_organization(token, viewer.session.person.id, to)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/"))
}
