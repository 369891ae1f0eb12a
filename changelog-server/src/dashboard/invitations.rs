//! `/invitations/TOKEN`: how somebody joins an organization.
//!
//! There is no mail, so that whoever has the link is who was invited, as far as
//! the inviting organization is concerned, and nobody for any other. Hence the
//! account that an invitation makes belongs to that organization's word alone: an
//! address may have several accounts, told apart by their passwords, and whoever
//! makes one in advance gets nothing of the others. One account joins several
//! organizations where its password is given when the invitation is accepted. The
//! page is the same whether the address has an account or not.

use askama::Template;
use changelog_core::{Invitation, ProblemCode, UserInput};
use http::{HeaderValue, header};

use super::auth::{Checked, begin_session, check};
use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::{assets, page};
use crate::passwords::Ticket;
use crate::store::{Actor, StoreError};
use crate::web::{ApiError, ApiResult, Request, cross_site};

#[derive(Template)]
#[template(path = "auth/invitation.html")]
struct Invited<'a> {
    organization: &'a str,
    invitation: &'a Invitation,
    token: &'a str,
    form: Form,
}

/// What the form for who has an account calls its password; in errors only, as
/// both forms send the field `password`.
const OF_ACCOUNT: &str = "account_password";

/// `GET /invitations/TOKEN`
pub(super) async fn invitation(app: App, request: Request) -> ApiResult {
    let token = request.parameter.clone();
    show_invitation(&app, &token, 200, Form::default()).await
}

async fn find_invitation(app: &App, token: &str) -> Result<(String, Invitation), ApiError> {
    let now = app.clock.for_expiry();
    match app.store.invitation(token, now).await {
        Err(StoreError::NotFound) => Err(no_invitation()),
        found => {
            let (_, organization, invitation) = found?;
            Ok((organization, invitation))
        }
    }
}

fn no_invitation() -> ApiError {
    let detail = "this invitation was used, withdrawn, or has expired; ask for another one";
    ApiError::new(ProblemCode::NotFound, detail)
}

async fn show_invitation(app: &App, token: &str, status: u16, form: Form) -> ApiResult {
    let (organization, invitation) = find_invitation(app, token).await?;
    let page = Invited {
        organization: &organization,
        invitation: &invitation,
        token,
        form,
    };
    page::render(status, &page)
}

/// `POST /invitations/TOKEN`
pub(super) async fn accept(app: App, mut request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.limits.sign_in(request.context.address)?;
    let token = request.parameter.clone();
    let form = request.form().await?;
    let (organization, invitation) = find_invitation(&app, &token).await?;
    let ticket = app.passwords.enter()?;
    // Who has an account gives its password; who is new gives a name as well.
    let newcomer = if form.has("name") {
        match newcomer(&app, &ticket, &form, &invitation, &organization).await? {
            Ok(person) => Some(person),
            Err(form) => return show_invitation(&app, &token, 422, form).await,
        }
    } else {
        None
    };
    let email = invitation.email.as_str();
    let password = form.value("password");
    let known = match check(&app, &request, &ticket, email, password).await? {
        Checked::Known(known) => Some(known),
        Checked::Wrong => None,
        Checked::Wait(seconds) => return wait(&app, &token, &form, seconds).await,
    };
    // The account that a newcomer turns out to have is theirs to use; its password
    // says so. Any other account of the address is none of theirs.
    let newcomer = match (&known, newcomer) {
        (Some(_), _) => None,
        (None, Some(person)) => {
            let others = app.store.accounts(email).await?;
            let like = others.into_iter().next().map(|other| other.password_hash);
            let hash = ticket.hash(person.password.clone(), like).await?;
            Some((person, hash))
        }
        (None, None) => {
            let form = form.refuse_field(OF_ACCOUNT, "is not the password of an account here");
            return show_invitation(&app, &token, 401, form).await;
        }
    };
    let now = app.now();
    let mut tx = app.store.begin().await?;
    let (tenant, invitation) = match tx.take_invitation(&token, app.clock.for_expiry()).await {
        Err(StoreError::NotFound) => return Err(no_invitation()),
        found => found?,
    };
    let user = match (known, newcomer) {
        (Some(known), _) => {
            tx.attempt_succeeded(&known.counted).await?;
            known.user
        }
        (None, Some((person, hash))) => {
            tx.insert_invited_user(tenant, &invitation.email, &person.name, &hash, now)
                .await?
        }
        (None, None) => return Err(no_invitation()),
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

/// Answers that too many passwords were wrong, with the form again.
async fn wait(app: &App, token: &str, form: &Form, seconds: u64) -> ApiResult {
    let field = if form.has("name") {
        "password"
    } else {
        OF_ACCOUNT
    };
    let message = format!("was wrong too often for this address; try again in {seconds} s");
    let form = form.clone().refuse_field(field, message);
    let mut response = show_invitation(app, token, 429, form).await?;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Ok(response)
}

/// Reads what makes a person, or returns the form with what is wrong.
async fn newcomer(
    app: &App,
    ticket: &Ticket,
    form: &Form,
    invitation: &Invitation,
    organization: &str,
) -> Result<Result<UserInput, Form>, ApiError> {
    const FIELDS: &[Field] = &[Field::required("name"), Field::required("password")];
    let person: UserInput = match form.create(FIELDS, app.now().into()).await {
        Ok(person) => person,
        Err(invalid) => return Ok(Err(form.clone().refuse(&invalid))),
    };
    let about = [&*invitation.email, &*person.name, organization].map(str::to_owned);
    let judged = ticket.refuse_common(person.password.clone(), about.to_vec());
    Ok(match judged.await? {
        Ok(()) => Ok(person),
        Err(invalid) => Err(form.clone().refuse(&invalid)),
    })
}
