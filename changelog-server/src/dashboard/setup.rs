//! `/setup`: the first start, which founds the first organization.

use askama::Template;
use changelog_core::{NewApiKey, NewOrganization, OwnerInput, Plan, ProblemCode, Timestamp};

use super::auth::begin_session;
use crate::app::App;
use crate::dashboard::parts::form::{Field, Form};
use crate::dashboard::parts::{assets, page};
use crate::passwords::Ticket;
use crate::store::Actor;
use crate::web::{ApiError, ApiResult, Request, cross_site};

/// The name of the key that first start makes.
const FIRST_KEY: &str = "first key";

#[derive(Template)]
#[template(path = "auth/setup.html")]
struct Setup<'a> {
    token: &'a str,
    form: Form,
}

#[derive(Template)]
#[template(path = "auth/ready.html")]
struct Ready<'a> {
    organization: &'a str,
    key: &'a str,
    url: &'a str,
}

/// Refuses a setup without the token that was printed, and a second one.
async fn require_setup(app: &App, token: &str) -> Result<(), ApiError> {
    if app.setup.matches(token) && !app.store.has_organizations().await? {
        return Ok(());
    }
    Err(no_setup())
}

fn no_setup() -> ApiError {
    let detail = "the service is set up already, or this is not the link that it printed on its \
                  first start; a restart on an empty database prints a new one";
    ApiError::new(ProblemCode::Forbidden, detail)
}

/// `GET /setup`
pub(super) async fn setup_form(app: App, request: Request) -> ApiResult {
    let form = request.query_form();
    let token = form.value("token");
    require_setup(&app, token).await?;
    let form = Form::default();
    page::render(200, &Setup { token, form })
}

/// `POST /setup`
pub(super) async fn setup(app: App, mut request: Request) -> ApiResult {
    cross_site::refuse(&app, &request)?;
    app.limits.sign_in(request.context.address)?;
    let form = request.form().await?;
    let token = form.value("token").to_owned();
    require_setup(&app, &token).await?;
    let ticket = app.passwords.enter()?;
    let (new, owner) = match founding(&app, &ticket, &form).await? {
        Ok(founding) => founding,
        Err(form) => {
            let token = &token;
            return page::render(422, &Setup { token, form });
        }
    };
    let hash = ticket.hash(owner.password.clone(), None).await?;
    let now = app.now();
    // Taken, so that of two at once one is refused; given back where nothing
    // was made.
    let Some(turn) = app.setup.take(&token) else {
        return Err(no_setup());
    };
    let mut tx = app.store.begin().await?;
    let (tenant, organization, user) = tx
        .create_organization(&new, Some((&owner, &hash)), now)
        .await?;
    let key = NewApiKey {
        name: FIRST_KEY.to_owned(),
        expires_at: None,
    };
    let user = user.ok_or_else(|| ApiError::internal(&"an owner was not made"))?;
    let actor = Actor::person(user.id, &user.name, request.context.address);
    let key = tx.insert_api_key(tenant, &actor, &key, now).await?;
    let tokens = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    turn.done();
    let page = Ready {
        organization: &organization.name,
        key: &key.key,
        url: &app.url(),
    };
    let mut response = page::render(200, &page)?;
    tokens.set_cookies(&app, &mut response);
    Ok(response)
}

/// Reads what founds an organization, or returns the form with what is wrong.
async fn founding(
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
    let named = Form::with_values([("name", form.value("organization").to_owned())]);
    let organization = named.create::<NewOrganization>(ORGANIZATION, now).await;
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
    let judged = ticket.refuse_common(owner.password.clone(), about.to_vec());
    if let Err(invalid) = judged.await? {
        return Ok(Err(refused.refuse(&invalid)));
    }
    let organization = NewOrganization {
        // Whoever reads what the service prints is its operator.
        plan: Plan::Pro,
        ..organization
    };
    Ok(Ok((organization, owner)))
}
