//! `/sso`: sign-in by the identity provider of an organization.
//!
//! The browser is sent to the provider (`GET /sso/ORGANIZATION`) and comes back with a code
//! (`GET /sso/callback`). What it has begun is in an encrypted cookie, so that a code that was
//! begun elsewhere is of no use here. A session that is begun here acts in the organization of
//! the provider only.

use askama::Template;
use changelog_core::{OrganizationId, ProblemCode};
use http::{HeaderValue, header};
use url::Url;
use warp::reply::Response;

use super::auth::{self, PasswordCheck, check_password};
use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::{assets, format, page};
use crate::identity::{Expected, TokenKind};
use crate::sso::exchange::{self, Code, ExchangeError};
use crate::sso::flow::{Confirmation, Flow, Step, challenge};
use crate::sso::{person, setup};
use crate::store::{
    Actor, SignInMethod, SsoOrganization, SsoOutcome, SsoPerson, SsoProvider, SsoRefusal,
    StoreError,
};
use crate::web::session::{SESSION, SSO_FLOW, SSO_ORGANIZATION};
use crate::web::{ApiError, ApiResult, Request, cross_site, reply};

/// The event that a logout token must be about (`OpenID` Connect Back-Channel Logout 1.0).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

#[derive(Template)]
#[template(path = "auth/sso_refused.html")]
struct RefusedPage<'a> {
    title: &'a str,
    /// Why, in a sentence.
    reason: &'a str,
    /// What to do about it.
    remedy: &'a str,
    /// The address that begins again; empty if that is of no use.
    again: String,
}

#[derive(Template)]
#[template(path = "auth/sso_confirm.html")]
struct ConfirmPage<'a> {
    organization: &'a str,
    email: &'a str,
    error: &'a str,
}

/// Returns the page that says why nobody was signed in.
fn refused(status: u16, reason: &str, remedy: &str, again: Option<OrganizationId>) -> ApiResult {
    let page = RefusedPage {
        title: if status == 503 {
            "The identity provider does not work"
        } else {
            "You were not signed in"
        },
        reason,
        remedy,
        again: again.map(|id| format!("/sso/{id}")).unwrap_or_default(),
    };
    page::render(status, &page)
}

/// Returns the page after a failure of the provider, or of what it says.
fn failed(error: &ExchangeError, organization: OrganizationId) -> ApiResult {
    let (status, remedy) = match error {
        ExchangeError::Provider(_) => (
            503,
            "Nothing is wrong with your account. Try again; if it goes on, tell your administrator.",
        ),
        ExchangeError::Person(_) => (403, "Ask your administrator."),
        ExchangeError::Unsuitable(_) => (
            502,
            "Ask an owner of the organization to correct the settings.",
        ),
        ExchangeError::Token(_) | ExchangeError::Refused(_) => {
            (403, "Try again. If it goes on, tell your administrator.")
        }
    };
    let reason = sentence(&error.to_string());
    tracing::warn!(%organization, %reason, "a sign-in by an identity provider failed");
    refused(status, &reason, remedy, Some(organization))
}

/// Returns a message as a sentence.
fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    let end = if message.ends_with('.') { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), chars.as_str())
}

/// Finds the organization that a browser wants to sign in to, whose plan includes it.
async fn organization_of(app: &App, id: OrganizationId) -> Result<SsoOrganization, ApiError> {
    let found = app.store.sso_organization(id).await?;
    let found = found.ok_or_else(not_connected)?;
    if !found.plan.includes_sso() {
        let detail = format!(
            "the {} plan does not include sign-in by an identity provider; sign in with your password, \
             or change the plan",
            found.plan
        );
        return Err(ApiError::new(ProblemCode::PlanRequired, detail));
    }
    Ok(found)
}

fn not_connected() -> ApiError {
    let detail = "this organization has not connected an identity provider; sign in with your \
                  password";
    ApiError::new(ProblemCode::NotFound, detail)
}

/// The address to which a provider returns people.
fn redirect_uri(app: &App, provider: &SsoProvider) -> String {
    let path = setup::callback_path(provider.tenant.id(), provider.redirect);
    format!("{}{path}", app.url())
}

/// `GET /sso/ORGANIZATION`: sends the browser to the provider.
pub(super) async fn start(app: App, request: Request) -> ApiResult {
    app.rate_limits.sign_in(request.context.address)?;
    let id: OrganizationId = request.id()?;
    let provider = organization_of(&app, id).await?.provider;
    let provider = provider.ok_or_else(not_connected)?;
    let form = request.query_form();
    let next = auth::local_path(form.value("next"));
    let flow = Flow::begin(&provider, next, app.clock.for_expiry());
    let url = match authorization_url(&app, &provider, &flow).await {
        Ok(url) => url,
        Err(error) => return failed(&error, id),
    };
    let cookie = flow
        .seal(app.integrations.secrets())
        .map_err(|error| ApiError::internal(&error))?;
    let mut response = page::see_other(url.as_str());
    SSO_FLOW.set(&app, &mut response, &cookie);
    Ok(response)
}

/// Returns the URL of the provider at which the person signs in.
async fn authorization_url(
    app: &App,
    provider: &SsoProvider,
    flow: &Flow,
) -> Result<Url, ExchangeError> {
    let published = app.identity.provider(&setup::issuer(provider)).await?;
    let discovery = &published.discovery;
    let (endpoint, _) = setup::endpoints(discovery).map_err(ExchangeError::Unsuitable)?;
    let unsuitable = || {
        let message = "the authorization_endpoint of the identity provider is not an https URL";
        ExchangeError::Unsuitable(message.to_owned())
    };
    let mut url = Url::parse(endpoint).map_err(|_| unsuitable())?;
    // Plain http only where the issuer itself was allowed to be that.
    let is_http = url.scheme() == "http" && provider.issuer.starts_with("http://");
    if url.scheme() != "https" && !is_http {
        return Err(unsuitable());
    }
    let Step::SignIn {
        state,
        nonce,
        verifier,
    } = &flow.step
    else {
        return Err(unsuitable());
    };
    let mut scopes = vec!["openid", "email", "profile"];
    if provider.roles.follow_groups() {
        // Others refuse a scope that they do not know.
        let supported = discovery.scopes_supported.iter().flatten();
        let groups = supported
            .map(String::as_str)
            .find(|scope| *scope == provider.roles.groups_claim || *scope == "groups");
        scopes.extend(groups);
    }
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("redirect_uri", &redirect_uri(app, provider))
        .append_pair("scope", &scopes.join(" "))
        .append_pair("state", state)
        .append_pair("nonce", nonce)
        .append_pair("code_challenge", &challenge(verifier))
        .append_pair("code_challenge_method", "S256");
    Ok(url)
}

/// `GET /sso/callback` and `GET /sso/callback/ORGANIZATION`: the browser comes back from the
/// provider.
pub(super) async fn callback(app: App, request: Request) -> ApiResult {
    app.rate_limits.sign_in(request.context.address)?;
    let now = app.clock.for_expiry();
    let secrets = app.integrations.secrets();
    let cookie = SSO_FLOW.read(&app, &request);
    let flow = cookie.and_then(|cookie| Flow::open(secrets, cookie, now));
    let begun = flow.and_then(|flow| match &flow.step {
        Step::SignIn { .. } => Some(flow),
        Step::Confirm(_) => None,
    });
    let Some(flow) = begun else {
        let reason = "This sign-in was begun in another browser, or too long ago.";
        return refused(400, reason, "Open the sign-in page and begin again.", None);
    };
    let organization = organization_of(&app, flow.organization).await?;
    let mut response = match finish(&app, &request, &organization, flow).await? {
        Finished::Ended(response) => response,
        Finished::Confirm(response) => return Ok(response),
    };
    // It works once.
    SSO_FLOW.clear(&app, &mut response);
    Ok(response)
}

/// What became of what the browser has begun.
enum Finished {
    /// It has ended, with a session or with a page that says why there is none.
    Ended(Response),
    /// It goes on with a confirmation.
    Confirm(Response),
}

async fn finish(
    app: &App,
    request: &Request,
    organization: &SsoOrganization,
    flow: Flow,
) -> Result<Finished, ApiError> {
    let id = flow.organization;
    let again = |reason: &str| refused(400, reason, "Begin again.", Some(id)).map(Finished::Ended);
    let Some(provider) = &organization.provider else {
        return Err(not_connected());
    };
    let Step::SignIn {
        state,
        nonce,
        verifier,
    } = &flow.step
    else {
        return again("This sign-in was already used.");
    };
    let form = request.query_form();
    let given = one(&form, "state");
    if given.is_none_or(|given| !is_equal(given, state)) {
        return again("This sign-in was begun in another browser or tab.");
    }
    if !flow.is_of(provider) {
        return again("The identity provider of the organization has been changed meanwhile.");
    }
    // What the provider of another organization returns comes to another address, or names
    // another issuer (RFC 9207).
    if request.path != setup::callback_path(id, provider.redirect) {
        return again("The identity provider returned you to the address of another organization.");
    }
    if let Err(reason) = check_issuer(app, provider, &form).await {
        return match reason {
            Ok(reason) => again(reason),
            Err(error) => failed(&error, id).map(Finished::Ended),
        };
    }
    if let Some(error) = one(&form, "error") {
        let description = exchange::shown(form.value("error_description"));
        let error = exchange::shown(error);
        let colon = if description.is_empty() { "" } else { ": " };
        let reason = format!("The identity provider says: {error}{colon}{description}");
        return refused(
            403,
            &sentence(&reason),
            "Ask your administrator, or try again.",
            Some(id),
        )
        .map(Finished::Ended);
    }
    let Some(code) = one(&form, "code") else {
        return again("The identity provider returned no code.");
    };
    let mut tx = app.store.begin().await?;
    let is_new = tx
        .use_once(provider.tenant, state, app.clock.for_expiry())
        .await?;
    tx.commit().await?;
    if !is_new {
        return again("This sign-in was already used.");
    }
    let secret = setup::open_secret(app.integrations.secrets(), provider)
        .map_err(|error| ApiError::internal(&error))?;
    let code = Code {
        value: code,
        redirect_uri: &redirect_uri(app, provider),
        verifier,
        nonce,
    };
    let exchanged = match exchange::exchange(&app.identity, provider, &secret, code).await {
        Ok(exchanged) => exchanged,
        Err(error) => return failed(&error, id).map(Finished::Ended),
    };
    admit(
        app,
        request,
        organization,
        flow,
        exchanged.person,
        exchanged.sid,
    )
    .await
}

/// Checks the issuer that the provider names when it returns a person (RFC 9207): exactly, and
/// always if the provider has announced it.
async fn check_issuer(
    app: &App,
    provider: &SsoProvider,
    form: &Form,
) -> Result<(), Result<&'static str, ExchangeError>> {
    const OTHER: &str = "The answer is not that of the organization's identity provider.";
    if form.has("iss") {
        return match one(form, "iss") {
            Some(issuer) if issuer == provider.issuer => Ok(()),
            _ => Err(Ok(OTHER)),
        };
    }
    let published = app.identity.provider(&setup::issuer(provider)).await;
    let published = published.map_err(|error| Err(error.into()))?;
    if published
        .discovery
        .authorization_response_iss_parameter_supported
    {
        return Err(Ok(OTHER));
    }
    Ok(())
}

/// Returns a parameter that was given once.
fn one<'f>(form: &'f Form, name: &str) -> Option<&'f str> {
    let mut values = form.pairs().filter(|(found, _)| *found == name);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

/// Compares secrets in a time that does not depend on where they differ.
fn is_equal(left: &str, right: &str) -> bool {
    let differences = left.bytes().zip(right.bytes());
    let differ = differences.fold(0, |all, (left, right)| all | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differ) == 0
}

/// Signs a person in whom the provider knows, or asks for a confirmation, or says why not.
async fn admit(
    app: &App,
    request: &Request,
    organization: &SsoOrganization,
    flow: Flow,
    person: SsoPerson,
    sid: Option<String>,
) -> Result<Finished, ApiError> {
    let Some(provider) = &organization.provider else {
        return Err(not_connected());
    };
    match sign_in(app, request, provider, &flow, &person, sid.as_deref(), None).await? {
        Ok(response) => Ok(Finished::Ended(response)),
        Err(SsoOutcome::Confirm(member)) => {
            let confirmation = Confirmation {
                subject: person.subject,
                email: person.email.unwrap_or_default(),
                name: person.name,
                role: person.role,
                sid,
                member: member.id,
            };
            let page = ConfirmPage {
                organization: &organization.name,
                email: &member.email,
                error: "",
            };
            let mut response = page::render(200, &page)?;
            let flow = Flow {
                step: Step::Confirm(Box::new(confirmation)),
                ..flow
            };
            let cookie = flow
                .seal(app.integrations.secrets())
                .map_err(|error| ApiError::internal(&error))?;
            SSO_FLOW.set(app, &mut response, &cookie);
            Ok(Finished::Confirm(response))
        }
        Err(outcome) => explain(&outcome, organization).map(Finished::Ended),
    }
}

/// Finds the account of a person and begins a session, or returns what else became of it.
async fn sign_in(
    app: &App,
    request: &Request,
    provider: &SsoProvider,
    flow: &Flow,
    person: &SsoPerson,
    sid: Option<&str>,
    confirmed: Option<&auth::Login>,
) -> Result<Result<Response, SsoOutcome>, ApiError> {
    let now = app.now();
    let mut tx = app.store.begin().await?;
    if let Some(login) = confirmed {
        tx.record_success(&login.buckets).await?;
    }
    let member = confirmed.map(|login| login.user.id);
    let outcome = tx
        .sign_in_by_provider(provider, person, member, now)
        .await?;
    let SsoOutcome::SignedIn { user, is_renamed } = outcome else {
        // Who has lost the last group is no longer a member.
        tx.commit().await?;
        return Ok(Err(outcome));
    };
    let tenant = provider.tenant;
    let tokens =
        auth::renew_session(app, &mut tx, request, &user, tenant, SignInMethod::Sso, sid).await?;
    let actor = Actor::person(user.id, &user.name, request.context.address);
    tx.record_sso_sign_in(tenant, &actor, &user, "identity provider", now)
        .await?;
    tx.commit().await?;
    if is_renamed {
        app.store.rename_author(user.id, &user.name).await?;
    }
    let mut response = page::see_other(if flow.next.is_empty() {
        "/"
    } else {
        &flow.next
    });
    SESSION.set(app, &mut response, &tokens.session);
    SSO_ORGANIZATION.set(app, &mut response, &tenant.id().to_string());
    Ok(Ok(response))
}

/// Returns the page that says why a person was not signed in.
fn explain(outcome: &SsoOutcome, organization: &SsoOrganization) -> ApiResult {
    let name = &organization.name;
    let (reason, remedy) = match outcome {
        SsoOutcome::Refused(SsoRefusal::NoRole) => (
            format!(
                "You signed in at the identity provider, but none of your groups may use {name}."
            ),
            "Ask your administrator to add you to a group that has a role here, then sign in again.",
        ),
        SsoOutcome::Refused(SsoRefusal::LostRole) => (
            format!(
                "You are no longer in a group that may use {name}, so you are no longer a member. \
                 Your sessions there have ended."
            ),
            "If that is a mistake, ask your administrator to add you to the group again, then sign in \
             again.",
        ),
        SsoOutcome::Refused(SsoRefusal::NoEmail) => (
            "The identity provider did not tell your email address.".to_owned(),
            "Ask your administrator to let the change log see the scope email.",
        ),
        SsoOutcome::Refused(SsoRefusal::UnverifiedEmail) => (
            format!(
                "A member of {name} has your email address already, and the identity provider does \
                 not say that it has verified that the address is yours."
            ),
            "Ask your administrator to have the provider verify addresses, or to remove the member, so \
             that you join anew.",
        ),
        SsoOutcome::Refused(SsoRefusal::NoPassword) => (
            format!(
                "A member of {name} has your email address already, under another identity, and has \
                 no password to confirm with that it is you."
            ),
            "Ask an owner of the organization to remove that member, then sign in again.",
        ),
        SsoOutcome::Refused(SsoRefusal::AddressTaken) => (
            format!("Another member of {name} has your email address."),
            "Ask an owner of the organization to remove that member, then sign in again.",
        ),
        _ => (
            "The identity provider of the organization has been changed meanwhile.".to_owned(),
            "Begin again.",
        ),
    };
    refused(403, &reason, remedy, Some(organization.tenant.id()))
}

/// `POST /sso/confirm`: a person whom the provider knows enters the password of the member who
/// has the address.
pub(super) async fn confirm(app: App, mut request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let now = app.clock.for_expiry();
    let cookie = SSO_FLOW.read(&app, &request);
    let flow = cookie.and_then(|cookie| Flow::open(app.integrations.secrets(), cookie, now));
    let Some(flow) = flow else {
        let reason = "This sign-in was begun in another browser, or too long ago.";
        return refused(400, reason, "Open the sign-in page and begin again.", None);
    };
    let id = flow.organization;
    let organization = organization_of(&app, id).await?;
    let (Step::Confirm(confirmation), Some(provider)) = (&flow.step, &organization.provider) else {
        return refused(
            400,
            "There is nothing to confirm.",
            "Begin again.",
            Some(id),
        );
    };
    if !flow.is_of(provider) {
        let reason = "The identity provider of the organization has been changed meanwhile.";
        return refused(400, reason, "Begin again.", Some(id));
    }
    let ticket = app.passwords.enter()?;
    let email = confirmation.email.as_str();
    let checked = check_password(&app, &request, &ticket, email, form.value("password")).await?;
    let login = match checked {
        // The address may have accounts in other organizations, with other passwords.
        PasswordCheck::Correct(login) if login.user.id == confirmation.member => login,
        PasswordCheck::Throttled(seconds) => {
            let error = format!("Too many attempts. Try again in {seconds} s.");
            let mut response = confirm_again(429, &organization, email, &error)?;
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            return Ok(response);
        }
        PasswordCheck::Correct(_) | PasswordCheck::Wrong => {
            return confirm_again(401, &organization, email, "Incorrect password.");
        }
    };
    let (person, sid) = (confirmation.person(), confirmation.sid.as_deref());
    let outcome = sign_in(&app, &request, provider, &flow, &person, sid, Some(&login)).await?;
    let mut response = match outcome {
        Ok(response) => response,
        Err(outcome) => explain(&outcome, &organization)?,
    };
    SSO_FLOW.clear(&app, &mut response);
    Ok(response)
}

fn confirm_again(
    status: u16,
    organization: &SsoOrganization,
    email: &str,
    error: &str,
) -> ApiResult {
    let page = ConfirmPage {
        organization: &organization.name,
        email,
        error,
    };
    page::render(status, &page)
}

/// `POST /sso/backchannel-logout/ORGANIZATION`: the provider says that a person has signed out.
pub(super) async fn backchannel_logout(app: App, mut request: Request) -> ApiResult {
    let id: OrganizationId = request.id()?;
    let form = request.form().await?;
    let result = log_out(&app, id, form.value("logout_token")).await?;
    if let Err(reason) = result {
        app.rate_limits.bad_key(request.context.address)?;
        tracing::warn!(organization = %id, %reason, "a logout token was refused");
        let body = serde_json::json!({
            "error": "invalid_request", "error_description": reason,
        });
        return Ok(reply::json(400, &body));
    }
    Ok(reply::json(200, &serde_json::json!({})))
}

/// Ends the sessions that a logout token is about; the inner error says why it is refused.
async fn log_out(
    app: &App,
    id: OrganizationId,
    token: &str,
) -> Result<Result<(), String>, ApiError> {
    let organization = app.store.sso_organization(id).await?;
    let Some(provider) = organization.and_then(|found| found.provider) else {
        return Ok(Err("the organization has no identity provider".to_owned()));
    };
    let expected = Expected {
        audience: &provider.client_id,
        kind: TokenKind::Logout,
        max_validity: None,
    };
    let issuer = setup::issuer(&provider);
    let claims = match app.identity.verify(&issuer, token, &expected).await {
        Ok(claims) => claims,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let events = claims
        .get("events")
        .and_then(|events| events.get(LOGOUT_EVENT));
    if !events.is_some_and(serde_json::Value::is_object) {
        return Ok(Err("the token is not about a logout".to_owned()));
    }
    if claims.get("nonce").is_some() {
        return Ok(Err("a logout token must not have a nonce".to_owned()));
    }
    let (Some(token_id), Some(_)) = (claims.text("jti"), claims.get("iat")) else {
        return Ok(Err("the claims jti and iat are required".to_owned()));
    };
    let subject = person::id(claims.all(), "sub");
    let sid = person::id(claims.all(), "sid");
    if subject.is_none() && sid.is_none() {
        return Ok(Err("one of the claims sub and sid is required".to_owned()));
    }
    let mut tx = app.store.begin().await?;
    let now = app.clock.for_expiry();
    if !tx.use_once(provider.tenant, token_id, now).await? {
        return Ok(Err("the token was used before".to_owned()));
    }
    tx.end_provider_sessions(&provider, subject.as_deref(), sid.as_deref(), app.now())
        .await?;
    tx.commit().await?;
    Ok(Ok(()))
}

/// What the sign-in page offers of an organization.
pub(super) struct Offer {
    pub(super) address: String,
    pub(super) organization: String,
}

/// Returns the organizations whose provider the sign-in page offers: the one that the operator
/// has named, and the one that the browser has used before.
pub(super) async fn offers(
    app: &App,
    request: &Request,
    next: &str,
) -> Result<Vec<Offer>, StoreError> {
    let used = SSO_ORGANIZATION.read(app, request);
    let used = used.and_then(|id| id.parse::<OrganizationId>().ok());
    let named = app.settings.sso_organization;
    let mut offers = Vec::new();
    for id in used.into_iter().chain(named.filter(|id| Some(*id) != used)) {
        let Some(found) = app.store.sso_organization(id).await? else {
            continue;
        };
        if found.provider.is_some() && found.plan.includes_sso() {
            offers.push(Offer {
                address: address(id, next),
                organization: found.name,
            });
        }
    }
    Ok(offers)
}

/// Returns the address that begins a sign-in.
pub(super) fn address(id: OrganizationId, next: &str) -> String {
    if next.is_empty() {
        return format!("/sso/{id}");
    }
    format!("/sso/{id}?{}", format::query("next", next))
}
