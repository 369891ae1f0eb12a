//! The browser comes back from the provider.

use warp::reply::Response;

use super::{confirm, failed, not_connected, organization_of, redirect_uri, refused, sentence};
use crate::app::App;
use crate::dashboard::auth;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::page;
use crate::sso::exchange::{self, Code, ExchangeError};
use crate::sso::flow::{Confirmation, Flow, SignIn, Step};
use crate::sso::setup;
use crate::store::{
    Actor, SignInMethod, SsoOrganization, SsoOutcome, SsoPerson, SsoProvider, SsoRefusal,
};
use crate::web::session::{SESSION, SSO_FLOW, SSO_ORGANIZATION};
use crate::web::{ApiError, ApiResult, Request};

/// `GET /sso/callback` and `GET /sso/callback/ORGANIZATION`: the browser comes back from the
/// provider.
pub(in crate::dashboard) async fn callback(app: App, request: Request) -> ApiResult {
    app.rate_limits.sign_in(request.context.address)?;
    let now = app.clock.for_expiry();
    let secrets = app.integrations.secrets();
    let cookie = SSO_FLOW.read(&app, &request);
    let flow = cookie.and_then(|cookie| Flow::open(secrets, cookie, now));
    let Some(flow) = flow else {
        let reason = "This sign-in was begun in another browser, or too long ago.";
        return refused(400, reason, "Open the sign-in page and begin again.", None);
    };
    let organization = organization_of(&app, flow.organization).await?;
    let begun = match &flow.step {
        Step::SignIn(begun) => begun,
        // The page that asks is loaded again.
        Step::Confirm(asked) => return confirm::ask(200, &organization, &asked.email, ""),
    };
    let mut response = match finish(&app, &request, &organization, &flow, begun).await? {
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
    flow: &Flow,
    begun: &SignIn,
) -> Result<Finished, ApiError> {
    let id = flow.organization;
    let again = |reason: &str| refused(400, reason, "Begin again.", Some(id)).map(Finished::Ended);
    let Some(provider) = &organization.provider else {
        return Err(not_connected());
    };
    let form = request.query_form();
    let given = one(&form, "state");
    if given.is_none_or(|given| !is_equal(given, &begun.state)) {
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
        .use_once(provider.tenant, &begun.state, app.clock.for_expiry())
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
        verifier: &begun.verifier,
        nonce: &begun.nonce,
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
    flow: &Flow,
    person: SsoPerson,
    sid: Option<String>,
) -> Result<Finished, ApiError> {
    let Some(provider) = &organization.provider else {
        return Err(not_connected());
    };
    match sign_in(app, request, provider, flow, &person, sid.as_deref(), None).await? {
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
            let mut response = confirm::ask(200, organization, &member.email, "")?;
            let flow = Flow {
                step: Step::Confirm(Box::new(confirmation)),
                ..flow.clone()
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
pub(super) async fn sign_in(
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
        login.succeed(&mut tx).await?;
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
pub(super) fn explain(outcome: &SsoOutcome, organization: &SsoOrganization) -> ApiResult {
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
