//! `/invitations/TOKEN`: joins an organization.
//!
//! The service does not verify addresses, because the inviting person has the link, too,
//! and often passes it on: a person with the link is the invited person for the inviting organization, and for no other. Hence an
//! address may have several accounts, which differ by their passwords, and a new
//! account gets no access to the organizations of the others. An existing account
//! joins another organization if its password is given with the invitation. The
//! page does not reveal whether the address has an account.

use askama::Template;
use changelog_core::{Invitation, ProblemCode, UserInput};
use http::{HeaderValue, header};
use warp::reply::Response;

use super::auth::{PasswordCheck, SsoRequiredPage, begin_session, check_password};
use super::sso;
use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::{assets, page};
use crate::passwords::Ticket;
use crate::store::{Account, Actor, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request, cross_site};

#[derive(Template)]
#[template(path = "auth/invitation.html")]
struct InvitationPage<'a> {
    organization: &'a str,
    invitation: &'a Invitation,
    token: &'a str,
    form: Form,
}

/// The password field of the form for existing accounts, in errors only: both forms
/// send the field `password`.
const ACCOUNT_PASSWORD: &str = "account_password";

/// `GET /invitations/TOKEN`
pub(super) async fn invitation(app: App, request: Request) -> ApiResult {
    let token = request.parameter.clone();
    show_invitation(&app, &token, 200, Form::default()).await
}

/// Finds an invitation, with its organization and the name of that.
async fn find_invitation(app: &App, token: &str) -> Result<(Tenant, String, Invitation), ApiError> {
    let now = app.clock.for_expiry();
    match app.store.invitation(token, now).await {
        Err(StoreError::NotFound) => Err(invitation_not_found()),
        found => Ok(found?),
    }
}

fn invitation_not_found() -> ApiError {
    let detail = "this invitation is no longer valid; ask for a new one";
    ApiError::new(ProblemCode::NotFound, detail)
}

/// Returns the page that asks for the identity provider, if the organization requires it: nobody
/// can join it with a password.
async fn refuse_without_provider(app: &App, tenant: Tenant) -> Result<Option<Response>, ApiError> {
    let provider = app.store.sso_provider(tenant).await?;
    if provider.is_none_or(|provider| !provider.is_required) {
        return Ok(None);
    }
    let address = sso::address(tenant.id(), "");
    page::render(403, &SsoRequiredPage { address }).map(Some)
}

async fn show_invitation(app: &App, token: &str, status: u16, form: Form) -> ApiResult {
    let (tenant, organization, invitation) = find_invitation(app, token).await?;
    if let Some(refused) = refuse_without_provider(app, tenant).await? {
        return Ok(refused);
    }
    let page = InvitationPage {
        organization: &organization,
        invitation: &invitation,
        token,
        form,
    };
    page::render(status, &page)
}

/// `POST /invitations/TOKEN`
pub(super) async fn accept(app: App, request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let token = request.parameter.clone();
    let form = request.form().await?;
    let (tenant, organization, invitation) = find_invitation(&app, &token).await?;
    if let Some(refused) = refuse_without_provider(&app, tenant).await? {
        return Ok(refused);
    }
    let ticket = app.passwords.enter()?;
    // Only the form for new users has a name.
    let new_user = if form.has("name") {
        match read_new_user(&app, &ticket, &form, &invitation, &organization).await? {
            Ok(user) => Some(user),
            Err(form) => return show_invitation(&app, &token, 422, form).await,
        }
    } else {
        None
    };
    let email = invitation.email.as_str();
    let password = form.value("password");
    let login = match check_password(&app, &request, &ticket, email, password).await? {
        PasswordCheck::Correct(login) => Some(login),
        PasswordCheck::Wrong => None,
        PasswordCheck::Throttled(seconds) => return throttled(&app, &token, &form, seconds).await,
    };
    // A new user whose password fits an account of the address joins with that
    // account; otherwise the invitation creates another one.
    let new_user = match (&login, new_user) {
        (Some(_), _) => None,
        (None, Some(new)) => {
            let others = app.store.accounts(email).await?;
            let like = others.into_iter().find(Account::has_password);
            let like = like.map(|other| other.password_hash);
            let hash = ticket.hash(new.password.clone(), like).await?;
            Some((new, hash))
        }
        (None, None) => {
            let form = form.refuse_field(ACCOUNT_PASSWORD, "Incorrect password");
            return show_invitation(&app, &token, 401, form).await;
        }
    };
    let now = app.now();
    let mut tx = app.store.begin().await?;
    let (tenant, invitation) = match tx.take_invitation(&token, app.clock.for_expiry()).await {
        Err(StoreError::NotFound) => return Err(invitation_not_found()),
        found => found?,
    };
    let user = match (login, new_user) {
        (Some(login), _) => {
            login.succeed(&mut tx).await?;
            login.user
        }
        (None, Some((new, hash))) => {
            tx.insert_invited_user(tenant, &invitation.email, &new.name, &hash, now)
                .await?
        }
        (None, None) => return Err(invitation_not_found()),
    };
    let actor = Actor::person(user.id, &user.name, request.context.address);
    tx.insert_member(tenant, &actor, &user, &invitation.role, now)
        .await?;
    let tokens = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    let mut response = page::see_other("/");
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Responds with the form: too many passwords were wrong.
async fn throttled(app: &App, token: &str, form: &Form, seconds: u64) -> ApiResult {
    let field = if form.has("name") {
        "password"
    } else {
        ACCOUNT_PASSWORD
    };
    let message = format!("Too many attempts. Try again in {seconds} s");
    let form = form.clone().refuse_field(field, message);
    let mut response = show_invitation(app, token, 429, form).await?;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Ok(response)
}

/// Reads the input for creating a user, or returns the form with the errors.
async fn read_new_user(
    app: &App,
    ticket: &Ticket,
    form: &Form,
    invitation: &Invitation,
    organization: &str,
) -> Result<Result<UserInput, Form>, ApiError> {
    const FIELDS: &[Field] = &[Field::required("name"), Field::required("password")];
    let user: UserInput = match form.create(FIELDS, app.now().into()).await {
        Ok(user) => user,
        Err(invalid) => return Ok(Err(form.clone().refuse(&invalid))),
    };
    let about = [&*invitation.email, &*user.name, organization].map(str::to_owned);
    let checked = ticket.refuse_common(user.password.clone(), about.to_vec());
    Ok(match checked.await? {
        Ok(()) => Ok(user),
        Err(invalid) => Err(form.clone().refuse(&invalid)),
    })
}
