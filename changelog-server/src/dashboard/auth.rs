//! Sign-in, sign-out and the switch between organizations.

use askama::Template;
use changelog_core::limits::MAX_EMAIL_CHARS;
use changelog_core::user::fold_email;
use changelog_core::{OrganizationId, ProblemCode, Timestamp, User, UserId};
use http::{HeaderValue, header};
use warp::reply::Response;

use crate::app::App;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, page};
use crate::dashboard::sso;
use crate::passwords::Ticket;
use crate::store::{
    Account, Actor, BY_PROXY, Bucket, NewSession, PasswordMembership, SignInMethod, StoreError,
    Tenant, Tx,
};
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
    /// The organizations whose identity provider is offered.
    offers: Vec<sso::Offer>,
}

/// Asks for the identity provider of an organization that requires it.
#[derive(Template)]
#[template(path = "auth/sso_required.html")]
pub(super) struct SsoRequiredPage {
    /// The address that begins the sign-in.
    pub(super) address: String,
}

/// Returns a path of this service unchanged, else an empty string: a link to the
/// sign-in page must not lead to another site.
pub(super) fn local_path(next: &str) -> &str {
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
    if let Some(email) = session::proxy_email(&app, &request)
        && let Some(response) = sign_in_by_proxy(&app, &request, email, next).await?
    {
        return Ok(response);
    }
    let page = SignInPage {
        email: "",
        error: "",
        // Signing out removes the cookie.
        has_ended: session::token(&app, &request).is_some(),
        awaits_setup: app.store.awaits_setup().await?,
        next,
        offers: sso::offers(&app, &request, next).await?,
    };
    page::render(200, &page)
}

/// Signs a person in who has signed in at a trusted proxy, in the organization that they joined
/// first of those that do not require their identity provider. `None` if they are a member of
/// none, or if several accounts have their address: any organization can make one. Then only one
/// in the organization of `--sso-organization` counts.
async fn sign_in_by_proxy(
    app: &App,
    request: &Request,
    email: &str,
    next: &str,
) -> Result<Option<Response>, ApiError> {
    app.rate_limits.sign_in(request.context.address)?;
    let accounts = app.store.accounts(email).await?;
    let has_several = accounts.len() > 1;
    for account in accounts {
        let user = account.user;
        let tenant = match app.store.membership_by_password(user.id).await? {
            PasswordMembership::In(tenant) => tenant,
            PasswordMembership::ProviderRequired(_) | PasswordMembership::None => continue,
        };
        if has_several && app.settings.sso_organization != Some(tenant.id()) {
            continue;
        }
        // The emergency access is by password only.
        let provider = app.store.sso_provider(tenant).await?;
        if provider.is_some_and(|provider| provider.is_required) {
            continue;
        }
        let method = SignInMethod::Proxy;
        let mut tx = app.store.begin().await?;
        let tokens = renew_session(app, &mut tx, request, &user, tenant, method, None).await?;
        let actor = Actor::person(user.id, &user.name, request.context.address);
        tx.record_sso_sign_in(tenant, &actor, &user, BY_PROXY, app.now())
            .await?;
        tx.commit().await?;
        let mut response = page::see_other(if next.is_empty() { "/" } else { next });
        session::SESSION.set(app, &mut response, &tokens.session);
        return Ok(Some(response));
    }
    Ok(None)
}

/// `POST /sign-in`
pub(super) async fn sign_in(app: App, request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let (email, password) = (form.value("email"), form.value("password"));
    let next = local_path(form.value("next"));
    let ticket = app.passwords.enter()?;
    let checked = check_password(&app, &request, &ticket, email, password).await?;
    let Some((login, tenant)) = (match checked {
        PasswordCheck::Throttled(seconds) => {
            return throttled(&app, &request, email, next, seconds).await;
        }
        PasswordCheck::Correct(login) => {
            match app.store.membership_by_password(login.user.id).await? {
                PasswordMembership::In(tenant) => Some((login, tenant)),
                PasswordMembership::ProviderRequired(id) => {
                    let address = sso::address(id, next);
                    return page::render(403, &SsoRequiredPage { address });
                }
                PasswordMembership::None => None,
            }
        }
        PasswordCheck::Wrong => None,
    }) else {
        let page = SignInPage {
            email,
            error: "Incorrect email or password.",
            has_ended: false,
            awaits_setup: false,
            next,
            offers: sso::offers(&app, &request, next).await?,
        };
        return page::render(401, &page);
    };
    let mut tx = app.store.begin().await?;
    login.succeed(&mut tx).await?;
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
    password_hash: String,
    /// Where the attempt was counted.
    buckets: Vec<Bucket>,
}

impl Login {
    /// Records in the transaction that begins a session that the attempt has succeeded.
    ///
    /// # Errors
    /// A conflict if the password has been changed since it was checked.
    pub(super) async fn succeed(&self, tx: &mut Tx) -> Result<(), ApiError> {
        keep_password(tx, self.user.id, &self.password_hash).await?;
        Ok(tx.record_success(&self.buckets).await?)
    }
}

/// Makes sure that a password is not changed between its check and the end of a transaction.
///
/// # Errors
/// A conflict if it has been changed.
pub(super) async fn keep_password(tx: &mut Tx, user: UserId, hash: &str) -> Result<(), ApiError> {
    if tx.keep_password(user, hash).await? {
        return Ok(());
    }
    let detail = "the password was changed a moment ago; sign in with the new one";
    Err(ApiError::new(ProblemCode::Conflict, detail))
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
    let has_several = accounts.len() > 1;
    let (known, others): (Vec<Account>, Vec<Account>) = accounts
        .into_iter()
        .partition(|account| known_users.contains(&account.user.id));
    let mut groups = Vec::new();
    if let (Some(token), false) = (browser, known.is_empty()) {
        groups.push((vec![Bucket::of_browser(token, email)], known));
    }
    if groups.is_empty() || !others.is_empty() {
        let mut client = Bucket::of_client(email, request.context.address);
        if has_several {
            client = client.of_several_accounts();
        }
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
        let account = candidates.swap_remove(index);
        PasswordCheck::Correct(Login {
            user: account.user,
            password_hash: account.password_hash,
            buckets: counted_in,
        })
    }))
}

/// Begins a session by password with a new token, ends the browser's previous session and
/// records the sign-in.
pub(super) async fn begin_session(
    app: &App,
    tx: &mut Tx,
    request: &Request,
    user: &User,
    tenant: Tenant,
) -> Result<SessionTokens, StoreError> {
    let method = SignInMethod::Password;
    let tokens = renew_session(app, tx, request, user, tenant, method, None).await?;
    let actor = Actor::person(user.id, &user.name, request.context.address);
    tx.record_sign_in(tenant, &actor, user, app.now()).await?;
    tx.record_emergency_use(tenant, &actor, user, app.now())
        .await?;
    Ok(tokens)
}

/// Begins a session as [`begin_session`] does, by any method, and records no sign-in.
/// `provider_sid` is the id that an identity provider has given the session.
pub(super) async fn renew_session(
    app: &App,
    tx: &mut Tx,
    request: &Request,
    user: &User,
    tenant: Tenant,
    method: SignInMethod,
    provider_sid: Option<&str>,
) -> Result<SessionTokens, StoreError> {
    if let Some(old) = session::token(app, request) {
        tx.end_session(old).await?;
    }
    let tokens = SessionTokens::new();
    let now = app.clock.for_expiry();
    let new = NewSession {
        user: user.id,
        tenant,
        method,
        provider_sid,
        user_agent: request.header(header::USER_AGENT.as_str()),
    };
    tx.insert_session(&tokens.session, new, now).await?;
    // Others must not have more attempts at the password because they were signed in without it.
    if method == SignInMethod::Password {
        let browser = session::browser_token(app, request);
        tx.remember_browser(browser, &tokens.browser, user.id, now)
            .await?;
    }
    Ok(tokens)
}

/// Responds with the form: too many sign-ins have failed.
async fn throttled(
    app: &App,
    request: &Request,
    email: &str,
    next: &str,
    seconds: u64,
) -> ApiResult {
    let error = format!("Too many attempts. Try again in {seconds} s.");
    let page = SignInPage {
        email,
        error: &error,
        has_ended: false,
        awaits_setup: false,
        next,
        offers: sso::offers(app, request, next).await?,
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
pub(super) async fn switch_organization(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::switch(&app, &request, Section::Overview).await?;
    let form = request.form().await?;
    let target: OrganizationId = form.value("organization_id").parse().map_err(|bad| {
        ApiError::new(
            ProblemCode::ValidationFailed,
            format!("organization_id {bad}"),
        )
    })?;
    if viewer.session.method == SignInMethod::Sso {
        let detail = "this session was begun by the identity provider of one organization and acts \
                      in this one only; sign out, and sign in to the other one";
        return Err(ApiError::new(ProblemCode::Forbidden, detail));
    }
    let person = &viewer.session.person;
    let other = app.store.sso_organization(target).await?;
    let provider = other.and_then(|found| found.provider);
    let is_open = provider.is_none_or(|provider| match viewer.session.method {
        SignInMethod::Password => provider.permits_password(person.id),
        SignInMethod::Sso | SignInMethod::Proxy => !provider.is_required,
    });
    if !is_open {
        // Not a redirect: browsers do not follow it from a form to the provider.
        let address = sso::address(target, "");
        return page::render(403, &SsoRequiredPage { address });
    }
    let token = session::token(&app, &request).unwrap_or_default();
    let mut tx = app.store.begin().await?;
    let tenant = tx.switch_organization(token, person.id, target).await?;
    if viewer.session.method == SignInMethod::Password {
        let user = User {
            id: person.id,
            email: person.email.clone(),
            name: person.name.clone(),
        };
        tx.record_emergency_use(tenant, &viewer.actor(), &user, app.now())
            .await?;
    }
    tx.commit().await?;
    Ok(page::see_other("/"))
}
