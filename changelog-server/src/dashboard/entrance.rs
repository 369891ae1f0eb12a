//! The ways in and out: first start, signing in and out, invitations, and the
//! switch from one organization to another.

use askama::Template;
use changelog_core::{
    Invitation, NewApiKey, NewOrganization, NewOwner, NewPerson, OrganizationId, Plan, ProblemCode,
    Timestamp, User,
};
use http::{HeaderValue, header};

use super::form::{Form, Kind};
use super::visit::{Section, Visit};
use super::{assets, page};
use crate::app::App;
use crate::passwords;
use crate::store::{Actor, StoreError, Tenant, Tx};
use crate::web::{ApiError, ApiResult, Request, session};

/// The name of the key that first start makes.
const FIRST_KEY: &str = "first key";

#[derive(Template)]
#[template(path = "entrance/sign_in.html")]
struct SignIn<'a> {
    /// What was typed before.
    email: &'a str,
    /// What was wrong with it; empty when nothing was.
    error: &'a str,
    /// Where to go then; empty for the overview.
    next: &'a str,
}

/// Returns the address that asks for a sign-in and leads to another then.
pub(super) fn sign_in_address(next: &str) -> String {
    if next == "/" {
        return "/sign-in".to_owned();
    }
    format!("/sign-in?{}", super::show::query("next", next))
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
    session::refuse_cross_site(&app, &request)?;
    app.limits.sign_in(request.incoming.address)?;
    let form = request.form().await?;
    let (email, password) = (form.value("email"), form.value("password"));
    let next = own_address(form.value("next"));
    let Some((user, tenant)) = (match check(&app, email, password).await? {
        Checked::Wait(seconds) => return wait(email, next, seconds),
        Checked::Known(user) => {
            let tenant = app.store.first_membership(user.id).await?;
            tenant.map(|tenant| (user, tenant))
        }
        Checked::Wrong => None,
    }) else {
        let error = "The address or the password is wrong.";
        return page::render(401, &SignIn { email, error, next });
    };
    let mut tx = app.store.begin().await?;
    tx.forget_failures(email).await?;
    let token = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    let mut response = page::see_other(if next.is_empty() { "/" } else { next });
    session::set_cookie(&app, &mut response, &token);
    Ok(response)
}

/// What came of an address and a password.
enum Checked {
    Known(User),
    Wrong,
    /// Too many have failed; seconds until the next may be tried.
    Wait(u64),
}

/// Checks a password, of which only so many may be tried.
async fn check(app: &App, email: &str, password: &str) -> Result<Checked, ApiError> {
    let now = app.clock.for_expiry();
    let mut tx = app.store.begin().await?;
    if let Some(until) = tx.count_attempt(email, now).await? {
        let millis = u64::try_from(until.millis() - now.millis()).unwrap_or(0);
        return Ok(Checked::Wait(millis.div_ceil(1_000).max(1)));
    }
    tx.commit().await?;
    let known = app.store.user_by_email(email).await?;
    let hash = known.as_ref().map(|(_, hash)| hash.clone());
    let matches = app.passwords.verify(password.to_owned(), hash).await?;
    Ok(match known {
        Some((user, _)) if matches => Checked::Known(user),
        _ => Checked::Wrong,
    })
}

/// Begins a session of a person, with an id that nobody has seen before.
async fn begin_session(
    app: &App,
    tx: &mut Tx,
    request: &Request,
    user: &User,
    tenant: Tenant,
) -> Result<String, StoreError> {
    let token = session::new_token();
    let agent = request.header(header::USER_AGENT.as_str());
    tx.insert_session(&token, user.id, tenant, agent, app.clock.for_expiry())
        .await?;
    let actor = Actor::person(user.id, &user.name, request.incoming.address);
    tx.record_sign_in(tenant, &actor, user, app.now()).await?;
    Ok(token)
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
    session::refuse_cross_site(&app, &request)?;
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
    let visit = Visit::own(&app, &request, Section::Overview).await?;
    let form = request.form().await?;
    let to: OrganizationId = form.value("organization_id").parse().map_err(|bad| {
        ApiError::new(
            ProblemCode::ValidationFailed,
            format!("organization_id {bad}"),
        )
    })?;
    let token = session::token(&app, &request).unwrap_or_default();
    let mut tx = app.store.begin().await?;
    tx.switch_organization(token, visit.session.person.id, to)
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/"))
}

#[derive(Template)]
#[template(path = "entrance/setup.html")]
struct Setup<'a> {
    token: &'a str,
    form: Form,
}

#[derive(Template)]
#[template(path = "entrance/ready.html")]
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
    session::refuse_cross_site(&app, &request)?;
    app.limits.sign_in(request.incoming.address)?;
    let form = request.form().await?;
    let token = form.value("token").to_owned();
    require_setup(&app, &token).await?;
    let (new, owner) = match founding(&app, &form) {
        Ok(founding) => founding,
        Err(form) => {
            let token = &token;
            return page::render(422, &Setup { token, form });
        }
    };
    let hash = app.passwords.hash(owner.password.clone()).await?;
    let now = app.now();
    // Taken, so that of two at once one is refused; given back where nothing
    // was made.
    let Some(turn) = app.setup.take(&token) else {
        return Err(no_setup());
    };
    let mut tx = app.store.begin().await?;
    let (tenant, organization, user) = tx.found(&new, Some((&owner, &hash)), now).await?;
    let key = NewApiKey {
        name: FIRST_KEY.to_owned(),
        expires_at: None,
    };
    let user = user.ok_or_else(|| ApiError::internal(&"an owner was not made"))?;
    let actor = Actor::person(user.id, &user.name, request.incoming.address);
    let key = tx.insert_api_key(tenant, &actor, &key, now).await?;
    let session = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    turn.done();
    let page = Ready {
        organization: &organization.name,
        key: &key.key,
        url: &app.url(),
    };
    let mut response = page::render(200, &page)?;
    session::set_cookie(&app, &mut response, &session);
    Ok(response)
}

/// Reads what founds an organization, or returns the form with what is wrong.
fn founding(app: &App, form: &Form) -> Result<(NewOrganization, NewOwner), Form> {
    const OWNER: [(&str, Kind); 3] = [
        ("name", Kind::Required),
        ("email", Kind::Required),
        ("password", Kind::Required),
    ];
    let now = Timestamp::from(app.now());
    let named = Form::showing([("name", form.value("organization").to_owned())]);
    let organization = named.create::<NewOrganization>(&[("name", Kind::Required)], now);
    let owner = form.create::<NewOwner>(&OWNER, now);
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
        return Err(refused);
    };
    let about = [&*owner.email, &*owner.name, &*organization.name];
    if let Err(invalid) = passwords::refuse_common(&owner.password, &about) {
        return Err(refused.refuse(&invalid));
    }
    let organization = NewOrganization {
        // Whoever reads what the service prints is its operator.
        plan: Plan::Pro,
        ..organization
    };
    Ok((organization, owner))
}

#[derive(Template)]
#[template(path = "entrance/invitation.html")]
struct Invited<'a> {
    organization: &'a str,
    invitation: &'a Invitation,
    token: &'a str,
    /// Whether the address belongs to somebody already.
    is_known: bool,
    form: Form,
}

/// `GET /invitations/TOKEN`
pub(super) async fn invitation(app: App, request: Request) -> ApiResult {
    let token = request.parameter.clone();
    show_invitation(&app, &token, 200, Form::default()).await
}

async fn find_invitation(
    app: &App,
    token: &str,
) -> Result<(String, Invitation, Option<User>), ApiError> {
    let now = app.clock.for_expiry();
    let (_, organization, invitation) = match app.store.invitation(token, now).await {
        Err(StoreError::NotFound) => return Err(no_invitation()),
        found => found?,
    };
    let known = app.store.user_by_email(&invitation.email).await?;
    Ok((organization, invitation, known.map(|(user, _)| user)))
}

fn no_invitation() -> ApiError {
    let detail = "this invitation was used, withdrawn, or has expired; ask for another one";
    ApiError::new(ProblemCode::NotFound, detail)
}

async fn show_invitation(app: &App, token: &str, status: u16, form: Form) -> ApiResult {
    let (organization, invitation, known) = find_invitation(app, token).await?;
    let page = Invited {
        organization: &organization,
        invitation: &invitation,
        token,
        is_known: known.is_some(),
        form,
    };
    page::render(status, &page)
}

/// `POST /invitations/TOKEN`
pub(super) async fn accept(app: App, mut request: Request) -> ApiResult {
    session::refuse_cross_site(&app, &request)?;
    app.limits.sign_in(request.incoming.address)?;
    let token = request.parameter.clone();
    let form = request.form().await?;
    let (organization, invitation, known) = find_invitation(&app, &token).await?;
    // A person who has an account shows that it is theirs; others make one.
    let newcomer = if let Some(user) = &known {
        let refused = match check(&app, &user.email, form.value("password")).await? {
            Checked::Known(_) => None,
            Checked::Wrong => Some("is not the password of this account".to_owned()),
            Checked::Wait(seconds) => {
                Some(format!("was wrong too often; try again in {seconds} s"))
            }
        };
        if let Some(message) = refused {
            let form = form.refuse_field("password", message);
            return show_invitation(&app, &token, 401, form).await;
        }
        None
    } else {
        match newcomer(&app, &form, &invitation, &organization) {
            Ok(person) => {
                let hash = app.passwords.hash(person.password.clone()).await?;
                Some((person, hash))
            }
            Err(form) => return show_invitation(&app, &token, 422, form).await,
        }
    };
    let now = app.now();
    let mut tx = app.store.begin().await?;
    let (tenant, invitation) = match tx.take_invitation(&token, app.clock.for_expiry()).await {
        Err(StoreError::NotFound) => return Err(no_invitation()),
        found => found?,
    };
    let user = match (known, newcomer) {
        (Some(user), _) => {
            tx.forget_failures(&user.email).await?;
            user
        }
        (None, Some((person, hash))) => {
            tx.insert_user(&invitation.email, &person.name, &hash, now)
                .await?
        }
        (None, None) => return Err(no_invitation()),
    };
    let actor = Actor::person(user.id, &user.name, request.incoming.address);
    tx.insert_member(tenant, &actor, &user, &invitation.role, now)
        .await?;
    let session = begin_session(&app, &mut tx, &request, &user, tenant).await?;
    tx.commit().await?;
    let mut response = page::see_other("/");
    session::set_cookie(&app, &mut response, &session);
    Ok(response)
}

/// Reads what makes a person, or returns the form with what is wrong.
fn newcomer(
    app: &App,
    form: &Form,
    invitation: &Invitation,
    organization: &str,
) -> Result<NewPerson, Form> {
    const FIELDS: [(&str, Kind); 2] = [("name", Kind::Required), ("password", Kind::Required)];
    let person = form
        .create::<NewPerson>(&FIELDS, app.now().into())
        .and_then(|person| {
            let about = [&*invitation.email, &*person.name, organization];
            passwords::refuse_common(&person.password, &about)?;
            Ok(person)
        });
    person.map_err(|invalid| form.clone().refuse(&invalid))
}
