//! `/setup`: creates the first organization, its owner and an API key.

use askama::Template;
use changelog_core::{
    NewApiKey, NewOrganization, OwnerInput, Permissions, Plan, ProblemCode, Timestamp,
};

use super::auth::begin_session;
use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::{assets, page};
use crate::passwords::Ticket;
use crate::store::Actor;
use crate::web::{ApiError, ApiResult, Request, cross_site};

/// The name of the API key that the setup creates.
const FIRST_KEY_NAME: &str = "first key";

#[derive(Template)]
#[template(path = "auth/setup.html")]
struct SetupPage<'a> {
    token: &'a str,
    form: Form,
}

#[derive(Template)]
#[template(path = "auth/ready.html")]
struct ReadyPage<'a> {
    organization: &'a str,
    key: &'a str,
    url: &'a str,
}

#[derive(Template)]
#[template(path = "auth/setup_refused.html")]
struct SetupRefusedPage {
    awaits_setup: bool,
}

/// Requires the printed token, and that there is no organization yet.
async fn require_setup(app: &App, token: &str) -> Result<(), ApiError> {
    if app.store.is_setup_token(token).await? {
        return Ok(());
    }
    Err(setup_refused())
}

fn setup_refused() -> ApiError {
    let detail = "the service is already set up, or this is not the link that it printed when it \
                  started";
    ApiError::new(ProblemCode::Forbidden, detail)
}

/// `GET /setup`
pub(super) async fn setup_form(app: App, request: Request) -> ApiResult {
    let form = request.query_form();
    let token = form.value("token");
    if !app.store.is_setup_token(token).await? {
        let awaits_setup = app.store.awaits_setup().await?;
        return page::render(403, &SetupRefusedPage { awaits_setup });
    }
    let form = Form::default();
    page::render(200, &SetupPage { token, form })
}

/// `POST /setup`
pub(super) async fn set_up(app: App, request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.rate_limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let token = form.value("token").to_owned();
    require_setup(&app, &token).await?;
    let ticket = app.passwords.enter()?;
    let (new, owner) = match read_form(&app, &ticket, &form).await? {
        Ok(input) => input,
        Err(form) => {
            let token = &token;
            return page::render(422, &SetupPage { token, form });
        }
    };
    let hash = ticket.hash(owner.password.clone(), None).await?;
    let now = app.now();
    let mut tx = app.store.begin().await?;
    if !tx.use_setup_token().await? {
        return Err(setup_refused());
    }
    let (tenant, organization, user) = tx
        .create_organization(&new, Some((&owner, &hash)), now)
        .await?;
    let key = NewApiKey {
        name: FIRST_KEY_NAME.to_owned(),
        expires_at: None,
        permissions: Permissions::default(),
    };
    let user =
        user.ok_or_else(|| ApiError::internal(&"the organization was created without an owner"))?;
    let actor = Actor::person(user.id, &user.name, request.context.address);
    let key = tx.insert_api_key(tenant, &actor, &key, now).await?;
    let tokens = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    let page = ReadyPage {
        organization: &organization.name,
        key: &key.key,
        url: &app.url(),
    };
    let mut response = page::render(200, &page)?;
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Reads the organization and its owner, or returns the form with the errors.
async fn read_form(
    app: &App,
    ticket: &Ticket,
    form: &Form,
) -> Result<Result<(NewOrganization, OwnerInput), Form>, ApiError> {
    const ORGANIZATION: &[Field] = &[Field::required("name")];
    const OWNER: &[Field] = &[
        Field::required("name"),
        Field::required("email"),
        Field::required("password"),
    ];
    let now = Timestamp::from(app.now());
    let organization_form = Form::with_values([("name", form.value("organization").to_owned())]);
    let organization = organization_form
        .create::<NewOrganization>(ORGANIZATION, now)
        .await;
    let owner = form.create::<OwnerInput>(OWNER, now).await;
    let mut refused = form.clone();
    if let Err(invalid) = &organization {
        for violation in &invalid.violations {
            refused = refused.refuse_field("organization", &violation.message);
        }
    }
    if let Err(invalid) = &owner {
        refused = refused.refuse(invalid);
    }
    let (Ok(organization), Ok(owner)) = (organization, owner) else {
        return Ok(Err(refused));
    };
    let about = [&owner.email, &owner.name, &organization.name].map(String::clone);
    let checked = ticket.refuse_common(owner.password.clone(), about.to_vec());
    if let Err(invalid) = checked.await? {
        return Ok(Err(refused.refuse(&invalid)));
    }
    let organization = NewOrganization {
        // The setup link is printed for the operator, who gets every feature.
        plan: Plan::Pro,
        ..organization
    };
    Ok(Ok((organization, owner)))
}
